//! The configuration of a bandit, and the checks that hold for every policy.

use crate::budget::Budget;
use crate::contribution::FleetKey;
use crate::error::{Error, Result, Value};
use crate::noise::{Gaussian, Laplace, Noise};
use crate::privacy::PrivacyLoss;
use crate::privacy::composition::{approximate_to_zcdp, delta_share, mul_up};
use crate::privacy::slates;
use crate::reward::{Reward, RewardRange};
use crate::snapshot::{Reader, Writer};

/// The objects in which a field must have the same value. The principle: a field that says how to read a released
/// number belongs to the releases. All other fields concern one handle, and a restart may change them.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    /// One handle until its next restart.
    Handle,
    /// All handles of a fleet while they merge. A restart may change the field in each of them.
    Fleet,
    /// The releases: all handles and all their restarts.
    Releases,
}

/// The packed form of a field, in a snapshot and in a handle: as many bytes as its type has, little-endian.
trait Packed: Copy {
    /// Writes the first bytes of `to`, and moves `to` behind them.
    fn pack(self, to: &mut &mut [u8]);
    fn load(from: &mut Reader) -> Result<Self>;
    fn show(bytes: &[u8]) -> Value;
}

macro_rules! packed {
    ($($type:ident as $number:ident,)*) => {$(
        impl Packed for $type {
            fn pack(self, to: &mut &mut [u8]) {
                let (here, rest) = std::mem::take(to).split_at_mut(size_of::<$type>());
                here.copy_from_slice(&$number::from(self).to_le_bytes());
                *to = rest;
            }

            fn load(from: &mut Reader) -> Result<$type> {
                from.$type()
            }

            fn show(bytes: &[u8]) -> Value {
                Self::load(&mut Reader::of_fields(bytes)).map_or(Value::Number(0), Value::from)
            }
        }
    )*};
}

packed!(u32 as u32, u64 as u64, f64 as f64, bool as u8,);

/// The unit of [`Config::reward_window`] and [`Config::forget_after`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// A tick is a decision.
    #[default]
    Decisions = 0,
    /// A tick is the caller's unit of time. The caller sets the time with [`Bandit::advance`](crate::Bandit::advance).
    Caller = 1,
}

impl TryFrom<u32> for Clock {
    type Error = Error;

    /// The clock with this number.
    fn try_from(number: u32) -> Result<Clock> {
        match number {
            0 => Ok(Clock::Decisions),
            1 => Ok(Clock::Caller),
            _ => Err(Error::config("clock", "must be 0 (decisions) or 1 (caller)", number)),
        }
    }
}

impl Packed for Clock {
    fn pack(self, to: &mut &mut [u8]) {
        (self as u32).pack(to);
    }

    fn load(from: &mut Reader) -> Result<Clock> {
        Clock::try_from(from.u32()?).map_err(|_| Error::Corrupt)
    }

    fn show(bytes: &[u8]) -> Value {
        u32::show(bytes)
    }
}

/// The description of a field of [`Config`], for comparing packed configurations.
struct Field {
    name: &'static str,
    scope: Scope,
    bytes: usize,
    show: fn(&[u8]) -> Value,
}

/// Declares all fields that a snapshot keeps. Each has a name, a type, a default, and a [`Scope`]. If a field has a
/// valid range that is the same for every policy, a rule (the text of the error) and a check follow.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ident = $default:expr, $scope:ident $(, $rule:literal => $valid:expr)?;)*) => {
        /// The configuration of a bandit, for every policy. Fields that a policy does not use are ignored.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($(#[$doc])* pub $name: $type,)*
            /// `None`: entropy from the operating system. `Some`: reproducible and NOT private.
            pub test_seed: Option<[u8; 32]>,
            /// The key of the fleet: handles with the same key can contribute their open sums to one of them, which
            /// releases them with one noise. For DP-IMED, DP-KLUCB, DP-MED and dp-linear. Like the seed, it is not in
            /// snapshots. `None` = none. See [`crate::contribution`].
            pub fleet_key: Option<FleetKey>,
            /// The budget that the handle is charged to when it is created, with everything that it may lose in all
            /// its generations (through all restarts). The handle is refused if too little remains; a baseline and a
            /// handle with a `test_seed` are always refused. With `expected_users` the charge is for `budget_periods`
            /// periods. Like the seed, it is not in snapshots. `None` = no budget.
            pub budget: Option<Budget>,
        }

        impl Config {
            const DEFAULT: Config = Config {
                $($name: $default,)*
                test_seed: None,
                fleet_key: None,
                budget: None,
            };

            const FIELDS: &[Field] = &[$(Field {
                name: stringify!($name),
                scope: Scope::$scope,
                bytes: size_of::<$type>(),
                show: <$type as Packed>::show,
            },)*];

            /// Packs all fields that a snapshot keeps: everything but the test seed and the budget.
            fn pack(&self) -> [u8; PackedConfig::BYTES] {
                let mut packed = [0; PackedConfig::BYTES];
                let rest = &mut &mut packed[..];
                $(self.$name.pack(rest);)*
                packed
            }

            /// Reads a [saved](PackedConfig::save) configuration, unchecked.
            pub(crate) fn load(from: &mut Reader) -> Result<Config> {
                Ok(Config { $($name: <$type as Packed>::load(from)?,)* ..Self::DEFAULT })
            }

            /// Checks the range of each field.
            fn check_each(&self) -> Result<()> {
                $($(
                    let valid: fn($type) -> bool = $valid;
                    if !valid(self.$name) {
                        return Err(Error::config(stringify!($name), $rule, self.$name));
                    }
                )?)*
                Ok(())
            }
        }
    };
}

