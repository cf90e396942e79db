//! What other handles have released.
//!
//! As in [`crate::fleet`], whose [`Roster`] says which snapshot is newer: what is known of a handle is its newest snapshot,
//! so merging is idempotent, commutative and associative. Segments are joined by their keys, arms by their ids. What
//! others have released of a segment or an arm that this handle does not have waits for its key or id, and counts once
//! that is added here. So the capacity for segments is this handle's own, and no merge is refused, or depends on the order,
//! because it is full. The row of all segments together, and so the arms' rates, take part at once.
//!
//! **Privacy.** Which batch a reward enters, how large that is and what is played are functions of releases, here and
//! elsewhere, coins and public counts, here and elsewhere. So Theorem P of [`crate::privacy`] holds for the transcript of
//! the whole fleet, whatever the order of releases, with the same epsilon. A snapshot has a handle's own releases, kept
//! apart from what it has merged: no release counts twice.
//!
//! **Exact.** All that others have released of a cell is a sum to which an update is added and from which what it replaces
//! is taken away. What a handle has released of a cell counts, here and elsewhere, rounded to 128ths of a reward and at
//! most 2^36 rewards, so the sum over 1024 handles is exact, whatever the order and whichever is our own. The model is
//! updated a row at a time and depends on the order; so each merge that finds it so fits it anew ([`Segments::fit`]), in
//! the order of keys and ids. Right after a merge, handles that know the same releases, have the same segments and arms and
//! no priors read the same **to the last bit**, in whatever order these were added. Retiring an arm changes nothing of it.
//! (With `forget_after` sums fade on each handle's own clock. They agree to the last bit while no clock moves, and to
//! rounding where an update replaces what has faded here.)
//!
//! **Cost.** 12 bytes for each cell, and 24 for each segment and each arm of every other handle. When the first one comes,
//! 32 bytes for each cell of our own and 12 for each segment. A merge takes O(cells), and the fit after it some five to ten times
//! what a release takes for each segment; a segment that is added O(peers arms), an arm O(peers segments) and a fit.

use super::grid::Grid;
use super::model::{WeightedEvidence, half_life};
use super::persist::SavedArm;
use super::{Names, Segments};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::fleet::{Entry, Roster, put};
use crate::key_index::KeyIndex;
use crate::memory::try_with_capacity;
use crate::policy::batched::Totals;
use crate::policy::time::Time;
use crate::snapshot::{Reader, ensure};

pub struct Peers {
    roster: Roster,
    /// As in the roster.
    known: Vec<PeerBandit>,
    /// All that they have released: of each cell of ours, of trials of each arm of ours, and in the whole.
    cells: Grid<WeightedEvidence>,
    trials: Vec<Totals>,
    pub(super) all: WeightedEvidence,
    /// Their decisions, for each row of ours; empty until the first of them comes.
    decisions: Vec<u64>,
    /// For one update: where each of our arms is in it, and in what it replaces. Capacity for all arms.
    places: Vec<[Option<u32>; 2]>,
    /// Segments of the one that has the most.
    pub(super) segments: usize,
    /// Handles at work, this one too.
    pub(super) at_work: f64,
    updates: u64,
}

/// Another handle, as its newest snapshot shows it.
pub struct PeerBandit {
    entry: Entry,
    keys: KeyIndex,
    /// Arms of the configuration, and the ids of those that were added.
    configured: u32,
    added: KeyIndex,
    /// Decisions: in all segments together, and in each.
    decisions: Vec<u64>,
    cells: Vec<Rounded>,
    trials: Vec<Totals>,
    all: WeightedEvidence,
    /// When it was merged: all that it had released counts as it did then.
    merged: u64,
}

/// Z, W and the number of rewards.
pub(super) type Rounded = [f32; 3];

/// A part of the evidence such that sums of 1024 of them are exact.
pub(super) fn rounded(released: WeightedEvidence) -> Rounded {
    const MOST: f64 = (1u64 << 36) as f64;
    let share = (MOST / released.count).min(1.0);
    [released.sum, released.weight, released.count].map(|number| (number * share * 128.0).round() as f32 / 128.0)
}

