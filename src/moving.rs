//! States that move: a handle ends, and another one continues with all that it knew, open sums and pending decisions
//! among it.
//!
//! A snapshot holds no raw sums, because it can be restored any number of times. A state that is moved, and not copied,
//! may. [`Bandit::suspend`](crate::Bandit::suspend) ends the handle and seals its whole state;
//! [`Bandit::resume`](crate::Bandit::resume) continues it.
//!
#![doc = include_str!("../docs/theory/moving.md")]

use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};
use std::collections::VecDeque;
use zeroize::{Zeroize, Zeroizing};

/// A state that is being written or read. One function does both, so that the two cannot differ.
pub(crate) enum Archive<'a, 'b> {
    Out(&'a mut Writer),
    In(&'a mut Reader<'b>),
}

/// A value that moves.
pub(crate) trait Persist {
    /// Writes the value, or replaces it by the one that is read.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`. The caller drops what was to be replaced.
    fn persist(&mut self, with: &mut Archive) -> Result<()>;
}

impl Archive<'_, '_> {
    /// Moves a number that must be the same at both ends.
    #[inline(never)]
    pub fn same<T: Persist + PartialEq + Copy>(&mut self, mut number: T) -> Result<()> {
        let ours = number;
        number.persist(self)?;
        ensure(number == ours)
    }

    /// Whether a state is being read.
    pub fn reads(&self) -> bool {
        matches!(self, Archive::In(_))
    }

    /// `Corrupt` for what is read, unless `holds`.
    pub fn ensure(&self, holds: bool) -> Result<()> {
        ensure(holds || !self.reads())
    }

    /// `Corrupt` for what is read, unless mean and width are both plausible, or both unknown (NaN).
    pub fn ensure_interval(&self, known: bool, mean: f64, width: f64) -> Result<()> {
        let both = is_plausible(mean) && is_plausible(width) && width > 0.0;
        self.ensure(if known { both } else { mean.is_nan() && width.is_nan() })
    }

    /// Moves a count of at most 2^62, so that further counting never overflows.
    pub fn count(&mut self, count: &mut u64) -> Result<()> {
        count.persist(self)?;
        self.ensure(*count <= 1 << 62)
    }

    /// Moves a value as its number. `of` returns the value with a number.
    pub fn numbered<T, N: Persist>(
        &mut self,
        mut number: N,
        value: &mut T,
        of: impl FnOnce(N) -> Option<T>,
    ) -> Result<()> {
        number.persist(self)?;
        *value = of(number).ok_or(Error::Corrupt)?;
        Ok(())
    }

    /// Moves whether this list has a number. It is in ascending order, and so are the numbers that are moved; for reading,
    /// begin with an empty one.
    pub fn member(&mut self, list: &mut Vec<u32>, number: u32) -> Result<()> {
        let mut is_member = list.binary_search(&number).is_ok();
        is_member.persist(self)?;
        if self.reads() && is_member {
            list.push(number);
        }
        Ok(())
    }

    /// Moves a value that there is since this version of the format. Before it, the value was always `before`.
    #[allow(dead_code, reason = "the first field that is added needs it")]
    pub fn since<T: Persist>(&mut self, version: u8, value: &mut T, before: T) -> Result<()> {
        if let Archive::In(from) = self
            && from.lacks(version)
        {
            *value = before;
            return Ok(());
        }
        value.persist(self)
    }

    /// Moves the number of arms, which must be the same at both ends.
    pub fn arms(&mut self, arms: usize) -> Result<()> {
        self.same(arms as u32)
    }

    /// Moves items that each take the same number of bytes. The pass that counts bytes moves only the first.
    pub fn alike<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut each: impl FnMut(&mut Archive, T) -> Result<()>,
    ) -> Result<()> {
        let many = items.len();
        for item in items {
            let before = if let Archive::Out(Writer::Counting(length)) = self { *length } else { 0 };
            each(self, item)?;
            if let Archive::Out(Writer::Counting(length)) = self {
                *length += (*length - before) * (many - 1);
                break;
            }
        }
        Ok(())
    }

    /// Moves each value of a table.
    pub fn each<T: Persist>(&mut self, table: &mut [T]) -> Result<()> {
        table.iter_mut().try_for_each(|value| value.persist(self))
    }

    /// Moves a value that may be missing. `make` returns one to be replaced.
    pub fn option<T: Persist>(&mut self, value: &mut Option<T>, make: impl FnOnce() -> Result<T>) -> Result<()> {
        let mut is_some = value.is_some();
        is_some.persist(self)?;
        match (is_some, &mut *value) {
            (false, _) => *value = None,
            (true, None) => *value = Some(make()?),
            (true, Some(_)) => (),
        }
        value.iter_mut().try_for_each(|value| value.persist(self))
    }
}

macro_rules! number {
    ($($type:ty, $name:ident;)*) => {
        $(impl Persist for $type {
            #[inline(never)] // into some hundred fields
            fn persist(&mut self, with: &mut Archive) -> Result<()> {
                match with {
                    Archive::Out(to) => to.$name(*self),
                    Archive::In(from) => *self = from.$name()?,
                }
                Ok(())
            }
        })*
    };
}

number! {
    u8, u8;
    u32, u32;
    u64, u64;
    f32, f32;
    f64, f64;
}

