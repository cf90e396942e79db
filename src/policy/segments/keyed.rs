//! Segments identified by their keys: DP-IMED in each of them, as a policy that decides by request.

use super::peers::PeerBandit;
use super::{Names, Segments};
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::memory;
use crate::policy::batched::ReleaseTotals;
use crate::policy::contract::{ArmState, ByRequest, Combining, DynamicArms, Peer, PeerId, Policy, Pull};
use crate::policy::prior::Prior;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::request::Request;
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer};

/// The segments and their keys.
pub(crate) struct Segmented {
    pub(super) segments: Segments,
    pub(super) keys: Vec<u64>,
    /// The ids of the arms that were added.
    added: Vec<u64>,
    index: KeyIndex,
    /// Segment of the request that was checked last, if it exists.
    found: Option<u32>,
    /// Maximum number of segments.
    most: u32,
}

/// Every pull's number fits into the engine's ring.
const _: () = assert!(2 * Segments::MOST_CELLS <= Engine::MOST_ARM as u64);

impl Segmented {
    /// Returns a policy without segments. It reserves address space for all of them. On most systems a segment takes
    /// memory only when it is added: 80 bytes for each arm, and 64.
    ///
    /// # Errors
    /// `InvalidConfig` for `max_segments` with more than 2^27 cells; `NoMemory`.
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Segmented> {
        let most = config.max_segments;
        if (u64::from(most) + 1) * u64::from(config.arms) > Segments::MOST_CELLS {
            return Err(Error::config("max_segments", "must be 2^27 arms in all segments at most", most));
        }
        let index = KeyIndex::try_with_capacity(most as usize)?;
        let segments = Segments::new(config, most, seed)?;
        Ok(Segmented {
            segments,
            keys: memory::try_with_capacity(most as usize)?,
            added: Vec::new(),
            index,
            found: None,
            most,
        })
    }

    /// Returns the segment of the request that was checked last, and adds it if it is new.
    #[inline]
    fn segment(&mut self, key: u64) -> u32 {
        match self.found {
            Some(segment) => segment,
            None => self.add(key),
        }
    }

    /// Returns the segment with this key, and adds it if it is new and there is room.
    pub(super) fn find_or_add(&mut self, key: u64) -> Option<u32> {
        match self.index.find(key) {
            Some(segment) => Some(segment as u32),
            None if self.keys.len() == self.most as usize => None,
            None => Some(self.add(key)),
        }
    }

    #[cold]
    fn add(&mut self, key: u64) -> u32 {
        self.index.insert(key);
        self.keys.push(key);
        self.segments.add_segment(key, &self.added)
    }

    /// Reads what another handle has released.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub fn read_peer(config: &Config, id: &PeerId, from: &mut Reader) -> Result<PeerBandit> {
        let keys = read_keys(from)?;
        for _ in 0..keys.len() * (config.arms as usize + id.added.len()) {
            from.count()?; // how often each arm was played
        }
        PeerBandit::read(from, id.origin, id.generation, config, Names { keys: &keys, added: id.added })
    }
}

fn read_keys(from: &mut Reader) -> Result<Vec<u64>> {
    let length = from.length(size_of::<u64>())?;
    let mut keys = memory::try_with_capacity(length)?;
    for _ in 0..length {
        keys.push(from.u64()?);
    }
    Ok(keys)
}

impl ByRequest for Segmented {
    #[inline]
    fn check(&mut self, request: &Request) -> Result<()> {
        if request.features.is_some() {
            return Err(Error::Unsupported("features: config.features is 0"));
        }
        self.found = self.index.find(request.segment).map(|segment| segment as u32);
        let is_full = self.keys.len() == self.most as usize;
        if is_full && self.found.is_none() { Err(Error::Full) } else { Ok(()) }
    }

    #[inline]
    fn choose(&mut self, request: &Request, _place: usize) -> (Pull, u32) {
        let segment = self.segment(request.segment);
        let pull = match request.eligible {
            Some(eligible) => self.segments.choose_among(segment, eligible),
            None => self.segments.choose(segment),
        };
        (pull, self.segments.arm_of(pull))
    }