fields! {
    /// K, the number of arms: `2 ..= 2^24`. Some policies have a smaller limit; their pages say which.
    arms: u32 = 2, Releases,
        "must be in 2 .. 2^24" => |arms| (2..=Self::MAX_ARMS).contains(&arms);
    /// Privacy loss of one user, > 0: the loss of `contributions_per_user` rewards. Ignored by the non-private
    /// baselines.
    epsilon: f64 = 1.0, Releases;
    /// The delta of (epsilon, delta)-DP, in `[0, 1)`. 0 = pure DP.
    delta: f64 = 0.0, Releases,
        "must be in [0, 1)" => |delta| (0.0..1.0).contains(&delta);
    /// Failure probability of the policy's confidence bounds, in `[0, 1)`; 0 = 1/horizon.
    beta: f64 = 0.0, Handle,
        "must be in [0, 1)" => |beta| (0.0..1.0).contains(&beta);
    /// T, the number of decisions that are expected; 0 = unknown.
    horizon: u64 = 0, Handle;
    /// Lower end of the declared range of rewards, at least -1e290.
    reward_min: f64 = 0.0, Releases;
    /// Upper end of the declared range of rewards, at most 1e290.
    reward_max: f64 = 1.0, Releases;
    /// Rewards are rounded to 2^-bits of the range, `0 ..= 24`; 0 = exactly min or max.
    reward_bits: u32 = 20, Releases;
    /// Whether rewards outside the range are clamped instead of refused. NaN and infinities are always refused.
    clamp_rewards: bool = false, Handle;
    /// m, the maximum number of rewards that one user may contribute (with `max_slots`: of requests), at least 1.
    /// Epsilon is divided by it before use.
    contributions_per_user: u32 = 1, Releases,
        "must be at least 1" => |m| m > 0;
    /// Maximum number of pending decisions, `1 ..= 2^24`. It is rounded up to a power of two, and with
    /// [`Clock::Decisions`] to at least the reward window. When the table is full, a new decision evicts an old one,
    /// which expires. With the caller's clock that can happen within a window, so set the largest number of decisions
    /// that a window ever has.
    pending_capacity: u32 = 4096, Handle,
        "must be in 1 .. 2^24" => |most| (1..=Self::MAX_PENDING).contains(&most);
    /// W, the ticks of the [`clock`](Self::clock) for which the library waits for a reward; at most 2^24 if ticks are
    /// decisions. W > 0: every reward takes effect exactly W ticks after its decision, and a decision without a
    /// reward counts as `reward_min`. 0 = the caller reports a reward for every decision or cancels it, at a time
    /// that does not depend on the reward.
    reward_window: u32 = 0, Handle;
    /// DP-UCB-INT: v, in `(1, 1.5]`.
    interval_exponent: f64 = 1.1, Handle;
    /// DP-UCB-INT: whether the index includes the width of the noise, as a rigorous bound requires. false = as
    /// printed in the paper.
    rigorous_index: bool = false, Handle;
    /// SDP-AE: m. DP-Lap and Tsallis: tau. DP-UCB-INT: smallest interval. 0 = the policy's default.
    batch: u32 = 0, Releases;
    /// DP-Lambda-Lap: the number of the base policy.
    base: u32 = 0, Releases;
    /// SDP-AE and VB-SDP-AE: whether the noise is the paper's instead of the exactly calibrated one.
    shuffle_printed: bool = false, Releases;
    /// The name of this process in a fleet. A name below 2^16 is the node number in its tickets; a larger one is
    /// hashed to a node number. 0 = random.
    node: u64 = 0, Handle;
    /// M, in ticks of the [`clock`](Self::clock), `1024 ..= 2^40`: DP-IMED, DP-MED and dp-linear forget what they
    /// learned more than M ticks ago, and half of it earlier. Set about half the time between changes. 0 = never
    /// forget.
    forget_after: u64 = 0, Fleet,
        "must be 0 or in 1024 .. 2^40" => |memory| memory == 0 || (Self::LEAST_MEMORY..=Self::MOST_MEMORY).contains(&memory);
    /// f in `[0, 1]`: DP-IMED, DP-KLUCB, DP-MED and dp-linear choose each arm with probability at least
    /// f/K, where K is the number of eligible arms. It costs f times the mean gap for each decision.
    exploration: f64 = 0.0, Handle,
        "must be in [0, 1]" => |share| (0.0..=1.0).contains(&share);
    /// The unit of privacy. 0 = one reward: a request of n slots may lose n times as much. S > 0 = one request with
    /// all its rewards, at most S slots: DP-IMED, DP-KLUCB and dp-linear. See [`crate::privacy::slates`].
    max_slots: u32 = 0, Releases,
        "must be at most 2^24" => |slots| slots <= Self::MAX_ARMS;
    /// c, the maximum number of rewards of a request other than `reward_min` that count, in `1 ..= max_slots`. If
    /// there are more, c of them are drawn uniformly. It needs a `reward_window`. 0 = all rewards of a request count.
    max_clicks: u32 = 0, Releases;
    /// Number of users expected in a period, at most 2^28. Then every decision names its user
    /// ([`select_for`](crate::Bandit::select_for)), and the library learns from at most `contributions_per_user`
    /// decisions of a user in a period. The counters take 1.5 bytes for each user at `contributions_per_user` = 1, up
    /// to 12 at 255. 0 = the library counts no users, and the caller must limit what each one contributes.
    expected_users: u64 = 0, Handle,
        "must be at most 2^28" => |users| users <= Self::MOST_USERS;
    /// P, with `expected_users`: the maximum number of periods, over all restarts. When the handle is created, the
    /// [budget](Self::budget) is charged with what a person may lose who comes in all of them. After P periods,
    /// [`next_period`](crate::Bandit::next_period) and a restore, which begins a period, return `OverBudget`. It is
    /// required with a budget, because the budget is charged only once. A restart may change it:
    /// [`restore_as`](crate::Bandit::restore_as) charges its own budget for all of the new P. 0 = unlimited.
    budget_periods: u32 = 0, Handle;
    /// S, the maximum number of segments (placements, countries, hours). S > 0 = DP-IMED in each segment, where
    /// segments learn from each other; every request names its [segment](crate::Request::segment). Epsilon is for all
    /// segments together. All segments together have at most 2^27 arms. A restart may change it to any number that
    /// its segments fit into. 0 = no segments.
    max_segments: u32 = 0, Handle;
    /// d, the number of features of each [request](crate::Request::features) that dp-linear decides by, 1 ..= 256.
    /// The library adds the intercept. 0 = no features.
    features: u32 = 0, Releases,
        "must be at most 256" => |d| d <= Self::MOST_FEATURES;
    /// dp-linear: true = a model for each arm, and one row of features for each request. false = one model for all
    /// arms, and a row for each arm.
    model_per_arm: bool = false, Releases;
    /// C, `1e-30 ..= 1e30`: the largest |x|_1 of a row x (|x|_2 with delta > 0) that is used unscaled. Larger rows
    /// are scaled down to it, and counted in [`Diagnostics`](crate::Diagnostics). That count is public, because it
    /// depends on features alone.
    feature_norm: f64 = 1.0, Releases,
        "must be in 1e-30 .. 1e30" => |norm| (1e-30..=1e30).contains(&norm);
    /// The unit of `reward_window` and `forget_after`: decisions, or the time passed to
    /// [`advance`](crate::Bandit::advance). A restart may change it. Then what was learned before keeps its age as a
    /// fraction of `forget_after`.
    clock: Clock = Clock::Decisions, Handle;
}

