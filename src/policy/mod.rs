//! The policies, in families, one file for each, and the list of all of them.

use crate::config::{Config, Field, UsedBy};
use crate::error::{Error, Result};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::request::Abilities;
use std::ffi::CStr;

mod batched;
mod compare;
mod contract;
mod cumulant;
mod kl;
mod learner;
pub(crate) mod lift;
mod linear;
mod papers;
mod prior;
mod segments;
pub(crate) mod verdict;

pub use crate::request::Pull;
pub(crate) use compare::price_of_merges;
pub use contract::{ArmState, Policy, PolicyCounts};
pub use kl::private_divergence;
pub(crate) use learner::AnyLearner;
use papers::{adversarial, baselines, continual, elimination, local};
pub(crate) use prior::Prior;

/// What the table says of a policy.
struct TableRow {
    /// The family of policies in the table.
    group: &'static str,
    /// The fields that must not have their defaults, of those in a group at least one.
    needs: &'static str,
    /// The fields that it uses, of those that only some policies use.
    uses: &'static str,
    /// Other fields that it does not use, and why.
    refuses: &'static [(&'static str, &'static str)],
    loss: fn(&Config) -> Result<PrivacyLoss>,
    /// What it supports.
    can: &'static str,
    /// What a handle must know of it.
    also: &'static str,
}

/// Declares the policies: see the file `policies.rs`, which is the table.
macro_rules! algorithms {
    ($(
        $(#[$doc:meta])*
        $name:ident = $number:literal, $label:literal, $in_c:ident, $go:literal, $group:ident, $new:path {
            from: $from:literal;
            loss: $loss:path;
            can: $can:literal;
            $(also: $also:literal;)?
            needs: $needs:literal;
            uses: $uses:literal;
            $(refuses: $refused:ident $why:literal;)*
            select: $select:literal;
            update: $update:literal;
            bytes: $bytes:literal;
            arms: $arms:literal;
        }
    )*) => {
        /// The policies, by the number that reports contain. A configuration for one must have the defaults in all
        /// fields that it does not use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Algorithm {
            $(
                $(#[$doc])*
                #[doc = concat!("\n\nOf the fields that not all policies use it uses: ", $uses, ".")]
                $name = $number,
            )*
        }

        impl Algorithm {
            /// All algorithms.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$name,)*];

            /// The name that reports contain.
            pub fn name(self) -> &'static str {
                self.c_name().to_str().unwrap_or_default()
            }

            /// The name as a C string.
            pub(crate) fn c_name(self) -> &'static CStr {
                match self {
                    $(Algorithm::$name => $label,)*
                }
            }

            fn row(self) -> &'static TableRow {
                match self {
                    $(Algorithm::$name => &TableRow {
                        group: stringify!($group),
                        needs: $needs,
                        uses: $uses,
                        refuses: &[$((stringify!($refused), $why),)*],
                        loss: $loss,
                        can: $can,
                        also: concat!($($also)?),
                    },)*
                }
            }

            /// A fresh policy for a checked configuration.
            pub(crate) fn build(self, config: &Config, seed: &mut Seed) -> Result<Box<dyn Policy>> {
                self.check(config)?;
                if config.learn_clip {
                    return Ok(Box::new(batched::clipped::ClippedImed::new(config, seed)?));
                }
                if config.private_features {
                    return Ok(Box::new(linear::private::PrivateLinear::new(config, seed)?));
                }
                if config.max_segments > 0 {
                    return Ok(Box::new(segments::Segments::new(config, seed)?));
                }
                Ok(match self {
                    $(Algorithm::$name => Box::new($new(config, seed)?),)*
                })
            }
        }
    };
}

include!("policies.rs");

/// The loss of a baseline.
fn unbounded(_: &Config) -> Result<PrivacyLoss> {
    Ok(PrivacyLoss::Unbounded)
}

/// The loss of a policy that is (epsilon, delta)-DP by its own proof.
fn approximate(config: &Config) -> Result<PrivacyLoss> {
    Ok(PrivacyLoss::Approximate { epsilon: config.epsilon, delta: config.delta })
}

/// The loss of a pure policy.
fn pure(config: &Config) -> Result<PrivacyLoss> {
    Ok(PrivacyLoss::Pure(config.epsilon))
}

/// The loss of a request whose rewards are in as many batches as the configuration permits.
pub(crate) fn loss_of_request(loss: PrivacyLoss, config: &Config) -> PrivacyLoss {
    loss.of_batches(config.batches_changed())
}

/// The loss of a policy that releases each reward once, with the noise of [`Config::noise`].
fn released(config: &Config) -> Result<PrivacyLoss> {
    config.loss()
}

impl Algorithm {
    /// Whether this policy decides for an arm at the confidence 1 - `beta`.
    pub(crate) fn decides(self, config: &Config) -> bool {
        let base = if self == Algorithm::Lap { Self::from_number(config.base).unwrap_or(self) } else { self };
        base.row().can.split(", ").any(|ability| ability == "decide")
    }

    /// What requests this policy can decide, with a configuration.
    pub(crate) fn abilities(self, config: &Config) -> Abilities {
        Abilities::of(self.row().can, config)
    }

