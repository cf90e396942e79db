//! What may be read of a node. The table is `tables/node.rs`.

use super::BanditSource;
use super::command::Member;
use super::machine::{Core, NodeState};
use super::outbox::Outbox;

/// What a [`NodeReport`] is made of.
pub(super) struct NodeReading<'a, S: BanditSource> {
    pub core: &'a Core<S>,
    pub is_ready: bool,
}

/// What [`NodeDiagnostics`] are made of.
pub(super) struct NodeCounted<'a, S: BanditSource> {
    pub core: &'a Core<S>,
    pub outbox: &'a Outbox,
}

/// Declares the structs of the file `tables/node.rs`, which is the table, and fills them.
macro_rules! reports {
    ($(
        $(#[$about:meta])*
        $report:ident as $c:ident from $reading:ident {$(
            $(#[$doc:meta])*
            $name:ident: $type:ty = $source:expr, $since:literal $(, $kind:ident $metric:literal $help:literal)?
            $({ $($parts:tt)* })?;
        )*}
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $report {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl $report {
            pub(super) fn of<S: BanditSource>(reading: &$reading<'_, S>) -> $report {
                $(let $name: fn(&$reading<'_, S>) -> $type = $source;)*
                $report { $($name: $name(reading),)* }
            }
        }
    )*};
}

include!("../tables/node.rs");
