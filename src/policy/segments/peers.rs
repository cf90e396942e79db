//! Releases of other handles.
//!
#![doc = include_str!("../../../docs/theory/segments-merging.md")]

use super::model::{Rate, WeightedEvidence, discount, half_life};
use super::{Play, SegmentLedger, Segments};
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::ledger::cells::Place;
use crate::ledger::grid::Grid;
use crate::ledger::peers::{Peer, Peers};
use crate::memory::try_with_capacity;
use crate::moving::Archive;
use crate::policy::compare::Totals;
use crate::policy::contract::{ArmState, Pull};
use crate::policy::learner::{Change, Growth, Learner, PeerHead};
use crate::snapshot::Reader;

#[derive(Default)]
pub struct SegmentPeers {
    /// Sum of the peers' releases: of each cell of this handle, and of everything.
    pub(super) cells: Grid<WeightedEvidence>,
    pub(super) all: WeightedEvidence,
    /// The peers' decisions for each row of this handle. Empty before the first merge.
    decisions: Vec<u64>,
    /// For each arm of this handle, its position in the snapshot being merged and in the one replaced. Capacity for all
    /// arms.
    places: Vec<[Option<usize>; 2]>,
    /// Number of segments of the peer that has the most.
    pub(super) segments: usize,
}

/// What another handle has released and decided.
pub struct SegmentReleases {
    keys: KeyIndex,
    /// Decisions in all segments together, then in each.
    decisions: Vec<u64>,
    cells: Vec<Rounded>,
    trials: Vec<Totals>,
    all: WeightedEvidence,
}

/// Z, W and the number of rewards.
pub(super) type Rounded = [f32; 3];

/// Rounds evidence so that sums over 1024 handles are exact.
pub(super) fn rounded(released: WeightedEvidence) -> Rounded {
    const MOST: f64 = (1u64 << 36) as f64;
    let share = MOST / released.count.max(MOST); // 1 for a count of zero, whatever its sign
    [released.sum, released.weight, released.count].map(|number| (number * share * 128.0).round() as f32 / 128.0)
}

impl SegmentReleases {
    /// Returns the decisions and releases of the segment with this key, or of all segments together.
    fn row(&self, key: Option<u64>) -> (u64, &[Rounded]) {
        let arms = self.trials.len();
        match key.map_or(Some(0), |key| Some(self.keys.find(key)? + 1)) {
            Some(row) => (self.decisions[row], &self.cells[row * arms..][..arms]),
            None => (0, &[]),
        }
    }
}

/// Returns a row's releases of an arm, or zeros if the peer has no such row or arm.
fn of_arm(row: &[Rounded], place: Option<usize>) -> Rounded {
    place.and_then(|place| row.get(place)).copied().unwrap_or_default()
}

impl WeightedEvidence {
    /// Adds evidence. A negative discount subtracts what was added.
    pub(super) fn add(&mut self, [sum, weight, count]: Rounded, discount: f64) {
        self.count = (self.count + discount * f64::from(count)).max(0.0);
        self.weight = (self.weight + discount * f64::from(weight)).clamp(0.0, self.count);
        self.sum = (self.sum + discount * f64::from(sum)).clamp(0.0, self.weight);
    }
}

impl SegmentPeers {
    /// Returns the peers' releases of a cell, as of its last update.
    pub(super) fn released(&self, row: usize, arm: usize) -> WeightedEvidence {
        self.cells.get(row, arm).copied().unwrap_or_default()
    }

    /// Adds an arm without releases.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub(super) fn add_arm(&mut self) -> Result<()> {
        if self.decisions.is_empty() {
            return Ok(());
        }
        let column = self.cells.new_arm()?;
        self.cells.push_arm(column);
        Ok(())
    }

    /// Recomputes what is stored of all peers together.
    fn count(&mut self, known: &Peers<SegmentReleases>, now: u64, half_life: f64) {
        let mut all = WeightedEvidence { time: now, ..WeightedEvidence::default() };
        for peer in known.iter() {
            let discount = discount(now - peer.merged, half_life);
            all.sum += discount * peer.releases.all.sum;
            all.count += discount * peer.releases.all.count;
        }
        self.all = all;
        self.segments = known.iter().map(|peer| peer.releases.decisions.len() - 1).max().unwrap_or(0);
    }
}

impl Learner for Segments {
    type Sum = Play;
    type Releases = SegmentReleases;

    fn ledger(&mut self) -> &mut SegmentLedger {
        &mut self.ledger
    }

    fn cell(&self, pull: Pull) -> (usize, usize) {
        let (segment, arm) = self.cell_of(pull.arm() / 2);
        (segment + 1, arm)
    }