impl Config {
    /// The defaults: rewards in `[0, 1]` on a 2^-20 grid, at most 4096 pending decisions, no reward window, entropy
    /// of the operating system, horizon unknown.
    pub fn new(arms: u32, epsilon: f64) -> Config {
        Config { arms, epsilon, ..Self::DEFAULT }
    }

    /// Maximum number of arms of a handle.
    pub const MAX_ARMS: u32 = 1 << 24;
    /// Maximum of `pending_capacity`.
    pub const MAX_PENDING: u32 = 1 << 24;
    /// Maximum number of features of a row.
    pub const MOST_FEATURES: u32 = 256;
    /// Minimum of `forget_after`, except for 0.
    pub const LEAST_MEMORY: u64 = 1 << 10;
    /// Maximum of `forget_after`.
    pub const MOST_MEMORY: u64 = 1 << 40;
    /// Maximum of `expected_users`.
    pub const MOST_USERS: u64 = 1 << 28;

    /// Checks that this configuration may replace that of a snapshot, after a restart (`Scope::Releases`), or may
    /// merge with it in a fleet (`Scope::Fleet`): fields of this scope or a wider one must not differ, nor may one of
    /// the two have segments alone.
    ///
    /// # Errors
    /// `InvalidConfig` that names the first field that differs.
    pub(crate) fn check_same(&self, scope: Scope, snapshot: &Config) -> Result<()> {
        let (ours, theirs) = (self.pack(), snapshot.pack());
        let mut at = 0;
        for field in Self::FIELDS {
            let (ours, theirs) = (&ours[at..][..field.bytes], &theirs[at..][..field.bytes]);
            if field.scope >= scope && ours != theirs {
                let rule = format!("must be {}, as in the snapshot", (field.show)(theirs));
                return Err(Error::config(field.name, &rule, (field.show)(ours)));
            }
            at += field.bytes;
        }
        let rule = match (self.max_segments, snapshot.max_segments) {
            (0, 1..) => "must be at least 1: the snapshot has segments",
            (1.., 0) => "must be 0: the snapshot has no segments",
            _ => return Ok(()),
        };
        Err(Error::config("max_segments", rule, self.max_segments))
    }

