//! What other pools have released.
//!
//! As in [`crate::fleet`], whose [`Roster`] says what is news: what is known of a pool is its newest snapshot, so merging
//! is idempotent, commutative and associative. Segments are joined by their keys, arms by their numbers. What others have
//! released of a segment that has not been asked for here waits for its key: so the room for segments is this pool's
//! own, and no merge is refused, or depends on the order, because it is full. The row of all segments together, and so
//! the arms' rates, take part at once.
//!
//! **Privacy.** Which batch an answered reward enters, how large that is and what is played are functions of releases,
//! here and elsewhere, coins and public counts, here and elsewhere. So Theorem P of [`crate::privacy`] holds for the
//! transcript of the whole fleet of pools, whatever the order of releases, with the same epsilon. A snapshot has a pool's
//! own releases, kept apart from what it has merged: nothing comes back by a detour and counts twice.
//!
//! **Exact.** All that others have released of a cell is a sum to which news is added and from which what it replaces
//! is taken away. What a pool has released of a cell counts, here and elsewhere, rounded to 128ths of a reward and at
//! most 2^36 rewards, so the sum over 1024 pools is exact, whatever the order and whichever is our own. The model goes on a
//! row at a time and depends on the order; so each merge that finds it so fits it anew ([`Segments::fit`]). Right after
//! a merge, pools that know the same releases, have the same segments and no priors say the same **to the last bit**. (With a
//! memory sums fade on each pool's own clock. They agree to the last bit while no clock moves, and to rounding where
//! news replaces what has faded here.)
//!
//! **Cost.** 12 bytes for each cell and 24 for each segment of every other pool, and when the first one comes 32 and 8 of
//! our own. A merge takes O(cells), and the fit after it twice what a release takes for each segment; a segment that
//! comes O(pools log segments + arms).

use super::{Evidence, Segments, half_life, load_prior};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::fleet::{Entry, Roster, put};
use crate::key_index::KeyIndex;
use crate::policy::time::Time;
use crate::snapshot::Reader;
use crate::table::room;

pub struct Others {
    /// This pool's own.
    pub origin: u64,
    roster: Roster,
    /// As in the roster.
    known: Vec<Other>,
    /// All that they have released: of each cell of ours, and in the whole.
    cells: Vec<Evidence>,
    pub(super) all: Evidence,
    /// Their decisions, for each row of ours.
    lived: Vec<u64>,
    /// Segments of the one that has the most.
    pub segments: usize,
    /// Pools at work, this one too.
    pub pools: f64,
}

/// Another pool, as its newest snapshot shows it.
pub struct Other {
    entry: Entry,
    keys: KeyIndex,
    /// Decisions: in all segments together, and in each.
    lived: Vec<u64>,
    cells: Vec<Sums>,
    all: Evidence,
    /// When it came: all that it had released counts as it did then.
    came: u64,
}

/// Z, W and the number of rewards.
pub(super) type Sums = [f32; 3];

/// A part of the sums of 1024 that are exact.
pub(super) fn kept(released: Evidence) -> Sums {
    const MOST: f64 = (1u64 << 36) as f64;
    let share = (MOST / released.count).min(1.0);
    [released.sum, released.weight, released.count].map(|number| (number * share * 128.0).round() as f32 / 128.0)
}

impl Other {
    /// What [`Segments::save`] wrote, of a pool with these keys.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub fn read(from: &mut Reader, origin: u64, lives: u32, config: &Config, keys: &[u64]) -> Result<Other> {
        let (arms, half_life) = (config.arms as usize, half_life(config));
        let (decisions, releases) = (from.count()?, from.u32()?);
        let now = Time::load(from, decisions)?.at(decisions);
        let mut all = Evidence::load(from, now)?;
        all.fade(now, half_life);
        for _ in 0..arms {
            load_prior(from, now)?; // every pool's own
        }
        let rows = keys.len() + 1;
        let (mut lived, mut cells) = (room(rows)?, room(rows * arms)?);
        for _ in 0..rows {
            lived.push(from.count()?.min(1 << 50)); // so that sums fit
        }
        for _ in 0..rows * arms {
            let mut released = Evidence::load_cell(from, now)?;
            released.fade(now, half_life);
            cells.push(kept(released));
        }
        let entry = Entry::new(origin, (lives, decisions, now, releases, from.checksum()));
        Ok(Other { entry, keys: KeyIndex::of(keys, 0)?, lived, cells, all, came: 0 })
    }

    /// Decisions and releases of the segment that is called so, or of all together.
    fn row(&self, key: Option<u64>) -> (u64, &[Sums]) {
        let arms = self.cells.len() / self.lived.len();
        match key.map_or(Some(0), |key| Some(self.keys.find(key)? + 1)) {
            Some(row) => (self.lived[row], &self.cells[row * arms..][..arms]),
            None => (0, &[]),
        }
    }

    /// What its releases count of what they did when it came.
    fn power(&self, now: u64, half_life: f64) -> f64 {
        if half_life.is_finite() { (-((now - self.came) as f64) / half_life).exp2() } else { 1.0 }
    }
}

