//! The releases of other handles, for policies whose arms collect batches.

use super::arms::{Overall, SavedArm};
use super::pilot::Found;
use super::released::{Memory, ReleaseHistory};
use crate::error::Result;
use crate::ledger::facts::Facts;
use crate::ledger::peers::Peer;
use crate::ledger::roster::Roster;
use crate::memory::try_with_capacity;
use crate::moving::{Archive, Persist};
use crate::snapshot::Reader;

/// The releases of each arm of another handle.
pub struct HandleReleases {
    arms: Vec<ReleaseHistory>,
    /// What its pilot has found, if it learns a clip.
    pub found: Found,
    /// The generation that it leads, or 0, if it learns a clip.
    pub led: u64,
    /// Whether they count here: they do not if they are of another clip.
    pub counts: bool,
}

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
        Ok(HandleReleases { arms: releases, found: Found::NOTHING, led: 0, counts: true })
    }

    /// Whether arms had releases that counted before, and have none now.
    pub fn lacks_some_of(&self, before: &HandleReleases) -> bool {
        let has = |releases: &HandleReleases, arm: usize| {
            releases.counts && releases.arms.get(arm).is_some_and(|released| !released.pairs().is_empty())
        };
        (0..before.arms.len()).any(|arm| has(before, arm) && !has(self, arm))
    }

    /// The time `then` on the other handle's clock is now on this one's.
    pub fn rebase(&mut self, then: u64, here: &Facts) {
        let memory = Memory::new(here.time.memory());
        let (then, now) = (memory.ticks(then), memory.ticks(here.now()));
        self.arms
            .iter_mut()
            .for_each(|released| released.convert_times(|tick| now.wrapping_sub(then.wrapping_sub(tick))));
    }
}

impl Peer<HandleReleases> {
    /// Returns the releases of our arm, if they count.
    pub fn released(&self, arm: usize, arms: &Roster) -> Option<&ReleaseHistory> {
        let place = self.arm(arm, arms).filter(|_| self.releases.counts)?;
        self.releases.arms.get(place)
    }

    /// Returns whether it has other releases of our arm than `before`.
    pub fn is_changed(&self, before: Option<&Self>, arm: usize, arms: &Roster) -> bool {
        let [now, then] = [Some(self), before].map(|peer| peer?.released(arm, arms));
        now.is_some_and(|now| now != then.unwrap_or(&ReleaseHistory::NOTHING))
    }
}
