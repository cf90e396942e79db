//! What a caller configures, checked once.

use crate::budget::Budget;
use crate::error::{Error, Result, Value};
use crate::noise::{Gaussian, Laplace, Noise};
use crate::privacy::PrivacyLoss;
use crate::privacy::composition::{approximate_to_zcdp, delta_share, mul_up};
use crate::privacy::slates;
use crate::reward::{Reward, RewardRange};
use crate::snapshot::{Reader, Writer};

/// What a field belongs to, and so where it must not differ. The principle: what says how a released number is to be
/// read belongs to the releases; all else is a handle's own affair, and a restart may change it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    /// To one life of one handle.
    Life,
    /// To all handles of a fleet, as long as they merge: each may be restored with another.
    Fleet,
    /// To what was released: the same in all lives and all handles.
    Releases,
}

/// What a field is kept as, in a snapshot and in a handle: as many bytes as its type has, little-endian.
trait Packed: Copy {
    /// The next bytes of `to`.
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

/// What [`Config::reward_window`] and [`Config::forget_after`] count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// A tick is a decision.
    #[default]
    Decisions = 0,
    /// The caller says what time it is, in a unit of its own: [`Bandit::advance`](crate::Bandit::advance).
    Caller = 1,
}

impl TryFrom<u32> for Clock {
    type Error = Error;