    /// The model's mean of its rate, and the number of rewards in the cell's own releases, here and at peers.
    fn arm_in(&self, row: usize, arm: u32) -> ArmState {
        let place = arm as usize;
        let (mean, effective_pulls) = (self.distribution(row, place).0, self.released(row, place).count);
        ArmState { mean, width: f64::NAN, effective_pulls, active: self.ledger.roster.is_live(place) }
    }

    fn changed(&mut self, change: Change<SegmentReleases>) {
        match change {
            Change::Duty => {
                for row in 0..self.rows.len() {
                    for arm in 0..self.rates.len() {
                        if self.ledger.cells[(row, arm)].batch.quota() > 0 {
                            let size = self.ledger.facts.quota(self.size(row, arm));
                            self.ledger.cells[(row, arm)].batch.set_quota(size);
                        }
                    }
                }
                self.compare_again();
                self.trial = false;
                self.plan();
            }
            Change::Added => {
                self.order.push(self.arms() - 1);
                let mean = self.mean_rate();
                self.update_rate(self.rates.len() - 1, mean);
                if !self.trial {
                    self.plan();
                }
                self.seed_arm_from_peers();
            }
            Change::Joined { peer, before } => self.join(peer, before),
            Change::Retired(arm) => self.retire(arm),
            Change::Prior(arm, prior) => {
                self.rates[arm].prior = Some((prior, self.now()));
                self.learn(0);
            }
            Change::Row => {
                self.push_row();
                self.seed_segment_from_peers();
            }
            Change::Wanted(Place::Cell(row, arm)) => self.ensure_open(row, arm),
            Change::Full(Place::Cell(row, arm)) => self.release_cell(row, arm),
            Change::Emptied => self.compare_again(),
            // While it waited for contributions to a trial, a segment has begun with little knowledge. It compares again.
            Change::Combined => self.turns[1..].iter_mut().for_each(|turn| turn.left = 0),
            // If nothing was released or merged since the model was fitted, fitting it again would change nothing.
            Change::Merged if !self.fitted => self.fit(),
            _ => (),
        }
    }

    fn grow(&mut self, by: Growth) -> Result<()> {
        if by == Growth::Arm {
            return self.make_arm();
        }
        let (arms, no_memory) = (self.rates.len(), |_| Error::NoMemory);
        let most = self.max_segments as usize;
        self.by_key.try_reserve_exact(most - self.by_key.len()).map_err(no_memory)?;
        let peers = &mut self.peers;
        peers.places.clear();
        peers.places.try_reserve(arms).map_err(no_memory)?;
        if peers.decisions.is_empty() {
            let configured = self.configured as usize;
            let mut cells = Grid::try_new(configured, most + 1)?;
            for _ in configured..arms {
                let column = cells.new_arm()?;
                cells.push_arm(column);
            }
            let mut decisions = try_with_capacity(most + 1)?;
            self.rows.iter().for_each(|_| cells.push_row());
            decisions.resize(self.rows.len(), 0);
            (peers.cells, peers.decisions) = (cells, decisions);
        }
        Ok(())
    }

    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<SegmentReleases> {
        let (arms, rows, now) = (head.arms, head.keys.len() + 1, head.facts.now());
        let (half_life, mut all) = (half_life(head.config.forget_after), WeightedEvidence::default());
        let with = &mut Archive::In(from);
        all.move_saved(now, with)?;
        all.fade(now, half_life);
        let (mut decisions, mut cells, mut trials) =
            (try_with_capacity(rows)?, try_with_capacity(rows * arms)?, try_with_capacity(arms)?);
        for _ in 0..arms {
            let mut rate = Rate::new(); // each handle has its own priors
            rate.move_saved(now, with)?;
            trials.push(rate.trials);
        }
        for _ in 0..rows {
            let mut count = 0;
            with.count(&mut count)?;
            decisions.push(count.min(1 << 50)); // so that sums fit
        }
        for _ in 0..rows * arms {
            let mut released = WeightedEvidence::default();
            released.move_cell(now, with)?;
            released.fade(now, half_life);
            cells.push(rounded(released));
        }
        Ok(SegmentReleases { keys: KeyIndex::of(head.keys, 0)?, decisions, cells, trials, all })
    }
}

