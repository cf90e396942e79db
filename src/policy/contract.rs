//! The interface between the engine and a policy, and what each guarantees to the other.

use super::compare::ReleaseTotals;
use super::prior::Prior;
use crate::config::Config;
pub use crate::engine::Pull;
use crate::error::{Error, Result};
use crate::ledger::combine::Combining;
use crate::moving::Moved;
use crate::privacy::PrivacyLoss;
use crate::request::{Request, Values};
use crate::reward::Reward;
use crate::shuffle::Params;
use crate::snapshot::{Reader, Writer};
use std::any::Any;

/// The public state of one arm: released values only, in the unit interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArmState {
    /// The released mean, NaN before the first release.
    pub mean: f64,
    /// Half-width of its confidence interval at 1 - beta, NaN before the first release.
    pub width: f64,
    /// Rewards in the mean; 0 before the first release. With `forget_after` each is multiplied by its discount.
    pub effective_pulls: f64,
    /// False once the arm is eliminated or retired.
    pub active: bool,
}

impl ArmState {
    /// The state of an arm without releases.
    pub(crate) fn unknown(active: bool) -> ArmState {
        ArmState { mean: f64::NAN, width: f64::NAN, effective_pulls: 0.0, active }
    }
}

/// A bandit algorithm as a state machine over releases.
///
/// The engine guarantees that every reward is in range and on the grid, belongs to an earlier `choose` of this
/// policy, and comes at most once. A pull ends in `observe` or in `cancel`, never in both. The policy guarantees that
/// `choose` and everything readable depend only on released state, coins and the public order of events.
#[allow(private_interfaces, private_bounds)] // requests, peers and states that move are private to the crate
pub trait Policy: Send + Moved {
    /// The next arm to pull. Not called for policies [by request](Self::by_request).
    fn choose(&mut self) -> Pull;

    /// Reports the reward of an earlier pull. The pull has only its arm, unless the policy
    /// [`needs_full_pull`](Self::needs_full_pull).
    fn observe(&mut self, pull: Pull, reward: Reward);

    /// Cancels an earlier pull: it will get no reward, and counts as not made.
    fn cancel(&mut self, pull: Pull);

    /// The arm of a pull, for policies whose pulls have other numbers.
    fn arm_of(&self, pull: Pull) -> u32 {
        pull.arm()
    }

    /// The policy as one that decides by more of a request than its eligible arms, if it does.
    fn by_request(&mut self) -> Option<&mut dyn ByRequest> {
        None
    }

    /// The function that reads what another handle has released, for [`merge`](Self::merge), if the policy merges. The
    /// handle calls it without its lock.
    fn peer_reader(&self) -> Option<ReadPeer> {
        None
    }

    /// Learns from the releases of another handle. `added` are the ids of this handle's added arms. Returns whether
    /// there were new ones.
    ///
    /// # Errors
    /// `NoMemory`; `Full` for too many handles; `Corrupt` for the releases of another policy. Nothing has
    /// changed.
    fn merge(&mut self, _peer: Peer, _added: &[u64]) -> Result<bool> {
        Err(Error::Corrupt)
    }

    /// Names the arm that was added last: its id is the last of these. From now on, what other handles release of it
    /// counts.
    fn name_arm(&mut self, _added: &[u64]) {}

    /// How often [`merge`](Self::merge) found new releases.
    fn merges(&self) -> u64 {
        0
    }

    /// Advances the caller's clock by so many ticks. Time is public.
    fn advance(&mut self, _ticks: u64) {}

    /// Whether `observe` and `cancel` need phase and propensity. They take 16 bytes for each pending decision.
    fn needs_full_pull(&self) -> bool {
        false
    }

    /// Whether [`choose`](Self::choose), [`observe`](Self::observe) and [`cancel`](Self::cancel) set the rounding of
    /// numbers by themselves (`DefaultRounding` in `os.rs`). If a policy computes rarely, that takes
    /// less time than setting it at each call.
    fn sets_rounding(&self) -> bool {
        false
    }

    /// The public state of an arm.
    fn arm(&self, arm: u32) -> ArmState;

    /// The current epoch, phase or interval.
    fn phase(&self) -> u32;

    /// Number of arms that are neither eliminated nor retired.
    fn active(&self) -> u32;

    /// The policy as one with eligible arms for each request, and arms that can be added and retired, if it supports
    /// them.
    fn dynamic_arms(&mut self) -> Option<&mut dyn DynamicArms> {
        None
    }

    /// The policy as one whose open sums the leader of a fleet can release, if it can.
    #[allow(private_interfaces)] // Combining is private to the crate
    fn combining(&mut self) -> Option<&mut dyn Combining> {
        None
    }