    /// The clock with this number.
    fn try_from(number: u32) -> Result<Clock> {
        match number {
            0 => Ok(Clock::Decisions),
            1 => Ok(Clock::Caller),
            _ => Err(Error::config("clock", "must be 0 (decisions) or 1 (the caller's)", number)),
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

/// A field of a [`Config`] as its bytes are compared.
struct Field {
    name: &'static str,
    scope: Scope,
    bytes: usize,
    show: fn(&[u8]) -> Value,
}

/// All fields that a snapshot keeps, and all that is said of one: its name and type, the default, the [`Scope`], and
/// where every policy takes some values only, which, and the rule that a refusal names.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ident = $default:expr, $scope:ident $(, $rule:literal => $valid:expr)?;)*) => {
        /// The configuration of a bandit, for every policy. Fields that a policy does not use are ignored.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($(#[$doc])* pub $name: $type,)*
            /// `None` = operating system entropy; `Some` = reproducible and NOT private.
            pub test_seed: Option<[u8; 32]>,
            /// What this handle is charged to when it is made, with all that it may lose in its life; refused where there is
            /// too little left, as a baseline always is, and a handle with a `test_seed`. With `expected_users` it is charged for
            /// `budget_periods`. As the seed no part of a snapshot. `None` = nothing.
            pub budget: Option<Budget>,
        }

        impl Config {
            const DEFAULT: Config = Config {
                $($name: $default,)*
                test_seed: None,
                budget: None,
            };

            const FIELDS: &[Field] = &[$(Field {
                name: stringify!($name),
                scope: Scope::$scope,
                bytes: size_of::<$type>(),
                show: <$type as Packed>::show,
            },)*];

            /// All that a snapshot keeps: everything but the test seed and the budget.
            fn pack(&self) -> [u8; PackedConfig::BYTES] {
                let mut packed = [0; PackedConfig::BYTES];
                let rest = &mut &mut packed[..];
                $(self.$name.pack(rest);)*
                packed
            }

            /// What was [saved](PackedConfig::save), unchecked.
            pub(crate) fn load(from: &mut Reader) -> Result<Config> {
                Ok(Config { $($name: <$type as Packed>::load(from)?,)* ..Self::DEFAULT })
            }

            /// Checks each field for itself.
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
    /// K, `2 ..= 2^24`, or fewer where a policy would not be fast: its page says so.
    arms: u32 = 2, Releases,
        "must be in 2..=2^24" => |arms| (2..=Self::MAX_ARMS).contains(&arms);
    /// Privacy loss of one user, > 0. Ignored by the non-private baselines.
    epsilon: f64 = 1.0, Releases;
    /// In `[0, 1)`; 0 where the policy is pure.
    delta: f64 = 0.0, Releases,
        "must be in [0, 1)" => |delta| (0.0..1.0).contains(&delta);
    /// Failure probability in `[0, 1)`; 0 = 1/horizon.
    beta: f64 = 0.0, Life,
        "must be in [0, 1)" => |beta| (0.0..1.0).contains(&beta);
    /// T in decisions; 0 = unknown.
    horizon: u64 = 0, Life;
    /// Lower end of the declared range of rewards, at least -1e290.
    reward_min: f64 = 0.0, Releases;
    /// Upper end of the declared range of rewards, at most 1e290.
    reward_max: f64 = 1.0, Releases;
    /// Rewards are rounded to 2^-bits of the range, `0 ..= 24`; 0 = exactly min or max.
    reward_bits: u32 = 20, Releases;
    /// Clamp rewards outside the range instead of refusing them. NaN and infinities are refused all
    /// the same.
    clamp_rewards: bool = false, Life;
    /// m >= 1: how many rewards one user may be behind, or with a `max_slots` how many requests. Epsilon is divided by
    /// it before use.
    contributions_per_user: u32 = 1, Releases,
        "must be at least 1" => |m| m > 0;
    /// Decisions in flight, `1 ..= 2^24`, rounded up to a power of two, and with [`Clock::Decisions`] to the reward
    /// window. A decision that another one needs the place of expires; with the caller's clock that happens in a window
    /// too, so take the most decisions that a window ever has.
    pending_capacity: u32 = 4096, Life,
        "must be in 1..=2^24" => |most| (1..=Self::MAX_PENDING).contains(&most);
    /// 0 = every decision is answered or cancelled explicitly, at a time that does not depend on
    /// the reward. W > 0 = silence means `reward_min`, and every answer takes effect exactly W
    /// ticks of the [`clock`](Self::clock) after its decision. With decisions at most 2^24.
    reward_window: u32 = 0, Life;
    /// DP-UCB-INT: v in `(1, 1.5]`.
    interval_exponent: f64 = 1.1, Life;
    /// DP-UCB-INT: widen the index by the noise, as a rigorous bound must; false = as printed.
    rigorous_index: bool = false, Life;
    /// SDP-AE: m; DP-Lap, Tsallis: tau; DP-UCB-INT: least interval; 0 = the policy's own choice.
    batch: u32 = 0, Releases;
    /// DP-Lambda-Lap: the number of the base policy.
    base: u32 = 0, Releases;
    /// SDP-AE, VB-SDP-AE: the paper's noise instead of the exact calibration.
    shuffle_printed: bool = false, Releases;
    /// This process's name in a fleet: below 2^16 the node of its tickets itself, larger ones are mixed;
    /// 0 = random.
    node: u64 = 0, Life;
    /// M, in ticks of the [`clock`](Self::clock), `1024 ..= 2^40`: DP-IMED, DP-MED and dp-linear forget what they learned
    /// more than M ticks ago, half of it earlier. About half the time between changes. 0 = never forget.
    forget_after: u64 = 0, Fleet,
        "must be 0 or in 1024..=2^40" => |memory| memory == 0 || (Self::LEAST_MEMORY..=Self::MOST_MEMORY).contains(&memory);
    /// f in `[0, 1]`: DP-IMED, DP-KLUCB, DP-MED, Lazy-DP-TS and dp-linear play every arm with a chance of f/K at
    /// least, K the number of arms that could be played. It costs f times the mean gap a decision.
    exploration: f64 = 0.0, Life,
        "must be in [0, 1]" => |share| (0.0..=1.0).contains(&share);
    /// Which unit is protected. 0 = one answer, in slates of any size. S > 0 = one request with all its answers, at
    /// most S: DP-IMED, DP-KLUCB, Lazy-DP-TS and dp-linear. See [`crate::privacy::slates`].
    max_slots: u32 = 0, Releases,
        "must be at most 2^24" => |slate| slate <= Self::MAX_ARMS;
    /// 0 = any answers of a request count. c in `1 ..= max_slots` = at most c that are not `reward_min`, drawn evenly
    /// where there are more; it needs a `reward_window`.
    max_clicks: u32 = 0, Releases;
    /// Users expected in a period, at most 2^28: then no more than `contributions_per_user` decisions of a user in
    /// a period are learned from, every decision says whose it is
    /// ([`select_for`](crate::Bandit::select_for)), and the counters take 1.5 bytes for each user, up to 12
    /// at `contributions_per_user` = 255. 0 = the caller sees to it.
    expected_users: u64 = 0, Life,
        "must be at most 2^28" => |users| users <= Self::MOST_USERS;
    /// P, with `expected_users`: the periods that there may be, in all lives together; the [budget](Self::budget) is charged with
    /// what a person may lose who comes in all of them, when the handle is made. Then
    /// [`next_period`](crate::Bandit::next_period), and a restart, which begins a period, are `OverBudget`. Needed where
    /// there is a budget, because that is charged once. A restart may change it, and
    /// [`restore_as`](crate::Bandit::restore_as) charges its own budget for all of the new P. 0 = any number.
    budget_periods: u32 = 0, Life;
    /// 0 = a plain bandit. S > 0 = DP-IMED in each of at most S segments (placements, countries, hours), which lend each
    /// other what they know; every request names its [segment](crate::Request::segment). Epsilon is for all segments
    /// together. At most 2^27 arms in all segments. A restart may change it to any number that its segments fit into.
    max_segments: u32 = 0, Life;
    /// d, 1 ..= 256: dp-linear decides by so many features of each [request](crate::Request::features); the intercept is
    /// the library's own. 0 = no features.
    features: u32 = 0, Releases,
        "must be at most 256" => |d| d <= Self::MOST_FEATURES;
    /// A model for each arm, and one row of features a request; else one model for all, and a row for each arm.
    model_per_arm: bool = false, Releases;
    /// C, `1e-30 ..= 1e30`: the largest |x|_1 of a row x (|x|_2 with delta > 0) that counts in full. Larger rows are scaled
    /// down, and counted in [`Diagnostics`](crate::Diagnostics). It is public: from the features alone.
    feature_norm: f64 = 1.0, Releases,
        "must be in 1e-30..=1e30" => |norm| (1e-30..=1e30).contains(&norm);
    /// What `reward_window` and `forget_after` count: decisions, or the time that
    /// [`advance`](crate::Bandit::advance) is given. A restart may change it: what was learned then keeps its age as a
    /// part of `forget_after`.
    clock: Clock = Clock::Decisions, Life;
}

impl Config {
    /// The defaults: rewards in `[0, 1]` on a 2^-20 grid, 4096 decisions in flight, explicit
    /// answers, operating system entropy, horizon unknown.
    pub fn new(arms: u32, epsilon: f64) -> Config {
        Config { arms, epsilon, ..Self::DEFAULT }
    }

    /// The most arms a handle may have.
    pub const MAX_ARMS: u32 = 1 << 24;
    /// The most decisions that may be in flight.
    pub const MAX_PENDING: u32 = 1 << 24;
    /// The most features of a row.
    pub const MOST_FEATURES: u32 = 256;
    /// The shortest memory but none.
    pub const LEAST_MEMORY: u64 = 1 << 10;
    /// The longest memory but an endless one.
    pub const MOST_MEMORY: u64 = 1 << 40;
    /// The most users that may be expected in a period.
    pub const MOST_USERS: u64 = 1 << 28;

    /// May this be the configuration where that of a snapshot was before: in the next life (`Scope::Releases`), or in
    /// another handle of its fleet (`Scope::Fleet`)? What belongs to so much, or to more, must not differ.
    ///
    /// # Errors
    /// `InvalidConfig` naming the first field that differs.
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
        Ok(())
    }

    /// The bytes that a snapshot keeps of it.
    #[cfg(dpb_faults)]
    #[doc(hidden)]
    pub const PACKED: usize = PackedConfig::BYTES;

    /// The names of all fields that a snapshot keeps.
    #[cfg(dpb_faults)]
    #[doc(hidden)]
    pub fn fields() -> impl Iterator<Item = &'static str> {
        Self::FIELDS.iter().map(|field| field.name)
    }

