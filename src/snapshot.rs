//! Writes and reads snapshots: the released numbers and public state of a handle, as bytes. A snapshot never contains
//! a raw sum.
//!
//! All numbers are little-endian. The bytes are "dpb", the version in one byte, the kind of object in one byte, the
//! object's fields, and a CRC-32 of everything before. A reader refuses versions newer than its own with
//! `NewerVersion`. A reader accepts every version up to its own. A snapshot counts the periods of users, and does not say
//! which users came in them.
//!
//! # How to add a field
//!
//! A field that a release of the library adds to any object needs a new version: append the library's version to
//! [`LIBRARIES`], once for each release. Bytes of older versions lack the field. They imply a value for it:
//! * a field of [`Config`](crate::Config) has its version in the table of fields, and older bytes imply its default;
//! * a field of a type that moves is a row at the end of its `persist!`, with the version and the value;
//! * other fields are read by [`Reader::since`], or moved by [`Archive::since`](crate::moving::Archive::since).
//!
//! `tests/data` has files of each version, which `tests/snapshot.rs` reads.
//!
#![doc = include_str!("../docs/theory/snapshots.md")]

use crate::error::{Error, Result, within};
use crate::memory;

const MAGIC: &[u8; 3] = b"dpb";
/// The versions of the library that have changed the format of snapshots, states and contributions: each is a version of
/// the format, from 1.
const LIBRARIES: &[&str] = &["0.1"];
/// The version of the format.
pub const VERSION: u8 = LIBRARIES.len() as u8;

/// The first version of the format whose bytes have the fields that this version of the library has added; the next one
/// for a version that is not in the list.
pub const fn version_of(library: &str) -> u8 {
    let mut at = 0;
    while at < LIBRARIES.len() && !is_same(LIBRARIES[at].as_bytes(), library.as_bytes()) {
        at += 1;
    }
    at as u8 + 1
}

const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([x, rest_of_a @ ..], [y, rest_of_b @ ..]) = (a, b) {
        if *x != *y {
            return false;
        }
        (a, b) = (rest_of_a, rest_of_b);
    }
    a.is_empty() && b.is_empty()
}
/// Magic, version, kind.
const HEAD: usize = 5;
const CHECKSUM: usize = 4;

/// The kind of object that a snapshot holds: a bandit. (What is sealed has other kinds.)
const KIND: u8 = 1;

/// A snapshot that is being written. A first pass counts the bytes, so that memory for all of them can be reserved
/// before the second pass: see [`write()`].
pub enum Writer {
    /// The number of bytes so far.
    Counting(usize),
    Writing(Vec<u8>),
}

/// Writes what `save` writes, without the checksum. `save` is called twice, and must write the same both times.
///
/// # Errors
/// `BufferTooSmall` if the snapshot is longer than `limit`; `NoMemory`; the errors of `save`.
pub fn write(limit: usize, save: impl FnMut(&mut Writer) -> Result<()>) -> Result<Unsealed> {
    let allocate = |length| {
        let mut bytes = memory::try_with_capacity(within(limit, HEAD + length + CHECKSUM)?)?;
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[VERSION, KIND]);
        Ok(bytes)
    };
    fields(allocate, save).map(Unsealed)
}

/// Writes what `save` writes, without a head and a checksum, for a [`Reader::of_fields`]: into the memory that
/// `allocate` returns for so many bytes, behind the bytes that are there. The bytes never move, so no copy of them stays
/// behind.
///
/// # Errors
/// The errors of `allocate` and of `save`.
pub fn fields(
    allocate: impl FnOnce(usize) -> Result<Vec<u8>>,
    mut save: impl FnMut(&mut Writer) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut counter = Writer::Counting(0);
    save(&mut counter)?;
    let bytes = allocate(counter.length())?;
    let needed = bytes.len() + counter.length();
    let mut writer = Writer::Writing(bytes);
    save(&mut writer)?;
    debug_assert_eq!(writer.length(), needed);
    Ok(writer.into_bytes())
}

/// A snapshot without its checksum. The checksum is computed later, because it needs no lock on the saved object.
pub struct Unsealed(Vec<u8>);

