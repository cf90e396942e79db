//! Fills the structs of C with what the tables say.

use super::config::chars;
use super::generated::node::{dpb_node_diagnostics, dpb_node_report};
use super::generated::report::{dpb_arm, dpb_diagnostics, dpb_report, dpb_verdict};
use crate::bandit::{ArmReport, Diagnostics, Report, Verdict};
use crate::node::{NodeDiagnostics, NodeReport};

macro_rules! reports {
    ($(
        $(#[$about:meta])*
        $report:ident as $c:ident from $reading:ident {$(
            $(#[$doc:meta])*
            $name:ident: $type:ty = $source:expr, $since:literal
                $(, [$in_c:ident])? $(, $kind:ident $metric:literal $help:literal)?
            $({$(
                $(#[$of_part:meta])*
                $part:ident: $part_type:ident = $value:expr $(, $part_kind:ident $part_metric:literal $part_help:literal)?;
            )*})?;
        )*}
    )*) => {$(
        impl From<$report> for $c {
            fn from(report: $report) -> $c {
                // SAFETY: all its fields are numbers.
                let mut c: $c = unsafe { std::mem::zeroed() };
                $(
                    let $name = report.$name;
                    fill!(c, $name $([$in_c])? $({ $($part = $value;)* })?);
                )*
                c
            }
        }
    )*};
}

macro_rules! fill {
    ($c:ident, $name:ident) => {
        $c.$name = $name.into()
    };
    ($c:ident, $name:ident [$in_c:ident]) => {
        $c.$in_c = $name.into()
    };
    ($c:ident, $name:ident { $($part:ident = $value:expr;)* }) => {
        $($c.$part = $value.into();)*
    };
}

include!("../tables/report.rs");
include!("../tables/node.rs");