    /// Checks what holds for every policy; epsilon and delta are checked by those that use them. What cannot be combined
    /// is refused here, before anything is made or charged.
    pub(crate) fn check(&self) -> Result<RewardRange> {
        self.check_each()?;
        self.check_slate()?;
        if self.clock == Clock::Decisions && self.reward_window > Self::MAX_PENDING {
            let rule = "must be at most 2^24, or the clock the caller's";
            return Err(Error::config("reward_window", rule, self.reward_window));
        }
        if self.expected_users == 0 && self.budget_periods > 0 {
            return Err(Error::config("budget_periods", "must be 0 without expected_users", self.budget_periods));
        }
        if self.expected_users > 0 && self.budget.is_some() && self.budget_periods == 0 {
            let rule = "must be at least 1 with expected_users and a budget, which is charged for so many periods";
            return Err(Error::config("budget_periods", rule, self.budget_periods));
        }
        RewardRange::new(self.reward_min, self.reward_max, self.reward_bits, self.clamp_rewards)
    }

    fn check_slate(&self) -> Result<()> {
        let (slate, clicks) = (self.max_slots, self.max_clicks);
        if clicks > slate {
            return Err(Error::config("max_clicks", "must be at most max_slots", clicks));
        }
        if clicks > 0 && self.reward_window == 0 {
            let rule = "must be 0 without a reward_window: all of a request's answers are needed to draw from";
            return Err(Error::config("max_clicks", rule, clicks));
        }
        Ok(())
    }

