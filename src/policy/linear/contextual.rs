//! dp-linear as a policy that decides by request, with the releases of other handles.

use super::{Linear, Rows, SavedLinear, Shape};
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::fleet::{Entry, Roster, put};
use crate::key_index::KeyIndex;
use crate::policy::contract::{ArmState, ByRequest, Combining, DynamicArms, Peer, PeerId, Policy, Pull};
use crate::policy::prior::Prior;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::request::Request;
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer};

/// The policy. The number of a pull is its position in the engine's ring, where its row is kept.
pub(crate) struct Contextual {
    pub(super) linear: Linear,
    /// Number of the configuration's arms, which have their numbers as ids.
    first: u32,
    /// Whether each arm has a model.
    pub(super) per_arm: bool,
    roster: Roster,
    /// Newest snapshot of each peer, in the order of `roster`.
    peers: Vec<SavedPeer>,
}

/// The releases of another handle.
pub(crate) struct SavedPeer {
    entry: Entry,
    saved: SavedLinear,
    first: u32,
    /// Ids of the peer's added arms.
    added: KeyIndex,
}

impl SavedPeer {
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub fn read(config: &Config, id: &PeerId, from: &mut Reader) -> Result<SavedPeer> {
        let saved = SavedLinear::read(from, &shape(config), config.arms as usize + id.added.len())?;
        let entry =
            Entry::new(id.origin, (id.generation, saved.decisions, saved.now(), saved.releases, from.checksum()));
        Ok(SavedPeer { entry, saved, first: config.arms, added: KeyIndex::of(id.added, 0)? })
    }

    /// Returns the peer's number of the arm with this id.
    fn arm(&self, id: u64) -> Option<usize> {
        if id < self.first.into() { Some(id as usize) } else { Some(self.first as usize + self.added.find(id)?) }
    }
}

fn shape(config: &Config) -> Shape {
    Shape { features: config.features, per_arm: config.model_per_arm, norm: config.feature_norm }
}

impl Contextual {
    /// # Errors
    /// `InvalidConfig`; `NoMemory`.
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Contextual> {
        let linear = Linear::new(config, shape(config), Engine::places(config), seed)?;
        let (first, per_arm) = (config.arms, config.model_per_arm);
        Ok(Contextual { linear, first, per_arm, roster: Roster::new(), peers: Vec::new() })
    }

    /// Joins the peers' releases for a model. `added` are the ids of this handle's added arms.
    fn join(&mut self, model: usize, added: &[u64]) {
        let id = id(self.first, model, added);
        let (peers, per_arm) = (&self.peers, self.per_arm);
        let evidence = |peer: &'_ SavedPeer| if per_arm { peer.arm(id) } else { Some(0) };
        let mut theirs = peers.iter().filter_map(|peer| Some(peer.saved.evidence(evidence(peer)?)));
        self.linear.join(model, &mut theirs);
    }
}

/// Returns the id of an arm, of which the configuration has `first`.
fn id(first: u32, arm: usize, added: &[u64]) -> u64 {
    arm.checked_sub(first as usize).map_or(arm as u64, |place| added[place])
}

/// Returns the rows that a request must have.
fn required<'a>(request: &Request<'a>) -> Result<Rows<'a>> {
    if request.segment != 0 {
        return Err(Error::Unsupported("a segment: config.max_segments is 0"));
    }
    request.features.ok_or_else(|| Error::request("features", "must be set: config.features is not 0", 0u32))
}

/// Returns the rows of a checked request.
fn rows<'a>(request: &Request<'a>) -> Rows<'a> {
    request.features.unwrap_or(Rows::Dense(&[]))
}

impl ByRequest for Contextual {
    fn check(&mut self, request: &Request) -> Result<()> {
        let rows = required(request)?;
        self.linear.check_rows(request.eligible, rows)
    }

    fn choose(&mut self, request: &Request, place: usize) -> (Pull, u32) {
        let phase = self.linear.releases();
        let choice = self.linear.choose(place, request.eligible, rows(request));
        (Pull::new(place as u32, phase, choice.propensity), choice.arm)
    }