    /// The releases of an arm, for an interval that holds at all times.
    ///
    /// # Errors
    /// `NotReady` before the first release; `Unsupported` if the policy does not keep them.
    #[allow(private_interfaces)] // ReleaseTotals are private to the crate
    fn sums(&self, _arm: u32) -> Result<ReleaseTotals> {
        Err(Error::unsupported("comparing arms: it keeps no released sums"))
    }

    /// The policy as one that chooses several arms for one request, if it can.
    fn slates(&mut self) -> Option<&mut dyn Slates> {
        None
    }

    /// The policy as one that maximises the value of rewards, if it can.
    #[allow(private_interfaces)] // Values are private to the crate
    fn valued(&mut self) -> Option<&mut dyn Valued> {
        None
    }

    /// The policy as one that learns from slots that are not always examined, if it can.
    #[allow(private_interfaces)] // Positioned is private to the crate
    fn positioned(&mut self) -> Option<&mut dyn Positioned> {
        None
    }

    /// Sets the prior of an arm from public data, and replaces an earlier one.
    ///
    /// # Errors
    /// `Unsupported` if the policy has no priors.
    #[allow(private_interfaces)] // Prior is private to the crate
    fn set_prior(&mut self, _arm: u32, _prior: Prior) -> Result<()> {
        Err(Error::unsupported("a prior"))
    }

    /// How often a release contradicted its arm's past, so that the policy forgot that past.
    fn changes(&self) -> u64 {
        0
    }

    /// How often the model could not be updated, so that the policy kept the last one.
    fn failures(&self) -> u64 {
        0
    }

    /// The arm that the policy has decided for.
    ///
    /// # Errors
    /// `NotReady` before that; `Unsupported` if the policy never decides.
    fn best_arm(&self) -> Result<u32> {
        Err(Error::unsupported("a best arm: it never decides for one"))
    }

    /// The loss of one reward through the releases made so far.
    fn privacy(&self) -> PrivacyLoss;

    /// The loss of a request whose rewards are in `batches` batches.
    fn loss_of_request(&self, batches: u32) -> PrivacyLoss {
        self.privacy().of_batches(batches)
    }

    /// Whether rewards are bits that were privatised before they arrived. Then other rewards are refused.
    fn takes_bits(&self) -> bool {
        false
    }

    /// Writes released and public state, and nothing else, for [`load`](Self::load). (A baseline writes its sums:
    /// they are released if it is the base of DP-Lap or receives privatised bits. A handle does not write others.)
    ///
    /// # Errors
    /// `Unsupported` if the policy cannot continue from released state.
    /// `Unsupported` where what it would have to keep is not released.
    fn save(&self, to: &mut Writer) -> Result<()>;

    /// Continues from saved state, in a fresh policy of the same configuration. Open batches were not saved: their
    /// rewards never enter a release. The caller drops a handle whose load failed.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`; `Unsupported`.
    fn load(&mut self, _from: &mut Reader) -> Result<()> {
        Err(Error::unsupported("a snapshot"))
    }

    /// The policy as one that receives shuffled batches, if it does.
    fn shuffled(&mut self) -> Option<&mut dyn ShuffledPolicy> {
        None
    }
}

/// A policy of the shuffle model: rewards arrive in batches, as bits in random order.
pub trait ShuffledPolicy {
    /// The parameters of the batches of a phase.
    fn params(&self, phase: u32) -> Params;

    /// Adds the batch of one arm in the open phase. A refused batch changes nothing.
    fn submit(&mut self, phase: u32, arm: u32, bits: &[u8]) -> Result<()>;
}

/// A policy whose set of arms may change, for one decision or permanently. The sets are public information, so they
/// cost no privacy.
pub trait DynamicArms {
    /// The next arm to pull, among these: at least one, and all of them live. Not called for policies
    /// [by request](Policy::by_request), which get these arms in the request.
    fn choose_among(&mut self, arms: &[u32]) -> Pull;

    /// Whether this arm is neither eliminated nor retired.
    fn is_live(&self, arm: u32) -> bool;

    /// Adds an arm, with the next number. May allocate.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn add_arm(&mut self) -> Result<()>;

    /// Retires this arm, which is live and not the last live one. It is not pulled again. Rewards of its pending
    /// decisions still arrive.
    fn retire_arm(&mut self, arm: u32);
}

