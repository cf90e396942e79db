//! The configuration of a bandit, and the checks that hold for every policy.

use crate::budget::Budget;
use crate::codebook::Codebook;
use crate::contribution::FleetKey;
use crate::error::{Error, Result, Value, check_positive, check_share};
use crate::noise::{Gaussian, Laplace, Noise};
use crate::parts::{self, PartScales, PartWeights};
use crate::privacy::PrivacyLoss;
use crate::privacy::composition::{approximate_to_zcdp, delta_share, mul_up};
use crate::privacy::slates;
use crate::reward::{Reward, RewardRange};
use crate::snapshot::{Reader, VERSION, Writer, version_of};

/// The objects in which a field must have the same value. The principle: a field that says how to read a released
/// number belongs to the releases. All other fields concern one handle, and a restart may change them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scope {
    /// One handle until its next restart.
    Handle,
    /// A handle and the one that continues from its moved state: tickets and windows depend on the field.
    Moved,
    /// All handles of a fleet while they merge. A restart may change the field in each of them, with a moved state too.
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
                let number = $number::from(self) + $number::default(); // -0 is 0
                here.copy_from_slice(&number.to_le_bytes());
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

impl Packed for PartWeights {
    fn pack(self, to: &mut &mut [u8]) {
        self.into_iter().for_each(|weight| weight.pack(to));
    }

    fn load(from: &mut Reader) -> Result<PartWeights> {
        let mut weights = PartWeights::default();
        weights.iter_mut().try_for_each(|weight| f64::load(from).map(|read| *weight = read))?;
        Ok(weights)
    }

