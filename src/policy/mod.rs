//! The policies, in families, one file for each, and the list of all of them.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use std::ffi::CStr;

mod batched;
mod compare;
mod contract;
mod cumulant;
mod kl;
mod linear;
mod papers;
mod prior;
mod segments;

pub use crate::engine::Pull;
pub use contract::{ArmState, DynamicArms, Policy, ShuffledPolicy, Slates};
pub(crate) use contract::{ByRequest, Combining, PeerId};
pub use kl::private_divergence;
pub(crate) use prior::Prior;

/// Defines the list of algorithms: number (stable, in reports and `Config::base`), name, type.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $label:literal, $policy:path;)*) => {
        /// The algorithms, by the number that reports contain.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($(#[$doc])* $name = $number,)*
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

            /// A fresh policy for a checked configuration.
            pub(crate) fn build(self, config: &Config, seed: &mut Seed) -> Result<Box<dyn Policy>> {
                self.check(config)?;
                if config.max_segments > 0 {
                    return Ok(Box::new(segments::Segments::new(config, seed)?));
                }
                Ok(match self {
                    $(Algorithm::$name => Box::new(<$policy>::new(config, seed)?),)*
                })
            }
        }
    };
}

algorithms! {
    /// DP-SE: differentially private successive elimination (Sajed and Sheffet 2019).
    Se = 1, c"dp-se", papers::elimination::se::DpSe;
    /// UCB1 (Auer et al. 2002): a baseline without privacy.
    NonprivateUcb1 = 2, c"nonprivate-ucb1", papers::baselines::ucb1::Ucb1;
    /// KL-UCB (Garivier and Cappe 2011): a baseline without privacy.
    NonprivateKlUcb = 3, c"nonprivate-klucb", papers::baselines::klucb::KlUcb;
    /// IMED (Honda and Takemura 2015): a baseline without privacy.
    NonprivateImed = 4, c"nonprivate-imed", papers::baselines::imed::Imed;
    /// Successive elimination (Even-Dar et al. 2006): a baseline without privacy.
    NonprivateSe = 5, c"nonprivate-se", papers::baselines::se::Se;
    /// DP-UCB-BOUND (Tossou and Dimitrakakis 2016, Algorithm 1).
    UcbBound = 6, c"dp-ucb-bound", papers::continual::ucb_bound::DpUcbBound;
    /// DP-UCB (Tossou and Dimitrakakis 2016, Algorithm 2).
    Ucb = 7, c"dp-ucb", papers::continual::ucb::DpUcb;
    /// DP-UCB-INT (Tossou and Dimitrakakis 2016, Algorithm 3).
    UcbInt = 8, c"dp-ucb-int", papers::continual::ucb_int::DpUcbInt;
    /// Private-UCB (Mishra and Thakurta 2015): needs its horizon in advance.
    PrivateUcb = 9, c"private-ucb", papers::continual::private_ucb::PrivateUcb;
    /// EXP3 (Auer et al. 2003): the baseline for adversarial rewards, without privacy.
    NonprivateExp3 = 10, c"nonprivate-exp3", papers::adversarial::exp3::Exp3;
    /// DP-Lambda-Lap over any base policy (Tossou and Dimitrakakis 2017).
    Lap = 11, c"dp-lap", papers::adversarial::lap::Lap;
    /// DP-EXP3-Lap: the same over EXP3.
    Exp3Lap = 12, c"dp-exp3-lap", papers::adversarial::exp3_lap::Exp3Lap;
    /// EXP3 in intervals, private by its own randomness (Tossou and Dimitrakakis 2017).
    Exp3Tau = 13, c"exp3-tau", papers::adversarial::exp3_tau::Exp3Tau;
    /// Batched Tsallis-INF for heavy tails (Asi, Raman, Talwar 2025): adversarial rewards.
    Tsallis = 14, c"tsallis", papers::adversarial::tsallis::Tsallis;
    /// SDP-AE: arm elimination on shuffled batches (Tenenbaum et al. 2021).
    SdpAe = 15, c"sdp-ae", papers::elimination::sdp_ae::SdpAe;
    /// VB-SDP-AE: the same with batches that double.
    VbSdpAe = 16, c"vb-sdp-ae", papers::elimination::vb_sdp_ae::VbSdpAe;
    /// LDP-UCB: UCB on rewards privatised on the user's device (Ren et al. 2020).
    LdpUcb = 17, c"ldp-ucb", papers::local::ldp_ucb::LdpUcb;
    /// LDP KL-UCB: the same with the Kullback-Leibler index.
    LdpKlUcb = 18, c"ldp-klucb", papers::local::ldp_klucb::LdpKlUcb;
    /// DP-IMED with the exact Chernoff index: the recommended policy.
    Imed = 20, c"dp-imed", batched::imed::DpImed;
    /// DP-KLUCB: the optimistic index of the divergence d_eps (Azize et al. 2025).
    KlUcb = 21, c"dp-klucb", batched::klucb::DpKlUcb;
    /// DP-MED: uses the same evidence as DP-IMED, and reports propensities.
    Med = 23, c"dp-med", batched::med::DpMed;
    /// dp-linear: decides by features, and learns from private sums.
    Linear = 24, c"dp-linear", linear::Linear;
}

