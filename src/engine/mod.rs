//! Tickets and the pending ring: every reward is ours, in its window, and comes once.
//!
//! The engine knows no algorithm. It promises its user that each decision ends in exactly one
//! event (answered, cancelled or expired) and that a refused call changes nothing.
//!
//! Two ways to learn that nothing happened:
//! * *explicit* (`window` = 0): every decision is answered or cancelled, at a time that does not
//!   depend on the reward, and an answer takes effect at once;
//! * *window* W > 0: silence is the smallest reward, and every answer takes effect exactly W
//!   ticks after its decision, in ticket order, so that the time of a click tells nothing.
//!
//! # The clock
//!
//! A tick is a decision, or what the caller says by [`advance`](Engine::advance), in a unit of its own. Then a decision
//! is stamped with the time of the last advance, 0 before the first one. Its window is over in the first advance to
//! stamp + W or later: there its answer takes effect, and none is accepted afterwards. A decision whose place in the
//! ring is needed before that expires, whether its answer has come or not.
//!
//! **Time is public and must not depend on rewards.** When and in which order answers take effect, and which decisions
//! expire, is a function of stamps, of W, of the ring's length and of the order of decisions, cancellations and advances.
//! Stamps are times of earlier advances. No answer moves any of them, because an answer in a window only writes the
//! reward that its decision ends with. So two histories that differ in one reward have the same times of effect, as with
//! decisions as ticks, and Theorem P of [`crate::privacy`] holds unchanged. A caller whose calls of advance depend on
//! rewards breaks this: it says by its clock what the answers were.
//!
//! All open decisions can be cancelled at once ([`in_flight`](Engine::in_flight)), for an outage in which answers could
//! not travel. Which decisions are open depends on decisions, cancellations and windows; without a window also on
//! which were answered, at times that do not depend on the reward. A held answer ends like silence. So what the call does
//! depends on no reward, and neither does the outage: the transcript has the same distribution whatever the rewards
//! were. A caller that looks at rewards first and then calls breaks this: the clicks that it keeps are chosen.
//!
//! Decisions of one request follow each other. Where at most so many answers of a request may be clicks, a window it
//! is, and all of them are [fixed](requests) when the first decision of the request is due.

mod requests;
mod ticket;

use crate::config::{Clock, Config};
use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::policy::Pull;
use crate::random::Random;
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure};
use requests::Requests;
use std::ops::Range;
use ticket::{Place, TicketKey};
use zeroize::Zeroize;

/// How one decision ended.
pub enum Event {
    /// With this reward (for a window: perhaps by silence).
    Answered(Pull, Reward),
    /// Taken back, or pushed out of the ring unanswered: it counts as not played.
    Unplayed {
        pull: Pull,
        /// Or was it never played, to who learns?
        learned: bool,
    },
}

/// What became of decisions so far. In window mode `answered` are the decisions whose window is
/// over and `pending` those whose window is not: a count of answers would be a count of clicks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions handed out.
    pub decisions: u64,
    /// Decisions whose answer took effect.
    pub answered: u64,
    /// Decisions taken back by the caller.
    pub cancelled: u64,
    /// Decisions pushed out of the pending table unanswered.
    pub expired: u64,
}

impl Counts {
    /// Decisions whose end is still open.
    pub fn pending(&self) -> u64 {
        self.decisions - self.answered - self.cancelled - self.expired
    }

    pub(crate) fn save(&self, to: &mut Writer) {
        [self.decisions, self.answered, self.cancelled].into_iter().for_each(|count| to.u64(count));
    }

    /// For [`Engine::count_on`].
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn load(from: &mut Reader) -> Result<Counts> {
        let [decisions, answered, cancelled] = [from.count()?, from.count()?, from.count()?];
        // Tickets have room for 2^48 decisions, years of any service.
        ensure(decisions >> 48 == 0 && decisions.checked_sub(answered).is_some_and(|rest| rest >= cancelled))?;
        Ok(Counts { decisions, answered, cancelled, expired: 0 })
    }
}

/// Counts of refused calls: see [`Diagnostics`](crate::Diagnostics).
#[derive(Clone, Copy, Default)]
pub struct Refusals {
    pub duplicates: u64,
    pub late: u64,
    pub rejected: u64,
    pub unknown: u64,
}

/// The pending ring of one handle.
pub struct Engine {
    ring: WipedVec<Slot>,
    /// What more there is of each decision, where there is more.
    beside: Option<Box<SlotExtras>>,
    key: TicketKey,
    counts: Counts,
    refusals: Refusals,
}

