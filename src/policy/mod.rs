//! One file per algorithm, all of one shape, and the list of them.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use crate::shuffle::Params;
use std::ffi::CStr;

mod adversarial;
mod baselines;
mod batched;
mod continual;
mod elimination;
mod kl;
mod local;
mod scores;

pub use kl::private_divergence;

/// What a policy chose: which arm, in which phase, with which probability given all releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pull {
    /// The arm, 0-based.
    pub arm: u32,
    /// The policy's own count of epochs, phases or intervals.
    pub phase: u32,
    /// The arm's probability given everything released so far; NaN where it would tell raw rewards.
    pub propensity: f64,
}

impl Pull {
    pub(crate) const NONE: Pull = Pull { arm: 0, phase: 0, propensity: 0.0 };
}

/// What may be read of one arm: released values only, in the unit interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArmState {
    /// The released mean, NaN before the first release.
    pub mean: f64,
    /// Half-width of its confidence interval at 1 - beta, NaN before the first release.
    pub width: f64,
    /// Rewards behind the mean, 0 before the first release; each with its power where there is a memory.
    pub effective_pulls: f64,
    /// False once the arm is out of the race.
    pub active: bool,
}

impl ArmState {
    /// Nothing was released of it, or nothing ever is.
    pub(crate) fn unknown(active: bool) -> ArmState {
        ArmState { mean: f64::NAN, width: f64::NAN, effective_pulls: 0.0, active }
    }
}

/// A bandit algorithm as a state machine over releases.
///
/// The engine promises: every reward is in range, on the grid, belongs to an earlier `choose` of
/// this policy and comes at most once; a pull ends in `observe` or in `cancel`, never in both. The
/// policy promises: `choose` and everything readable depend on released state, coins and the
/// public order of events only.
pub trait Policy: Send {
    /// The next arm to play.
    fn choose(&mut self) -> Pull;

    /// The reward of an earlier pull.
    fn observe(&mut self, pull: Pull, reward: Reward);

    /// An earlier pull that will never be answered counts as not played.
    fn cancel(&mut self, pull: Pull);

    /// What may be read of an arm.
    fn arm(&self, arm: u32) -> ArmState;

    /// The current epoch, phase or interval.
    fn phase(&self) -> u32;

    /// Arms still in the race.
    fn active(&self) -> u32;

    /// Requests that may show some arms only, arms that come and go: if this policy can.
    fn flexible(&mut self) -> Option<&mut dyn Flexible> {
        None
    }

    /// How often a release contradicted its arm's past, so that the policy forgot it.
    fn changes(&self) -> u64 {
        0
    }

    /// The decided best arm, if the policy decides one.
    fn best_arm(&self) -> Option<u32> {
        None
    }

    /// The loss of one reward through the releases made so far.
    fn privacy(&self) -> PrivacyLoss;

    /// Are rewards bits that were privatised before they came, so that nothing else is taken?
    fn takes_bits(&self) -> bool {
        false
    }

    /// The policy as one that takes shuffled batches, if it does.
    fn shuffled(&mut self) -> Option<&mut dyn ShuffledPolicy> {
        None
    }
}

/// A policy of the shuffle model: rewards come a batch at a time, as bits in random order.
pub trait ShuffledPolicy {
    /// What the users of a phase's batches send.
    fn params(&self, phase: u32) -> Params;

    /// The batch of one arm in the open phase. Refused, nothing has changed.
    fn submit(&mut self, phase: u32, arm: u32, bits: &[u8]) -> Result<()>;
}

/// A policy whose set of arms may change, from one decision to the next or for good. The sets are
/// public information, so they cost no privacy.
pub trait Flexible {
    /// The next arm to play, among these: one at least, and all of them live.
    fn choose_among(&mut self, arms: &[u32]) -> Pull;

    /// Is this arm in the race?
    fn is_live(&self, arm: u32) -> bool;

    /// One arm more, with the next number. May allocate.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn add_arm(&mut self) -> Result<()>;

    /// This arm, live and not the last one, is not played again; answers to its open decisions
    /// still come.
    fn retire_arm(&mut self, arm: u32);
}

/// The list: number (stable, in reports and `Config::base`), name, type.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $label:literal, $policy:path;)*) => {
        /// The algorithms, by the number that reports carry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($(#[$doc])* $name = $number,)*
        }

        impl Algorithm {
            /// All of them.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$name,)*];

            /// The name that reports print.
            pub fn name(self) -> &'static str {
                self.c_name().to_str().unwrap_or_default()
            }

            /// The same, for C.
            pub(crate) fn c_name(self) -> &'static CStr {
                match self {
                    $(Algorithm::$name => $label,)*
                }
            }

            /// A fresh policy for a checked configuration.
            pub(crate) fn build(self, config: &Config, seed: &mut Seed) -> Result<Box<dyn Policy>> {
                self.check(config)?;
                Ok(match self {
                    $(Algorithm::$name => Box::new(<$policy>::new(config, seed)?),)*
                })
            }
        }
    };
}