impl Algorithm {
    /// Checks that a configuration may replace that of a snapshot, in what this policy has planned its batches by.
    pub(crate) fn check_plan(self, config: &Config, snapshot: &Config) -> Result<()> {
        if self == Algorithm::VbSdpAe && config.horizon != snapshot.horizon {
            let rule = format!("must be {}, as in the snapshot: it plans the batches", snapshot.horizon);
            return Err(Error::config("horizon", &rule, config.horizon));
        }
        Ok(())
    }

    /// Refuses configurations that this policy does not support.
    fn check(self, config: &Config) -> Result<()> {
        if config.forget_after > 0 && !matches!(self, Algorithm::Imed | Algorithm::Med | Algorithm::Linear) {
            return Err(Error::config("forget_after", "must be 0: this policy does not forget", config.forget_after));
        }
        let explores = matches!(self, Algorithm::Imed | Algorithm::KlUcb | Algorithm::Med | Algorithm::Linear);
        if config.exploration > 0.0 && !explores {
            let rule = "must be 0: this policy has no exploration";
            return Err(Error::config("exploration", rule, config.exploration));
        }
        let devices = matches!(self, Algorithm::SdpAe | Algorithm::VbSdpAe | Algorithm::LdpUcb | Algorithm::LdpKlUcb);
        if config.expected_users > 0 && devices {
            let rule = "must be 0: the device must limit its user's contributions before it sends them";
            return Err(Error::config("expected_users", rule, config.expected_users));
        }
        if config.max_slots > 0 && !matches!(self, Algorithm::Imed | Algorithm::KlUcb | Algorithm::Linear) {
            return Err(Error::config("max_slots", "must be 0: this policy has one slot a request", config.max_slots));
        }
        if config.features > 0 && self != Algorithm::Linear {
            let rule = "must be 0: only dp-linear has features";
            return Err(Error::config("features", rule, config.features));
        }
        if config.features == 0 && self == Algorithm::Linear {
            return Err(Error::config("features", "must be at least 1 for dp-linear", 0u32));
        }
        let merges = matches!(self, Algorithm::Imed | Algorithm::KlUcb | Algorithm::Med | Algorithm::Linear);
        if config.fleet_key.is_some() && !merges {
            let name = self.name();
            return Err(Error::refused("fleet_key", format_args!("must be NULL: {name} does not learn from others")));
        }
        if config.max_segments > 0 && self != Algorithm::Imed {
            let rule = "must be 0: only dp-imed has segments";
            return Err(Error::config("max_segments", rule, config.max_segments));
        }
        Ok(())
    }

    /// The loss of one user through a handle and everything that is restored from its snapshots.
    pub(crate) fn lifetime_loss(self, config: &Config) -> Result<PrivacyLoss> {
        let Config { epsilon, delta, .. } = *config;
        Ok(match self {
            Algorithm::NonprivateUcb1
            | Algorithm::NonprivateKlUcb
            | Algorithm::NonprivateImed
            | Algorithm::NonprivateSe
            | Algorithm::NonprivateExp3 => PrivacyLoss::Unbounded,
            Algorithm::Imed | Algorithm::Med => config.loss()?,
            Algorithm::Linear => linear::lifetime_loss(config)?,
            Algorithm::UcbInt | Algorithm::Exp3Tau | Algorithm::SdpAe | Algorithm::VbSdpAe => {
                PrivacyLoss::Approximate { epsilon, delta }
            }
            Algorithm::Se
            | Algorithm::UcbBound
            | Algorithm::Ucb
            | Algorithm::PrivateUcb
            | Algorithm::Lap
            | Algorithm::Exp3Lap
            | Algorithm::Tsallis
            | Algorithm::LdpUcb
            | Algorithm::LdpKlUcb
            | Algorithm::KlUcb => PrivacyLoss::Pure(epsilon),
        })
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
