//! Tickets and the pending ring: a reward counts only for a decision of this handle, in its window, and once.
//!
//! The engine knows no algorithm. Each decision ends in exactly one event (with a reward, cancelled or expired), and
//! a refused call changes nothing.
//!
//! There are two ways to learn that nothing happened:
//! * *explicit* (`window` = 0): every decision gets a reward or is cancelled, at a time that does not depend on the
//!   reward, and a reward takes effect at once;
//! * *window* W > 0: silence is the smallest reward, and every reward takes effect exactly W ticks after its
//!   decision, in ticket order, so that the time of a click reveals nothing.
//!
#![doc = include_str!("../../docs/theory/time.md")]

mod clock;
mod counts;
mod requests;
mod ring;
mod settlement;
mod ticket;

use crate::config::{Clock, Config};
use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist};
use crate::parts::Earned;
use crate::random::Random;
use crate::request::{Choice, Pull};
use crate::reward::Reward;
use clock::CallerClock;
pub use counts::{Counts, Refusals};
use requests::Requests;
use ring::{Fate, Slot, SlotExtras, Times, find};
use settlement::{Parts, Settlement};
use std::ops::Range;
use ticket::{SlotRef, TicketKey};

/// How one decision ended.
pub enum Event {
    /// It got this reward; with a window silence is a reward too.
    Answered(Pull, Reward),
    /// It was cancelled, or expired: it counts as not played.
    Unplayed {
        pull: Pull,
        /// False if the policy took it as cancelled from the start.
        learned: bool,
    },
    /// With private requests: the time of a decision is over that was cancelled, has no arm, or was pushed out. Its pull.
    Passed(Pull),
}

/// The pending ring of one handle.
pub struct Engine {
    ring: WipedVec<Slot>,
    /// State of each slot that not every configuration needs.
    extras: Option<Box<SlotExtras>>,
    key: TicketKey,
    counts: Counts,
    refusals: Refusals,
    /// The number of decisions that were cancelled, or that the policy does not learn from, since a reward that it learned
    /// from last took effect. It counts if `answered` still is the number of decisions with a reward: rewards that are not
    /// learned from add to both.
    row: u32,
    answered: u64,
    /// With private requests, the first decision of this handle. The end of each decision from it on is an event, and
    /// nothing that was cancelled shows.
    private_from: Option<u64>,
}

impl Engine {
    /// Maximum number of an arm: the bits of a slot that its fate leaves.
    pub const MOST_ARM: u32 = u32::MAX >> Fate::BITS;

