//! What a snapshot has of the arms.

use super::super::arm_sum::ArmSum;
use super::super::released::Memory;
use super::{BatchedArm, BatchedArms, Overall};
use crate::error::Result;
use crate::moving::{Archive, Persist};

impl BatchedArms {
    /// Writes all arms' releases, or reads them into fresh arms, of the same number. No batch is open afterwards.
    pub fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        let (facts, continues) = self.ledger.persist(with)?;
        let mut overall = Overall { changes: self.changes, sum: self.sum };
        overall.persist(with)?;
        (self.changes, self.sum) = (overall.changes, overall.sum);
        // The snapshot may have another `forget_after`, and ages are converted. If it has another clock, ages stay the
        // same fractions of `forget_after`.
        let before = Memory::new(facts.time.memory());
        let (memory, then, now) = (self.memory, before.ticks(facts.now()), self.now());
        let in_ours = |age| if continues { before.age_in(memory, age) } else { age };
        let converted = |tick: u32| now.wrapping_sub(in_ours(then.wrapping_sub(tick)));
        for arm in 0..self.arms.len() {
            let mut saved = self.arms[arm].saved;
            saved.persist(with)?;
            if !with.reads() {
                continue;
            }
            if before != memory || !continues {
                saved.released.convert_times(converted);
                saved.prior.iter_mut().for_each(|active| active.tick = converted(active.tick));
            }
            self.rewards = self.rewards.saturating_add(saved.total);
            let prior = saved.prior.take();
            self.arms[arm] = BatchedArm { saved, ..BatchedArm::NEW };
            *self.open_sum_mut(arm) = ArmSum::default();
            self.replace_prior(arm, prior);
            if !self.ledger.roster.is_live(arm) {
                self.retire(arm);
            }
            self.refresh(arm);
        }
        if with.reads() {
            // The share of a prior that counts depends on the leading mean.
            let again = if self.priors > 0 { self.arms.len() } else { 0 };
            (0..again).for_each(|arm| self.refresh(arm));
        }
        Ok(())
    }
}