impl PeerBandit {
    /// What [`Segments::save`] wrote, of a handle with these names. `config` may be ours: all handles of a fleet have the
    /// same arms in it.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub fn read(from: &mut Reader, origin: u64, lives: u32, config: &Config, names: Names) -> Result<PeerBandit> {
        let half_life = half_life(config.forget_after);
        let (made, releases) = (from.count()?, from.u32()?);
        let now = Time::load(from, made)?.at(made);
        let mut all = WeightedEvidence::load(from, now)?;
        all.fade(now, half_life);
        let (arms, rows) = (from.length(2 + 24)?, names.keys.len() + 1);
        ensure(arms == config.arms as usize + names.added.len())?;
        let (mut decisions, mut cells, mut trials) =
            (try_with_capacity(rows)?, try_with_capacity(rows * arms)?, try_with_capacity(arms)?);
        for _ in 0..arms {
            trials.push(SavedArm::read(from, now)?.trials); // priors, and which arms are live, are every handle's own
        }
        for _ in 0..rows {
            decisions.push(from.count()?.min(1 << 50)); // so that sums fit
        }
        for _ in 0..rows * arms {
            let mut released = WeightedEvidence::load_cell(from, now)?;
            released.fade(now, half_life);
            cells.push(rounded(released));
        }
        let entry = Entry::new(origin, (lives, made, now, releases, from.checksum()));
        let (keys, added) = (KeyIndex::of(names.keys, 0)?, KeyIndex::of(names.added, 0)?);
        let configured = config.arms;
        Ok(PeerBandit { entry, keys, configured, added, decisions, cells, trials, all, merged: 0 })
    }

    /// Decisions and releases of the segment with this key, or of all together.
    fn row(&self, key: Option<u64>) -> (u64, &[Rounded]) {
        let arms = self.trials.len();
        match key.map_or(Some(0), |key| Some(self.keys.find(key)? + 1)) {
            Some(row) => (self.decisions[row], &self.cells[row * arms..][..arms]),
            None => (0, &[]),
        }
    }

    /// Its number for one of our arms; `added` are the ids of ours.
    fn place(&self, arm: usize, added: &[u64]) -> Option<u32> {
        let Some(place) = arm.checked_sub(self.configured as usize) else { return Some(arm as u32) };
        Some(self.configured + self.added.find(added[place])? as u32)
    }

    /// What its releases count of what they did when it was merged.
    fn discount(&self, now: u64, half_life: f64) -> f64 {
        if half_life.is_finite() { (-((now - self.merged) as f64) / half_life).exp2() } else { 1.0 }
    }
}

/// What a row has of an arm, nothing where it has no such arm.
fn of_arm(row: &[Rounded], place: Option<u32>) -> Rounded {
    place.and_then(|place| row.get(place as usize)).copied().unwrap_or_default()
}

impl WeightedEvidence {
    /// With a negative discount what had been added is taken away.
    pub(super) fn add(&mut self, [sum, weight, count]: Rounded, discount: f64) {
        self.count = (self.count + discount * f64::from(count)).max(0.0);
        self.weight = (self.weight + discount * f64::from(weight)).clamp(0.0, self.count);
        self.sum = (self.sum + discount * f64::from(sum)).clamp(0.0, self.weight);
    }
}

impl Peers {
    pub fn new() -> Peers {
        Peers {
            roster: Roster::new(),
            known: Vec::new(),
            cells: Grid::none(),
            trials: Vec::new(),
            all: WeightedEvidence::default(),
            decisions: Vec::new(),
            places: Vec::new(),
            segments: 0,
            at_work: 1.0,
            updates: 0,
        }
    }

    /// All that they have released of a cell, as it counted when it was last updated.
    pub(super) fn released(&self, row: usize, arm: usize) -> WeightedEvidence {
        self.cells.get(row, arm).copied().unwrap_or_default()
    }

    /// All that they have released of an arm's trials.
    pub(super) fn trials(&self, arm: usize) -> Totals {
        self.trials.get(arm).copied().unwrap_or(Totals::NONE)
    }

    /// A row as it counts now.
    pub(super) fn fade(&mut self, row: usize, now: u64, half_life: f64) {
        for arm in 0..self.cells.arms() {
            self.cells[(row, arm)].fade(now, half_life);
        }
    }

    /// Their decisions in a row of ours.
    pub(super) fn decisions(&self, row: usize) -> u64 {
        self.decisions.get(row).copied().unwrap_or_default()
    }

    /// Snapshots that were newer than what was known.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// One arm more, of which nothing is known.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub(super) fn add_arm(&mut self) -> Result<()> {
        if self.decisions.is_empty() {
            return Ok(());
        }
        self.trials.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let column = self.cells.new_arm()?;
        self.cells.push_arm(column);
        self.trials.push(Totals::NONE);
        Ok(())
    }

    /// What all of them have in common, anew.
    fn count(&mut self, now: u64, half_life: f64) {
        let mut all = WeightedEvidence { time: now, ..WeightedEvidence::default() };
        for peer in &self.known {
            let discount = peer.discount(now, half_life);
            all.sum += discount * peer.all.sum;
            all.count += discount * peer.all.count;
        }
        self.all = all;
        self.segments = self.known.iter().map(|peer| peer.decisions.len() - 1).max().unwrap_or(0);
        self.at_work = 1.0 + f64::from(self.roster.at_work());
    }
}

