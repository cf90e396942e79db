//! dpb_codebook: a codebook from public rows.

use super::calls::{attempt, functions, given};
use super::config::dpb_error;
use super::guard::slice;
use super::status::dpb_status;
use crate::codebook::Codebook;
use crate::error::{Error, Result};

functions! {
    /// Writes a codebook for dpb_config.codebook: len means of public rows, by k-means, the same for the same rows. The rows
    /// must be public: old, synthetic or enumerated ones, never those of people whom the handle protects. Without rows (n =
    /// 0) it is the 2 features signed unit vectors, which lose more; len must then be 2 features. For one-hot features,
    /// write all their combinations yourself. Takes O(n len features), at most 31 times.
    ///
    /// rows: n rows of features numbers each, one after another; may be NULL if n is 0. features: 1 .. 256. len: 1 .. n, at
    /// most 65536; 32 is a good choice. book: receives len rows. error: as in dpb_new.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_NO_MEMORY. Unless DPB_OK, nothing is written. Any thread.
    fn dpb_codebook(rows: *const f32, n: usize, features: u32, len: u32, book: *mut f32, error: *mut dpb_error)
        = codebook((rows, n), features, len, book, error);
}

/// # Safety
/// Pointers are NULL or valid for as many rows as the numbers say.
unsafe fn codebook(
    (rows, n): (*const f32, usize),
    features: u32,
    len: u32,
    book: *mut f32,
    error: *mut dpb_error,
) -> dpb_status {
    let made = || -> Result<()> {
        let fits = |numbers: &usize| *numbers <= isize::MAX as usize / size_of::<f32>();
        let numbers = n.checked_mul(features as usize).filter(fits);
        let numbers = numbers.ok_or_else(|| Error::config("n", "must be a number of rows in memory", n))?;
        // SAFETY: not NULL where there are numbers, so valid by contract.
        let rows = unsafe { slice(rows, numbers) };
        let found = Codebook::of_rows(rows, features, len)?;
        // SAFETY: not NULL, so valid for len rows, by contract.
        unsafe { book.copy_from_nonoverlapping(found.rows().as_ptr(), found.rows().len()) };
        Ok(())
    };
    // SAFETY: passed on.
    unsafe { attempt(error, &[given("rows", rows, n), ("book", book.is_null())], made) }
}
