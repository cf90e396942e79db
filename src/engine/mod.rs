//! Tickets and the pending ring: every reward is ours, in its window, and comes once.
//!
//! The engine knows no algorithm. It promises its user that each decision ends in exactly one
//! event (answered, cancelled or expired) and that a refused call changes nothing.
//!
//! Two ways to learn that nothing happened:
//! * *explicit* (`window` = 0): every decision is answered or cancelled, at a time that does not
//!   depend on the reward, and an answer takes effect at once;
//! * *window* W > 0: silence is the smallest reward, and every answer takes effect exactly W
//!   decisions after its decision, in ticket order, so that the time of a click tells nothing.
//!
//! Decisions of one request follow each other. Where at most so many answers of a request may be clicks, a window it
//! is, and all of them are [fixed](requests) when the first decision of the request is due.

mod requests;
mod ticket;

use crate::error::{Error, Result};
use crate::policy::Pull;
use crate::random::Random;
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure};
use crate::table::Table;
use requests::Requests;
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

/// Counts of refused calls. NOT private: a duplicate click is a click.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Answers or cancellations to a ticket that had one.
    pub duplicates: u64,
    /// Answers or cancellations to a ticket whose time was over.
    pub late: u64,
    /// Rewards that were not finite or out of range.
    pub rejected: u64,
    /// Tickets never issued by this handle.
    pub unknown: u64,
}

/// The pending ring of one handle.
pub struct Engine {
    ring: Table<Slot>,
    /// Decisions before the next one that can be answered or settled: the window, or the ring.
    reach: u64,
    windowed: bool,
    /// Which decisions are of one request, where that matters.
    requests: Option<Box<Requests>>,
    key: TicketKey,
    counts: Counts,
    diagnostics: Diagnostics,
    #[cfg(feature = "test-hooks")]
    fault: crate::config::Fault,
}

/// 24 bytes.
#[derive(Clone, Copy)]
struct Slot {
    pull: Pull,
    /// Of the ticket of the last decision here.
    tag: u32,
    fate: Fate,
}

/// What became of a decision: open, done, or in window mode the reward of an answer that waits for
/// its window to end. No other reward is ever in the ring, and none that nobody learns from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fate(u32);

impl Fate {
    const OPEN: Fate = Fate(u32::MAX);
    /// Open, and nobody learns from the answer.
    const IDLE: Fate = Fate(u32::MAX - 1);
    const DONE: Fate = Fate(u32::MAX - 2);
    /// The answer of an idle one, without its reward.
    const HEARD: Fate = Fate(u32::MAX - 3);

    fn is_open(self) -> bool {
        self.0 >= Fate::IDLE.0
    }

    fn is_learned(self) -> bool {
        self != Fate::IDLE && self != Fate::HEARD
    }

    fn held(reward: Reward) -> Fate {
        Fate(reward.units() as u32)
    }

    /// An answer that waits, is learned from, and says more than silence?
    fn is_click(self) -> bool {
        (1..Fate::HEARD.0).contains(&self.0)
    }

    #[cfg(feature = "test-hooks")]
    fn is_held(self) -> bool {
        self.0 < Fate::DONE.0
    }
}

impl Default for Fate {
    fn default() -> Fate {
        Fate::DONE
    }
}

impl zeroize::DefaultIsZeroes for Fate {}

impl Slot {
    const EMPTY: Slot = Slot { pull: Pull::NONE, tag: 0, fate: Fate::DONE };

    /// Ends the decision: what its fate was.
    #[inline]
    fn end(&mut self) -> Fate {
        std::mem::replace(&mut self.fate, Fate::DONE)
    }
}

/// Held answers are wiped.
impl Drop for Engine {
    fn drop(&mut self) {
        self.ring.iter_mut().for_each(|slot| slot.fate.zeroize());
    }
}

