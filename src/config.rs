//! What a caller configures, checked once.

use crate::budget::Budget;
use crate::error::{Error, Result, Value};
use crate::noise::{Gaussian, Laplace, Noise};
use crate::privacy::PrivacyLoss;
use crate::privacy::composition::{approximate_to_zcdp, delta_share, mul_up};
use crate::privacy::slates;
use crate::reward::{Reward, RewardRange};
use crate::snapshot::{Reader, Writer};
use crate::table;

/// The configuration of a bandit, for every policy. Fields that a policy does not use are ignored.
#[derive(Clone, Debug)]
pub struct Config {
    /// K, `2 ..= 2^24`, or fewer where a policy would not be fast: its page says so.
    pub arms: u32,
    /// Privacy loss of one user, > 0. Ignored by the non-private baselines.
    pub epsilon: f64,
    /// In `[0, 1)`; 0 where the policy is pure.
    pub delta: f64,
    /// Failure probability in `[0, 1)`; 0 = 1/horizon.
    pub beta: f64,
    /// T in decisions; 0 = unknown.
    pub horizon: u64,
    /// Lower end of the declared range of rewards, at least -1e290.
    pub reward_min: f64,
    /// Upper end of the declared range of rewards, at most 1e290.
    pub reward_max: f64,
    /// Rewards are rounded to 2^-bits of the range, `0 ..= 24`; 0 = exactly min or max.
    pub reward_bits: u32,
    /// Clamp rewards outside the range instead of refusing them. NaN and infinities are refused all
    /// the same.
    pub clamp_rewards: bool,
    /// m >= 1: how many rewards one user may be behind, or with a `slate` how many requests. Epsilon is divided by
    /// it before use.
    pub contributions_per_user: u32,
    /// Decisions in flight, `1 ..= 2^24`, rounded up to a power of two and to the answer window.
    pub pending_capacity: u32,
    /// 0 = every decision is answered or cancelled explicitly, at a time that does not depend on
    /// the reward. W > 0 = silence means `reward_min`, and every answer takes effect exactly W
    /// decisions after its decision. At most 2^24.
    pub answer_window: u32,
    /// `None` = operating system entropy; `Some` = reproducible and NOT private.
    pub test_seed: Option<[u8; 32]>,
    /// DP-UCB-INT: v in `(1, 1.5]`.
    pub interval_exponent: f64,
    /// DP-UCB-INT: widen the index by the noise, as a rigorous bound must; false = as printed.
    pub rigorous_index: bool,
    /// SDP-AE: m; DP-Lap, Tsallis: tau; DP-UCB-INT: least interval; 0 = the policy's own choice.
    pub batch: u32,
    /// DP-Lambda-Lap: the number of the base policy.
    pub base: u32,
    /// SDP-AE, VB-SDP-AE: the paper's noise instead of the exact calibration.
    pub shuffle_printed: bool,
    /// This process's name in a fleet: below 2^16 the node of its tickets itself, larger ones are mixed;
    /// 0 = random.
    pub node: u64,
    /// M, in decisions, `1024 ..= 2^40`: DP-IMED and DP-MED forget what they learned more than M
    /// decisions ago, half of it earlier. About half the time between changes. 0 = never forget.
    pub memory: u64,
    /// f in `[0, 1]`: DP-IMED, DP-KLUCB, DP-MED and Lazy-DP-TS play every arm with a chance of f/K at
    /// least, K the number of arms that could be played. It costs f times the mean gap a decision.
    pub min_propensity: f64,
    /// Which unit is protected. 0 = one answer, in slates of any size. S > 0 = one request with all its answers, at
    /// most S: DP-IMED, DP-KLUCB and Lazy-DP-TS. See [`crate::privacy::slates`].
    pub slate: u32,
    /// 0 = any answers of a request count. c in `1 ..= slate` = at most c that are not `reward_min`, drawn evenly
    /// where there are more; it needs an `answer_window`.
    pub slate_clicks: u32,
    /// Users expected in a period, at most 2^28: then no more than `contributions_per_user` decisions of a user in
    /// a period are learned from, every decision says whose it is
    /// ([`select_for`](crate::Bandit::select_for)), and the counters take 1.5 bytes for each user, up to 12
    /// at `contributions_per_user` = 255. 0 = the caller sees to it.
    pub users: u64,
    /// What this handle is charged to when it is made, with all that it may lose in its life; refused where there is
    /// too little left, as a baseline always is. As the seed no part of a snapshot. `None` = nothing.
    pub budget: Option<Budget>,
    /// A fault to build in, for the tests that must notice it.
    #[cfg(feature = "test-hooks")]
    #[doc(hidden)]
    pub fault: Fault,
}

