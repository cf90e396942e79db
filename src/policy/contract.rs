//! What the engine and a policy promise each other.

use super::batched::{ReleaseHistory, ReleaseTotals};
use super::linear::contextual::SavedPeer;
use super::prior::Prior;
use super::segments::keyed::Segmented;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::privacy::PrivacyLoss;
use crate::request::Request;
use crate::reward::Reward;
use crate::shuffle::Params;
use crate::snapshot::{Reader, Writer};

/// What a policy chose: which arm, in which phase, with which probability given all releases.
///
/// Arm and phase share a word, so that a pull travels in two registers, and is written and read
/// back in the same two halves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pull {
    place: u64,
    /// The arm's probability given everything released so far; NaN where it would tell raw rewards.
    pub propensity: f64,
}

impl Pull {
    /// What is left of it where nobody asks for more than the arm: see [`Policy::needs_full_pull`].
    #[inline]
    pub(crate) const fn of(arm: u32) -> Pull {
        Pull::new(arm, 0, f64::NAN)
    }

    /// This arm, in this phase, with this probability.
    #[inline]
    pub const fn new(arm: u32, phase: u32, propensity: f64) -> Pull {
        Pull { place: (phase as u64) << 32 | arm as u64, propensity }
    }

    /// The arm, 0-based.
    #[inline]
    pub fn arm(self) -> u32 {
        self.place as u32
    }

    /// The policy's own count of epochs, phases or intervals.
    #[inline]
    pub fn phase(self) -> u32 {
        (self.place >> 32) as u32
    }

    /// The same in another phase.
    pub fn in_phase(self, phase: u32) -> Pull {
        Pull::new(self.arm(), phase, self.propensity)
    }
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
#[allow(private_interfaces)] // requests and peers are nobody's else
pub trait Policy: Send {
    /// The next arm to play. Not asked of policies [by request](Self::by_request).
    fn choose(&mut self) -> Pull;

    /// The reward of an earlier pull: of its arm alone, or all of it where the policy [`needs_full_pull`](Self::needs_full_pull).
    fn observe(&mut self, pull: Pull, reward: Reward);

    /// An earlier pull that will never be answered counts as not played.
    fn cancel(&mut self, pull: Pull);

    /// The arm that a pull plays, where its number is another one.
    fn arm_of(&self, pull: Pull) -> u32 {
        pull.arm()
    }

    /// Decisions that depend on more than which arms may be played: if this policy makes such.
    fn by_request(&mut self) -> Option<&mut dyn ByRequest> {
        None
    }

    /// Learns from what another handle has released, whose arms have ids as ours: was it news?
    ///
    /// # Errors
    /// `NoMemory`; `InvalidConfig` for too many handles; `Unsupported`. Nothing has changed.
    fn merge(&mut self, _peer: Peer, _added: &[u64]) -> Result<bool> {
        Err(Error::Unsupported("merging: it does not learn from a set of releases"))
    }

    /// The arm that was added has an id, the last one of these; what other handles have released of it counts.
    fn name_arm(&mut self, _added: &[u64]) {}

    /// How often [`merge`](Self::merge) had news.
    fn merges(&self) -> u64 {
        0
    }

    /// So many ticks of the caller's clock have passed. Time is public.
    fn advance(&mut self, _ticks: u64) {}

    /// Does it ask for phase and propensity again when a pull ends? They take 16 bytes a pending decision.
    fn needs_full_pull(&self) -> bool {
        false
    }

    /// What may be read of an arm.
    fn arm(&self, arm: u32) -> ArmState;

    /// The current epoch, phase or interval.
    fn phase(&self) -> u32;

    /// Arms still in the race.
    fn active(&self) -> u32;

    /// Requests that may show some arms only, arms that come and go: if this policy can.
    fn dynamic_arms(&mut self) -> Option<&mut dyn DynamicArms> {
        None
    }

    /// Joining what other handles have released: if this policy can.
    #[allow(private_interfaces)] // ReleaseHistory is nobody's else
    fn mergeable(&mut self) -> Option<&mut dyn Mergeable> {
        None
    }

    /// What was released of an arm, for an interval that holds at all times.
    ///
    /// # Errors
    /// `NotReady` before the first release; `Unsupported` where nothing is kept that could tell.
    #[allow(private_interfaces)] // ReleaseTotals are nobody's else
    fn sums(&self, _arm: u32) -> Result<ReleaseTotals> {
        Err(Error::Unsupported("comparing: it keeps no released sums"))
    }

    /// Several arms for one request: if this policy can.
    fn slates(&mut self) -> Option<&mut dyn Slates> {
        None
    }

    /// What public data say of an arm, in place of what they said before.
    ///
    /// # Errors
    /// `Unsupported` where a policy does not take it.
    #[allow(private_interfaces)] // nobody else's either
    fn set_prior(&mut self, _arm: u32, _prior: Prior) -> Result<()> {
        Err(Error::Unsupported("set_prior"))
    }

    /// How often a release contradicted its arm's past, so that the policy forgot it.
    fn changes(&self) -> u64 {
        0
    }

    /// How often its model could not be updated, so that the last one stayed.
    fn failures(&self) -> u64 {
        0
    }