    /// The batches that one protected answer, or request, may change.
    pub(crate) fn batches_changed(&self) -> u32 {
        slates::batches_changed(self.max_slots, self.max_clicks)
    }

    /// Does its policy keep what other handles have released by itself?
    pub(crate) fn keeps_peers(&self) -> bool {
        self.max_segments > 0 || self.features > 0
    }

    /// Checks a policy's own limit of arms: beyond it, its calls would not be fast.
    pub(crate) fn check_arms(&self, most: u32) -> Result<()> {
        if self.arms > most {
            return Err(Error::config("arms", &format!("must be at most {most} for this policy"), self.arms));
        }
        Ok(())
    }

    /// ceil(1/eps), eps the loss that one reward may cause: from the caller's epsilon, because the
    /// effective one, rounded down, would make 1/0.1 11.
    pub(crate) fn ceil_inverse_epsilon(&self) -> u64 {
        (f64::from(self.contributions_per_user) * f64::from(self.batches_changed()) / self.epsilon).ceil() as u64
    }

    /// ln(1/beta), for confidence: beta, or one over the horizon, or 5%. A logarithm, because c/beta
    /// overflows for a legal beta.
    pub(crate) fn ln_inverse_beta(&self) -> f64 {
        match (self.beta, self.horizon) {
            (0.0, 0 | 1) => 20f64.ln(),
            (0.0, horizon) => (horizon as f64).ln(),
            (beta, _) => -beta.ln(),
        }
    }

    /// The privacy loss that one reward may cause: epsilon / contributions_per_user, and that divided by the batches
    /// that one contribution may change, checked.
    pub(crate) fn epsilon_per_reward(&self) -> Result<f64> {
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(Error::config("epsilon", "must be finite and > 0", self.epsilon));
        }
        Ok(slates::share(slates::share(self.epsilon, self.contributions_per_user), self.batches_changed()))
    }

    /// The delta that one reward may cost beside [`epsilon_per_reward`](Self::epsilon_per_reward),
    /// checked: at least delta/(contributions_per_user e^epsilon).
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

    /// Noise for the one release of each reward, for policies that leave the choice to their
    /// caller: Laplace (pure) where delta is 0, Gaussian (zCDP) otherwise.
    pub(crate) fn noise(&self) -> Result<Noise> {
        if self.delta == 0.0 {
            return Ok(Noise::Laplace(self.laplace(self.epsilon_per_reward()?)?));
        }
        self.epsilon_per_reward()?;
        let rho = approximate_to_zcdp(self.epsilon, self.delta, self.contributions_per_user);
        let rho = slates::share(rho, self.batches_changed());
        // rho is epsilon's and delta's doing: name what the caller can change.
        let distribution = Gaussian::new(rho, Reward::ONE as u64);
        Ok(Noise::Gaussian(
            distribution.map_err(|_| Error::config("epsilon", "and delta give noise out of range", self.epsilon))?,
        ))
    }

    /// Charges the budget, if there is one, with what a handle may cost one user in all its lives: the last thing before
    /// the handle is there, whichever way it is made. `begun`: periods of users, where they were counted in
    /// earlier lives only.
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

    /// What one user loses, of all rewards, by one release of each with [`noise`](Self::noise).
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

/// A configuration as a handle keeps it: what a snapshot keeps, in no more bytes. Seed and budget stay with the caller.
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
    /// `Corrupt` if it were.
    pub fn config(&self) -> Result<Config> {
        Config::load(&mut Reader::of_fields(&self.0))
    }
}