impl Segments {
    /// Learns from the peer at this place, which is new or has replaced `before`.
    fn join(&mut self, peer: usize, before: Option<&Peer<SegmentReleases>>) {
        self.ledger.facts.time.learn();
        let (now, half_life) = (self.now(), self.half_life);
        self.peers.count(&self.ledger.peers, now, half_life);
        self.least_batch = self.size_of_least_batch();
        let (SegmentPeers { cells, decisions, places, .. }, ledger) = (&mut self.peers, &self.ledger);
        let peer = &ledger.peers[peer];
        places.clear();
        for (arm, rate) in self.rates.iter_mut().enumerate() {
            let [at, was] = [Some(peer), before].map(|peer| peer.and_then(|peer| peer.arm(arm, &ledger.roster)));
            let of = |peer: Option<&Peer<SegmentReleases>>, place: Option<usize>| {
                place.and_then(|place| peer?.releases.trials.get(place)).copied().unwrap_or(Totals::NONE)
            };
            rate.others.replace(&of(before, was), &of(Some(peer), at));
            places.push([at, was]);
        }
        let lost = before.map_or(0.0, |before| discount(now - before.merged, half_life));
        for row in 0..self.rows.len() {
            let key = row.checked_sub(1).map(|segment| self.ledger.keys[segment]);
            let (decisions_now, released) = peer.releases.row(key);
            let (decisions_then, replaced) = before.map_or((0, &[][..]), |before| before.releases.row(key));
            let mut changed = false;
            for (arm, &[at, was]) in places.iter().enumerate() {
                let (now_released, then_released) = (of_arm(released, at), of_arm(replaced, was));
                changed |= now_released != then_released;
                let cell = &mut cells[(row, arm)];
                cell.fade(now, half_life);
                cell.add(then_released, -lost);
                cell.add(now_released, 1.0);
            }
            decisions[row] = decisions[row] - decisions_then + decisions_now;
            if changed {
                self.turns[row].left = 0;
            }
        }
        self.fitted = false;
        self.trial = false;
        self.plan();
    }
    /// Makes what one more arm has in every segment.
    ///
    /// # Errors
    /// `InvalidConfig` for more than [`MOST_CELLS`](Segments::MOST_CELLS); `NoMemory`.
    fn make_arm(&mut self) -> Result<()> {
        let arms = u64::from(self.arms()) + 1;
        let fits = (u64::from(self.max_segments) + 1) * arms <= Segments::MOST_CELLS;
        Error::unless(fits, "arms", "times max_segments must be at most 2^27", arms)?;
        let no_memory = |_| Error::NoMemory;
        self.rates.reserve()?;
        self.order.try_reserve(1).map_err(no_memory)?;
        let more = (arms as usize).saturating_sub(self.ranks.len());
        self.ranks.try_reserve(more).map_err(no_memory)?;
        let (plays, cells) = (self.ledger.cells.new_arm()?, self.cells.new_arm()?);
        self.peers.add_arm()?;
        self.ledger.cells.push_arm(plays);
        self.cells.push_arm(cells);
        self.rates.push(Rate::new());
        Ok(())
    }

    /// Ends what is planned for a retired arm.
    fn retire(&mut self, arm: usize) {
        let had_prior = self.rates[arm].prior.take().is_some();
        self.trial &= self.turns[0].best != arm as u32;
        for turn in self.turns.iter_mut().filter(|turn| turn.best == arm as u32) {
            turn.left = 0;
        }
        if had_prior { self.learn(0) } else { self.plan() }
    }

    /// Returns the decisions of all handles in a row. Handles that release nothing need not be merged: if not all are
    /// known, the others have as many as those that are.
    pub(super) fn decisions(&self, row: usize) -> f64 {
        let known = self.turns[row].decisions + self.peers.decisions.get(row).copied().unwrap_or_default();
        let handles = f64::from(self.ledger.facts.handles()) / (1.0 + self.ledger.peers.iter().len() as f64);
        known as f64 * handles.max(1.0)
    }

    /// Adds the peers' releases of the newest row, if there are peers.
    pub(super) fn seed_segment_from_peers(&mut self) {
        let row = self.rows.len() - 1;
        let key = self.ledger.keys[row - 1];
        let (SegmentPeers { cells, decisions, .. }, known) = (&mut self.peers, &self.ledger.peers);
        if decisions.is_empty() {
            return;
        }
        cells.push_row();
        decisions.push(known.iter().map(|peer| peer.releases.row(Some(key)).0).sum());
        (0..self.rates.len()).for_each(|arm| self.seed(row, arm));
        self.learn(row);
    }