    /// Returns the number of places in the ring: a power of two, also for a window in decisions.
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
            extras: None,
            key: TicketKey::new(node, slots.trailing_zeros(), random),
            counts: Counts::default(),
            refusals: Refusals::default(),
            row: 0,
            answered: 0,
            private_from: config.private_features.then_some(0),
        };
        if clock == Clock::Caller {
            engine.extras().clock = Some(CallerClock::new(config));
        }
        if window > 0 {
            engine.extras().window = counted.into();
            engine.extras().held = WipedVec::new(slots, |_| Earned::NOTHING)?;
        }
        if window > counted {
            let stamps = WipedVec::new(slots, |_| 0)?;
            engine.extras().times = Some(Times { stamps, window: window.into(), first: 0 });
        }
        if let Some(scales) = config.part_scales()? {
            engine.settlement().parts = Some(Parts::new(slots, scales)?);
        }
        Ok(engine)
    }

    fn extras(&mut self) -> &mut SlotExtras {
        self.extras.get_or_insert_default()
    }

    fn settlement(&mut self) -> &mut Settlement {
        self.extras().settlement.get_or_insert_default()
    }

    /// Events carry the whole pull from now on, not the arm alone. Call it before the first decision.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn recall(&mut self) -> Result<()> {
        self.extras().pulls = WipedVec::new(self.ring.len(), |_| Pull::of(0))?;
        Ok(())
    }

    /// Reserves memory for what [is unexamined](Pull::unexamined) of the slots of decisions, unless it is there.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve_unexamined(&mut self) -> Result<()> {
        if self.extras.as_ref().is_none_or(|extras| extras.unexamined.is_empty()) {
            let parts = WipedVec::new(self.ring.len(), |_| 0)?;
            self.extras().unexamined = parts;
        }
        Ok(())
    }

    /// At most this many rewards of a request above the smallest one count. If there are more, that many are
    /// drawn. Needs a window.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn limit_clicks(&mut self, most: u32, coins: Random) -> Result<()> {
        self.settlement().requests = Some(Requests::new(self.ring.len(), most, coins)?);
        Ok(())
    }

    /// The number of later decisions until a decision expires: the window in decisions, or the length of the ring. A
    /// request has at most this many decisions: with more, its last one would expire its first one.
    #[inline]
    pub fn reach(&self) -> u64 {
        match self.extras.as_deref() {
            Some(extras) if extras.window > 0 => extras.window,
            _ => self.ring.len() as u64,
        }
    }

    /// Frees the place of the next decision, or of the one that follows `ahead` others. The caller must process the
    /// event before it chooses.
    #[inline(always)] // into its only caller
    pub fn make_room(&mut self, ahead: u64) -> Option<Event> {
        let next = self.counts.decisions + ahead;
        // Most decisions got their reward, and left nothing to end.
        match self.extras.is_none() && self.ring[self.place(next)].fate() == Fate::DONE {
            true => None,
            false => self.end_due(next.checked_sub(self.reach())?),
        }
    }

    /// Ends a decision whose place another one needs.
    #[inline(never)]
    fn end_due(&mut self, due: u64) -> Option<Event> {
        if self.private_from.is_some_and(|first| due < first.max(self.over())) {
            return None;
        }
        let place = self.place(due);
        let held = match self.extras.as_deref_mut() {
            None => None,
            // Its window on the caller's clock may not be over. It expires, whether it has a reward or not.
            Some(SlotExtras { held, times: Some(times), .. }) => {
                times.first = times.first.max(due + 1);
                held[place] = Earned::NOTHING;
                None
            }
            Some(extras) => {
                if let Some(settlement) = &mut extras.settlement
                    && !settlement.follows(due)
                {
                    settlement.settle(&mut self.ring, &mut extras.held, due, self.counts.decisions);
                }
                extras.take_held(place)
            }
        };
        self.end(place, held)
    }

    /// Ends the decision of a slot unless it is over: with this reward, or unplayed.
    #[inline(always)] // into its callers
    fn end(&mut self, place: usize, held: Option<Reward>) -> Option<Event> {
        let slot = &mut self.ring[place];
        let fate = slot.end();
        if self.private_from.is_some() {
            self.counts.answered += 1;
            let pull = SlotExtras::pull(&self.extras, place, slot);
            let reward = held.filter(|_| fate != Fate::DONE);
            return Some(reward.map_or(Event::Passed(pull), |reward| Event::Answered(pull, reward)));
        }
        if fate == Fate::DONE {
            return None;
        }
        let (pull, learned) = (SlotExtras::pull(&self.extras, place, slot), fate.is_learned());
        let Some(reward) = held else {
            self.counts.expired += 1;
            return Some(Event::Unplayed { pull, learned });
        };
        self.counts.answered += 1;
        if !learned {
            self.answered += 1;
        }
        learned.then_some(Event::Answered(pull, reward))
    }

    /// Sets the caller's clock, and returns the ticks that pass: see [`CallerClock`]. Call [`expire_windows`](Self::expire_windows)
    /// next.
    ///
    /// # Errors
    /// `Unsupported` if ticks are decisions.
    pub fn advance(&mut self, time: u64) -> Result<u64> {
        let clock = self.extras.as_mut().and_then(|extras| extras.clock.as_mut());
        let clock =
            clock.ok_or_else(|| Error::unconfigured("a time of the caller's: config.clock counts decisions"))?;
        Ok(clock.advance(time))
    }

    /// Lets ticks of the caller's clock pass, if there is one: call [`expire_windows`](Self::expire_windows) next. Otherwise returns how
    /// many of them can have an effect: the window in decisions.
    pub fn skip(&mut self, ticks: u64) -> Option<u64> {
        let Some(extras) = &mut self.extras else { return Some(0) };
        let Some(clock) = &mut extras.clock else { return Some(ticks.min(extras.window)) };
        clock.skip(ticks);
        None
    }

    /// Counts a decision that is cancelled at once, and whose ticket nobody has, after [`make_room`](Self::make_room).
    pub fn skip_decision(&mut self) {
        let place = self.place(self.counts.decisions);
        self.ring[place] = Slot::EMPTY;
        self.counts.decisions += 1;
        self.counts.cancelled += u64::from(self.private_from.is_none());
        if let Some(extras) = &mut self.extras {
            extras.enter(place, Pull::of(0), false, 0);
        }
    }

    /// Ends all decisions whose window is over on the caller's clock, in the order in which they were made.
    /// Decisions of one request have one stamp, so they end together, except for those that expired before.
    pub fn expire_windows(&mut self, mut each: impl FnMut(Event)) {
        while let Some(request) = self.next_over() {
            for sequence in request {
                let place = self.place(sequence);
                let held = self.extras.as_mut().and_then(|extras| extras.take_held(place));
                if let Some(event) = self.end(place, held) {
                    each(event);
                }
            }
        }
    }

    /// The first request whose window is over and that has not ended.
    fn next_over(&mut self) -> Option<Range<u64>> {
        let (issued, mask) = (self.counts.decisions, self.ring.len() - 1);
        let extras = self.extras.as_deref_mut()?;
        let SlotExtras { held, settlement, times: Some(times), clock: Some(clock), .. } = extras else { return None };
        let first = times.first;
        if first == issued || clock.now - times.stamps[first as usize & mask] < times.window {
            return None;
        }
        times.first = match settlement {
            Some(settlement) => settlement.settle(&mut self.ring, held, first, issued),
            None => first + 1,
        };
        Some(first..times.first)
    }

    /// The time that the caller's clock showed last, and the number of its leaps; 0 if ticks are decisions.
    pub fn caller_time(&self) -> (u64, u64) {
        let clock = self.extras.as_ref().and_then(|extras| extras.clock);
        clock.map_or((0, 0), |clock| (clock.last.unwrap_or(0), clock.leaps))
    }

    /// Enters a decision, after [`make_room`](Self::make_room), and returns its ticket. With `follows` it belongs
    /// to the same request as the one before.
    #[inline(always)] // into its callers
    pub fn issue(&mut self, pull: Pull, follows: bool) -> u64 {
        self.enter(pull, follows, 0, Fate::OPEN)
    }

    /// The same for a choice of a request. If it is not `learned` from, its reward is accepted like any other. After
    /// [`reserve_unexamined`](Self::reserve_unexamined) if its slot lacks anything of an examination.
    #[inline]
    pub fn issue_choice(&mut self, choice: &Choice, follows: bool, learned: bool) -> u64 {
        if !learned {
            self.extend_row();
        }
        self.enter(choice.pull, follows, choice.unexamined, Fate::open(learned))
    }

    #[inline(always)] // into its callers
    fn enter(&mut self, pull: Pull, follows: bool, unexamined: u16, fate: Fate) -> u64 {
        debug_assert!(pull.arm() <= Self::MOST_ARM);
        let (ticket, SlotRef { slot: place, tag }) = self.key.seal(self.counts.decisions);
        self.ring[place] = Slot::new(tag, pull.arm(), fate);
        self.counts.decisions += 1;
        if let Some(extras) = &mut self.extras {
            extras.enter(place, pull, follows, unexamined);
        }
        ticket
    }

    /// The pull of the last decision, as its event will have it.
    pub fn last_pull(&self) -> Pull {
        let last = self.place(self.counts.decisions - 1);
        SlotExtras::pull(&self.extras, last, &self.ring[last])
    }

    /// Takes a reward. Returns the event that it causes now: none if it waits for its window, or if the policy does
    /// not learn from it.
    ///
    /// # Errors
    /// `UnknownTicket`, `Duplicate`, `Expired`: counted, and nothing else changes.
    #[inline(always)] // into its two callers
    pub fn answer(&mut self, ticket: u64, reward: Reward) -> Result<Option<Event>> {
        let Some((place, slot)) = find(&self.key, &mut self.ring, ticket, Fate::is_open) else {
            return Err(self.refuse(ticket));
        };
        let learned = slot.fate().is_learned();
        if let Some(extras) = &mut self.extras
            && extras.hold(place, learned, reward)
        {
            slot.hold();
            return Ok(None);
        }
        slot.end();
        self.counts.answered += 1;
        if !learned {
            self.answered += 1;
        }
        Ok(learned.then(|| Event::Answered(SlotExtras::pull(&self.extras, place, slot), reward)))
    }

    /// Takes a part of a reward, in the caller's units.
    ///
    /// # Errors
    /// `InvalidConfig` for a part that does not exist; `InvalidReward`; as [`answer`](Self::answer). Counted, and nothing
    /// else changes.
    #[cold]
    #[inline(never)]
    pub fn add_part(&mut self, ticket: u64, part: u32, value: f64) -> Result<()> {
        let amount = match self.extras.as_ref().and_then(|extras| extras.parts()) {
            Some(parts) => parts.scales.quantize(part, value),
            None if part == 0 => Err(Error::InvalidReward),
            None => Err(Error::config("part", "must be 0 without config.parts", part)),
        };
        let amount = amount.inspect_err(|_| self.refusals.rejected += 1)?;
        let Some((place, slot)) = find(&self.key, &mut self.ring, ticket, Fate::is_open) else {
            return Err(self.refuse(ticket));
        };
        match &mut self.extras {
            Some(extras) => extras.add_part(place, part, amount, slot.fate().is_learned()),
            None => Ok(()),
        }
        .inspect_err(|_| self.refusals.duplicates += 1)
    }

    /// Cancels a decision: it counts as not played. A held reward is dropped with it. Its window is not over, so no
    /// status and no count may reveal that it was there. With private requests no event may, until its time is over.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), except for a held reward.
    #[inline]
    pub fn cancel(&mut self, ticket: u64) -> Result<Option<Event>> {
        let Some((place, _)) = find(&self.key, &mut self.ring, ticket, |fate| fate != Fate::DONE) else {
            return Err(self.refuse(ticket));
        };
        Ok(self.take_back(place))
    }

    /// All decisions that may be open, the oldest first, for [`cancel_at`](Self::cancel_at).
    pub fn in_flight(&self) -> Range<u64> {
        self.over()..self.counts.decisions
    }

    /// The time on the handle's clock: the number of decisions, or the caller's time without its leaps.
    pub fn ticks(&self) -> u64 {
        let clock = self.extras.as_ref().and_then(|extras| extras.clock.as_ref());
        clock.map_or(self.counts.decisions, |clock| clock.now)
    }

    /// The ticket of a decision of this handle that has not ended, whether it has a reward or not; and its pull.
    pub fn pending_at(&self, sequence: u64) -> Option<(u64, Pull)> {
        let place = self.place(sequence);
        let is_last = self.counts.decisions - sequence <= self.ring(); // no later decision has its place
        let is_pending = is_last && self.ring[place].fate() != Fate::DONE;
        is_pending.then(|| (self.key.seal(sequence).0, SlotExtras::pull(&self.extras, place, &self.ring[place])))
    }

    /// Counts a call that was refused with this error.
    #[cold]
    pub fn refused(&mut self, error: Error) -> Error {
        match error {
            Error::UnknownTicket => self.refusals.unknown += 1,
            Error::Duplicate => self.refusals.duplicates += 1,
            Error::Expired => self.refusals.late += 1,
            _ => (),
        }
        error
    }

    /// The name of this handle's node in tickets.
    pub fn node(&self) -> u16 {
        self.key.node()
    }

    /// When a decision that may be open was made, in ticks.
    pub fn stamp(&self, sequence: u64) -> u64 {
        let times = self.extras.as_ref().and_then(|extras| extras.times.as_ref());
        times.map_or(sequence, |times| times.stamps[self.place(sequence)])
    }

    /// Decisions before this one are over.
    fn over(&self) -> u64 {
        match self.extras.as_deref() {
            Some(SlotExtras { times: Some(times), .. }) => times.first,
            _ => self.counts.decisions.saturating_sub(self.reach()),
        }
    }

    /// Cancels one of the decisions [`in_flight`](Self::in_flight) if it is open, whether it has a reward or not.
    pub fn cancel_at(&mut self, sequence: u64) -> Option<Event> {
        let place = self.place(sequence);
        if self.ring[place].fate() == Fate::DONE { None } else { self.take_back(place) }
    }

    #[inline]
    fn take_back(&mut self, place: usize) -> Option<Event> {
        let slot = &mut self.ring[place];
        let learned = slot.end().is_learned();
        if let Some(extras) = &mut self.extras {
            extras.drop_held(place);
        }
        if self.private_from.is_some() {
            return None;
        }
        self.counts.cancelled += 1;
        if learned {
            self.extend_row();
        }
        Some(Event::Unplayed { pull: SlotExtras::pull(&self.extras, place, &self.ring[place]), learned })
    }

    /// Decisions in a row from which on there is an outage. A service that cancels many decisions, because most auctions are
    /// lost, rarely has so many in a row: if it cancels 98%, one row in 170 is as long.
    const OUTAGE: u32 = 1 << 8;

    /// Counts a decision that nothing is learned from.
    fn extend_row(&mut self) {
        if self.answered != self.counts.answered {
            (self.row, self.answered) = (0, self.counts.answered);
        }
        self.row = self.row.saturating_add(1);
    }

    /// Whether there [may be](Self::is_outage) an outage.
    #[inline]
    pub fn may_be_outage(&self) -> bool {
        self.row >= Self::OUTAGE
    }

    /// Whether there is an outage: nothing was learned from so many decisions in a row, because they were cancelled, or
    /// because of the limits of users. It ends when the next reward that is learned from takes effect. So it depends on the
    /// order of requests, cancellations and windows alone (without a window also on which decisions have a reward), which
    /// is public. No snapshot contains it: after a restart the row begins again.
    pub fn is_outage(&mut self) -> bool {
        if self.answered != self.counts.answered {
            self.row = 0;
        }
        self.may_be_outage()
    }

    /// The arms of the open decisions.
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        self.ring.iter().filter(|slot| slot.fate() != Fate::DONE).map(|slot| slot.arm())
    }

    /// Continues from the counts of an earlier handle, and from its time with the caller's clock. The decisions
    /// that it left open have expired.
    pub fn count_on(&mut self, counts: Counts, time: u64) {
        let expired = counts.decisions - counts.answered - counts.cancelled;
        self.counts = Counts { expired, ..counts };
        self.private_from = self.private_from.map(|_| counts.decisions);
        if let Some(extras) = &mut self.extras {
            extras.clock.iter_mut().for_each(|clock| clock.last = (time > 0).then_some(time));
            if let Some(times) = &mut extras.times {
                times.first = counts.decisions;
            }
        }
    }

    /// Counts of decisions so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Refused calls so far.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// The length of the ring.
    pub fn ring(&self) -> u64 {
        self.ring.len() as u64
    }

    #[inline]
    fn place(&self, sequence: u64) -> usize {
        sequence as usize & (self.ring.len() - 1)
    }

    /// The decision whose time ends that of this one: itself, or the first one of its request, or one between them
    /// whose time is over too.
    fn start(&self, sequence: u64) -> u64 {
        match self.extras.as_deref() {
            Some(SlotExtras { settlement: Some(settlement), times: None, .. }) => {
                settlement.start(sequence, self.over())
            }
            _ => sequence,
        }
    }

    /// Why this ticket, which names no decision that is to be found, is refused.
    #[cold]
    fn refuse(&mut self, ticket: u64) -> Error {
        let issued = self.counts.decisions;
        self.refused(match self.key.open(ticket).filter(|&sequence| sequence < issued) {
            None => Error::UnknownTicket,
            Some(sequence) if self.start(sequence) < self.over() => Error::Expired,
            Some(_) => Error::Duplicate,
        })
    }
}

impl Persist for Engine {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        // A handle that continues has no such memory yet.
        let mut has_unexamined = self.extras.as_ref().is_some_and(|extras| !extras.unexamined.is_empty());
        has_unexamined.persist(with)?;
        if has_unexamined {
            self.reserve_unexamined()?;
        }
        let Engine { ring, extras, key, counts, refusals, row, answered, private_from } = self;
        ring.persist(with)?;
        extras.persist(with)?;
        with.ensure(extras.as_ref().is_none_or(|extras| extras.has_valid_held()))?;
        key.persist(with)?;
        counts.persist(with)?;
        refusals.persist(with)?;
        row.persist(with)?;
        answered.persist(with)?;
        private_from.persist(with)
    }
}