/// The sabotage that an auditor must catch (tests only). That of noise is a [hand](crate::noise::hand)'s.
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    #[default]
    None = 0,
    /// One noise for all arms of an epoch.
    SharedNoise,
    /// Arms are compared with the largest true mean.
    UnnoisedMaximum,
    /// A second answer to a ticket counts again.
    DuplicateBelieved,
    /// A batch closes when its clicks have come, not when its window is over.
    ClosedByArrival,
    /// A decision whose answer waits for its window is not cancelled.
    CancelTells,
    /// A width is a function of a sum that is not released.
    RawWidth,
    /// The leader among some arms is found by sums that are not released.
    RawLeader,
    /// An arm that is retired shows its open sum.
    RawRetired,
    /// All decisions of a user are learned from.
    UserUnbounded,
}

#[cfg(feature = "test-hooks")]
impl Fault {
    /// All of them, each at its number.
    pub const ALL: [Fault; 10] = [
        Fault::None,
        Fault::SharedNoise,
        Fault::UnnoisedMaximum,
        Fault::DuplicateBelieved,
        Fault::ClosedByArrival,
        Fault::CancelTells,
        Fault::RawWidth,
        Fault::RawLeader,
        Fault::RawRetired,
        Fault::UserUnbounded,
    ];

    /// Is this fault to be built in here?
    pub(crate) fn is(self, fault: Fault) -> bool {
        if self == fault {
            DONE.set(true);
        }
        self == fault
    }

    /// Was anything sabotaged in this thread since this was last asked, here or by a
    /// [hand](crate::noise::hand)? A fault that no code of a policy asks for is not built into it.
    pub fn was_done() -> bool {
        DONE.take()
    }
}