impl Unsealed {
    pub fn seal(self) -> Vec<u8> {
        let mut bytes = self.0;
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

    /// Writes numbers. The counting pass reads none.
    pub fn u64s(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        match self {
            Writer::Counting(length) => *length += size_of::<u64>() * numbers.len(),
            Writer::Writing(_) => numbers.for_each(|number| self.u64(number)),
        }
    }

    /// Writes counts of decisions. Returns where they are, for [`uncount`](Self::uncount).
    pub fn counts(&mut self, counts: impl ExactSizeIterator<Item = u64>) -> usize {
        let at = self.length();
        self.u64s(counts);
        at
    }

    /// Reduces the count in this place of those that were written there by one.
    pub fn uncount(&mut self, at: usize, place: usize) {
        if let Writer::Writing(bytes) = self {
            let count = &mut bytes[at..].as_chunks_mut::<8>().0[place];
            *count = (u64::from_le_bytes(*count) - 1).to_le_bytes();
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

/// Reads a snapshot. Any bytes lead to a value or to `Corrupt`, never to a panic.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    version: u8,
    checksum: u32,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// `Corrupt`; `NewerVersion`.
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>> {
        let fields = bytes.len().checked_sub(CHECKSUM).ok_or(Error::Corrupt)?;
        let (all, checksum) = bytes.split_at(fields);
        if all.len() < HEAD || !all.starts_with(MAGIC) {
            return Err(Error::Corrupt);
        }
        let version = all[MAGIC.len()];
        if version > VERSION {
            return Err(Error::NewerVersion);
        }
        let sum = crc32fast::hash(all);
        let intact = sum.to_le_bytes() == checksum;
        if !intact || version == 0 || all[HEAD - 1] != KIND {
            return Err(Error::Corrupt);
        }
        Ok(Reader { rest: &all[HEAD..], version, checksum: sum })
    }

    /// Reads the output of a [`Writer`] that has no head and no checksum.
    pub fn of_fields(fields: &'a [u8]) -> Reader<'a> {
        Reader { rest: fields, version: VERSION, checksum: 0 }
    }

    /// The same, written in this version.
    pub fn of_version(self, version: u8) -> Reader<'a> {
        Reader { version, ..self }
    }

    /// Reads a field that there is since this version. Before it, its value was always `before`.
    pub fn since<T>(&mut self, version: u8, before: T, read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
        if self.lacks(version) { Ok(before) } else { read(self) }
    }

    /// Whether these bytes are older than this version.
    pub fn lacks(&self, version: u8) -> bool {
        self.version < version
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

    /// Reads a count of at most 2^62, so that further counting never overflows.
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

    /// Reads a number of items of `each` bytes. Refuses a number that the remaining bytes cannot hold.
    pub fn length(&mut self, each: usize) -> Result<usize> {
        let length = self.u32()? as usize;
        if length.saturating_mul(each) <= self.rest.len() { Ok(length) } else { Err(Error::Corrupt) }
    }

    /// Reads so many items.
    ///
    /// # Errors
    /// `NoMemory`; the errors of `read`.
    pub fn list<T>(&mut self, length: usize, read: impl Fn(&mut Reader<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut list = memory::try_with_capacity(length)?;
        for _ in 0..length {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// The number of bytes that are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// # Errors
    /// `Corrupt` if bytes are left.
    pub fn finish(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::Corrupt) }
    }
}

/// `Corrupt` unless `holds`.
pub fn ensure(holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Corrupt) }
}

/// Whether x can be a mean or a sum of releases, on the scale of rewards in `[0, 1]`. Noise can bring it outside, but
/// not beyond 1e17, so it stays finite in every range of rewards.
pub fn is_plausible(x: f64) -> bool {
    x.abs() <= 1e17
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let saved = write(usize::MAX, |to| {
            to.u8(1);
            to.u32(2);
            to.u64(3);
            to.f32(0.5);
            to.f64(f64::NAN);
            Ok(())
        });
        let bytes = saved.unwrap().seal();
        let read = |bytes: &[u8]| -> Result<()> {
            let mut reader = Reader::new(bytes)?;
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
        let saved = write(usize::MAX, |to| {
            to.u32(u32::MAX);
            to.u64(0);
            Ok(())
        });
        let bytes = saved.unwrap().seal();
        assert_eq!(Reader::new(&bytes).unwrap().length(1), Err(Error::Corrupt));
        let mut reader = Reader::new(&bytes).unwrap();
        assert_eq!(reader.length(0), Ok(u32::MAX as usize));
        assert_eq!(reader.finish(), Err(Error::Corrupt));
    }

    #[test]
    fn versions_of_the_library_are_versions_of_the_format() {
        assert_eq!(version_of(LIBRARIES[0]), 1);
        assert_eq!(version_of(LIBRARIES[LIBRARIES.len() - 1]), VERSION);
        for unknown in ["", "0.", "0.11", "9.9"] {
            assert_eq!(version_of(unknown), VERSION + 1, "{unknown}");
        }
    }

    /// A field is added in the middle of a format. Its reader reads what was written before, with the value that was
    /// implied then; a reader of today refuses the new format by its name.
    #[test]
    fn a_format_can_get_a_field() {
        const NEXT: u8 = VERSION + 1;
        let read = |from: &mut Reader| Result::Ok((from.u32()?, from.since(NEXT, 7, Reader::u64)?, from.u8()?));
        let today = write(usize::MAX, |to| {
            to.u32(1);
            to.u8(3);
            Ok(())
        });
        let today = today.unwrap().seal();
        let from = &mut Reader::new(&today).unwrap();
        assert_eq!((read(from), from.finish()), (Ok((1, 7, 3)), Ok(())));

        let mut next = [MAGIC, &[NEXT, KIND][..], &[1, 0, 0, 0], &2u64.to_le_bytes(), &[3]].concat();
        let from = &mut Reader::of_fields(&next[HEAD..]).of_version(NEXT);
        assert_eq!((read(from), from.finish()), (Ok((1, 2, 3)), Ok(())));
        next.extend(crc32fast::hash(&next).to_le_bytes());
        assert_eq!(Reader::new(&next).err(), Some(Error::NewerVersion));
    }
}