/// 8 bytes: all that a decision needs that is answered at once and whose policy asks for its arm alone.
#[derive(Clone, Copy)]
struct Slot {
    /// Of the ticket of the last decision here.
    tag: u32,
    /// Its arm, above its fate.
    played: u32,
}

/// What more there is of windows and clocks, and tables with a place for each slot, or none.
#[derive(Default)]
struct SlotExtras {
    /// The window in decisions; 0 where there is none.
    window: u64,
    /// The caller's time, where the clock is the caller's.
    now: Option<u64>,
    /// In window mode the reward that the decision ends with: silence is the least, until an answer that waits for its
    /// window says more. No other reward is ever here, and none that nobody learns from.
    held: WipedVec<Reward>,
    /// The whole pull, for who asks for it again.
    pulls: WipedVec<Pull>,
    /// Which decisions are of one request, where that matters.
    requests: Option<Requests>,
    /// When decisions were made, where windows are on the caller's clock.
    times: Option<Times>,
}

/// Windows on the caller's clock.
struct Times {
    /// When the decision of each slot was made.
    stamps: WipedVec<u64>,
    /// In ticks.
    window: u64,
    /// The first decision that is not over: those before it took effect or were pushed out.
    first: u64,
}

/// What became of a decision: done, open, or in window mode answered before its window is over; and whether anybody
/// learns from it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fate(u32);

impl Fate {
    const DONE: Fate = Fate(0);
    const OPEN: Fate = Fate(1);
    const HELD: Fate = Fate(2);
    /// Added to one of these.
    const UNLEARNED: u32 = 4;
    const BITS: u32 = 3;
    const MASK: u32 = (1 << Fate::BITS) - 1;

    fn is_open(self) -> bool {
        self.0 & !Fate::UNLEARNED == Fate::OPEN.0
    }

    fn is_learned(self) -> bool {
        self.0 & Fate::UNLEARNED == 0
    }
}

impl Slot {
    const EMPTY: Slot = Slot::new(0, 0, Fate::DONE);

    #[inline]
    const fn new(tag: u32, arm: u32, fate: Fate) -> Slot {
        Slot { tag, played: arm << Fate::BITS | fate.0 }
    }

    #[inline]
    fn arm(self) -> u32 {
        self.played >> Fate::BITS
    }

    #[inline]
    fn fate(self) -> Fate {
        Fate(self.played & Fate::MASK)
    }

    /// Ends the decision: what its fate was.
    #[inline]
    fn end(&mut self) -> Fate {
        let fate = self.fate();
        self.played ^= fate.0;
        fate
    }

    /// An answer to an open decision waits.
    fn hear(&mut self) {
        self.played ^= Fate::OPEN.0 ^ Fate::HELD.0;
    }
}

impl SlotExtras {
    /// A decision is made.
    fn enter(&mut self, place: usize, pull: Pull, follows: bool) {
        if let (Some(times), Some(now)) = (&mut self.times, self.now) {
            times.stamps[place] = now;
        }
        if let Some(requests) = &mut self.requests {
            requests.enter(place, follows);
        }
        if let Some(kept) = self.pulls.get_mut(place) {
            *kept = pull;
        }
    }

    /// What was played in a slot.
    #[inline]
    fn pull(beside: &Option<Box<SlotExtras>>, place: usize, slot: &Slot) -> Pull {
        let recalled = beside.as_ref().and_then(|beside| beside.pulls.get(place).copied());
        recalled.unwrap_or(Pull::of(slot.arm()))
    }

    /// An answer: does it wait for its window?
    fn hear(&mut self, place: usize, learned: bool, reward: Reward) -> bool {
        let Some(held) = self.held.get_mut(place) else { return false };
        if learned {
            *held = reward;
        }
        true
    }

    /// A decision is over: the reward that it ends with, in window mode.
    fn settle(&mut self, place: usize) -> Option<Reward> {
        self.held.get_mut(place).map(std::mem::take)
    }
}

/// Held answers are wiped.
impl Drop for SlotExtras {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}

/// The slot of a ticket whose decision is not over, and whose fate will do.
#[inline]
fn find<'a>(
    key: &TicketKey,
    ring: &'a mut [Slot],
    ticket: u64,
    will_do: impl FnOnce(Fate) -> bool,
) -> Option<(usize, &'a mut Slot)> {
    let Place { slot: place, tag } = key.place(ticket)?;
    let slot = &mut ring[place];
    (slot.tag == tag && will_do(slot.fate())).then_some((place, slot))
}