/// Types that move as another one.
macro_rules! persist_as {
    ($($type:ty, $as:ty;)*) => {
        $(impl Persist for $type {
            #[inline(never)]
            fn persist(&mut self, with: &mut Archive) -> Result<()> {
                let mut number = *self as $as;
                number.persist(with)?;
                *self = number as $type;
                Ok(())
            }
        })*
    };
}

persist_as! {
    i16, u32;
    u16, u32;
    i32, u32;
    i64, u64;
    usize, u64;
}

impl Persist for bool {
    #[inline(never)]
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let mut number = u8::from(*self);
        number.persist(with)?;
        ensure(number <= 1)?;
        *self = number == 1;
        Ok(())
    }
}

impl<T: Persist, const N: usize> Persist for [T; N] {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.each(self)
    }
}

impl<A: Persist, B: Persist> Persist for (A, B) {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.0.persist(with)?;
        self.1.persist(with)
    }
}

/// A part that construction makes or does not make.
impl<T: Persist> Persist for Option<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.same(usize::from(self.is_some()))?;
        self.iter_mut().try_for_each(|part| part.persist(with))
    }
}

impl<T: Persist + ?Sized> Persist for Box<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        (**self).persist(with)
    }
}

impl<T: Persist + Zeroize> Persist for Zeroizing<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        (**self).persist(with)
    }
}

/// A table of a length that construction decides.
impl<T: Persist> Persist for WipedVec<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.same(self.len())?;
        with.each(self)
    }
}

/// A list of any length.
impl<T: Persist + Default + Clone> Persist for VecDeque<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let mut length = self.len();
        length.persist(with)?;
        if let Archive::In(from) = with {
            ensure(length <= from.left())?;
            self.clear();
            self.try_reserve(length).map_err(|_| Error::NoMemory)?;
            self.resize(length, T::default());
        }
        with.each(self.make_contiguous())
    }
}

impl<T: Persist + Default + Clone> Persist for Vec<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let mut list = VecDeque::from(std::mem::take(self));
        let moved = list.persist(with);
        *self = list.into();
        moved
    }
}

/// `persist!(Type { fields that move } made { fields that construction makes });`, for a generic type
/// `persist!(generic [T: Bound] Type<T> ...);`. Every field is named. Fields that a later version of the format has added
/// follow, each with its version and the value that older bytes imply: `persist!(Type { first, second; since 2 third = 0 })`.
macro_rules! persist {
    (
        generic [$($generic:tt)*] $type:ty
        { $($field:ident),* $(,)? $(; since $version:literal $later:ident = $before:expr)* }
        $(made { $($made:ident),* $(,)? })?
    ) => {
        impl<$($generic)*> crate::moving::Persist for $type {
            fn persist(&mut self, _with: &mut crate::moving::Archive) -> crate::error::Result<()> {
                let Self { $($field,)* $($later,)* $($($made: _,)*)? } = self;
                $(crate::moving::Persist::persist($field, _with)?;)*
                $(_with.since($version, $later, $before)?;)*
                Ok(())
            }
        }
    };
    ($type:ty { $($fields:tt)* } $(made { $($made:tt)* })?) => {
        crate::moving::persist!(generic [] $type { $($fields)* } $(made { $($made)* })?);
    };
}
pub(crate) use persist;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;

    #[derive(Debug, Default, PartialEq)]
    struct Part {
        number: u32,
        list: Vec<u64>,
        added: f64,
    }

    #[derive(Debug, Default, PartialEq)]
    struct Whole {
        first: u8,
        parts: [Part; 2],
        added: u64,
        also: Option<u32>,
        made: bool,
    }

    persist!(Part { number, list; since 2 added = 0.5 });
    persist!(Whole { first, parts; since 2 added = 7; since 3 also = Some(9) } made { made });

    /// What wrote the format before it had the later fields.
    fn write(version: u8, whole: &mut Whole) -> Vec<u8> {
        let mut save = |to: &mut Writer| {
            let with = &mut Archive::Out(to);
            whole.first.persist(with)?;
            for part in &mut whole.parts {
                part.number.persist(with)?;
                part.list.persist(with)?;
                if version >= 2 {
                    part.added.persist(with)?;
                }
            }
            if version >= 2 {
                whole.added.persist(with)?;
            }
            if version >= 3 {
                whole.also.persist(with)?;
            }
            Ok(())
        };
        snapshot::fields(|length| Ok(Vec::with_capacity(length)), &mut save).unwrap()
    }

    /// Types get fields, inside others too. Bytes of each version are read to their end, with the values that they imply.
    #[test]
    fn a_type_can_get_a_field() {
        let whole = |version| {
            let part = |number| Part { number, list: vec![4, 5], added: if version < 2 { 0.5 } else { 0.25 } };
            let added = if version < 2 { 7 } else { 8 };
            let also = Some(if version < 3 { 9 } else { 3 });
            Whole { first: 1, parts: [part(2), part(3)], added, also, made: false }
        };
        for version in 1..=3 {
            let bytes = write(version, &mut whole(3));
            let mut read = Whole { also: Some(0), ..Whole::default() };
            let from = &mut Reader::of_fields(&bytes).of_version(version);
            read.persist(&mut Archive::In(from)).unwrap();
            assert_eq!((read, from.finish()), (whole(version), Ok(())), "{version}");
        }
        // What is written is the newest version.
        let all = |to: &mut Writer| whole(3).persist(&mut Archive::Out(to));
        let newest = snapshot::fields(|length| Ok(Vec::with_capacity(length)), all).unwrap();
        assert_eq!(newest, write(3, &mut whole(3)));
    }
}