    /// Length of a packed configuration.
    #[cfg(dpb_faults)]
    #[doc(hidden)]
    pub const PACKED: usize = PackedConfig::BYTES;

    /// The names of all fields that a snapshot keeps.
    #[cfg(dpb_faults)]
    #[doc(hidden)]
    pub fn fields() -> impl Iterator<Item = &'static str> {
        Self::FIELDS.iter().map(|field| field.name)
    }

    /// Checks what holds for every policy. Epsilon and delta are checked by the policies that use them. Combinations
    /// that are impossible are refused here, before anything is allocated or charged.
    pub(crate) fn check(&self) -> Result<RewardRange> {
        self.check_each()?;
        self.check_slots()?;
        if self.clock == Clock::Decisions && self.reward_window > Self::MAX_PENDING {
            let rule = "must be at most 2^24 where clock counts decisions";
            return Err(Error::config("reward_window", rule, self.reward_window));
        }
        if self.expected_users == 0 && self.budget_periods > 0 {
            return Err(Error::config("budget_periods", "must be 0 without expected_users", self.budget_periods));
        }
        if self.expected_users > 0 && self.budget.is_some() && self.budget_periods == 0 {
            let rule = "must be at least 1 with expected_users and a budget, which is charged for this many periods";
            return Err(Error::config("budget_periods", rule, self.budget_periods));
        }
        RewardRange::new(self.reward_min, self.reward_max, self.reward_bits, self.clamp_rewards)
    }

    fn check_slots(&self) -> Result<()> {
        let (slots, clicks) = (self.max_slots, self.max_clicks);
        if clicks > slots {
            return Err(Error::config("max_clicks", "must be at most max_slots", clicks));
        }
        if clicks > 0 && self.reward_window == 0 {
            let rule = "must be 0 without a reward_window, because the draw needs all rewards of a request";
            return Err(Error::config("max_clicks", rule, clicks));
        }
        Ok(())
    }

    /// Maximum number of batches that one protected reward, or request, may change.
    pub(crate) fn batches_changed(&self) -> u32 {
        slates::batches_changed(self.max_slots, self.max_clicks)
    }

    /// Checks a policy's own limit of arms. With more arms its calls would not be fast.
    pub(crate) fn check_arms(&self, most: u32) -> Result<()> {
        if self.arms > most {
            return Err(Error::config("arms", &format!("must be at most {most} for this policy"), self.arms));
        }
        Ok(())
    }

    /// ceil(1/eps), where eps is the loss that one reward may cause. It is computed from the caller's epsilon,
    /// because the effective one is rounded down, and 1/0.1 would give 11.
    pub(crate) fn ceil_inverse_epsilon(&self) -> u64 {
        (f64::from(self.contributions_per_user) * f64::from(self.batches_changed()) / self.epsilon).ceil() as u64
    }

    /// ln(1/beta) for confidence bounds: from beta, or 1/horizon, or 5%. It is a logarithm because c/beta overflows
    /// for some valid beta.
    pub(crate) fn ln_inverse_beta(&self) -> f64 {
        match (self.beta, self.horizon) {
            (0.0, 0 | 1) => 20f64.ln(),
            (0.0, horizon) => (horizon as f64).ln(),
            (beta, _) => -beta.ln(),
        }
    }

    /// The privacy loss that one reward may cause, checked: epsilon / contributions_per_user, divided by the number
    /// of batches that one contribution may change.
    pub(crate) fn epsilon_per_reward(&self) -> Result<f64> {
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(Error::config("epsilon", "must be finite and > 0", self.epsilon));
        }
        Ok(slates::share(slates::share(self.epsilon, self.contributions_per_user), self.batches_changed()))
    }

    /// The delta that one reward may cost in addition to [`epsilon_per_reward`](Self::epsilon_per_reward), checked:
    /// at least delta/(contributions_per_user e^epsilon).
    pub(crate) fn delta_per_reward(&self) -> Result<f64> {
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(Error::config("delta", "must be in (0, 1)", self.delta));
        }
        self.epsilon_per_reward()?;
        Ok(delta_share(self.epsilon, self.delta, self.contributions_per_user))
    }

    /// Laplace noise for one release of a sum of rewards at the given loss (a share of
    /// [`epsilon_per_reward`](Self::epsilon_per_reward)).
    pub(crate) fn laplace(&self, epsilon: f64) -> Result<Laplace> {
        Laplace::new(epsilon, Reward::ONE as u64)
    }

    /// Noise for the one release of each reward, for policies with a choice: Laplace (pure DP) if delta is 0, else
    /// Gaussian (zCDP).
    pub(crate) fn noise(&self) -> Result<Noise> {
        if self.delta == 0.0 {
            return Ok(Noise::Laplace(self.laplace(self.epsilon_per_reward()?)?));
        }
        self.epsilon_per_reward()?;
        let rho = approximate_to_zcdp(self.epsilon, self.delta, self.contributions_per_user);
        let rho = slates::share(rho, self.batches_changed());
        Ok(Noise::Gaussian(self.gaussian(rho, Reward::ONE as u64)?))
    }

    /// Gaussian noise for this rho, which is computed from epsilon and delta: so the error names those.
    pub(crate) fn gaussian(&self, rho: f64, sensitivity: u64) -> Result<Gaussian> {
        let refused = |_| Error::config("epsilon", "and delta give noise out of range", self.epsilon);
        Gaussian::new(rho, sensitivity).map_err(refused)
    }

    /// Charges the budget, if there is one, with what a handle may cost one user over all restarts. This is the last
    /// step of creating or restoring a handle. `begun`: periods of users that earlier generations counted; used only
    /// where this one counts none.
    pub(crate) fn charge(
        &self,
        seeded: bool,
        begun: u32,
        loss: impl FnOnce(&Config) -> Result<PrivacyLoss>,
    ) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let periods = if self.expected_users > 0 { self.budget_periods } else { begun };
        budget.charge(if seeded { PrivacyLoss::Unbounded } else { loss(self)?.of_periods(periods.into()) })
    }

    /// What one user loses, with all rewards, if each is released once with [`noise`](Self::noise).
    pub(crate) fn loss(&self) -> Result<PrivacyLoss> {
        let m = f64::from(self.contributions_per_user);
        Ok(match self.noise()? {
            Noise::Laplace(_) => PrivacyLoss::Pure(self.epsilon),
            Noise::Gaussian(distribution) => {
                PrivacyLoss::Zcdp(mul_up(mul_up(distribution.rho(), m), m)).of_batches(self.batches_changed())
            }
        })
    }
}

/// A configuration as a handle keeps it: packed as in a snapshot. Seed, fleet key and budget are not in it.
pub(crate) struct PackedConfig([u8; PackedConfig::BYTES]);

impl PackedConfig {
    const BYTES: usize = {
        let (mut bytes, mut at) = (0, 0);
        while at < Config::FIELDS.len() {
            bytes += Config::FIELDS[at].bytes;
            at += 1;
        }
        bytes
    };

    pub fn of(config: &Config) -> PackedConfig {
        PackedConfig(config.pack())
    }

    pub fn save(&self, to: &mut Writer) {
        to.put(self.0);
    }

    /// # Errors
    /// `Corrupt`, which cannot happen for a configuration that was packed.
    pub fn config(&self) -> Result<Config> {
        Config::load(&mut Reader::of_fields(&self.0))
    }
}
