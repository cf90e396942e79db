//! Snapshots: what a handle has released and what is public of it, as bytes. No raw sum is ever in one.
//!
//! The bytes, all numbers little-endian: "dpb", the version in one byte, the kind of object in one byte, its
//! fields, and a CRC-32 of all before. A reader refuses versions newer than its own with `NewerVersion`. From the
//! first release on, a reader takes every version up to its own. A snapshot counts the periods of users, and does not
//! say who came in them.
//!
//! # What a restored handle promises
//!
//! A snapshot is taken between releases. What was open then, and all that came between it and the crash,
//! is gone: no reward of an earlier life is in any batch of a later one. So each reward is in at most one
//! release over all lives, whatever the moment of the crash, however old the snapshot, and however many
//! handles are made from it; batches of a later life are functions of releases and public data; and
//! Theorem P of [`crate::privacy`] holds for the transcript of all lives together, with the same epsilon. A
//! crash does not double a loss. (DP-SE plays its open epoch again, with other rewards.)
//!
//! The report of a restored handle says at least what one release costs: the life that it goes on with may
//! have made one after the snapshot. Where users are counted a new period begins with it, for nothing tells who came
//! in the old one, and the report has one period more than the snapshot. Of which periods nobody is learned from until
//! they are in a snapshot, so that none is forgotten: see `users.rs`.
//!
//! It may go on with another configuration, in all that does not say how released numbers are read: the list is in
//! `config.rs`. Ages of releases are kept in ticks of a memory, which is kept with them.
//!
//! # Who can have one
//!
//! Whoever can go on from releases, public counts and coins alone, with the same proof and the same bounds:
//! * the batched policies and DP-SE: counts and noised sums;
//! * SDP-AE and VB-SDP-AE: counts of noised bits of complete batches; half a batch has half of its noise and is
//!   dropped. Phase, batches that are missing and the road that rewards take are kept, the intervals are for
//!   this configuration's plan;
//! * Tsallis, DP-Lap and DP-EXP3-Lap: losses, weights or sums are functions of noised sums. DP-Lap's base
//!   decides, be it a baseline: what it was given is private;
//! * LDP-UCB and LDP KL-UCB: sums of bits that were private before they came.
//!
//! Who cannot:
//! * DP-UCB, DP-UCB-BOUND and Private-UCB: the trees' next releases need partial sums that are raw. (To put a
//!   fresh tree on what is released is private, but another algorithm: each life adds its noise to each arm.)
//! * DP-UCB-INT: the next release of an arm is of all its rewards, whose sum is raw, and is paid for by all;
//! * EXP3_tau: nothing is released but arms, and its weights are functions of raw rewards;
//! * baselines: they have no privacy, and their sums are raw.
//!
//! Counters and stopping rules have none, and need none. What a counter has read is released: add it to what a
//! fresh one reads, and each value is still in one counter (the width grows by that of each life's). A stopping rule
//! releases nothing before its halt, and then its mean is all; what it keeps secret till then, sum and threshold,
//! must neither be written nor drawn anew under the same samples. After a crash, start afresh with other samples.

use crate::error::{Error, Result};
use crate::memory;

const MAGIC: &[u8; 3] = b"dpb";
const VERSION: u8 = 1;
/// Magic, version, kind.
const HEAD: usize = 5;
const CHECKSUM: usize = 4;

/// What a snapshot is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Bandit = 1,
}

/// A snapshot in the making. A first pass counts its bytes, so that the second one has memory for all of them: see
/// [`write`].
pub enum Writer {
    /// So many bytes.
    Counting(usize),
    Writing(Vec<u8>),
}

/// What `save` writes, as a snapshot of this kind that is not sealed yet. `save` writes the same both times it is called.
///
/// # Errors
/// `BufferTooSmall` where the snapshot is longer than `room`; `NoMemory`; those of `save`.
pub fn write(kind: Kind, room: usize, mut save: impl FnMut(&mut Writer) -> Result<()>) -> Result<Unsealed> {
    let mut counter = Writer::Counting(0);
    save(&mut counter)?;
    let needed = HEAD + counter.length() + CHECKSUM;
    if needed > room {
        return Err(Error::BufferTooSmall { needed });
    }
    let mut bytes = memory::try_with_capacity(needed)?;
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[VERSION, kind as u8]);
    let mut writer = Writer::Writing(bytes);
    save(&mut writer)?;
    debug_assert_eq!(writer.length() + CHECKSUM, needed);
    Ok(Unsealed(writer))
}

/// A snapshot that lacks its checksum, which needs no lock on what was saved.
pub struct Unsealed(Writer);

impl Unsealed {
    pub fn seal(self) -> Vec<u8> {
        let mut bytes = self.0.into_bytes();
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

impl Writer {
    fn length(&self) -> usize {
        match self {
            Writer::Counting(length) => *length,
            Writer::Writing(bytes) => bytes.len(),
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Writer::Counting(_) => Vec::new(),
            Writer::Writing(bytes) => bytes,
        }
    }

    #[inline]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        match self {
            Writer::Counting(length) => *length += N,
            Writer::Writing(all) => all.extend_from_slice(&bytes),
        }
    }

