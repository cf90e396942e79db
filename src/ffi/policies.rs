//! The constructors of the policies: one for each row of the table. The test `header` declares them for C, with the
//! documentation of their policies.

use super::bandit::{dpb_bandit, new};
use super::calls::functions;
use super::config::dpb_error;
use super::generated::config::dpb_config;
use super::status::dpb_status;
use crate::policy::Algorithm;

macro_rules! algorithms {
    ($(
        $(#[$doc:meta])*
        $name:ident = $number:literal, $label:literal, $constructor:ident, $go:literal, $group:ident, $new:path {
            $($rest:tt)*
        }
    )*) => {
        functions! {$(
            #[doc = concat!("Makes a handle with [`Algorithm::", stringify!($name), "`].")]
            fn $constructor(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error)
                = new(Algorithm::$name, config, out, error);
        )*}
    };
}

include!("../policy/policies.rs");
