//! The open table: for each model and each row of the codebook, the sums of rewards and of what they lack to the largest one.

use crate::error::{Error, Result};
use crate::ledger::cells::OpenSum;
use crate::ledger::open::{Batch, RawSum};
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::noise::NoiseSource;
use crate::reward::Reward;
use crate::snapshot::ensure;

/// The entries of a fixed number of requests, for one release. A request that was cancelled, or has no arm, enters too, as
/// zeros: so when a table is full depends on the number of requests alone.
pub struct CellTable {
    /// Rows of the codebook; 0 in the pilot, which has one sum, of all rewards.
    rows: usize,
    /// The id of each model's arm, which names it in a contribution.
    pub ids: Vec<u64>,
    /// The number of requests to wait for, and of those so far.
    pub quota: u64,
    pub count: u64,
    sums: WipedVec<RawSum>,
}

impl CellTable {
    /// A table without models.
    pub fn new(rows: usize) -> CellTable {
        CellTable { rows, ids: Vec::new(), quota: 1, count: 0, sums: WipedVec::default() }
    }

    /// That of a pilot.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn pilot() -> Result<CellTable> {
        Ok(CellTable { sums: WipedVec::new(1, |_| RawSum::default())?, ..CellTable::new(0) })
    }

    /// Adds a model, whose arm has this id.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn add_model(&mut self, id: u64) -> Result<()> {
        self.ids.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let (old, sums) = (self.sums.len(), &mut self.sums);
        let take = |place| if place < old { std::mem::take(&mut sums[place]) } else { RawSum::default() };
        *sums = WipedVec::new(old + 2 * self.rows, take)?;
        self.ids.push(id);
        Ok(())
    }

    /// Enters a request: a reward in a cell, or nothing.
    pub fn enter(&mut self, entry: Option<(usize, Reward)>) {
        if self.count == Batch::MAX_QUOTA {
            return; // a contributor whose leader is gone
        }
        self.count += 1;
        let Some((cell, reward)) = entry else { return };
        if self.rows == 0 {
            return self.sums[0].add(reward.units());
        }
        self.sums[2 * cell].add(reward.units());
        self.sums[2 * cell + 1].add(Reward::ONE - reward.units());
    }

    /// Releases all sums, in rewards. This is the only place where requests become public.
    pub fn release(&mut self, noise: &mut NoiseSource, to: &mut [f64]) {
        noise.renew();
        for (to, sum) in to.iter_mut().zip(&mut *self.sums) {
            *to = sum.release(noise) as f64 / Reward::ONE as f64;
        }
        self.count = 0;
    }
}

impl OpenSum for CellTable {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn empty(&self) -> Result<CellTable> {
        Ok(CellTable::new(self.rows))
    }

    /// All sums, also those that nothing has entered: the length tells nothing.
    fn contribute(&mut self, with: &mut Archive) -> Result<()> {
        let count = &mut self.count;
        count.persist(with)?;
        with.ensure((1..=Batch::MAX_QUOTA).contains(count))?;
        self.ids.persist(with)?;
        if let Archive::In(from) = with {
            let sums = if self.ids.is_empty() { 1 } else { self.ids.len().saturating_mul(2 * self.rows) };
            ensure(sums.saturating_mul(8) <= from.left())?;
            self.sums = WipedVec::new(sums, |_| RawSum::default())?;
        }
        self.sums.iter_mut().try_for_each(|sum| sum.contribute(*count, 0, Reward::ONE, with))
    }

    /// Models of arms that there are not here are lost.
    fn add(&mut self, part: &mut CellTable) -> bool {
        if self.count + part.count > Batch::MAX_QUOTA || (self.rows == 0) != part.ids.is_empty() {
            return false;
        }
        self.count += part.count;
        if self.rows == 0 {
            self.sums[0].join(&part.sums[0]);
            return true;
        }
        let mut complete = true;
        for (id, sums) in part.ids.iter().zip(part.sums.chunks_exact(2 * self.rows)) {
            let Some(model) = self.ids.iter().position(|known| known == id) else {
                complete = false;
                continue;
            };
            let ours = &mut self.sums[2 * self.rows * model..][..2 * self.rows];
            ours.iter_mut().zip(sums).for_each(|(to, from)| to.join(from));
        }
        complete
    }

    fn is_full(&self) -> bool {
        self.count >= self.quota
    }

    fn clear(&mut self) -> bool {
        self.sums.iter_mut().for_each(RawSum::clear);
        std::mem::take(&mut self.count) > 0
    }
}

persist!(CellTable { quota, count, sums } made { rows, ids });