impl Segments {
    /// Is this snapshot newer than what is known of its handle? Then there is capacity for [`insert`](Self::insert), and
    /// in any case for [`fit`](Self::fit).
    ///
    /// # Errors
    /// As [`Roster::expects`].
    pub fn is_newer(&mut self, peer: &PeerBandit) -> Result<bool> {
        let (arms, no_memory) = (self.rates.len(), |_| Error::NoMemory);
        let most = self.max_segments as usize;
        self.by_key.try_reserve_exact(most - self.by_key.len()).map_err(no_memory)?;
        let peers = &mut self.peers;
        peers.known.try_reserve(1).map_err(no_memory)?;
        peers.places.clear();
        peers.places.try_reserve(arms).map_err(no_memory)?;
        if !peers.roster.expects(&peer.entry)? {
            return Ok(false);
        }
        if peers.decisions.is_empty() {
            let configured = self.configured as usize;
            let (mut cells, mut trials) = (Grid::try_new(configured, most + 1)?, try_with_capacity(arms)?);
            for _ in configured..arms {
                let column = cells.new_arm()?;
                cells.push_arm(column);
            }
            let mut decisions = try_with_capacity(most + 1)?;
            self.rows.iter().for_each(|_| cells.push_row());
            decisions.resize(self.rows.len(), 0);
            trials.resize(arms, Totals::NONE);
            (peers.cells, peers.trials, peers.decisions) = (cells, trials, decisions);
        }
        Ok(true)
    }

    /// Takes an update, after [`is_newer`](Self::is_newer). `names` are ours.
    pub fn insert(&mut self, mut peer: PeerBandit, names: Names) {
        self.time.learn();
        let (now, half_life) = (self.now(), self.half_life);
        (peer.merged, peer.all.time) = (now, now);
        let place = self.peers.roster.take(peer.entry);
        let before = put(&mut self.peers.known, place, peer);
        let (Ok(place) | Err(place)) = place;
        self.has_lived = true;
        self.peers.updates += 1;
        self.peers.count(now, half_life);
        self.least_batch = self.size_of_least_batch();
        let Peers { known, cells, trials, decisions, places, .. } = &mut self.peers;
        let (peer, before) = (&known[place], before.as_ref());
        places.clear();
        for (arm, trials) in trials.iter_mut().enumerate() {
            let [at, was] = [Some(peer), before].map(|peer| peer.and_then(|peer| peer.place(arm, names.added)));
            let of = |peer: Option<&PeerBandit>, place: Option<u32>| {
                place.and_then(|place| peer?.trials.get(place as usize)).copied().unwrap_or(Totals::NONE)
            };
            trials.replace(&of(before, was), &of(Some(peer), at));
            places.push([at, was]);
        }
        let lost = before.map_or(0.0, |before| before.discount(now, half_life));
        for row in 0..self.rows.len() {
            let key = row.checked_sub(1).map(|segment| names.keys[segment]);
            let (decisions_now, released) = peer.row(key);
            let (decisions_then, replaced) = before.map_or((0, &[][..]), |before| before.row(key));
            let mut changed = false;
            for (arm, &[at, was]) in places.iter().enumerate() {
                let (now_released, then_released) = (of_arm(released, at), of_arm(replaced, was));
                changed |= now_released != then_released;
                let cell = &mut cells[(row, arm)];
                cell.fade(now, half_life);
                cell.add(then_released, -lost);
                cell.add(now_released, 1.0);
                #[cfg(dpb_faults)]
                if crate::Fault::RawMerge.is_built_in() {
                    cell.sum += self.plays[(row, arm)].batch.bare_sum();
                }
            }
            decisions[row] = decisions[row] - decisions_then + decisions_now;
            let turn = &mut self.turns[row];
            turn.decisions = turn.decisions - decisions_then + decisions_now;
            if changed {
                turn.left = 0;
            }
        }
        self.fitted = false;
        self.trial = false;
        self.plan();
    }

    /// The newest row is of the segment with this key: what others have released of it, if there are others.
    pub(super) fn seed_segment_from_peers(&mut self, key: u64, added: &[u64]) {
        let (row, now, half_life) = (self.rows.len() - 1, self.now(), self.half_life);
        let Peers { known, cells, decisions, .. } = &mut self.peers;
        if decisions.is_empty() {
            return;
        }
        cells.push_row();
        decisions.push(0);
        for arm in 0..cells.arms() {
            let cell = &mut cells[(row, arm)];
            cell.time = now;
            for peer in &*known {
                let released = of_arm(peer.row(Some(key)).1, peer.place(arm, added));
                cell.add(released, peer.discount(now, half_life));
            }
        }
        decisions[row] = known.iter().map(|peer| peer.row(Some(key)).0).sum();
        self.turns[row].decisions += decisions[row];
        self.learn(row);
    }