impl Engine {
    /// A ring for `capacity` decisions in flight (rounded up to a power of two, and to the window).
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(capacity: u32, window: u32, node: u64, random: &mut Random) -> Result<Engine> {
        let slots = capacity.max(window).next_power_of_two() as usize;
        Ok(Engine {
            ring: Table::new(slots, |_| Slot::EMPTY)?,
            reach: if window > 0 { window.into() } else { slots as u64 },
            windowed: window > 0,
            requests: None,
            key: TicketKey::new(node, slots.trailing_zeros(), random),
            counts: Counts::default(),
            diagnostics: Diagnostics::default(),
            #[cfg(feature = "test-hooks")]
            fault: crate::config::Fault::None,
        })
    }

    #[cfg(feature = "test-hooks")]
    pub(crate) fn sabotage(&mut self, fault: crate::config::Fault) {
        self.fault = fault;
    }

    /// No more answers of a request than this may be more than the least reward: of those that are, so many are
    /// drawn. For a window that is not 0.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn limit_clicks(&mut self, most: u32, coins: Random) -> Result<()> {
        debug_assert!(self.windowed);
        self.requests = Some(Box::new(Requests::new(self.ring.len(), most, coins)?));
        Ok(())
    }

    /// The most decisions of one request: with more, the last would push out the first.
    pub fn longest_request(&self) -> u64 {
        self.reach
    }

    /// Makes room for the next decision, or for the one that so many are `ahead` of: what the caller must see
    /// before it chooses.
    #[inline]
    pub fn make_room(&mut self, ahead: u64) -> Option<Event> {
        let due = (self.counts.decisions + ahead).checked_sub(self.reach)?;
        if let Some(requests) = &mut self.requests {
            requests.fix(&mut self.ring, due, self.counts.decisions);
        }
        let windowed = self.windowed;
        let slot = self.slot(due);
        let pull = slot.pull;
        match slot.end() {
            Fate::DONE => None,
            fate if fate.is_open() && !windowed => {
                self.counts.expired += 1;
                Some(Event::Unplayed { pull, learned: fate.is_learned() })
            }
            fate => {
                self.counts.answered += 1;
                match fate {
                    Fate::IDLE | Fate::HEARD => None,
                    Fate::OPEN => Some(Event::Answered(pull, Reward::MIN)),
                    Fate(units) => Some(Event::Answered(pull, Reward::from_units(units))),
                }
            }
        }
    }

    /// Enters a decision, after [`make_room`](Self::make_room), and returns its ticket. Does it follow the one before,
    /// in its request?
    #[inline]
    pub fn issue(&mut self, pull: Pull, follows: bool) -> u64 {
        let (ticket, Place { slot, tag }) = self.key.seal(self.counts.decisions);
        if let Some(requests) = &mut self.requests {
            requests.enter(slot, follows);
        }
        self.ring[slot] = Slot { pull, tag, fate: Fate::OPEN };
        self.counts.decisions += 1;
        ticket
    }

    /// Nobody learns from the last decision. Whoever answers it sees no difference.
    pub fn idle(&mut self) {
        self.slot(self.counts.decisions - 1).fate = Fate::IDLE;
    }

    /// An answer: the event it causes now, if it does not wait for its window, and if anybody learns from it.
    ///
    /// # Errors
    /// `UnknownTicket`, `Duplicate`, `Expired`: counted, and nothing else changes.
    #[inline(always)] // into its two callers
    pub fn answer(&mut self, ticket: u64, reward: Reward) -> Result<Option<Event>> {
        #[cfg(feature = "test-hooks")]
        if let Some(sequence) = self.key.open(ticket)
            && sequence < self.counts.decisions
            && self.slot(sequence).fate == Fate::DONE
            && self.fault.is(crate::config::Fault::DuplicateBelieved)
        {
            return Ok(Some(Event::Answered(self.slot(sequence).pull, reward)));
        }
        let windowed = self.windowed;
        let slot = self.find(ticket, Fate::is_open)?;
        let (pull, idle) = (slot.pull, slot.fate == Fate::IDLE);
        if windowed {
            slot.fate = if idle { Fate::HEARD } else { Fate::held(reward) };
            #[cfg(feature = "test-hooks")]
            if self.fault.is(crate::config::Fault::ClosedByArrival) {
                return Ok(Some(self.settle_now(ticket, reward)));
            }
            return Ok(None);
        }
        slot.fate = Fate::DONE;
        self.counts.answered += 1;
        if idle {
            return Ok(None);
        }
        Ok(Some(Event::Answered(pull, reward)))
    }

    #[cfg(feature = "test-hooks")]
    fn settle_now(&mut self, ticket: u64, reward: Reward) -> Event {
        let sequence = self.key.open(ticket).unwrap_or_default();
        self.counts.answered += 1;
        let slot = self.slot(sequence);
        slot.end();
        Event::Answered(slot.pull, reward)
    }

    #[cfg(feature = "test-hooks")]
    fn refuse_held(&mut self, ticket: u64) -> Result<()> {
        let fault = self.fault;
        self.find(ticket, |fate| !fate.is_held() || !fault.is(crate::config::Fault::CancelTells))?;
        Ok(())
    }

    /// Takes a decision back: it counts as not played. A held answer goes with it: its
    /// window is not over, so that it was there must not be told, by a status or by a count.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), but for a held answer.
    #[inline]
    pub fn cancel(&mut self, ticket: u64) -> Result<Event> {
        #[cfg(feature = "test-hooks")]
        self.refuse_held(ticket)?;
        let slot = self.find(ticket, |fate| fate != Fate::DONE)?;
        let learned = slot.end().is_learned();
        let pull = slot.pull;
        self.counts.cancelled += 1;
        Ok(Event::Unplayed { pull, learned })
    }

    /// The decisions whose end is open.
    pub fn pending(&self) -> impl Iterator<Item = Pull> {
        let open = |slot: &&Slot| slot.fate != Fate::DONE;
        self.ring.iter().filter(open).map(|slot| slot.pull)
    }

    /// Counts on from what another life counted. What it left open has expired.
    pub fn count_on(&mut self, counts: Counts) {
        let expired = counts.decisions - counts.answered - counts.cancelled;
        self.counts = Counts { expired, ..counts };
    }

    /// What became of decisions so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Refused calls so far.
    pub fn diagnostics(&self) -> Diagnostics {
        self.diagnostics
    }

    /// Counts a reward that was refused at the door.
    pub fn count_rejected(&mut self) {
        self.diagnostics.rejected += 1;
    }

    #[inline]
    fn slot(&mut self, sequence: u64) -> &mut Slot {
        let mask = self.ring.len() - 1;
        &mut self.ring[sequence as usize & mask]
    }

    /// The slot of a ticket whose decision is not over, and whose fate will do.
    #[inline]
    fn find(&mut self, ticket: u64, will_do: impl FnOnce(Fate) -> bool) -> Result<&mut Slot> {
        match self.key.place(ticket) {
            Some(Place { slot, tag }) if self.ring[slot].tag == tag && will_do(self.ring[slot].fate) => {
                Ok(&mut self.ring[slot])
            }
            _ => Err(self.refuse(ticket)),
        }
    }

    /// The decision whose time ends that of this one: itself, or the first one of its request, or one between them
    /// whose time is over too.
    fn start(&self, sequence: u64) -> u64 {
        let over = self.counts.decisions.saturating_sub(self.reach);
        match &self.requests {
            Some(requests) => requests.start(sequence, over),
            None => sequence,
        }
    }

    /// Why this ticket, which names no decision that is to be found, is refused.
    #[cold]
    fn refuse(&mut self, ticket: u64) -> Error {
        let issued = self.counts.decisions;
        match self.key.open(ticket).filter(|&sequence| sequence < issued) {
            None => {
                self.diagnostics.unknown += 1;
                Error::UnknownTicket
            }
            Some(sequence) if issued - self.start(sequence) > self.reach => {
                self.diagnostics.late += 1;
                Error::Expired
            }
            Some(_) => {
                self.diagnostics.duplicates += 1;
                Error::Duplicate
            }
        }
    }
}