impl Evidence {
    /// With `power` negative what had been added is taken away.
    pub(super) fn add(&mut self, [sum, weight, count]: Sums, power: f64) {
        self.count = (self.count + power * f64::from(count)).max(0.0);
        self.weight = (self.weight + power * f64::from(weight)).clamp(0.0, self.count);
        self.sum = (self.sum + power * f64::from(sum)).clamp(0.0, self.weight);
    }
}

impl Others {
    pub fn new(origin: u64) -> Others {
        Others {
            origin,
            roster: Roster::new(),
            known: Vec::new(),
            cells: Vec::new(),
            all: Evidence::default(),
            lived: Vec::new(),
            segments: 0,
            pools: 1.0,
        }
    }

    /// All that they have released of a cell, as it counted when it was last looked at.
    pub(super) fn released(&self, cell: usize) -> Evidence {
        self.cells.get(cell).copied().unwrap_or_default()
    }

    /// A row as it counts now.
    pub fn fade(&mut self, row: usize, arms: usize, now: u64, half_life: f64) {
        let cells = self.cells.get_mut(row * arms..(row + 1) * arms).unwrap_or_default();
        cells.iter_mut().for_each(|cell| cell.fade(now, half_life));
    }

    /// Their decisions in a row of ours.
    pub fn lived(&self, row: usize) -> u64 {
        self.lived.get(row).copied().unwrap_or_default()
    }
}

impl Segments {
    /// Is this news? Then there is room for it, with at most so many segments.
    ///
    /// # Errors
    /// As [`Roster::expects`].
    pub fn expects(&mut self, other: &Other, most: u32) -> Result<bool> {
        let others = &mut self.others;
        if other.entry.origin == others.origin {
            return Ok(false);
        }
        others.known.try_reserve(1).map_err(|_| Error::NoMemory)?;
        if !others.roster.expects(&other.entry)? {
            return Ok(false);
        }
        if others.lived.is_empty() {
            let rows = most as usize + 1;
            (others.cells, others.lived) = (room(rows * self.arms)?, room(rows)?);
            others.cells.resize(self.cells.len(), Evidence::default());
            others.lived.resize(self.rows.len(), 0);
        }
        Ok(true)
    }

    /// Takes news, after [`expects`](Self::expects); `keys` are what our segments are called.
    pub fn take(&mut self, mut other: Other, keys: &[u64]) {
        self.time.learn();
        let (now, half_life, arms) = (self.now(), self.half_life, self.arms);
        (other.came, other.all.time) = (now, now);
        let place = self.others.roster.take(other.entry);
        let before = put(&mut self.others.known, place, other);
        let (Ok(place) | Err(place)) = place;
        self.has_lived = true;
        self.others.count(now, half_life);
        self.first = self.first_batch();
        for row in 0..self.rows.len() {
            let key = row.checked_sub(1).map(|segment| keys[segment]);
            let Others { known, cells, lived, .. } = &mut self.others;
            let (lived_now, released) = known[place].row(key);
            let (lived_then, replaced) = before.as_ref().map_or((0, &[][..]), |before| before.row(key));
            let lost = before.as_ref().map_or(0.0, |before| before.power(now, half_life));
            let cells = &mut cells[row * arms..][..arms];
            cells.iter_mut().for_each(|cell| cell.fade(now, half_life));
            cells.iter_mut().zip(replaced).for_each(|(cell, &sums)| cell.add(sums, -lost));
            cells.iter_mut().zip(released).for_each(|(cell, &sums)| cell.add(sums, 1.0));
            #[cfg(feature = "test-hooks")]
            if crate::Fault::RawMerge.is_built_in() {
                let open = self.plays[row * arms..].iter().map(|play| play.batch.bare_sum());
                cells.iter_mut().zip(open).for_each(|(cell, sum)| cell.sum += sum);
            }
            let changed = released != replaced;
            lived[row] = lived[row] - lived_then + lived_now;
            let turn = &mut self.turns[row];
            turn.decisions = turn.decisions - lived_then + lived_now;
            if changed {
                turn.left = 0;
                self.fitted = false;
            }
        }
        self.trial = false;
        self.plan();
    }