    fn choose_slots(
        &mut self,
        request: &Request,
        _left: &mut Vec<u32>,
        places: &mut dyn Iterator<Item = usize>,
        each: &mut dyn FnMut(Pull, u32),
    ) {
        let phase = self.linear.releases();
        self.linear.choose_slots(places, request.eligible, rows(request), &mut |choice| {
            each(Pull::new(choice.slot as u32, phase, choice.propensity), choice.arm);
        });
    }

    fn predict(&mut self, request: &Request, each: &mut dyn FnMut(f64, f64)) -> Result<()> {
        required(request)?;
        self.linear.estimate(request.eligible, rows(request), each)
    }

    fn oversized(&self) -> u64 {
        self.linear.oversized()
    }
}

impl Policy for Contextual {
    fn choose(&mut self) -> Pull {
        unreachable!("each decision has features")
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.linear.observe(pull.arm() as usize, reward);
    }

    fn cancel(&mut self, _pull: Pull) {}

    fn advance(&mut self, ticks: u64) {
        self.linear.advance(ticks);
    }

    fn arm_of(&self, pull: Pull) -> u32 {
        self.linear.arm(pull.arm() as usize)
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.linear.arm_state(arm)
    }

    fn phase(&self) -> u32 {
        self.linear.releases()
    }

    fn active(&self) -> u32 {
        self.linear.active()
    }

    fn by_request(&mut self) -> Option<&mut dyn ByRequest> {
        Some(self)
    }

    fn dynamic_arms(&mut self) -> Option<&mut dyn DynamicArms> {
        Some(self)
    }

    fn combining(&mut self) -> Option<&mut dyn Combining> {
        Some(self)
    }

    fn merge(&mut self, peer: Peer, added: &[u64]) -> Result<bool> {
        let Peer::Linear(peer) = peer else { return Err(Error::Corrupt) };
        if !self.roster.is_newer(&peer.entry)? {
            return Ok(false);
        }
        self.peers.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.linear.reserve_others()?;
        let place = self.roster.insert(peer.entry);
        put(&mut self.peers, place, *peer);
        self.linear.join_pilots(&mut self.peers.iter().map(|peer| &peer.saved.pilot), self.roster.active());
        (0..self.linear.models()).for_each(|model| self.join(model, added));
        let (Ok(place) | Err(place)) = place;
        let leader = &self.peers[place];
        for model in 0..self.linear.models() {
            let theirs = if self.per_arm { leader.arm(id(self.first, model, added)) } else { Some(0) };
            if let Some(theirs) = theirs {
                self.linear.follow(model, &leader.saved, theirs);
            }
        }
        Ok(true)
    }

    fn name_arm(&mut self, added: &[u64]) {
        if self.per_arm && !self.peers.is_empty() {
            self.join(self.linear.models() - 1, added);
        }
    }

    fn set_prior(&mut self, arm: u32, prior: Prior) -> Result<()> {
        self.linear.set_prior(arm, prior)
    }

    fn failures(&self) -> u64 {
        self.linear.failures()
    }

    fn privacy(&self) -> PrivacyLoss {
        self.linear.privacy()
    }

    fn loss_of_request(&self, batches: u32) -> PrivacyLoss {
        super::loss_of_request(self.privacy(), batches, self.per_arm)
    }

    fn save(&self, to: &mut Writer) -> Result<()> {
        self.linear.save(to);
        Ok(())
    }

    fn load(&mut self, from: &mut Reader) -> Result<()> {
        self.linear.load(from)
    }
}

impl DynamicArms for Contextual {
    fn choose_among(&mut self, _arms: &[u32]) -> Pull {
        unreachable!("each decision has features")
    }

    fn is_live(&self, arm: u32) -> bool {
        self.linear.is_live(arm)
    }

    fn add_arm(&mut self) -> Result<()> {
        self.linear.add_arm()
    }

    fn retire_arm(&mut self, arm: u32) {
        self.linear.retire_arm(arm);
    }
}