impl Engine {
    /// The most that an arm's number may be: what is left of a slot beside its fate.
    pub const MOST_ARM: u32 = u32::MAX >> Fate::BITS;

    /// Places in the ring for the decisions in flight: a power of two, for a window in decisions too.
    pub fn places(config: &Config) -> usize {
        let counted = if config.clock == Clock::Decisions { config.reward_window } else { 0 };
        config.pending_capacity.max(counted).next_power_of_two() as usize
    }

    /// # Errors
    /// `NoMemory`.
    pub fn new(config: &Config, random: &mut Random) -> Result<Engine> {
        let Config { reward_window: window, clock, node, .. } = *config;
        let counted = if clock == Clock::Decisions { window } else { 0 };
        let slots = Self::places(config);
        let mut engine = Engine {
            ring: WipedVec::new(slots, |_| Slot::EMPTY)?,
            beside: None,
            key: TicketKey::new(node, slots.trailing_zeros(), random),
            counts: Counts::default(),
            refusals: Refusals::default(),
        };
        if clock == Clock::Caller {
            engine.beside().now = Some(0);
        }
        if window > 0 {
            engine.beside().window = counted.into();
            engine.beside().held = WipedVec::new(slots, |_| Reward::MIN)?;
        }
        if window > counted {
            let stamps = WipedVec::new(slots, |_| 0)?;
            engine.beside().times = Some(Times { stamps, window: window.into(), first: 0 });
        }
        Ok(engine)
    }

    fn beside(&mut self) -> &mut SlotExtras {
        self.beside.get_or_insert_default()
    }