    /// Adds the peers' releases of the newest arm, if there are peers that have it.
    pub(super) fn seed_arm_from_peers(&mut self) {
        let arm = self.rates.len() - 1;
        let (others, ledger) = (&mut self.rates[arm].others, &self.ledger);
        let mut changed = false;
        for peer in ledger.peers.iter() {
            let Some(place) = peer.arm(arm, &ledger.roster) else { continue };
            changed = true;
            others.add(&peer.releases.trials[place]);
        }
        if changed {
            (0..self.rows.len()).for_each(|row| self.seed(row, arm));
            self.turns.iter_mut().for_each(|turn| turn.left = 0);
            self.trial = false;
            self.fit();
        }
    }

    /// Adds the peers' releases of a cell that is new.
    fn seed(&mut self, row: usize, arm: usize) {
        let (now, half_life) = (self.now(), self.half_life);
        let key = row.checked_sub(1).map(|segment| self.ledger.keys[segment]);
        let cell = &mut self.peers.cells[(row, arm)];
        cell.time = now;
        for peer in self.ledger.peers.iter() {
            let released = of_arm(peer.releases.row(key).1, peer.arm(arm, &self.ledger.roster));
            cell.add(released, discount(now - peer.merged, half_life));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::ledger::peers::{AnyPeer, PeerId};
    use crate::policy::learner::AnyLearner;
    use crate::random::{Random, Seed};
    use crate::snapshot::write;

    fn segments(keys: &[u64], arms: u32, coins: &mut Random) -> Segments {
        let config = Config { max_segments: 8, ..Config::new(arms, 1.0) };
        let mut segments = Segments::new(&config, &mut Seed::new(None).unwrap()).unwrap();
        for &key in keys {
            segments.add_segment(key);
        }
        for place in 0..(keys.len() + 1) * arms as usize {
            let cell = &mut segments.cells[(place / arms as usize, place % arms as usize)];
            // The range includes values that are rounded away and the largest that a snapshot may contain.
            let count = (coins.unit() * 100.0 - 40.0).exp2().min(1e17);
            let weight = count * coins.unit();
            cell.released = WeightedEvidence { sum: weight * coins.unit(), weight, count, time: 0 };
        }
        segments
    }

    /// Three handles are merged in several orders, some after an older snapshot that the newer one replaces. The sums
    /// are the same to the last bit, and equal the sums over the newest snapshots. So huge numbers leave no trace once
    /// they are replaced.
    #[test]
    fn sums_do_not_depend_on_the_order() {
        let mut coins = Seed::new(Some([1; 32])).unwrap().stream();
        let keys: [&[u64]; 3] = [&[5, 6], &[6], &[8, 5, 7]];
        let other = |origin: usize, decisions: u64, coins: &mut Random| {
            let mut released = segments(keys[origin], 3, coins);
            released.ledger.facts.decisions = decisions;
            let saved = write(usize::MAX, |to| released.persist_public(&mut Archive::Out(to), &mut [].into_iter()));
            let bytes = saved.unwrap().seal();
            move || {
                let from = &mut Reader::new(&bytes).unwrap();
                let id = PeerId { origin: 7 + origin as u64, generation: 0, added: &[] };
                segments(&[], 3, &mut Seed::new(Some([2; 32])).unwrap().stream()).peer_reader()(
                    &Config::new(3, 1.0),
                    &id,
                    from,
                )
                .unwrap()
            }
        };
        let all: Vec<_> = (0..6).map(|i| other(i % 3, 10 + i as u64, &mut coins)).collect();
        let mut sums = Vec::new();
        for order in [vec![3, 4, 5], vec![0, 1, 2, 3, 4, 5], vec![2, 4, 5, 1, 0, 3, 3], vec![1, 5, 0, 2, 3, 4, 5]] {
            let mut here = segments(&[6, 5], 3, &mut coins);
            (0..9).for_each(|place| here.cells[(place / 3, place % 3)].released = WeightedEvidence::default());
            for number in order {
                here.merge(all[number]()).unwrap();
            }
            here.add_segment(7);
            sums.push(here.peers.cells.iter().map(|cell| [cell.sum, cell.weight, cell.count]).collect::<Vec<_>>());
        }
        let releases = |peer: AnyPeer| peer.downcast::<Peer<SegmentReleases>>().unwrap().releases;
        let newest = [all[3](), all[4](), all[5]()].map(releases);
        let expected = [None, Some(6), Some(5), Some(7)].into_iter().flat_map(|key| {
            let mut sums = [[0.0; 3]; 3];
            for other in &newest {
                for (sums, sum) in sums.iter_mut().zip(other.row(key).1) {
                    (0..3).for_each(|i| sums[i] += f64::from(sum[i]));
                }
            }
            sums
        });
        assert!(sums[0].iter().copied().eq(expected));
        assert!(sums.iter().all(|other| *other == sums[0]));
    }
}
