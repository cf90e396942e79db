//! What a snapshot has of the arms.

use super::super::arm_sum::ArmSum;
use super::super::released::Memory;
use super::{BatchedArm, BatchedArms, SavedArm, SavedHead};
use crate::error::Result;
use crate::moving::{Archive, Persist};
use crate::snapshot::ensure;

impl BatchedArms {
    /// Writes all arms' releases, or reads them into fresh arms, of the same number. No batch is open afterwards.
    pub fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        let mut head = SavedHead { facts: self.ledger.facts.saved(), changes: self.changes, sum: self.sum };
        head.persist(with)?;
        with.arms(self.arms.len())?;
        if with.reads() {
            return self.load(&head, with);
        }
        for number in 0..self.arms.len() {
            let (mut live, mut saved) = (self.ledger.roster.is_live(number), self.arms[number].saved);
            live.persist(with)?;
            saved.persist(with)?;
        }
        Ok(())
    }

    /// Reads the arms' releases, after the head.
    pub(super) fn load(&mut self, head: &SavedHead, with: &mut Archive) -> Result<()> {
        let same_clock = self.ledger.facts.continue_from(&head.facts);
        (self.changes, self.sum) = (head.changes, head.sum);
        let before = Memory::new(head.facts.time.memory());
        let (memory, then, now) = (self.memory, before.ticks(head.facts.now()), self.now());
        for arm in 0..self.arms.len() {
            let (mut live, mut saved) = (true, SavedArm::NEW);
            live.persist(with)?;
            saved.persist(with)?;
            // The snapshot may have another `forget_after`, and ages are converted. If it has another clock, ages
            // stay the same fractions of `forget_after`.
            if before != memory || !same_clock {
                let in_ours = |age| if same_clock { before.age_in(memory, age) } else { age };
                let converted = |tick: u32| now.wrapping_sub(in_ours(then.wrapping_sub(tick)));
                saved.released.convert_times(converted);
                saved.prior.iter_mut().for_each(|active| active.tick = converted(active.tick));
            }
            self.rewards = self.rewards.saturating_add(saved.total);
            let prior = saved.prior.take();
            self.arms[arm] = BatchedArm { saved, ..BatchedArm::NEW };
            *self.open_sum_mut(arm) = ArmSum::default();
            self.replace_prior(arm, prior);
            if !live {
                self.ledger.roster.retire(arm);
                self.retire(arm);
            }
            self.refresh(arm);
        }
        self.least = self.least_batch();
        // The share of a prior that counts depends on the leading mean.
        if self.priors > 0 {
            (0..self.arms.len()).for_each(|arm| self.refresh(arm));
        }
        ensure(!self.ledger.roster.live().is_empty())
    }
}