    /// The newest arm has the last id in `names`: what others have released of it, if there are others. After
    /// [`add_arm`](Self::add_arm).
    pub fn seed_arm_from_peers(&mut self, names: Names) {
        let (arm, now, half_life) = (self.rates.len() - 1, self.now(), self.half_life);
        let Peers { known, cells, trials, .. } = &mut self.peers;
        let mut changed = false;
        for peer in &*known {
            let Some(place) = peer.place(arm, names.added) else { continue };
            changed = true;
            trials[arm].add(&peer.trials[place as usize]);
            let discount = peer.discount(now, half_life);
            for row in 0..cells.rows() {
                let key = row.checked_sub(1).map(|segment| names.keys[segment]);
                cells[(row, arm)].fade(now, half_life);
                cells[(row, arm)].add(of_arm(peer.row(key).1, Some(place)), discount);
            }
        }
        if changed {
            self.turns.iter_mut().for_each(|turn| turn.left = 0);
            self.trial = false;
            self.fit(names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Seed};
    use crate::snapshot::{Kind, write};

    fn segments(rows: usize, arms: u32, coins: &mut Random) -> Segments {
        let config = Config::new(arms, 1.0);
        let mut segments = Segments::new(&config, 8, &mut Seed::new(None).unwrap()).unwrap();
        for key in 0..rows as u64 {
            segments.add_segment(key, &[]);
        }
        for place in 0..(rows + 1) * arms as usize {
            let cell = &mut segments.cells[(place / arms as usize, place % arms as usize)];
            // From what is rounded away to the most that a snapshot may say.
            let count = (coins.unit() * 100.0 - 40.0).exp2().min(1e17);
            let weight = count * coins.unit();
            cell.released = WeightedEvidence { sum: weight * coins.unit(), weight, count, time: 0 };
        }
        segments
    }

    /// Of three handles, in all orders, each after an older one that it replaces: the same to the last bit, and what a sum
    /// over the newest is. So huge numbers leave no trace once they are replaced.
    #[test]
    fn sums_do_not_depend_on_the_order() {
        let mut coins = Seed::new(Some([1; 32])).unwrap().stream();
        let keys: [&[u64]; 3] = [&[5, 6], &[6], &[8, 5, 7]];
        let other = |origin: usize, decisions: u64, coins: &mut Random| {
            let mut released = segments(keys[origin].len(), 3, coins);
            released.decisions = decisions;
            let saved = write(Kind::Bandit, usize::MAX, |to| {
                released.save(to);
                Ok(())
            });
            let bytes = saved.unwrap().seal();
            move || {
                let from = &mut Reader::new(&bytes, Kind::Bandit).unwrap();
                let names = Names { keys: keys[origin], added: &[] };
                PeerBandit::read(from, 7 + origin as u64, 0, &Config::new(3, 1.0), names).unwrap()
            }
        };
        let all: Vec<_> = (0..6).map(|i| other(i % 3, 10 + i as u64, &mut coins)).collect();
        let mut told = Vec::new();
        for order in [vec![3, 4, 5], vec![0, 1, 2, 3, 4, 5], vec![2, 4, 5, 1, 0, 3, 3], vec![1, 5, 0, 2, 3, 4, 5]] {
            let mut here = segments(2, 3, &mut coins);
            (0..9).for_each(|place| here.cells[(place / 3, place % 3)].released = WeightedEvidence::default());
            for number in order {
                let other = all[number]();
                if here.is_newer(&other).unwrap() {
                    here.insert(other, Names { keys: &[6, 5], added: &[] });
                }
            }
            here.add_segment(7, &[]);
            told.push(here.peers.cells.iter().map(|cell| [cell.sum, cell.weight, cell.count]).collect::<Vec<_>>());
        }
        let newest = [all[3](), all[4](), all[5]()];
        let expected = [None, Some(6), Some(5), Some(7)].into_iter().flat_map(|key| {
            let mut sums = [[0.0; 3]; 3];
            for other in &newest {
                for (sums, sum) in sums.iter_mut().zip(other.row(key).1) {
                    (0..3).for_each(|i| sums[i] += f64::from(sum[i]));
                }
            }
            sums
        });
        assert!(told[0].iter().copied().eq(expected));
        assert!(told.iter().all(|other| *other == told[0]));
    }
}
