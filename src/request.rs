//! What a caller says about one decision.

use crate::error::{Error, Result};
use crate::memory::WipedVec;

/// Declares the fields of [`Request`]: see the file `tables/request.rs`, which is the table.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $default:expr, $since:literal $(, $length:literal)? $({ $($members:tt)* })?;
    )*) => {
        /// One request for a decision. All of it is public: compute nothing in it from rewards.
        #[derive(Clone, Copy, Debug)]
        pub struct Request<'a> {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Request<'_> {
            fn default() -> Self {
                Request { $($name: $default,)* }
            }
        }
    };
}

include!("tables/request.rs");

/// Units of one examination of a slot.
pub(crate) const EXAMINATION: u64 = 1 << 16;

impl Request<'_> {
    /// What a slot lacks of an [examination](EXAMINATION), rounded up to one of its units.
    pub(crate) fn lack(&self, slot: u32) -> u16 {
        let Some(examined) = self.examined else { return 0 };
        (EXAMINATION - (examined[slot as usize] * EXAMINATION as f64) as u64) as u16
    }

    /// Checks `examined`.
    ///
    /// # Errors
    /// `InvalidRequest`: "examined", "examined_len".
    pub(crate) fn check_examined(&self, examined: &[f64]) -> Result<()> {
        if examined.len() != self.slots as usize {
            let rule = format!("must be {}, the number of slots", self.slots);
            return Err(Error::request("examined_len", &rule, examined.len()));
        }
        let least = 1.0 / EXAMINATION as f64;
        match examined.iter().find(|&e| !(least..=1.0).contains(e)) {
            Some(&wrong) => Err(Error::request("examined", "must be in [2^-16, 1]", wrong)),
            None => Ok(()),
        }
    }
}

/// A feature of a sparse row. The values of a repeated index are added.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Feature {
    /// Index of the feature, below `features`.
    pub index: u32,
    /// Its value, finite.
    pub value: f32,
}

/// Returns the index of a category: the CRC-32 (as in zlib and PNG) of "field=value", modulo d; 0 for d = 0.
pub fn feature_hash(field: &[u8], value: &[u8], d: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    [field, b"=", value].into_iter().for_each(|bytes| hasher.update(bytes));
    hasher.finalize().checked_rem(d).unwrap_or(0)
}

/// Returns the index of a pair of categories: the CRC-32 of both indices, little-endian, modulo d; 0 for d = 0.
pub fn feature_cross(a: u32, b: u32, d: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    crc32fast::hash(&both.to_le_bytes()).checked_rem(d).unwrap_or(0)
}

/// The features of a request. With a model for each arm: one row. With one model: a row for each eligible arm, in the
/// request's order; without a list, a row for every arm by number, where the rows of retired arms are present but not
/// read.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// All rows, one after another.
    Dense(&'a [f32]),
    /// The features of all rows, one row after another, and the end of each row.
    Sparse(&'a [Feature], &'a [u32]),
}

/// What a reward of each arm is worth in the current request, as a part of the largest value.
pub struct Values {
    /// For each arm: the number of the last request that listed it, and its value there; 0 if that was too small.
    listed: WipedVec<(u32, f32)>,
    request: u32,
}

impl Values {
    /// An arm that is worth less than this part of the largest value is not eligible in the request.
    const LEAST: f64 = 1.0 / (1 << 20) as f64;

    /// # Errors
    /// `NoMemory`.
    pub fn new(arms: u32) -> Result<Values> {
        Ok(Values { listed: WipedVec::new(arms as usize, |_| (0, 0.0))?, request: 0 })
    }

    /// Reserves memory for one more arm.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        self.listed.reserve()
    }

    /// Adds an arm, after [`reserve`](Self::reserve).
    pub fn push(&mut self) {
        self.listed.push((0, 0.0));
    }

    /// The value of an arm that the current request lists.
    #[inline]
    pub fn of(&self, arm: u32) -> f64 {
        self.listed[arm as usize].1.into()
    }

    /// Reads the values of a request, whose eligible arms are live, and lists the arms that it may get.
    ///
    /// # Errors
    /// `InvalidRequest`: "values", "values_len", "eligible".
    pub fn list(&mut self, request: &Request, is_live: impl Fn(u32) -> bool, left: &mut Vec<u32>) -> Result<()> {
        let (values, eligible) = (request.values.unwrap_or(&[]), request.eligible);
        let length = eligible.map_or(self.listed.len(), <[u32]>::len);
        if values.len() != length {
            let rule = format!(
                "must be {length}, the number of {}",
                if eligible.is_some() { "eligible arms" } else { "arms" }
            );
            return Err(Error::request("values_len", &rule, values.len()));
        }
        self.request = self.request.wrapping_add(1);
        if self.request == 0 {
            self.listed.iter_mut().for_each(|(request, _)| *request = 0);
            self.request = 1;
        }
        let arms = || {
            values.iter().enumerate().map(|(place, &value)| (eligible.map_or(place as u32, |arms| arms[place]), value))
        };
        let mut largest = 0.0;
        for (arm, value) in arms().filter(|&(arm, _)| eligible.is_some() || is_live(arm)) {
            if !(0.0..f64::INFINITY).contains(&value) {
                return Err(Error::request("values", "must be finite and at least 0", value));
            }
            if std::mem::replace(&mut self.listed[arm as usize].0, self.request) == self.request {
                return Err(Error::request("eligible", "must not name an arm twice in a request with values", arm));
            }
            largest = f64::max(largest, value);
        }
        left.clear();
        for (arm, value) in arms() {
            let listed = &mut self.listed[arm as usize];
            let part = if listed.0 == self.request { value / largest } else { 0.0 };
            listed.1 = if part >= Self::LEAST { part as f32 } else { 0.0 }; // NaN if all are 0
            left.extend((listed.1 > 0.0).then_some(arm));
        }
        Ok(())
    }
}
