//! The ring of pending decisions: a slot for each, and what only some configurations store beside it.

use super::clock::CallerClock;
use super::settlement::{Parts, Settlement};
use super::ticket::{SlotRef, TicketKey};
use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::persist;
use crate::parts::Earned;
use crate::request::Pull;
use crate::reward::Reward;
use zeroize::Zeroize;

/// A slot of 8 bytes, which is enough if rewards take effect at once and the policy needs only the arm.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Tag of the ticket of the slot's last decision.
    tag: u32,
    /// Arm of that decision, in the bits above its fate.
    played: u32,
}

/// State of windows and clocks, and tables with an entry for each slot, or none.
#[derive(Default)]
pub struct SlotExtras {
    /// Window in decisions; 0 without one.
    pub window: u64,
    /// The caller's clock, if ticks are its.
    pub clock: Option<CallerClock>,
    /// With a window, what the decision has earned so far. Rewards that the policy does not learn from are never stored
    /// here.
    pub held: WipedVec<Earned>,
    /// The whole pull of each slot, for policies that need it back.
    pub pulls: WipedVec<Pull>,
    /// What [is unexamined](Pull::unexamined) of each decision's slot; empty until a request says it.
    pub unexamined: WipedVec<u16>,
    /// What happens to held rewards when they are due, if not all of them count as they are.
    pub settlement: Option<Box<Settlement>>,
    /// Times of the decisions, with windows on the caller's clock.
    pub times: Option<Times>,
}

/// State of windows on the caller's clock.
pub struct Times {
    /// Time of each slot's decision.
    pub stamps: WipedVec<u64>,
    /// Window in ticks.
    pub window: u64,
    /// First decision that has not ended. Those before it took effect or expired.
    pub first: u64,
}

/// The state of a decision: ended, open, or (with a window) with a held reward; and whether the policy learns from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fate(u32);

impl Fate {
    pub const DONE: Fate = Fate(0);
    pub const OPEN: Fate = Fate(1);
    pub const HELD: Fate = Fate(2);
    /// Flag added to one of these.
    const UNLEARNED: u32 = 4;
    pub const BITS: u32 = 3;
    const MASK: u32 = (1 << Fate::BITS) - 1;

    /// Of a new decision.
    #[inline]
    pub const fn open(learned: bool) -> Fate {
        Fate(Fate::OPEN.0 | if learned { 0 } else { Fate::UNLEARNED })
    }

    pub fn is_open(self) -> bool {
        self.0 & !Fate::UNLEARNED == Fate::OPEN.0
    }

    pub fn is_learned(self) -> bool {
        self.0 & Fate::UNLEARNED == 0
    }
}

impl Slot {
    pub const EMPTY: Slot = Slot::new(0, 0, Fate::DONE);

    #[inline]
    pub const fn new(tag: u32, arm: u32, fate: Fate) -> Slot {
        Slot { tag, played: arm << Fate::BITS | fate.0 }
    }

    #[inline]
    pub fn arm(self) -> u32 {
        self.played >> Fate::BITS
    }

    #[inline]
    pub fn fate(self) -> Fate {
        Fate(self.played & Fate::MASK)
    }

    /// Ends the decision, and returns its fate until now.
    #[inline]
    pub fn end(&mut self) -> Fate {
        let fate = self.fate();
        self.played ^= fate.0;
        fate
    }

    /// Marks an open decision as one with a held reward.
    pub fn hold(&mut self) {
        self.played ^= Fate::OPEN.0 ^ Fate::HELD.0;
    }
}

impl SlotExtras {
    /// Stores a new decision.
    #[inline(never)]
    pub fn enter(&mut self, place: usize, pull: Pull, follows: bool, unexamined: u16) {
        if let (Some(times), Some(clock)) = (&mut self.times, &self.clock) {
            times.stamps[place] = clock.now;
        }
        if let Some(settlement) = &mut self.settlement {
            settlement.enter(place, follows);
        }
        if let Some(kept) = self.pulls.get_mut(place) {
            *kept = pull;
        }
        if let Some(part) = self.unexamined.get_mut(place) {
            *part = unexamined;
        }
    }

    /// Returns the pull of a slot.
    #[inline]
    pub fn pull(extras: &Option<Box<SlotExtras>>, place: usize, slot: &Slot) -> Pull {
        let Some(extras) = extras else { return Pull::of(slot.arm()) };
        let unexamined = extras.unexamined.get(place).copied().unwrap_or(0);
        extras.pulls.get(place).copied().unwrap_or(Pull::with_unexamined(slot.arm(), unexamined))
    }

    /// Stores a reward. Returns whether it waits for its window.
    pub fn hold(&mut self, place: usize, learned: bool, reward: Reward) -> bool {
        let Some(held) = self.held.get_mut(place) else { return false };
        if learned {
            *held = Earned::of(reward);
        }
        true
    }

    /// Whether all held rewards can be true.
    pub fn has_valid_held(&self) -> bool {
        let in_parts = self.parts().is_some();
        self.held.iter().all(|held| held.is_valid(in_parts))
    }

    /// Which parts have come, with parts.
    pub fn parts(&self) -> Option<&Parts> {
        self.settlement.as_ref()?.parts.as_ref()
    }

    /// Adds a part to what a decision has earned.
    ///
    /// # Errors
    /// `Duplicate` if it had come before.
    pub fn add_part(&mut self, place: usize, part: u32, amount: Earned, learned: bool) -> Result<()> {
        if let Some(parts) = self.settlement.as_mut().and_then(|settlement| settlement.parts.as_mut()) {
            parts.report(place, part)?;
            if learned {
                self.held[place].add(amount);
            }
        }
        Ok(())
    }

    /// Forgets the held reward of a decision that ends without it.
    pub fn drop_held(&mut self, place: usize) {
        if let Some(held) = self.held.get_mut(place) {
            *held = Earned::NOTHING;
        }
    }

    /// Ends a decision whose reward is final. With a window, returns that.
    pub fn take_held(&mut self, place: usize) -> Option<Reward> {
        self.held.get_mut(place).map(|held| std::mem::take(held).reward())
    }
}

/// Wipes held rewards.
impl Drop for SlotExtras {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}

/// Returns the slot of a ticket whose decision has not ended and has one of these fates.
#[inline]
pub fn find<'a>(
    key: &TicketKey,
    ring: &'a mut [Slot],
    ticket: u64,
    will_do: impl FnOnce(Fate) -> bool,
) -> Option<(usize, &'a mut Slot)> {
    let SlotRef { slot: place, tag } = key.place(ticket)?;
    let slot = &mut ring[place];
    (slot.tag == tag && will_do(slot.fate())).then_some((place, slot))
}

persist!(Slot { tag, played });
persist!(SlotExtras { clock, held, pulls, unexamined, settlement, times } made { window });
persist!(Times { stamps, first } made { window });
