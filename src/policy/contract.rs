//! The interface between the engine and a policy, and what each guarantees to the other.

use super::compare::ReleaseTotals;
use super::learner::AnyLearner;
use super::verdict::{Claims, Test};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::cells::{Ledger, OpenSum};
use crate::memory::try_with_capacity;
use crate::moving::{Archive, Persist};
use crate::privacy::PrivacyLoss;
use crate::request::Offer;
pub use crate::request::Pull;
use crate::reward::Reward;
use crate::shuffle::Params;

/// Why most policies have no weights.
pub(super) const NO_WEIGHTS: &str = "weights, because it plans single decisions: dp-med has weights";

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

/// What a report contains of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicyCounts {
    /// The loss of one reward through the releases made so far.
    pub loss: PrivacyLoss,
    /// The arm that the policy has decided for.
    pub best: Option<u32>,
    /// The current epoch, phase or interval.
    pub phase: u32,
    /// Number of arms that are neither eliminated nor retired.
    pub active: u32,
    /// How often a release contradicted its arm's past, so that the policy forgot that past.
    pub changes: u64,
    /// How often the model could not be updated, so that the policy kept the last one.
    pub failures: u64,
    /// How often a merge found new releases.
    pub merges: u64,
    /// Number of segments in use.
    pub segments: u32,
    /// Number of rows of features that were scaled down.
    pub oversized: u64,
    /// The test that it makes of its arms, if it does, with its claims.
    pub test: Option<(Test, Claims)>,
    /// The learned clip, as a share of the range of rewards, if it is known.
    pub clip: Option<f64>,
}

impl PolicyCounts {
    /// Zero of everything but the loss.
    pub(crate) fn of(loss: PrivacyLoss) -> PolicyCounts {
        PolicyCounts { loss, ..PolicyCounts::default() }
    }

    /// Of a policy with a ledger.
    pub(super) fn of_ledger<S: OpenSum, R>(ledger: &Ledger<S, R>) -> PolicyCounts {
        PolicyCounts {
            phase: ledger.facts.releases,
            active: ledger.roster.live().len() as u32,
            merges: ledger.peers.updates(),
            segments: ledger.keys.len() as u32,
            ..PolicyCounts::of(ledger.facts.privacy(&ledger.noise.distribution()))
        }
    }
}

/// A bandit algorithm as a state machine over releases.
///
/// The engine guarantees that every reward is in range and on the grid, belongs to an earlier `choose` of this
/// policy, and comes at most once. A pull ends in `observe` or in `cancel`, never in both. The policy guarantees that
/// `choose` and everything readable depend only on released state, coins and the public order of events. Of what a
/// policy cannot do, nothing is called.
#[allow(private_interfaces, private_bounds)] // requests, peers and states that move are private to the crate
pub trait Policy: Send + Persist {
    /// The next arm to pull, for a default request.
    fn choose(&mut self) -> Pull;

    /// Chooses an arm for each slot of a checked request. A propensity is that of the arm among those that were left, given
    /// the draws before it.
    fn decide(&mut self, offer: &mut Offer) {
        let pull = self.choose();
        offer.choose(pull, pull.arm(), f64::NAN);
    }

    /// Writes the probability of each arm by its number, in the decision of a checked request of one slot that gets an arm.
    /// The other arms have 0 already. Changes nothing that a later decision depends on.
    ///
    /// # Errors
    /// `Unsupported` if the policy decides otherwise than by a draw.
    fn weights(&mut self, _offer: &Offer, _weights: &mut [f64]) -> Result<()> {
        Err(Error::unsupported(NO_WEIGHTS))
    }

    /// Reports the reward of an earlier pull.
    fn observe(&mut self, pull: Pull, reward: Reward);

    /// Cancels an earlier pull: it will get no reward, and counts as not made. Where
    /// [requests are private](crate::Config::private_features) this comes when the time of a decision is over, and also of one
    /// that has no arm: that it was cancelled or has none must not show.
    fn cancel(&mut self, pull: Pull);

    /// The public state of an arm.
    fn arm(&self, arm: u32) -> ArmState;

    /// What a report contains besides the arms.
    fn counts(&self) -> PolicyCounts;

    /// The releases of an arm, for an interval that holds at all times.
    ///
    /// # Errors
    /// `NotReady` before the first release; `Unsupported` if the policy does not keep them.
    fn sums(&self, _arm: u32) -> Result<ReleaseTotals> {
        Err(Error::unsupported("comparing arms: it keeps no released sums"))
    }

    /// The releases of samples of its own draws and of even ones, if it learns a lift from samples.
    ///
    /// # Errors
    /// `NotReady` before the first release; `Unsupported` without exploration.
    fn samples(&self) -> Result<Option<[ReleaseTotals; 2]>> {
        Ok(None)
    }

    /// Passes the predicted mean of each row of a checked request with features, and its standard deviation, to `each`.
    fn predict(&mut self, _offer: &Offer, _each: &mut dyn FnMut(f64, f64)) {}

    /// Passes the weight of each feature in the model of an arm, and its standard deviation, to `each`; then the intercept.
    fn feature_weights(&mut self, _arm: u32, _each: &mut dyn FnMut(f64, f64)) {}

    /// Writes released and public state, and nothing else, or continues from it in a fresh policy of the same
    /// configuration. Open batches are not written: their rewards never enter a release. The caller drops a handle that
    /// could not be read. (A baseline writes its sums: they are released if it is the base of DP-Lap or receives
    /// privatised bits. A handle does not write others.)
    ///
    /// # Errors
    /// `Unsupported` if the policy cannot continue from released state; `Corrupt`; `NoMemory`.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()>;

    /// The policy as one that learns from a set of releases, if it does.
    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        None
    }

    /// Adds the shuffled batch of an arm, bits in random order, in the open phase, if there is one. Returns the parameters
    /// of the batches of a phase.
    ///
    /// # Errors
    /// `Unsupported` if the policy is not of the shuffle model; for a refused batch, which changes nothing.
    fn shuffled(&mut self, _phase: u32, _batch: Option<(u32, &[u8])>) -> Result<Params> {
        Err(Error::unsupported("a shuffled batch: it is not of the shuffle model"))
    }
}

/// The arms of a new handle, which may all be pulled.
///
/// # Errors
/// `NoMemory`.
pub(super) fn all_arms(config: &Config) -> Result<Vec<u32>> {
    let mut arms = try_with_capacity(config.arms as usize)?;
    arms.extend(0..config.arms);
    Ok(arms)
}