/// A policy that chooses several arms for one request.
pub trait Slates {
    /// Pulls the next `slots` arms, all different, of those in `left`: live ones, each once, at least `slots`. Pulled
    /// arms are removed from `left`, and passed to `each` in turn. A propensity is that of the arm among those that
    /// were left, given the draws before it.
    fn choose_slate(&mut self, left: &mut Vec<u32>, slots: usize, each: &mut dyn FnMut(Pull));
}

/// A policy that maximises the value of rewards, which differs from request to request.
pub(crate) trait Valued {
    /// As [`Slates::choose_slate`], for a request with these values, all of them positive for the arms in `left`. Only
    /// policies with [`Slates`] are asked for several slots.
    fn choose_valued(&mut self, left: &mut Vec<u32>, values: &Values, slots: usize, each: &mut dyn FnMut(Pull));
}

/// A policy that learns rates from slots that visitors examine with known probabilities. `observe` and `cancel` get what
/// a slot lacks of an examination with the pull ([`Pull::lack`]).
pub(crate) trait Positioned {
    /// As [`Slates::choose_slate`], or with values as [`Valued::choose_valued`], where the best arms will get the slots that
    /// most visitors examine.
    fn choose_positioned(
        &mut self,
        left: &mut Vec<u32>,
        values: Option<&Values>,
        slots: usize,
        each: &mut dyn FnMut(Pull),
    );

    /// The mean by which arms are ordered; NaN if there is none.
    fn mean(&self, arm: u32) -> f64;

    /// Says what the slot of this arm's last pull lacks of an examination.
    fn lack(&mut self, arm: u32, lack: u16);
}

/// A policy that decides by more of a request than its eligible arms: by its segment or its features.
pub(crate) trait ByRequest {
    /// Checks that this request can be decided. (Its eligible arms are live.) Nothing changes.
    ///
    /// # Errors
    /// `InvalidRequest`; `Unsupported`; `Full`.
    fn check(&mut self, request: &Request) -> Result<()>;

    /// Decides a request of one slot, the one that was checked last. The decision is stored at `place` in the ring.
    /// Returns the pull, and the arm that it pulls.
    fn choose(&mut self, request: &Request, place: usize) -> (Pull, u32);

    /// The same for several slots, with different arms, and for a request with values. Passes each decision to `each`.
    /// `left` has the eligible arms, each once, with values those of positive value. The decisions are stored at
    /// `places`. A propensity is that of the arm given the draws before it.
    fn choose_slots(
        &mut self,
        request: &Request,
        left: &mut Vec<u32>,
        values: Option<&Values>,
        places: &mut dyn Iterator<Item = usize>,
        each: &mut dyn FnMut(Pull, u32),
    );

    /// Takes back an earlier pull, which then counts as not made.
    fn unplay(&mut self, _pull: Pull) {}

    /// Writes how often each arm was pulled in each segment, without the pending pulls, for [`Policy::load`].
    fn save_pulls(&self, _to: &mut Writer, _pending: &mut dyn Iterator<Item = Pull>) {}

    /// Number of segments in use.
    fn segments(&self) -> u32 {
        0
    }

    /// The public state of an arm in a segment, and the number of its pulls there.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such segment; `Unsupported`.
    fn arm_in(&self, _segment: u64, _arm: u32) -> Result<(ArmState, u64)> {
        Err(Error::unconfigured("segments: config.max_segments is 0"))
    }

    /// The number of predictions for this request: one for each eligible arm, or for each arm by its number.
    ///
    /// # Errors
    /// `InvalidRequest` without features; `Unsupported`.
    fn predictions(&self, _request: &Request) -> Result<usize> {
        Err(Error::unconfigured("features: config.features is 0"))
    }

    /// Passes the predicted mean of each row of a request, and its standard deviation, to `each`. (Its eligible arms are
    /// live.)
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn predict(&mut self, request: &Request, _each: &mut dyn FnMut(f64, f64)) -> Result<()> {
        self.predictions(request).map(drop)
    }

    /// Number of rows of features whose norm exceeded `feature_norm`.
    fn oversized(&self) -> u64 {
        0
    }
}

/// The identity of the handle that made a snapshot.
pub(crate) struct PeerId<'a> {
    pub origin: u64,
    pub generation: u32,
    /// The ids of the arms that were added.
    pub added: &'a [u64],
}

/// The releases of another handle, of the type that the policy's [`ReadPeer`] returns.
pub(crate) type Peer = Box<dyn Any>;

/// Reads what [`Policy::save`] wrote, and [`ByRequest::save_pulls`] before it.
///
/// # Errors
/// `Corrupt`; `NoMemory`.
pub(crate) type ReadPeer = fn(&Config, &PeerId, &mut Reader) -> Result<Peer>;
