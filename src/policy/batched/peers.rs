//! The releases of other handles, for policies whose arms collect batches.

use super::arms::{Overall, SavedArm};
use super::released::{Memory, ReleaseHistory};
use crate::error::Result;
use crate::ledger::facts::Facts;
use crate::ledger::peers::Peer;
use crate::ledger::roster::Roster;
use crate::memory::try_with_capacity;
use crate::moving::{Archive, Persist};
use crate::snapshot::Reader;

/// The releases of each arm of another handle.
pub struct HandleReleases(Vec<ReleaseHistory>);

impl HandleReleases {
    /// Reads the releases of so many arms.
    pub fn read(arms: usize, from: &mut Reader) -> Result<HandleReleases> {
        let with = &mut Archive::In(from);
        Overall::default().persist(with)?;
        let mut releases = try_with_capacity(arms)?;
        for _ in 0..arms {
            let mut saved = SavedArm::NEW;
            saved.persist(with)?;
            releases.push(saved.released);
        }
        Ok(HandleReleases(releases))
    }

    /// The time `then` on the other handle's clock is now on this one's.
    pub fn rebase(&mut self, then: u64, here: &Facts) {
        let memory = Memory::new(here.time.memory());
        let (then, now) = (memory.ticks(then), memory.ticks(here.now()));
        self.0.iter_mut().for_each(|released| released.convert_times(|tick| now.wrapping_sub(then.wrapping_sub(tick))));
    }
}

impl Peer<HandleReleases> {
    /// Returns the releases of our arm.
    pub fn released(&self, arm: usize, arms: &Roster) -> Option<&ReleaseHistory> {
        self.releases.0.get(self.arm(arm, arms)?)
    }

    /// Returns whether it has other releases of our arm than `before`.
    pub fn is_changed(&self, before: Option<&Self>, arm: usize, arms: &Roster) -> bool {
        let [now, then] = [Some(self), before].map(|peer| peer?.released(arm, arms));
        now.is_some_and(|now| now != then.unwrap_or(&ReleaseHistory::NOTHING))
    }
}