    /// The decided best arm, if the policy decides one.
    fn best_arm(&self) -> Option<u32> {
        None
    }

    /// The loss of one reward through the releases made so far.
    fn privacy(&self) -> PrivacyLoss;

    /// The loss of a request whose rewards are in so many batches.
    fn loss_of_request(&self, batches: u32) -> PrivacyLoss {
        self.privacy().of_batches(batches)
    }

    /// Are rewards bits that were privatised before they came, so that nothing else is taken?
    fn takes_bits(&self) -> bool {
        false
    }

    /// Writes what was released and what is public, and nothing else, for [`load`](Self::load). (A baseline writes
    /// its sums: they are released where it is the base of DP-Lap or gets privatised bits, and a handle refuses
    /// to write others.)
    ///
    /// # Errors
    /// `Unsupported` where what it would have to keep is not released.
    fn save(&self, to: &mut Writer) -> Result<()>;

    /// Goes on, in a fresh policy of the same configuration, from what was saved. What was open stays
    /// behind: its rewards never enter a release. A handle that fails here is thrown away.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`; `Unsupported`.
    fn load(&mut self, _from: &mut Reader) -> Result<()> {
        Err(Error::Unsupported("a snapshot"))
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
pub trait DynamicArms {
    /// The next arm to play, among these: one at least, and all of them live. Not asked of policies
    /// [by request](Policy::by_request), which see these arms there.
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

/// A policy that shows several arms for one request.
pub trait Slates {
    /// The next `slots` arms to play, all different, of those that are left: live, each once, so many at least. Those
    /// that play leave them, and `each` is told in turn. A propensity is that of the arm among those that were
    /// left, given the draws before it.
    fn choose_slate(&mut self, left: &mut Vec<u32>, slots: usize, each: &mut dyn FnMut(Pull));
}

/// A policy that learns from a set of releases, whoever made them.
pub(crate) trait Mergeable {
    /// So many other handles are at work: their batches grow as ours do.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn expect(&mut self, others: u32) -> Result<()>;

    /// The time that ages of releases count to.
    fn time(&self) -> u64;

    /// All that others have released of an arm, in place of what was said before.
    fn join(&mut self, arm: u32, others: &mut dyn Iterator<Item = &ReleaseHistory>);
}

/// A policy whose decisions depend on what a request says beside its arms: a segment, or features.
pub(crate) trait ByRequest {
    /// May this be decided? (Its eligible arms are live.) Nothing changes.
    ///
    /// # Errors
    /// `InvalidRequest`; `Unsupported`; `Full`.
    fn check(&mut self, request: &Request) -> Result<()>;

    /// Decides the request of one slot that was checked last, kept in this `place` of the ring: what it chose, and which arm
    /// that plays.
    fn choose(&mut self, request: &Request, place: usize) -> (Pull, u32);

    /// The same for several slots, with different arms: tells `each`. `left` has the arms that may be played, each once.
    /// The decisions are kept in these `places`. A propensity is that of the arm given the draws before it.
    fn choose_slots(
        &mut self,
        request: &Request,
        left: &mut Vec<u32>,
        places: &mut dyn Iterator<Item = usize>,
        each: &mut dyn FnMut(Pull, u32),
    );

    /// An earlier pull was not played after all.
    fn unplay(&mut self, _pull: Pull) {}

    /// Writes how often each arm was played in each segment, less these, for [`Policy::load`].
    fn save_pulls(&self, _to: &mut Writer, _pending: &mut dyn Iterator<Item = Pull>) {}

    /// Segments in use.
    fn segments(&self) -> u32 {
        0
    }

    /// What may be read of an arm in a segment, and how often it was played there.
    ///
    /// # Errors
    /// `InvalidRequest` where there is no such segment; `Unsupported`.
    fn arm_in(&self, _segment: u64, _arm: u32) -> Result<(ArmState, u64)> {
        Err(Error::Unsupported("segments: config.max_segments is 0"))
    }

    /// What is believed of the mean of each row of a request, and its deviation.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn predict(&mut self, _request: &Request, _each: &mut dyn FnMut(f64, f64)) -> Result<()> {
        Err(Error::Unsupported("features: config.features is 0"))
    }

    /// Rows of features that were larger than the configuration says.
    fn oversized(&self) -> u64 {
        0
    }
}

/// Which handle a snapshot is of.
pub(crate) struct PeerId<'a> {
    pub origin: u64,
    pub lives: u32,
    /// The ids of the arms that were added.
    pub added: &'a [u64],
}

/// What another handle has released, for policies that keep it themselves.
pub(crate) enum Peer {
    Segments(Box<super::segments::peers::PeerBandit>),
    Linear(Box<super::linear::contextual::SavedPeer>),
}

impl Peer {
    /// What [`Policy::save`] wrote there.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub fn read(config: &Config, id: &PeerId, from: &mut Reader) -> Result<Peer> {
        match config.features {
            0 => Segmented::read_peer(config, id, from).map(|peer| Peer::Segments(Box::new(peer))),
            _ => SavedPeer::read(config, id, from).map(|peer| Peer::Linear(Box::new(peer))),
        }
    }
}