    /// The newest row is of the segment that is called so: what others have released of it, if there are others.
    pub fn meet(&mut self, key: u64) {
        let (row, now, half_life) = (self.rows.len() - 1, self.now(), self.half_life);
        let Others { known, cells, lived, .. } = &mut self.others;
        if known.is_empty() {
            return;
        }
        let mut decisions = 0;
        let own = cells.len();
        cells.resize(own + self.arms, Evidence { time: now, ..Evidence::default() });
        for other in known {
            let (lived, released) = other.row(Some(key));
            let power = other.power(now, half_life);
            cells[own..].iter_mut().zip(released).for_each(|(cell, &sums)| cell.add(sums, power));
            decisions += lived;
        }
        lived.push(decisions);
        self.turns[row].decisions += decisions;
        self.learn(row);
    }
}

impl Others {
    /// What all of them have in common, anew.
    fn count(&mut self, now: u64, half_life: f64) {
        let mut all = Evidence { time: now, ..Evidence::default() };
        for other in &self.known {
            let power = other.power(now, half_life);
            all.sum += power * other.all.sum;
            all.count += power * other.all.count;
        }
        self.all = all;
        self.segments = self.known.iter().map(|other| other.lived.len() - 1).max().unwrap_or(0);
        self.pools = 1.0 + f64::from(self.roster.at_work());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Seed};
    use crate::snapshot::{Kind, write};

    fn segments(rows: usize, arms: u32, coins: &mut Random) -> Segments {
        let config = Config::new(arms, 1.0);
        let mut segments = Segments::new(&config, 8, 0, &mut Seed::new(None).unwrap()).unwrap();
        for _ in 0..rows {
            segments.add();
        }
        for cell in &mut *segments.cells {
            // From what is rounded away to the most that a snapshot may say.
            let count = (coins.unit() * 100.0 - 40.0).exp2().min(1e17);
            let weight = count * coins.unit();
            cell.released = Evidence { sum: weight * coins.unit(), weight, count, time: 0 };
        }
        segments
    }

    /// Of three pools, in all orders, each after an older one that it replaces: the same to the last bit, and what a sum
    /// over the newest is. So huge numbers leave no trace once they are replaced.
    #[test]
    fn sums_do_not_depend_on_the_order() {
        let mut coins = Seed::new(Some([1; 32])).unwrap().stream();
        let keys: [&[u64]; 3] = [&[5, 6], &[6], &[8, 5, 7]];
        let other = |origin: usize, decisions: u64, coins: &mut Random| {
            let mut released = segments(keys[origin].len(), 3, coins);
            released.decisions = decisions;
            let saved = write(Kind::Pool, usize::MAX, |to| {
                released.save(to);
                Ok(())
            });
            let bytes = saved.unwrap().seal();
            move || {
                let from = &mut Reader::new(&bytes, Kind::Pool).unwrap();
                Other::read(from, 7 + origin as u64, 0, &Config::new(3, 1.0), keys[origin]).unwrap()
            }
        };
        let all: Vec<_> = (0..6).map(|i| other(i % 3, 10 + i as u64, &mut coins)).collect();
        let mut told = Vec::new();
        for order in [vec![3, 4, 5], vec![0, 1, 2, 3, 4, 5], vec![2, 4, 5, 1, 0, 3, 3], vec![1, 5, 0, 2, 3, 4, 5]] {
            let mut here = segments(2, 3, &mut coins);
            here.cells.iter_mut().for_each(|cell| cell.released = Evidence::default());
            for number in order {
                let other = all[number]();
                if here.expects(&other, 8).unwrap() {
                    here.take(other, &[6, 5]);
                }
            }
            here.add();
            here.meet(7);
            told.push(here.others.cells.iter().map(|cell| [cell.sum, cell.weight, cell.count]).collect::<Vec<_>>());
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