algorithms! {
    /// DP-SE: differentially private successive elimination (Sajed and Sheffet 2019).
    Se = 1, c"dp-se", elimination::se::DpSe;
    /// UCB1 (Auer et al. 2002): a baseline without privacy.
    NonprivateUcb1 = 2, c"nonprivate-ucb1", baselines::ucb1::Ucb1;
    /// KL-UCB (Garivier and Cappe 2011): a baseline without privacy.
    NonprivateKlUcb = 3, c"nonprivate-klucb", baselines::klucb::KlUcb;
    /// IMED (Honda and Takemura 2015): a baseline without privacy.
    NonprivateImed = 4, c"nonprivate-imed", baselines::imed::Imed;
    /// Successive elimination (Even-Dar et al. 2006): a baseline without privacy.
    NonprivateSe = 5, c"nonprivate-se", baselines::se::Se;
    /// DP-UCB-BOUND (Tossou and Dimitrakakis 2016, Algorithm 1).
    UcbBound = 6, c"dp-ucb-bound", continual::ucb_bound::DpUcbBound;
    /// DP-UCB (Tossou and Dimitrakakis 2016, Algorithm 2).
    Ucb = 7, c"dp-ucb", continual::ucb::DpUcb;
    /// DP-UCB-INT (Tossou and Dimitrakakis 2016, Algorithm 3).
    UcbInt = 8, c"dp-ucb-int", continual::ucb_int::DpUcbInt;
    /// Private-UCB (Mishra and Thakurta 2015): knows its horizon.
    PrivateUcb = 9, c"private-ucb", continual::private_ucb::PrivateUcb;
    /// EXP3 (Auer et al. 2003): the baseline for adversarial rewards, without privacy.
    NonprivateExp3 = 10, c"nonprivate-exp3", adversarial::exp3::Exp3;
    /// DP-Lambda-Lap over any base policy (Tossou and Dimitrakakis 2017).
    Lap = 11, c"dp-lap", adversarial::lap::Lap;
    /// DP-EXP3-Lap: the same over EXP3.
    Exp3Lap = 12, c"dp-exp3-lap", adversarial::exp3_lap::Exp3Lap;
    /// EXP3 in intervals, private by its own randomness (Tossou and Dimitrakakis 2017).
    Exp3Tau = 13, c"exp3-tau", adversarial::exp3_tau::Exp3Tau;
    /// Batched Tsallis-INF for heavy tails (Asi, Raman, Talwar 2025): adversarial rewards.
    Tsallis = 14, c"tsallis", adversarial::tsallis::Tsallis;
    /// SDP-AE: arm elimination on shuffled batches (Tenenbaum et al. 2021).
    SdpAe = 15, c"sdp-ae", elimination::sdp_ae::SdpAe;
    /// VB-SDP-AE: the same with batches that double.
    VbSdpAe = 16, c"vb-sdp-ae", elimination::vb_sdp_ae::VbSdpAe;
    /// LDP-UCB: UCB on rewards privatised on the user's device (Ren et al. 2020).
    LdpUcb = 17, c"ldp-ucb", local::ldp_ucb::LdpUcb;
    /// LDP KL-UCB: the same with the Kullback-Leibler index.
    LdpKlUcb = 18, c"ldp-klucb", local::ldp_klucb::LdpKlUcb;
    /// DP-IMED with the exact Chernoff index: the policy we recommend.
    Imed = 20, c"dp-imed", batched::imed::DpImed;
    /// DP-KLUCB: the optimistic index of d_eps (Azize et al. 2025).
    KlUcb = 21, c"dp-klucb", batched::klucb::DpKlUcb;
    /// Lazy-DP-TS: Thompson sampling (Hu and Hegde 2022). DP-MED dominates it.
    Ts = 22, c"dp-ts", batched::ts::LazyTs;
    /// DP-MED: the same evidence as DP-IMED's, with propensities.
    Med = 23, c"dp-med", batched::med::DpMed;
}

impl Algorithm {
    /// Refuses what this policy cannot do.
    fn check(self, config: &Config) -> Result<()> {
        if config.memory > 0 && !matches!(self, Algorithm::Imed | Algorithm::Med) {
            return Err(Error::config("memory", "must be 0: this policy does not forget", config.memory));
        }
        let explores = matches!(self, Algorithm::Imed | Algorithm::KlUcb | Algorithm::Med | Algorithm::Ts);
        if config.min_propensity > 0.0 && !explores {
            let rule = "must be 0: this policy does not explore so";
            return Err(Error::config("min_propensity", rule, config.min_propensity));
        }
        Ok(())
    }

    /// What `dpb_new` gives: the policy we recommend.
    pub const RECOMMENDED: Algorithm = Algorithm::Imed;

    /// The algorithm with this number.
    ///
    /// # Errors
    /// `InvalidConfig` for `base` when there is none.
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

    /// The algorithm of this name: `"dp-imed".parse()`. `InvalidConfig` for `name` when there is none.
    fn from_str(name: &str) -> Result<Algorithm> {
        let shown: String = name.chars().take(64).collect(); // a message is no place for a file
        let none = || Error::config("name", "must be that of a policy", format_args!("{shown:?}"));
        Self::ALL.iter().copied().find(|a| a.name() == name).ok_or_else(none)
    }
}
