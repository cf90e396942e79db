//! What a caller says about one decision.

/// One request for a decision. All of it is public: compute nothing in it from rewards.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The number of different arms to choose, at least 1. Each gets a decision and a ticket of its own.
    pub slots: u32,
    /// The segment's key with [`Config::max_segments`](crate::Config::max_segments); else 0.
    pub segment: u64,
    /// A keyed hash of the person with [`Config::expected_users`](crate::Config::expected_users); else 0.
    pub user: u64,
    /// Arms that may be chosen, in any order; duplicates are harmless. `None` = all live arms. Choose them by
    /// public information only.
    pub eligible: Option<&'a [u32]>,
    /// With [`Config::features`](crate::Config::features): one row if each arm has a model; else a row for each
    /// eligible arm, in that order, or for every arm by its number.
    pub features: Option<Rows<'a>>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request { slots: 1, segment: 0, user: 0, eligible: None, features: None }
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
