//! What constructors share: dpb_config with its constants, and dpb_error.

use super::generated::config::dpb_config;
use super::sized;
use super::status::dpb_status;
use crate::codebook::Codebook;
use crate::config::{Clock, Config, InC};
use crate::error::{Error, Result};
use std::ffi::c_char;

/// dpb_config.feature_model: one model for all arms, whose rows of features differ. A request has a row for each
/// eligible arm. A new arm starts with what is known of its features.
pub const DPB_MODEL_SHARED: u32 = 0;
/// dpb_config.feature_model: a model for each arm. A request has one row, for example of the visitor or the page.
pub const DPB_MODEL_PER_ARM: u32 = 1;

/// dpb_config.clock: a tick is a decision.
pub const DPB_CLOCK_DECISIONS: u32 = 0;
/// dpb_config.clock: dpb_advance sets the time.
pub const DPB_CLOCK_CALLER: u32 = 1;

const _: () = assert!(DPB_CLOCK_DECISIONS == Clock::Decisions as u32 && DPB_CLOCK_CALLER == Clock::Caller as u32);

/// Why a call failed. The message always ends with NUL, and names the field and the value: "epsilon must be finite
/// and > 0, got -1".
#[repr(C)]
pub struct dpb_error {
    /// The status that the function returned.
    pub status: dpb_status,
    /// A text for people.
    pub message: [c_char; 252],
}

const _: () = assert!(size_of::<dpb_error>() == 256);

/// Fills a configuration with the defaults for this number of arms and this privacy loss. Checks nothing:
/// constructors check. NULL is a no-op. Any thread.
///
/// struct_size: the size of the struct in the program's header, which may be older than the library. In C and C++
/// dpb_config_init(&config, arms, epsilon) passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_config_init_sized(config: *mut dpb_config, struct_size: u32, arms: u32, epsilon: f64) {
    // SAFETY: NULL or valid for that many bytes, by contract.
    unsafe { sized::init(config, struct_size, || dpb_config::defaults(arms, epsilon)) };
}

/// 32 bytes behind a pointer that may be NULL.
pub(super) fn read_seed(seed: *const u8) -> Option<[u8; 32]> {
    // SAFETY: NULL or 32 readable bytes, by contract; bytes have no alignment.
    (!seed.is_null()).then(|| unsafe { seed.cast::<[u8; 32]>().read() })
}

/// The rows of a codebook behind a pointer that may be NULL.
///
/// # Safety
/// `rows` is NULL or has `len` times `features` numbers.
pub(super) unsafe fn read_book(rows: *const f32, len: u32, features: u32) -> Result<Option<Codebook>> {
    if rows.is_null() {
        return Ok(None);
    }
    let fits = len <= Codebook::MOST && features <= Config::MOST_FEATURES;
    Error::unless(fits, "codebook_len", "must be at most 65536, of at most 256 features", len)?;
    // SAFETY: by contract, and too short to overflow.
    let rows = unsafe { std::slice::from_raw_parts(rows, len as usize * features as usize) };
    Codebook::new(rows, features).map(Some)
}

impl dpb_config {
    /// What dpb_config_init fills in, for those who call the interface from Rust.
    pub fn defaults(arms: u32, epsilon: f64) -> dpb_config {
        // SAFETY: numbers and addresses all.
        let mut config: dpb_config = unsafe { std::mem::zeroed() };
        config.struct_size = size_of::<dpb_config>() as u32;
        config.copy(&Config::new(arms, epsilon));
        config
    }

    /// The configuration.
    ///
    /// # Safety
    /// `config` is valid for the size that it states, and its pointers are NULL or valid.
    pub(super) unsafe fn read(config: *const dpb_config) -> Result<Config> {
        // SAFETY: passed on.
        unsafe { sized::read(config, dpb_config::defaults(0, 0.0))?.convert() }
    }
}

/// The text of a refusal in the words of C: the table says which fields and values have another name in Rust.
pub(super) fn text(failure: &Error) -> String {
    let mut text = failure.to_string();
    let refused = match failure {
        Error::InvalidConfig { field: "name", .. } => return text, // it quotes the caller
        Error::NotReady | Error::NotStored => return text.replace("Bandit::", "dpb_"),
        Error::InvalidConfig { field, .. } => field,
        _ => "",
    };
    for (name, in_c) in Config::renamed() {
        match in_c {
            InC::Named(in_c, values) => {
                text = replace(&text, name, in_c);
                if name == refused && values.len() == 2 {
                    text = replace(&replace(&text, "false", values[0]), "true", values[1]);
                }
            }
            InC::Flag(flag) if name == refused => {
                text = replace(&text, name, "flags");
                text = replace(&text, "be true", &format!("have {flag}"));
                text = replace(&text, "be false", &format!("not have {flag}"));
                text = replace(&replace(&text, "true", flag), "false", &format!("no {flag}"));
            }
            InC::Flag(flag) => text = replace(&text, name, flag),
        }
    }
    text
}

/// Replaces a word of ASCII. A longer word that contains it is another one.
fn replace(text: &str, word: &str, by: &str) -> String {
    let is_in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let is_whole = !before.ends_with(is_in_word) && !after.starts_with(is_in_word);
        out += before;
        out += if is_whole { by } else { word };
        rest = after;
    }
    out + rest
}

/// Fills a dpb_error, and truncates the message to its size.
///
/// # Safety
/// `error` is NULL or valid.
pub(super) unsafe fn explain(error: *mut dpb_error, status: dpb_status, text: impl FnOnce() -> String) {
    if error.is_null() {
        return;
    }
    // SAFETY: not NULL, so valid by contract.
    unsafe { error.write(dpb_error { status, message: chars(&text()) }) };
}

/// A text of C, which ends with NUL, truncated to its size.
pub(super) fn chars<const SIZE: usize>(text: &str) -> [c_char; SIZE] {
    let mut chars = [0; SIZE];
    chars[..SIZE - 1].iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        // SAFETY: no address is set.
        let config = unsafe { dpb_config::defaults(9, 0.5).convert() }.unwrap();
        let set: Vec<_> = config.set().map(|(field, ..)| field.name).collect();
        assert_eq!((config.arms, config.epsilon, &set[..]), (9, 0.5, &["arms", "epsilon"][..]));
    }
}