    fn show(bytes: &[u8]) -> Value {
        Self::load(&mut Reader::of_fields(bytes)).map_or(Value::Null, Value::from)
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

/// Which policies use a field.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum UsedBy {
    /// Every policy, except for those whose rows refuse it.
    Every,
    /// The policies whose rows list it.
    Listed,
}

/// A field of [`Config`].
pub(crate) struct Field {
    pub name: &'static str,
    pub users: UsedBy,
    scope: Scope,
    bytes: usize,
    /// The first version of snapshots that has it.
    version: u8,
    /// What C calls it, if that differs: the name, and the names of its values or the flag.
    in_c: Option<InC>,
    show: fn(&[u8]) -> Value,
}

/// The form of a field in C.
#[derive(Clone, Copy)]
pub(crate) enum InC {
    /// A bit of `flags`.
    Flag(&'static str),
    /// Another name, and a name for each value.
    Named(&'static str, &'static [&'static str]),
}

macro_rules! in_c {
    () => {
        None
    };
    (flag $flag:ident $bit:literal) => {
        Some(InC::Flag(stringify!($flag)))
    };
    ($name:ident $($value:ident)*) => {
        Some(InC::Named(stringify!($name), &[$(stringify!($value)),*]))
    };
}

/// Declares the fields of [`Config`]: see the file `tables/config.rs`, which is the table.
macro_rules! fields {
    (
        $($(#[$doc:meta])* $name:ident: $type:ident = $default:expr, $scope:ident, $users:ident, $since:literal
            $(, [$($in_c:tt)*])? $(, $rule:literal => $valid:expr)?;)*
        @not_kept
        $($(#[$with_doc:meta])* $with:ident: $with_type:ty, $with_users:ident, $with_since:literal;)*
    ) => {
        /// The configuration of a bandit, for every policy. A field that the policy does not use must have its default;
        /// [`Algorithm`](crate::Algorithm) says which fields a policy uses.
        #[derive(Clone, Debug)]
        pub struct Config {
            $(
                $(#[$doc])*
                $(#[doc = concat!("\n\nIt ", $rule, ".")])?
                #[doc = concat!("\n\nDefault: `", stringify!($default), "`.")]
                pub $name: $type,
            )*
            $($(#[$with_doc])* pub $with: $with_type,)*
        }

        impl Config {
            const DEFAULT: Config = Config { $($name: $default,)* $($with: None,)* };

            /// The fields that a snapshot keeps, in its order.
            const FIELDS: &[Field] = &[$(Field {
                name: stringify!($name),
                users: UsedBy::$users,
                scope: Scope::$scope,
                bytes: size_of::<$type>(),
                version: version_of($since),
                in_c: in_c!($($($in_c)*)?),
                show: <$type as Packed>::show,
            },)*];

            /// The length of the packed fields.
            const BYTES: usize = 0 $(+ size_of::<$type>())*;

            /// Gives a field its default.
            pub(crate) fn reset(&mut self, field: &str) {
                $(if field == stringify!($name) {
                    self.$name = Self::DEFAULT.$name;
                })*
            }

            /// Packs all fields that a snapshot keeps.
            fn pack(&self) -> [u8; Self::BYTES] {
                let mut packed = [0; Self::BYTES];
                let rest = &mut &mut packed[..];
                $(self.$name.pack(rest);)*
                packed
            }

            /// Reads a [saved](PackedConfig::save) configuration, unchecked. A field that its version lacks has its default.
            pub(crate) fn load(from: &mut Reader) -> Result<Config> {
                Ok(Config {
                    $($name: from.since(version_of($since), Self::DEFAULT.$name, <$type as Packed>::load)?,)*
                    ..Self::DEFAULT
                })
            }

            /// Checks the range of each field.
            fn check_each(&self) -> Result<()> {
                $($(
                    let valid: fn($type) -> bool = $valid;
                    Error::unless(valid(self.$name), stringify!($name), $rule, self.$name)?;
                )?)*
                Ok(())
            }
        }
    };
}

include!("tables/config.rs");

/// Each field's version of the library is in the list of `snapshot.rs`.
const _: () = {
    let mut at = 0;
    while at < Config::FIELDS.len() {
        assert!(Config::FIELDS[at].version <= VERSION);
        at += 1;
    }
};

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
    /// Maximum of `parts`.
    pub const MOST_PARTS: u32 = parts::MOST_PARTS as u32;
    /// Maximum number of features of a row.
    pub const MOST_FEATURES: u32 = 256;
    /// Minimum of `forget_after`, except for 0.
    pub const LEAST_MEMORY: u64 = 1 << 10;
    /// Maximum of `forget_after`.
    pub const MOST_MEMORY: u64 = 1 << 40;
    /// Maximum of `expected_users`.
    pub const MOST_USERS: u64 = 1 << 28;

    /// Checks that this configuration may replace that of a snapshot, after a restart (`Scope::Releases`), or that of a
    /// moved state (`Scope::Moved`), or may merge with it in a fleet (`Scope::Fleet`): fields of this scope and of the
    /// releases must not differ, nor may one of the two have segments alone. `Scope::Handle`: no field may differ.
    ///
    /// # Errors
    /// `InvalidConfig` that names the first field that differs.
    pub(crate) fn check_same(&self, scope: Scope, snapshot: &Config) -> Result<()> {
        let matters = |field: &Field| scope == Scope::Handle || [scope, Scope::Releases].contains(&field.scope);
        let mut differing = self.differing(snapshot).filter(|(field, ..)| matters(field));
        if let Some((field, ours, theirs)) = differing.next() {
            return Err(Error::config(field.name, &format!("must be {theirs}, as in the snapshot"), ours));
        }
        let rule = match (self.max_segments, snapshot.max_segments) {
            (0, 1..) => "must be at least 1: the snapshot has segments",
            (1.., 0) => "must be 0: the snapshot has no segments",
            _ => return Ok(()),
        };
        Err(Error::config("max_segments", rule, self.max_segments))
    }

    /// The fields that do not have their defaults, with value and default.
    pub(crate) fn set(&self) -> impl Iterator<Item = (&'static Field, Value, Value)> {
        self.differing(&Self::DEFAULT)
    }

    /// The fields that have another value in `other`, with both values.
    fn differing(&self, other: &Config) -> impl Iterator<Item = (&'static Field, Value, Value)> + use<> {
        let (ours, theirs) = (self.pack(), other.pack());
        let mut at = 0;
        Self::FIELDS.iter().filter_map(move |field| {
            let bytes = at..at + field.bytes;
            at = bytes.end;
            let (ours, theirs) = ((field.show)(&ours[bytes.clone()]), (field.show)(&theirs[bytes]));
            (ours != theirs).then_some((field, ours, theirs))
        })
    }

    /// The fields that have another name or form in C.
    pub(crate) fn renamed() -> impl Iterator<Item = (&'static str, InC)> {
        Self::FIELDS.iter().filter_map(|field| Some((field.name, field.in_c?)))
    }

    /// Checks what holds for every policy. Epsilon and delta are checked by the policies that use them. Combinations
    /// that are impossible are refused here, before anything is allocated or charged.
    pub(crate) fn check(&self) -> Result<RewardRange> {
        self.check_each()?;
        self.check_slots()?;
        self.check_codebook()?;
        let fits = self.clock != Clock::Decisions || self.reward_window <= Self::MAX_PENDING;
        Error::unless(fits, "reward_window", "must be at most 2^24 where clock counts decisions", self.reward_window)?;
        let (has_users, periods) = (self.expected_users > 0, self.budget_periods);
        Error::unless(has_users || periods == 0, "budget_periods", "must be 0 without expected_users", periods)?;
        let rule = "must be at least 1 with expected_users and a budget, which is charged for this many periods";
        Error::unless(!has_users || self.budget.is_none() || periods > 0, "budget_periods", rule, periods)?;
        let range = self.range()?;
        Ok(if self.part_scales()?.is_some() { range.of_parts() } else { range })
    }

    fn range(&self) -> Result<RewardRange> {
        RewardRange::new(self.reward_min, self.reward_max, self.reward_bits, self.clamp_rewards)
    }

    /// How parts are summed up, checked; `None` without parts.
    pub(crate) fn part_scales(&self) -> Result<Option<PartScales>> {
        let Config { parts, reward_min: min, reward_max: max, .. } = *self;
        let (weights, unused) = self.part_weights.split_at(parts as usize);
        if unused.iter().any(|&weight| weight != 0.0) {
            let rule = format!("must be 0 behind those of the {parts} parts");
            return Err(Error::config("part_weights", &rule, self.part_weights));
        }
        if parts == 0 {
            return Ok(None);
        }
        let rule = "must be 0 without a reward_window, at whose end they are summed up";
        Error::unless(self.reward_window > 0, "parts", rule, parts)?;
        let rule = "must be at least 1 with parts, whose sum may be any number";
        Error::unless(self.reward_bits > 0, "reward_bits", rule, 0u32)?;
        let rule = "must be at most 0 with parts, and 0 with max_clicks too: what nobody reports is 0";
        Error::unless(min == 0.0 || min < 0.0 && self.max_clicks == 0, "reward_min", rule, min)?;
        let rule = "must be at least 0 with parts: what nobody reports is 0";
        Error::unless(max >= 0.0, "reward_max", rule, max)?;
        let refused =
            || Error::config("part_weights", "must be finite and not 0, as shares of the range too", self.part_weights);
        Ok(Some(PartScales::new(&self.range()?, weights).ok_or_else(refused)?))
    }

    fn check_slots(&self) -> Result<()> {
        let (slots, clicks) = (self.max_slots, self.max_clicks);
        Error::unless(clicks <= slots, "max_clicks", "must be at most max_slots", clicks)?;
        let rule = "must be 0 without a reward_window, because the draw needs all rewards of a request";
        Error::unless(clicks == 0 || self.reward_window > 0, "max_clicks", rule, clicks)
    }

    /// Checks a codebook, if there is one. A restored handle finds it in its snapshot.
    fn check_codebook(&self) -> Result<()> {
        let (rows, features) = (self.codebook_len, self.features as usize);
        let has_codebook = rows > 0 || self.codebook.is_some();
        let rule = "must be 0, with no codebook, without private_features";
        Error::unless(self.private_features || !has_codebook, "codebook_len", rule, rows)?;
        let fits = |book: &Codebook| book.len() == rows as usize && book.features() == features;
        let rule = "must be the number of rows of codebook";
        Error::unless(self.codebook.as_ref().is_none_or(fits), "codebook_len", rule, rows)
    }

    /// Maximum number of batches that one protected reward, or request, may change.
    pub(crate) fn batches_changed(&self) -> u32 {
        slates::batches_changed(self.max_slots, self.max_clicks)
    }

    /// Checks a policy's own limit of arms. With more arms its calls would not be fast.
    pub(crate) fn check_arms(&self, most: u32) -> Result<()> {
        check_arms(self.arms as usize, most)
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
        check_positive("epsilon", self.epsilon)?;
        Ok(slates::share(slates::share(self.epsilon, self.contributions_per_user), self.batches_changed()))
    }

    /// The delta that one reward may cost in addition to [`epsilon_per_reward`](Self::epsilon_per_reward), checked:
    /// at least delta/(contributions_per_user e^epsilon).
    pub(crate) fn delta_per_reward(&self) -> Result<f64> {
        check_share("delta", self.delta)?;
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
pub(crate) struct PackedConfig([u8; Config::BYTES]);

impl PackedConfig {
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

/// Checks a number of arms against the most that a policy can have.
///
/// # Errors
/// `InvalidConfig`.
pub(crate) fn check_arms(arms: usize, most: u32) -> Result<()> {
    if arms > most as usize {
        return Err(Error::config("arms", &format!("must be at most {most} for this policy"), arms));
    }
    Ok(())
}

/// A table like that of `tables/config.rs`, with two fields of a version that is to come.
#[cfg(test)]
mod tests {
    use super::*;

    fields! {
        /// Arms.
        arms: u32 = 2, Releases, Every, "0.1", "must be at least 2" => |arms| arms >= 2;
        /// A later field.
        added: f64 = 0.75, Handle, Listed, "9.9";
        /// A field.
        epsilon: f64 = 1.0, Releases, Every, "0.1";
        /// A later field.
        also: Clock = Clock::Caller, Handle, Every, "9.9";
        @not_kept
        /// No field of a snapshot.
        budget: Option<Budget>, Every, "9.9";
    }

    /// The later fields are read from bytes that have them, and have their defaults with bytes of today.
    #[test]
    fn a_configuration_can_get_fields() {
        let config = Config { arms: 9, added: 0.25, epsilon: 0.5, also: Clock::Decisions, ..Config::DEFAULT };
        assert!(config.check_each().is_ok() && config.budget.is_none());
        let mut changed = config.clone();
        Config::FIELDS.iter().for_each(|field| changed.reset(field.name));
        assert_eq!(changed.pack(), Config::DEFAULT.pack());
        let next = config.pack();
        let today = [&next[..4], &next[12..20]].concat();
        for (version, bytes, implied) in [
            (VERSION, &today[..], Config { added: 0.75, also: Clock::Caller, ..config.clone() }),
            (VERSION + 1, &next, config),
        ] {
            let from = &mut Reader::of_fields(bytes).of_version(version);
            let read = Config::load(from).unwrap();
            assert_eq!((read.pack(), from.finish()), (implied.pack(), Ok(())), "{version}");
        }
        let versions = Config::FIELDS.iter().map(|field| field.version);
        assert!(versions.eq([1, VERSION + 1, 1, VERSION + 1]));
    }
}
