//! A fleet with one noise: handles that contribute their open sums to one handle, the *leader*, which releases them.
//!
#![doc = include_str!("../docs/theory/contributions.md")]

use crate::error::{Error, Result, within};
use crate::random::Random;
use crate::snapshot::{Reader, VERSION, Writer};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize, Zeroizing};

/// The key that the handles of a fleet share: see [`crate::contribution`]. It is wiped when dropped, and its `Debug`
/// shows nothing.
#[derive(Clone)]
pub struct FleetKey(Box<Zeroizing<[u8; 32]>>);

impl From<[u8; 32]> for FleetKey {
    fn from(mut key: [u8; 32]) -> FleetKey {
        let kept = FleetKey(Box::new(Zeroizing::new(key)));
        key.zeroize();
        kept
    }
}

impl std::fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetKey")
    }
}

const MAGIC: [u8; 3] = *b"dpb";
/// Bytes of a nonce, and of the tag that authenticates a message.
const NONCE: usize = 24;
const TAG: usize = 16;
/// Magic, version, purpose, generation, nonce.
const HEAD: usize = 5 + 8 + NONCE;
/// Number of bytes by which the sealed form is longer.
pub(crate) const SEAL: usize = HEAD + TAG;
/// Half of what XChaCha20-Poly1305 can seal.
const MOST: u64 = 1 << 37;

/// What a sealed message is for. A message is opened only for its own purpose.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// The [address](Address::save), and sums.
    Contribution = 2,
    Message = 3,
    Id = 4,
    /// The whole state of a handle.
    State = 5,
}

/// Where a contribution comes from and goes to. Authenticated; the generation is public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The leader's generation.
    pub generation: u64,
    /// An incarnation of a handle as a contributor to that generation.
    pub sender: u128,
    /// 1, 2, 3, ... for each sender.
    pub sequence: u64,
}

impl Address {
    /// Writes what is sealed with the contribution.
    pub(crate) fn save(&self, to: &mut Writer) {
        [self.sender as u64, (self.sender >> 64) as u64, self.sequence].into_iter().for_each(|word| to.u64(word));
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn read(generation: u64, from: &mut Reader) -> Result<Address> {
        let [low, high, sequence] = [from.u64()?, from.u64()?, from.u64()?];
        Ok(Address { generation, sender: u128::from(high) << 64 | u128::from(low), sequence })
    }
}

/// A nonce, which no other message has.
pub(crate) struct Nonce([u8; NONCE]);

impl Nonce {
    pub(crate) fn new(random: &mut Random) -> Nonce {
        let mut nonce = [0; NONCE];
        random.renew();
        nonce.chunks_exact_mut(8).for_each(|to| to.copy_from_slice(&random.next_u64().to_le_bytes()));
        Nonce(nonce)
    }
}

impl FleetKey {
    /// Returns memory for `length` bytes that will be sealed where they are: append them. To seal them then allocates
    /// nothing, and cannot fail.
    ///
    /// # Errors
    /// `BufferTooSmall` if the sealed form is longer than `limit`; `NoMemory`.
    pub(crate) fn unsealed(length: usize, limit: usize) -> Result<Vec<u8>> {
        let needed = within(limit, SEAL + length)?;
        if needed as u64 > MOST {
            return Err(Error::NoMemory);
        }
        let mut bytes = crate::memory::try_with_capacity(needed)?;
        bytes.resize(HEAD, 0);
        Ok(bytes)
    }

    /// Seals any message, with a random nonce.
    pub(crate) fn message(&self, message: &[u8], random: &mut Random) -> Result<Vec<u8>> {
        let nonce = Nonce::new(random);
        let mut unsealed = Zeroizing::new(Self::unsealed(message.len(), usize::MAX)?);
        unsealed.extend_from_slice(message);
        self.seal(Purpose::Message, 0, nonce, unsealed)
    }

    /// Opens a message.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_message(&self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        Ok(self.open(Purpose::Message, sealed)?.2)
    }