    /// Items that take equally many bytes: to count them takes a look at the first.
    pub fn alike<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut each: impl FnMut(&mut Writer, T)) {
        let (before, many) = (self.length(), items.len());
        for item in items {
            each(self, item);
            if let Writer::Counting(length) = self {
                *length += (*length - before) * (many - 1);
                return;
            }
        }
    }

    /// Counts of decisions, each less one for every time that `less` names it.
    pub fn counts(&mut self, counts: impl ExactSizeIterator<Item = u64>, less: impl Iterator<Item = usize>) {
        let before = self.length();
        self.alike(counts, Writer::u64);
        if let Writer::Writing(bytes) = self {
            let (counts, _) = bytes[before..].as_chunks_mut::<8>();
            less.for_each(|place| counts[place] = (u64::from_le_bytes(counts[place]) - 1).to_le_bytes());
        }
    }

    pub fn u8(&mut self, value: u8) {
        self.put([value]);
    }

    pub fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }
}

/// A snapshot that is read. Whatever the bytes are, it ends in a value or in `Corrupt`.
pub struct Reader<'a> {
    rest: &'a [u8],
    checksum: u32,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// `Corrupt`; `NewerVersion`.
    pub fn new(bytes: &'a [u8], kind: Kind) -> Result<Reader<'a>> {
        let fields = bytes.len().checked_sub(CHECKSUM).ok_or(Error::Corrupt)?;
        let (all, checksum) = bytes.split_at(fields);
        if all.len() < HEAD || !all.starts_with(MAGIC) {
            return Err(Error::Corrupt);
        }
        if all[MAGIC.len()] > VERSION {
            return Err(Error::NewerVersion);
        }
        let sum = crc32fast::hash(all);
        let intact = sum.to_le_bytes() == checksum;
        if !intact || all[MAGIC.len()] == 0 || all[HEAD - 1] != kind as u8 {
            return Err(Error::Corrupt);
        }
        Ok(Reader { rest: &all[HEAD..], checksum: sum })
    }

    /// Reads what a [`Writer`] wrote, without head and checksum.
    pub fn of_fields(fields: &'a [u8]) -> Reader<'a> {
        Reader { rest: fields, checksum: 0 }
    }

    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Error::Corrupt)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::Corrupt),
        }
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A count of what there cannot be more than 2^62 of, so that counting on never overflows.
    pub fn count(&mut self) -> Result<u64> {
        let count = self.u64()?;
        if count <= 1 << 62 { Ok(count) } else { Err(Error::Corrupt) }
    }

    pub fn f32(&mut self) -> Result<f32> {
        self.u32().map(f32::from_bits)
    }

    pub fn f64(&mut self) -> Result<f64> {
        self.u64().map(f64::from_bits)
    }

    /// A number of things that take so many bytes each, and are all there.
    pub fn length(&mut self, each: usize) -> Result<usize> {
        let length = self.u32()? as usize;
        if length.saturating_mul(each) <= self.rest.len() { Ok(length) } else { Err(Error::Corrupt) }
    }

    /// # Errors
    /// `Corrupt` if anything is left.
    pub fn finish(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::Corrupt) }
    }
}

/// `Corrupt` unless it holds.
pub fn ensure(holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Corrupt) }
}

/// A mean or a sum of releases, on the scale of rewards in `[0, 1]`: noise brings it outside, but no further than
/// that, and so it stays finite in every range of rewards.
pub fn is_plausible(x: f64) -> bool {
    x.abs() <= 1e17
}

/// `Corrupt` unless mean and width are plausible, or not known both.
pub fn ensure_interval(known: bool, mean: f64, width: f64) -> Result<()> {
    let both = is_plausible(mean) && is_plausible(width) && width > 0.0;
    ensure(if known { both } else { mean.is_nan() && width.is_nan() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let saved = write(Kind::Bandit, usize::MAX, |to| {
            to.u8(1);
            to.u32(2);
            to.u64(3);
            to.f32(0.5);
            to.f64(f64::NAN);
            Ok(())
        });
        let bytes = saved.unwrap().seal();
        let read = |bytes: &[u8]| -> Result<()> {
            let mut reader = Reader::new(bytes, Kind::Bandit)?;
            ensure(reader.bool()? && reader.u32()? == 2 && reader.u64()? == 3)?;
            ensure(reader.f32()? == 0.5 && reader.f64()?.is_nan())?;
            reader.finish()
        };
        assert_eq!(read(&bytes), Ok(()));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Err(Error::Corrupt));
        }
        for bit in 0..8 * bytes.len() {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit / 8 == 3 && altered[3] > VERSION { Error::NewerVersion } else { Error::Corrupt };
            assert_eq!(read(&altered), Err(expected), "{bit}");
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_no_length() {
        let saved = write(Kind::Bandit, usize::MAX, |to| {
            to.u32(u32::MAX);
            to.u64(0);
            Ok(())
        });
        let bytes = saved.unwrap().seal();
        assert_eq!(Reader::new(&bytes, Kind::Bandit).unwrap().length(1), Err(Error::Corrupt));
        let mut reader = Reader::new(&bytes, Kind::Bandit).unwrap();
        assert_eq!(reader.length(0), Ok(u32::MAX as usize));
        assert_eq!(reader.finish(), Err(Error::Corrupt));
    }
}
