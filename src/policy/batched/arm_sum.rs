//! The open sum of an arm, whose rewards are counted in examinations.

use crate::error::Result;
use crate::ledger::cells::OpenSum;
use crate::ledger::open::Batch;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::Pull;
use crate::reward::Reward;

/// An open batch. While the handle contributes, it is never full. Its size is in examinations: its quota has one more
/// reward for each that its rewards lack, rounded up. So it closes with less than one more than its size.
#[derive(Default)]
pub struct ArmSum {
    pub batch: Batch,
    /// What the slots of the rewards in the open batch lack of an [examination](Pull::EXAMINATION) each, in its units.
    pub unexamined: u64,
    /// The part of the open batch that others contributed, in these units.
    pub contributed: u64,
    /// Rewards of this handle's own decisions since it was made that are in no open batch: they were released or
    /// contributed. In units of an examination.
    pub closed: u64,
    /// The size that the open batch had when it was opened.
    pub opened: u32,
    /// Rewards of this handle's own decisions that came while no batch was open.
    pub missed: u64,
}

impl ArmSum {
    /// The number of rewards that the open batch has more than its size, in place of what its rewards lack.
    fn replaced(&self) -> u64 {
        self.unexamined.div_ceil(Pull::EXAMINATION)
    }

    /// What the open batch has, in units of an examination.
    pub fn units(&self) -> u64 {
        u64::from(self.batch.count()) * Pull::EXAMINATION - self.unexamined
    }

    /// Of that, what this handle's own decisions have.
    pub fn own(&self) -> u64 {
        self.units() - self.contributed
    }

    /// The number of rewards of this handle's own decisions, since it was made, in a batch or not.
    pub fn settled(&self) -> u64 {
        (self.closed + self.own()) / Pull::EXAMINATION + self.missed
    }

    /// The size of the open batch.
    pub fn size(&self) -> u64 {
        self.batch.quota() - self.replaced()
    }

    /// Credits a reward to the open batch. Returns true if that filled it.
    #[inline]
    pub fn collect(&mut self, reward: Reward) -> bool {
        if self.batch.collect(reward) {
            return self.batch.free() == 0;
        }
        self.missed += 1;
        false
    }

    /// Opens the batch, or changes its size. What it has collected stays.
    pub fn open(&mut self, size: u64) {
        if self.batch.quota() == 0 {
            self.opened = size as u32;
        }
        self.batch.set_quota(size + self.replaced());
    }

    /// Lowers the size of the open batch, but not below what it has collected and one.
    pub fn lower(&mut self, size: u64) {
        self.batch.lower(size + self.replaced());
    }

    /// Adds what is unexamined of rewards that the open batch will get next.
    #[inline(never)]
    pub fn add_unexamined(&mut self, unexamined: u64) {
        let size = self.size();
        self.unexamined += unexamined;
        self.batch.raise((size + self.replaced()).clamp(self.batch.quota(), Batch::MAX_QUOTA));
    }

    /// Counts the rewards of the open batch as closed: they are about to leave it.
    pub fn close(&mut self) {
        self.closed += self.own();
        (self.unexamined, self.contributed) = (0, 0);
    }
}

impl OpenSum for ArmSum {
    fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    fn empty(&self) -> Result<ArmSum> {
        Ok(ArmSum::default())
    }

    fn contribute(&mut self, with: &mut Archive) -> Result<()> {
        self.batch.contribute(with)?;
        self.unexamined.persist(with)?;
        with.ensure(self.unexamined < u64::from(self.batch.count()) * Pull::EXAMINATION)
    }

    fn add(&mut self, part: &mut ArmSum) -> bool {
        if part.unexamined > 0 {
            self.add_unexamined(part.unexamined);
        }
        self.contributed += part.units();
        self.batch.add(&part.batch);
        true
    }

    fn is_full(&self) -> bool {
        self.batch.free() == 0
    }

    fn clear(&mut self) -> bool {
        self.close();
        self.batch.clear() > 0
    }
}

persist!(ArmSum { batch, unexamined, contributed, closed, opened, missed });