    fn choose_slots(
        &mut self,
        request: &Request,
        left: &mut Vec<u32>,
        _places: &mut dyn Iterator<Item = usize>,
        each: &mut dyn FnMut(Pull, u32),
    ) {
        let segment = self.segment(request.segment);
        self.segments.choose_slate(segment, left, request.slots as usize, each);
    }

    fn unplay(&mut self, pull: Pull) {
        self.segments.unplay(pull);
    }

    fn save_pulls(&self, to: &mut Writer, pending: &mut dyn Iterator<Item = Pull>) {
        to.u32(self.keys.len() as u32);
        to.alike(self.keys.iter().copied(), Writer::u64);
        self.segments.save_pulls(to, pending.map(Pull::arm));
    }

    fn segments(&self) -> u32 {
        self.segments.count()
    }

    fn arm_in(&self, segment: u64, arm: u32) -> Result<(ArmState, u64)> {
        let known = || Error::request("segment", "must be the key of an earlier request", segment);
        let segment = self.index.find(segment).ok_or_else(known)? as u32;
        let (mean, effective_pulls) = self.segments.estimate(segment, arm);
        let active = self.segments.is_live(arm);
        Ok((ArmState { mean, width: f64::NAN, effective_pulls, active }, self.segments.pulls(segment, arm)))
    }
}

impl Policy for Segmented {
    fn choose(&mut self) -> Pull {
        unreachable!("each decision names its segment")
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.segments.observe(pull, reward);
    }

    fn cancel(&mut self, pull: Pull) {
        self.segments.cancel(pull);
    }

    fn advance(&mut self, ticks: u64) {
        self.segments.advance(ticks);
    }

    fn arm_of(&self, pull: Pull) -> u32 {
        self.segments.arm_of(pull)
    }

    fn arm(&self, arm: u32) -> ArmState {
        let (mean, effective_pulls) = self.segments.overall(arm);
        ArmState { mean, width: f64::NAN, effective_pulls, active: self.segments.is_live(arm) }
    }

    fn phase(&self) -> u32 {
        self.segments.releases()
    }

    fn active(&self) -> u32 {
        self.segments.active()
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

    fn merge(&mut self, peer: Peer, _added: &[u64]) -> Result<bool> {
        let Peer::Segments(peer) = peer else { return Err(Error::Corrupt) };
        let is_newer = self.segments.is_newer(&peer)?;
        let names = Names { keys: &self.keys, added: &self.added };
        if is_newer {
            self.segments.insert(*peer, names);
        }
        if !self.segments.is_fitted() {
            self.segments.fit(names);
        }
        Ok(is_newer)
    }

    fn name_arm(&mut self, added: &[u64]) {
        self.added.extend(added.last());
        self.segments.seed_arm_from_peers(Names { keys: &self.keys, added: &self.added });
    }

    fn merges(&self) -> u64 {
        self.segments.peers.updates()
    }

    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        self.segments.sums(arm)
    }

    fn set_prior(&mut self, arm: u32, prior: Prior) -> Result<()> {
        self.segments.set_prior(arm, prior);
        Ok(())
    }

    fn privacy(&self) -> PrivacyLoss {
        self.segments.privacy()
    }

    fn save(&self, to: &mut Writer) -> Result<()> {
        self.segments.save(to);
        Ok(())
    }

    fn load(&mut self, from: &mut Reader) -> Result<()> {
        let keys = read_keys(from)?;
        if keys.len() > self.most as usize {
            let rule = format!("must be at least {}, as in the snapshot", keys.len());
            return Err(Error::config("max_segments", &rule, self.most));
        }
        self.index = KeyIndex::of(&keys, self.most as usize)?;
        for key in keys {
            self.keys.push(key);
            self.segments.add_segment(key, &self.added);
        }
        self.segments.load_pulls(from)?;
        self.segments.load(from, Names { keys: &self.keys, added: &self.added })
    }
}

impl DynamicArms for Segmented {
    fn choose_among(&mut self, _arms: &[u32]) -> Pull {
        unreachable!("each decision names its segment")
    }

    fn is_live(&self, arm: u32) -> bool {
        self.segments.is_live(arm)
    }

    fn add_arm(&mut self) -> Result<()> {
        self.added.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.segments.add_arm()
    }

    fn retire_arm(&mut self, arm: u32) {
        self.segments.retire_arm(arm);
    }
}