    /// Checks that an arm can have a prior.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(crate) fn check_prior(self, config: &Config) -> Result<()> {
        if !self.row().can.split(", ").any(|word| word == "prior") {
            return Err(Error::unsupported("a prior"));
        }
        if config.features > 0 && !config.model_per_arm {
            return Err(Error::unconfigured(
                "a prior of one arm: all arms share a model, because config.feature_model is DPB_MODEL_SHARED",
            ));
        }
        if config.learn_clip {
            return Err(Error::unconfigured(
                "a prior: config.flags has DPB_LEARN_CLIP, and a clipped mean is not known",
            ));
        }
        Ok(())
    }

    fn also(self, what: &str) -> bool {
        self.row().also.split(", ").any(|word| word == what)
    }

    /// Whether `observe` and `cancel` need phase and propensity of a pull, which take 16 bytes for each pending
    /// decision, and not only its arm.
    pub(crate) fn needs_full_pulls(self) -> bool {
        self.also("full pulls")
    }

    /// Whether `choose`, `observe` and `cancel` set the rounding of numbers by themselves (`DefaultRounding` in
    /// `os.rs`). If a policy computes rarely, that takes less time than setting it at each call.
    pub(crate) fn sets_rounding(self, config: &Config) -> bool {
        self.also("rounding") && config.max_segments == 0
    }

    /// Whether users' devices add noise, which a shuffler makes small.
    pub(crate) fn needs_shuffler(self) -> bool {
        self.row().group == "Shuffle"
    }

    /// Whether rewards are bits that were privatised before they arrived. Then other rewards are refused.
    pub(crate) fn takes_bits(self) -> bool {
        self.also("bits")
    }

    /// Checks that a configuration may replace that of a snapshot, in what this policy has planned its batches by, and
    /// in what it has decided by.
    pub(crate) fn check_plan(self, config: &Config, snapshot: &Config) -> Result<()> {
        if self == Algorithm::VbSdpAe && config.horizon != snapshot.horizon {
            let rule = format!("must be {}, as in the snapshot: it plans the batches", snapshot.horizon);
            return Err(Error::config("horizon", &rule, config.horizon));
        }
        if self.decides(snapshot) && config.beta != snapshot.beta {
            let rule = format!("must be {}, as in the snapshot: it decides by this", snapshot.beta);
            return Err(Error::config("beta", &rule, config.beta));
        }
        Ok(())
    }

    /// Whether this policy uses a field that only some policies use.
    pub(crate) fn uses(self, field: &str) -> bool {
        self.row().uses.split(' ').any(|used| used == field)
    }

    /// Whether this policy uses a field in this configuration: dp-lap has some for its base.
    fn uses_in(self, field: &str, config: &Config) -> bool {
        let own = self != Algorithm::Lap || ["beta", "batch", "base"].contains(&field);
        self.uses(field) && (own || Self::from_number(config.base).is_ok_and(|base| base.uses(field)))
    }

    /// The reason why this policy does not use a field, for a message; `None` if it does.
    fn unused(self, field: &Field, config: &Config) -> Option<String> {
        let name = self.name();
        let refused = self.row().refuses.iter().find(|(refused, _)| *refused == field.name);
        match refused {
            Some((_, why)) => Some(format!(": {why}")),
            None if field.users == UsedBy::Listed && !self.uses_in(field.name, config) => {
                Some(format!(": {name} does not use it"))
            }
            None if config.max_segments > 0 && field.name == "beta" => {
                Some(" with max_segments, where it has no use".into())
            }
            None => None,
        }
    }

    /// The configuration with the defaults in all fields that this policy does not use: for programs that run several
    /// policies with one configuration.
    pub fn fit(self, config: &Config) -> Config {
        let mut fit = config.clone();
        for (field, ..) in config.set().filter(|(field, ..)| self.unused(field, config).is_some()) {
            fit.reset(field.name);
        }
        fit
    }

    /// Refuses a field that this policy does not use, unless the field has its default, and one with its default that
    /// the policy needs.
    fn check(self, config: &Config) -> Result<()> {
        let (row, name) = (self.row(), self.name());
        for (field, got, default) in config.set() {
            if let Some(why) = self.unused(field, config) {
                return Err(Error::config(field.name, &format!("must be {default}{why}"), got));
            }
        }
        let is_set = |needed: &str| config.set().any(|(field, ..)| field.name == needed);
        for group in row.needs.split(' ').filter(|group| !group.is_empty()) {
            if !group.split('|').any(is_set) {
                let rule = format!("must not be 0: {name} needs {}", group.replace('|', " or "));
                return Err(Error::config(group.split('|').next().unwrap_or_default(), &rule, 0u32));
            }
        }
        Ok(())
    }

    /// The loss of one user through a handle and everything that is restored from its snapshots.
    pub(crate) fn lifetime_loss(self, config: &Config) -> Result<PrivacyLoss> {
        (self.row().loss)(config)
    }

    /// The recommended policy for a plain bandit.
    pub const RECOMMENDED: Algorithm = Algorithm::Imed;

    /// The recommended policy for a configuration, which `dpb_new` uses.
    pub fn recommended(config: &Config) -> Algorithm {
        if config.features > 0 { Algorithm::Linear } else { Algorithm::Imed }
    }

    /// The algorithm with this number.
    ///
    /// # Errors
    /// `InvalidConfig` for `base` if there is none.
    pub fn from_number(number: u32) -> Result<Algorithm> {
        Self::ALL
            .iter()
            .copied()
            .find(|a| *a as u32 == number)
            .ok_or_else(|| Error::config("base", "must be the number of a policy", number))
    }
}

impl std::str::FromStr for Algorithm {
    type Err = Error;

    /// The algorithm with this name: `"dp-imed".parse()`. `InvalidConfig` for `name` if there is none.
    fn from_str(name: &str) -> Result<Algorithm> {
        // Limits the length of the message, whatever the caller passes.
        let shown: String = name.chars().take(64).collect();
        let none = || Error::refused("name", format_args!("must be the name of a policy, got {shown:?}"));
        Self::ALL.iter().copied().find(|a| a.name() == name).ok_or_else(none)
    }
}