    /// A number by which different keys differ, never 0. It tells nothing else of the key: it is part of the tag of an
    /// empty message, with a nonce that no other message has.
    ///
    /// # Errors
    /// `NoMemory`.
    pub(crate) fn id(&self) -> Result<u64> {
        let sealed = self.seal(Purpose::Id, 0, Nonce([0; NONCE]), Self::unsealed(0, usize::MAX)?.into())?;
        Ok(Reader::of_fields(&sealed[HEAD..]).u64()?.max(1))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&**self.0).into())
    }

    /// Seals the content where it is, in [`unsealed`](Self::unsealed) memory, so that no copy of it stays. `to` is whom it
    /// is addressed to, if anybody: a generation or a receiver. It is authenticated, and public.
    pub(crate) fn seal(
        &self,
        purpose: Purpose,
        to: u64,
        Nonce(nonce): Nonce,
        mut bytes: Zeroizing<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let (head, content) = bytes.split_at_mut(HEAD);
        head[..3].copy_from_slice(&MAGIC);
        (head[3], head[4]) = (VERSION, purpose as u8);
        head[5..13].copy_from_slice(&to.to_le_bytes());
        head[13..].copy_from_slice(&nonce);
        let tag = self.cipher().encrypt_inout_detached(&XNonce::from(nonce), head, content.into());
        bytes.extend_from_slice(&tag.map_err(|_| Error::NoMemory)?); // only beyond twice `MOST`
        Ok(std::mem::take(&mut *bytes))
    }

    /// Opens what was sealed for this purpose. Returns whom it is addressed to, the version of the format, and the content.
    ///
    /// # Errors
    /// `Corrupt` for anything that was not sealed by this key for this purpose; `NewerVersion`; `NoMemory`.
    pub(crate) fn open(&self, purpose: Purpose, sealed: &[u8]) -> Result<(u64, u8, Zeroizing<Vec<u8>>)> {
        let (rest, tag) = sealed.split_last_chunk::<TAG>().ok_or(Error::Corrupt)?;
        let (head, rest) = rest.split_at_checked(HEAD).ok_or(Error::Corrupt)?;
        if head[..3] != MAGIC || head[3] == 0 {
            return Err(Error::Corrupt);
        }
        if head[3] > VERSION {
            return Err(Error::NewerVersion);
        }
        if head[4] != purpose as u8 {
            return Err(Error::Corrupt);
        }
        let to = Reader::of_fields(&head[5..]).u64()?;
        let (mut nonce, mut content) = ([0; NONCE], Zeroizing::new(crate::memory::try_with_capacity(rest.len())?));
        nonce.copy_from_slice(&head[13..]);
        content.extend_from_slice(rest);
        let opened = self.cipher().decrypt_inout_detached(
            &XNonce::from(nonce),
            head,
            content[..].as_mut().into(),
            &Tag::from(*tag),
        );
        opened.map_err(|_| Error::Corrupt)?;
        Ok((to, head[3], content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn what_is_sealed_opens_with_the_key_and_unaltered_only() {
        let (key, mut random) = (FleetKey::from([1; 32]), Seed::new(None).unwrap().stream());
        let mut contribution = |content: &[u8]| {
            let mut unsealed = FleetKey::unsealed(content.len(), SEAL + content.len()).unwrap();
            let memory = (unsealed.capacity(), unsealed.as_ptr());
            unsealed.extend_from_slice(content);
            let sealed = key.seal(Purpose::Contribution, 7, Nonce::new(&mut random), unsealed.into()).unwrap();
            assert_eq!((sealed.capacity(), sealed.as_ptr()), memory, "it was sealed elsewhere");
            sealed
        };
        let sealed = contribution(b"raw sums");
        assert_eq!(sealed.len(), SEAL + 8);
        let (generation, version, content) = key.open(Purpose::Contribution, &sealed).unwrap();
        assert_eq!((generation, version, &content[..]), (7, VERSION, &b"raw sums"[..]));
        assert!(!sealed.windows(4).any(|window| window == b"sums"));
        assert_eq!(FleetKey::from([2; 32]).open(Purpose::Contribution, &sealed).unwrap_err(), Error::Corrupt);
        for bit in 0..8 * sealed.len() {
            let mut altered = sealed.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let newer = bit / 8 == 3 && altered[3] > VERSION;
            let expected = if newer { Error::NewerVersion } else { Error::Corrupt };
            assert_eq!(key.open(Purpose::Contribution, &altered).unwrap_err(), expected, "{bit}");
        }
        for cut in 0..sealed.len() {
            assert_eq!(key.open(Purpose::Contribution, &sealed[..cut]).unwrap_err(), Error::Corrupt);
        }
    }

    #[test]
    fn a_message_is_no_contribution_and_is_sealed_differently_each_time() {
        let (key, mut random) = (FleetKey::from([1; 32]), Seed::new(None).unwrap().stream());
        let [first, second] = [(); 2].map(|()| key.message(b"a click", &mut random).unwrap());
        assert_ne!(first, second);
        assert_eq!(&key.open_message(&first).unwrap()[..], b"a click");
        assert_eq!(key.open(Purpose::Contribution, &first).unwrap_err(), Error::Corrupt);
        let contribution =
            key.seal(Purpose::Contribution, 7, Nonce::new(&mut random), FleetKey::unsealed(0, SEAL).unwrap().into());
        assert_eq!(key.open_message(&contribution.unwrap()).unwrap_err(), Error::Corrupt);
    }

    #[test]
    fn different_keys_have_different_ids() {
        let ids = [1, 2, 1].map(|byte| FleetKey::from([byte; 32]).id().unwrap());
        assert!(ids[0] != ids[1] && ids[0] == ids[2] && !ids.contains(&0));
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", FleetKey::from([7; 32])), "FleetKey");
    }
}