#[cfg(feature = "test-hooks")]
thread_local! {
    pub(crate) static DONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Config {
    /// The defaults: rewards in `[0, 1]` on a 2^-20 grid, 4096 decisions in flight, explicit
    /// answers, operating system entropy, horizon unknown.
    pub fn new(arms: u32, epsilon: f64) -> Config {
        Config {
            arms,
            epsilon,
            delta: 0.0,
            beta: 0.0,
            horizon: 0,
            reward_min: 0.0,
            reward_max: 1.0,
            reward_bits: 20,
            clamp_rewards: false,
            contributions_per_user: 1,
            pending_capacity: 4096,
            answer_window: 0,
            test_seed: None,
            interval_exponent: 1.1,
            rigorous_index: false,
            batch: 0,
            base: 0,
            shuffle_printed: false,
            node: 0,
            memory: 0,
            min_propensity: 0.0,
            slate: 0,
            slate_clicks: 0,
            users: 0,
            budget: None,
            #[cfg(feature = "test-hooks")]
            fault: Fault::None,
        }
    }

    /// The most arms a handle may have.
    pub const MAX_ARMS: u32 = 1 << 24;
    /// The most decisions that may be in flight.
    pub const MAX_PENDING: u32 = 1 << 24;
    /// The shortest memory but none.
    pub const LEAST_MEMORY: u64 = 1 << 10;
    /// The longest memory but an endless one.
    pub const MOST_MEMORY: u64 = 1 << 40;
    /// The most users that may be expected in a period.
    pub const MOST_USERS: u64 = 1 << 28;

    /// All that a snapshot keeps: everything but the test seed and the budget.
    pub(crate) fn save(&self, to: &mut Writer) {
        to.u32(self.arms);
        [self.epsilon, self.delta, self.beta].into_iter().for_each(|value| to.f64(value));
        to.u64(self.horizon);
        [self.reward_min, self.reward_max].into_iter().for_each(|value| to.f64(value));
        to.u32(self.reward_bits);
        to.u32(self.contributions_per_user);
        to.u32(self.pending_capacity);
        to.u32(self.answer_window);
        [self.clamp_rewards, self.rigorous_index, self.shuffle_printed].into_iter().for_each(|flag| to.u8(flag.into()));
        to.f64(self.interval_exponent);
        to.u32(self.batch);
        to.u32(self.base);
        to.u64(self.node);
        to.u64(self.memory);
        to.f64(self.min_propensity);
        to.u32(self.slate);
        to.u32(self.slate_clicks);
        to.u64(self.users);
    }

    /// What was saved, unchecked.
    pub(crate) fn load(from: &mut Reader) -> Result<Config> {
        let mut config = Config::new(from.u32()?, from.f64()?);
        (config.delta, config.beta, config.horizon) = (from.f64()?, from.f64()?, from.u64()?);
        (config.reward_min, config.reward_max) = (from.f64()?, from.f64()?);
        (config.reward_bits, config.contributions_per_user) = (from.u32()?, from.u32()?);
        (config.pending_capacity, config.answer_window) = (from.u32()?, from.u32()?);
        (config.clamp_rewards, config.rigorous_index) = (from.bool()?, from.bool()?);
        config.shuffle_printed = from.bool()?;
        config.interval_exponent = from.f64()?;
        (config.batch, config.base) = (from.u32()?, from.u32()?);
        (config.node, config.memory, config.min_propensity) = (from.u64()?, from.u64()?, from.f64()?);
        if from.version() > 2 {
            (config.slate, config.slate_clicks) = (from.u32()?, from.u32()?);
            config.users = from.u64()?;
        }
        Ok(config)
    }

    /// May a handle of this configuration learn from a snapshot of that one? What concerns traffic and reports may
    /// differ.
    ///
    /// # Errors
    /// `InvalidConfig` naming the first field that differs.
    pub(crate) fn check_shared(&self, snapshot: &Config) -> Result<()> {
        let Config {
            node, pending_capacity, answer_window, clamp_rewards, beta, horizon, min_propensity, users, ..
        } = *self;
        let theirs = snapshot.clone();
        self.check_same(&Config {
            node,
            pending_capacity,
            answer_window,
            clamp_rewards,
            beta,
            horizon,
            min_propensity,
            users,
            ..theirs
        })
    }

    /// Is this, but for seed and budget, the configuration of a snapshot?
    ///
    /// # Errors
    /// `InvalidConfig` naming the first field that differs.
    pub(crate) fn check_same(&self, snapshot: &Config) -> Result<()> {
        for ((field, ours), (_, theirs)) in self.fields().into_iter().zip(snapshot.fields()) {
            if ours != theirs {
                return Err(Error::config(field, &format!("must be {theirs}, as in the snapshot"), ours));
            }
        }
        Ok(())
    }

    /// What a snapshot keeps.
    fn fields(&self) -> [(&'static str, Value); 23] {
        macro_rules! fields {
            ($($name:ident)*) => {{
                let Config {
                    $($name,)*
                    test_seed: _,
                    budget: _,
                    #[cfg(feature = "test-hooks")]
                        fault: _,
                } = self; // so that none is forgotten
                [$((stringify!($name), (*$name).into()),)*]
            }};
        }
        fields! {
            arms epsilon delta beta horizon reward_min reward_max reward_bits contributions_per_user pending_capacity
            answer_window clamp_rewards rigorous_index shuffle_printed interval_exponent batch base node memory
            min_propensity slate slate_clicks users
        }
    }

    /// Checks what holds for every policy; epsilon and delta are checked by those that use them.
    pub(crate) fn check(&self) -> Result<RewardRange> {
        if !(2..=Self::MAX_ARMS).contains(&self.arms) {
            return Err(Error::config("arms", "must be in 2..=2^24", self.arms));
        }
        if !(0.0..1.0).contains(&self.delta) {
            return Err(Error::config("delta", "must be in [0, 1)", self.delta));
        }
        if !(0.0..1.0).contains(&self.beta) {
            return Err(Error::config("beta", "must be in [0, 1)", self.beta));
        }
        if self.contributions_per_user == 0 {
            return Err(Error::config("contributions_per_user", "must be at least 1", 0u32));
        }
        if !(1..=Self::MAX_PENDING).contains(&self.pending_capacity) {
            return Err(Error::config("pending_capacity", "must be in 1..=2^24", self.pending_capacity));
        }
        if self.answer_window > Self::MAX_PENDING {
            return Err(Error::config("answer_window", "must be at most 2^24", self.answer_window));
        }
        if self.memory != 0 && !(Self::LEAST_MEMORY..=Self::MOST_MEMORY).contains(&self.memory) {
            return Err(Error::config("memory", "must be 0 or in 1024..=2^40", self.memory));
        }
        if !(0.0..=1.0).contains(&self.min_propensity) {
            return Err(Error::config("min_propensity", "must be in [0, 1]", self.min_propensity));
        }
        if self.users > Self::MOST_USERS {
            return Err(Error::config("users", "must be at most 2^28", self.users));
        }
        self.check_slate()?;
        RewardRange::new(self.reward_min, self.reward_max, self.reward_bits, self.clamp_rewards)
    }

    fn check_slate(&self) -> Result<()> {
        let (slate, clicks) = (self.slate, self.slate_clicks);
        if slate > Self::MAX_ARMS {
            return Err(Error::config("slate", "must be at most 2^24", slate));
        }
        if clicks > slate {
            return Err(Error::config("slate_clicks", "must be at most slate", clicks));
        }
        if slate > 0 && self.users > 0 {
            return Err(Error::config("slate", "must be 0 with users: a slate is for nobody in particular", slate));
        }
        if clicks > 0 && self.answer_window == 0 {
            let rule = "must be 0 without an answer_window: all of a request's answers are needed to draw from";
            return Err(Error::config("slate_clicks", rule, clicks));
        }
        Ok(())
    }

    /// The batches that one protected answer, or request, may change.
    pub(crate) fn batches_changed(&self) -> u32 {
        slates::batches_changed(self.slate, self.slate_clicks)
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
        let law = Gaussian::new(rho, Reward::ONE as u64);
        Ok(Noise::Gaussian(
            law.map_err(|_| Error::config("epsilon", "and delta give noise out of range", self.epsilon))?,
        ))
    }

    /// Charges the budget, if there is one, with what a handle may cost one user: the last thing before the handle is
    /// there, whichever way it is made.
    pub(crate) fn charge(&self, loss: impl FnOnce(&Config) -> Result<PrivacyLoss>) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if self.users > 0 {
            let rule = "must be 0 with a budget, which cannot know how many periods there will be";
            return Err(Error::config("users", rule, self.users));
        }
        budget.charge(loss(self)?)
    }

    /// What one user loses, of all rewards, by one release of each with [`noise`](Self::noise).
    pub(crate) fn loss(&self) -> Result<PrivacyLoss> {
        let m = f64::from(self.contributions_per_user);
        Ok(match self.noise()? {
            Noise::Laplace(_) => PrivacyLoss::Pure(self.epsilon),
            Noise::Gaussian(law) => {
                PrivacyLoss::Zcdp(mul_up(mul_up(law.rho(), m), m)).of_batches(self.batches_changed())
            }
        })
    }
}

/// A configuration as a handle keeps it: what a snapshot keeps, in no more bytes. Seed and budget stay with the caller.
pub(crate) struct Kept([u8; Kept::BYTES]);

impl Kept {
    const BYTES: usize = 127;

    /// # Errors
    /// `NoMemory` (and of all where they are not so many bytes).
    pub fn of(config: &Config) -> Result<Kept> {
        let mut to = Writer::Writing(table::room(Self::BYTES)?);
        config.save(&mut to);
        Ok(Kept(to.into_bytes().try_into().map_err(|_| Error::NoMemory)?))
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