    /// Events have all of a pull from here on, not its arm alone. Before the first decision.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn recall(&mut self) -> Result<()> {
        self.beside().pulls = WipedVec::new(self.ring.len(), |_| Pull::of(0))?;
        Ok(())
    }

    /// No more answers of a request than this may be more than the least reward: of those that are, so many are
    /// drawn. For a window that is not 0.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn limit_clicks(&mut self, most: u32, coins: Random) -> Result<()> {
        self.beside().requests = Some(Requests::new(self.ring.len(), most, coins)?);
        Ok(())
    }

    /// The most decisions of one request: with more, the last would push out the first.
    pub fn longest_request(&self) -> u64 {
        self.reach()
    }

    /// Decisions before the next one that can be answered or settled: the window in decisions, or the ring.
    #[inline]
    fn reach(&self) -> u64 {
        match self.beside.as_deref() {
            Some(beside) if beside.window > 0 => beside.window,
            _ => self.ring.len() as u64,
        }
    }

    /// Makes room for the next decision, or for the one that so many are `ahead` of: what the caller must see
    /// before it chooses.
    #[inline]
    pub fn make_room(&mut self, ahead: u64) -> Option<Event> {
        let due = (self.counts.decisions + ahead).checked_sub(self.reach())?;
        let place = self.place(due);
        let mut held = None;
        if let Some(beside) = &mut self.beside {
            if beside.times.is_some() {
                return self.push_out(due);
            }
            if let Some(requests) = &mut beside.requests
                && !requests.follows(due)
            {
                requests.fix(&mut self.ring, &mut beside.held, due, self.counts.decisions);
            }
            held = beside.settle(place);
        }
        self.end(place, held)
    }

    /// Ends the decision of a slot if it is not done: with this reward, or unplayed.
    #[inline(always)] // into its callers
    fn end(&mut self, place: usize, held: Option<Reward>) -> Option<Event> {
        let slot = &mut self.ring[place];
        let fate = slot.end();
        if fate == Fate::DONE {
            return None;
        }
        let (pull, learned) = (SlotExtras::pull(&self.beside, place, slot), fate.is_learned());
        let Some(reward) = held else {
            self.counts.expired += 1;
            return Some(Event::Unplayed { pull, learned });
        };
        self.counts.answered += 1;
        learned.then_some(Event::Answered(pull, reward))
    }

    /// Another decision needs the place of this one, whose window on the caller's clock may not be over. Then it
    /// expires, whether or not its answer has come.
    fn push_out(&mut self, sequence: u64) -> Option<Event> {
        let place = self.place(sequence);
        if let Some(SlotExtras { held, times: Some(times), .. }) = self.beside.as_deref_mut() {
            times.first = times.first.max(sequence + 1);
            #[cfg(dpb_faults)]
            if self.ring[place].fate() == Fate::HELD && crate::Fault::PushedOutTells.is_built_in() {
                let reward = held[place];
                return self.end(place, Some(reward));
            }
            held[place] = Reward::MIN;
        }
        self.end(place, None)
    }

    /// It is `now` on the caller's clock: so many ticks later than it was, 0 where `now` is earlier and nothing changes.
    /// Then [`settle`](Self::settle).
    ///
    /// # Errors
    /// `Unsupported` where ticks are decisions.
    pub fn advance(&mut self, now: u64) -> Result<u64> {
        let before = self.beside.as_mut().and_then(|beside| beside.now.as_mut());
        let before = before.ok_or(Error::Unsupported("advance: config.clock is not the caller's"))?;
        let elapsed = now.saturating_sub(*before);
        *before += elapsed;
        Ok(elapsed)
    }

    /// Ends all decisions whose window is over on the caller's clock, in the order in which they were made. Decisions of
    /// one request were made at one time, so they end together: those of them that were not pushed out before.
    pub fn settle(&mut self, mut each: impl FnMut(Event)) {
        while let Some(request) = self.next_over() {
            for sequence in request {
                let place = self.place(sequence);
                let held = self.beside.as_mut().and_then(|beside| beside.settle(place));
                if let Some(event) = self.end(place, held) {
                    each(event);
                }
            }
        }
    }

    /// The first request whose window is over and that is not done with.
    fn next_over(&mut self) -> Option<Range<u64>> {
        let (issued, mask) = (self.counts.decisions, self.ring.len() - 1);
        let beside = self.beside.as_deref_mut()?;
        let SlotExtras { held, requests, times: Some(times), now: Some(now), .. } = beside else { return None };
        let first = times.first;
        if first == issued || *now - times.stamps[first as usize & mask] < times.window {
            return None;
        }
        times.first = match requests {
            Some(requests) => requests.fix(&mut self.ring, held, first, issued),
            None => first + 1,
        };
        Some(first..times.first)
    }

    /// The caller's time, 0 where the clock is not the caller's.
    pub fn now(&self) -> u64 {
        self.beside.as_ref().and_then(|beside| beside.now).unwrap_or_default()
    }

    /// Enters a decision, after [`make_room`](Self::make_room), and returns its ticket. Does it follow the one before,
    /// in its request?
    #[inline]
    pub fn issue(&mut self, pull: Pull, follows: bool) -> u64 {
        debug_assert!(pull.arm() <= Self::MOST_ARM);
        let (ticket, Place { slot: place, tag }) = self.key.seal(self.counts.decisions);
        if let Some(beside) = &mut self.beside {
            beside.enter(place, pull, follows);
        }
        self.ring[place] = Slot::new(tag, pull.arm(), Fate::OPEN);
        self.counts.decisions += 1;
        ticket
    }

    /// Nobody learns from the last decision. Whoever answers it sees no difference.
    pub fn idle(&mut self) {
        let last = self.place(self.counts.decisions - 1);
        self.ring[last].played |= Fate::UNLEARNED;
    }

    /// An answer: the event it causes now, if it does not wait for its window, and if anybody learns from it.
    ///
    /// # Errors
    /// `UnknownTicket`, `Duplicate`, `Expired`: counted, and nothing else changes.
    #[inline(always)] // into its two callers
    pub fn answer(&mut self, ticket: u64, reward: Reward) -> Result<Option<Event>> {
        #[cfg(dpb_faults)]
        if let Some(sequence) = self.key.open(ticket)
            && sequence < self.counts.decisions
            && let place = self.place(sequence)
            && self.ring[place].fate() == Fate::DONE
            && crate::Fault::DuplicateBelieved.is_built_in()
        {
            let pull = SlotExtras::pull(&self.beside, place, &self.ring[place]);
            return Ok(Some(Event::Answered(pull, reward)));
        }
        let Some((place, slot)) = find(&self.key, &mut self.ring, ticket, Fate::is_open) else {
            return Err(self.refuse(ticket));
        };
        let learned = slot.fate().is_learned();
        if let Some(beside) = &mut self.beside
            && beside.hear(place, learned, reward)
        {
            slot.hear();
            #[cfg(dpb_faults)]
            if crate::Fault::ClosedByArrival.is_built_in() {
                slot.end();
                self.counts.answered += 1;
                return Ok(Some(Event::Answered(SlotExtras::pull(&self.beside, place, slot), reward)));
            }
            return Ok(None);
        }
        slot.end();
        self.counts.answered += 1;
        Ok(learned.then(|| Event::Answered(SlotExtras::pull(&self.beside, place, slot), reward)))
    }

    #[cfg(dpb_faults)]
    fn refuse_held(&mut self, ticket: u64) -> Result<()> {
        let will_do = |fate| fate != Fate::HELD || !crate::Fault::CancelTells.is_built_in();
        match find(&self.key, &mut self.ring, ticket, will_do) {
            Some(_) => Ok(()),
            None => Err(self.refuse(ticket)),
        }
    }

    /// Takes a decision back: it counts as not played. A held answer goes with it: its
    /// window is not over, so that it was there must not be told, by a status or by a count.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), but for a held answer.
    #[inline]
    pub fn cancel(&mut self, ticket: u64) -> Result<Event> {
        #[cfg(dpb_faults)]
        self.refuse_held(ticket)?;
        let Some((place, _)) = find(&self.key, &mut self.ring, ticket, |fate| fate != Fate::DONE) else {
            return Err(self.refuse(ticket));
        };
        Ok(self.take_back(place))
    }

    /// All decisions that may be open, the oldest first: each is for [`cancel_at`](Self::cancel_at).
    pub fn in_flight(&self) -> Range<u64> {
        self.over()..self.counts.decisions
    }

    /// Decisions before this one are over.
    fn over(&self) -> u64 {
        match self.beside.as_deref() {
            Some(SlotExtras { times: Some(times), .. }) => times.first,
            _ => self.counts.decisions.saturating_sub(self.reach()),
        }
    }

    /// Cancels one of the decisions [`in_flight`](Self::in_flight) if it is open, whether or not its answer has come.
    pub fn cancel_at(&mut self, sequence: u64) -> Option<Event> {
        let place = self.place(sequence);
        (self.ring[place].fate() != Fate::DONE).then(|| self.take_back(place))
    }

    #[inline]
    fn take_back(&mut self, place: usize) -> Event {
        let slot = &mut self.ring[place];
        let learned = slot.end().is_learned();
        if let Some(beside) = &mut self.beside {
            #[cfg(dpb_faults)]
            let held = beside.held.get(place).copied();
            beside.settle(place);
            #[cfg(dpb_faults)]
            if beside.requests.is_some() && crate::Fault::CancelledDrawn.is_built_in() {
                beside.held[place] = held.unwrap_or_default();
            }
        }
        self.counts.cancelled += 1;
        Event::Unplayed { pull: SlotExtras::pull(&self.beside, place, slot), learned }
    }

    /// The arms of the decisions whose end is open.
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        let open = self.ring.iter().filter(|slot| slot.fate() != Fate::DONE);
        #[cfg(dpb_faults)]
        let open = open.filter(|slot| slot.fate() != Fate::HELD || !crate::Fault::HeldCounted.is_built_in());
        open.map(|slot| slot.arm())
    }

    /// Counts on from what another life counted, and goes on from its time where the clock is the caller's. What it left
    /// open has expired.
    pub fn count_on(&mut self, counts: Counts, now: u64) {
        let expired = counts.decisions - counts.answered - counts.cancelled;
        self.counts = Counts { expired, ..counts };
        if let Some(beside) = &mut self.beside {
            beside.now = beside.now.map(|_| now);
            if let Some(times) = &mut beside.times {
                times.first = counts.decisions;
            }
        }
    }

    /// What became of decisions so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Refused calls so far.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Counts a reward that was refused at the door.
    pub fn count_rejected(&mut self) {
        self.refusals.rejected += 1;
    }

    /// Where in the ring the next decision is kept, or the one that so many are `ahead` of.
    pub fn next_place(&self, ahead: u64) -> usize {
        self.place(self.counts.decisions + ahead)
    }

    #[inline]
    fn place(&self, sequence: u64) -> usize {
        sequence as usize & (self.ring.len() - 1)
    }

    /// The decision whose time ends that of this one: itself, or the first one of its request, or one between them
    /// whose time is over too.
    fn start(&self, sequence: u64) -> u64 {
        match self.beside.as_deref() {
            Some(SlotExtras { requests: Some(requests), times: None, .. }) => requests.start(sequence, self.over()),
            _ => sequence,
        }
    }

    /// Why this ticket, which names no decision that is to be found, is refused.
    #[cold]
    fn refuse(&mut self, ticket: u64) -> Error {
        let issued = self.counts.decisions;
        match self.key.open(ticket).filter(|&sequence| sequence < issued) {
            None => {
                self.refusals.unknown += 1;
                Error::UnknownTicket
            }
            Some(sequence) if self.start(sequence) < self.over() => {
                self.refusals.late += 1;
                Error::Expired
            }
            Some(_) => {
                self.refusals.duplicates += 1;
                Error::Duplicate
            }
        }
    }
}
