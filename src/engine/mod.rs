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

mod ticket;

use crate::error::{Error, Result};
use crate::policy::Pull;
use crate::random::Random;
use crate::reward::Reward;
use crate::table::Table;
use ticket::TicketKey;
use zeroize::Zeroize;

/// How one decision ended.
pub enum Event {
    /// With this reward (for a window: perhaps by silence).
    Answered(Pull, Reward),
    /// Pushed out of the ring unanswered: it counts as not played.
    Expired(Pull),
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
    window: u64,
    key: TicketKey,
    counts: Counts,
    diagnostics: Diagnostics,
    #[cfg(feature = "test-hooks")]
    fault: crate::config::Fault,
}

#[derive(Clone, Copy)]
struct Slot {
    sequence: u64,
    pull: Pull,
    state: State,
    /// Of a held answer; the smallest otherwise, so that no other reward is ever in the ring.
    reward: Reward,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Window mode: an answer that waits for its window to end.
    Held,
    Done,
}

impl Slot {
    const EMPTY: Slot = Slot { sequence: u64::MAX, pull: Pull::NONE, state: State::Done, reward: Reward::MIN };

    /// Ends the decision: what its state and reward were.
    #[inline]
    fn end(&mut self) -> (State, Reward) {
        (std::mem::replace(&mut self.state, State::Done), std::mem::replace(&mut self.reward, Reward::MIN))
    }
}

/// Held answers are wiped.
impl Drop for Engine {
    fn drop(&mut self) {
        self.ring.iter_mut().for_each(|slot| slot.reward.zeroize());
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
            window: window.into(),
            key: TicketKey::new(node, random),
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

    /// Makes room for the next decision: what the caller must see before it chooses.
    #[inline]
    pub fn make_room(&mut self) -> Option<Event> {
        let next = self.counts.decisions;
        let windowed = self.window > 0;
        let due = next.checked_sub(if windowed { self.window } else { self.ring.len() as u64 })?;
        let slot = self.slot(due);
        let pull = slot.pull;
        match slot.end() {
            (State::Done, _) => None,
            (State::Open, _) if !windowed => {
                self.counts.expired += 1;
                Some(Event::Expired(pull))
            }
            // Held, or silent: then the reward is the smallest.
            (_, reward) => {
                self.counts.answered += 1;
                Some(Event::Answered(pull, reward))
            }
        }
    }

    /// Enters a decision, after [`make_room`](Self::make_room), and returns its ticket.
    #[inline]
    pub fn issue(&mut self, pull: Pull) -> u64 {
        let sequence = self.counts.decisions;
        *self.slot(sequence) = Slot { sequence, pull, state: State::Open, reward: Reward::MIN };
        self.counts.decisions += 1;
        self.key.seal(sequence)
    }

    /// An answer: the event it causes now, if it does not wait for its window.
    ///
    /// # Errors
    /// `UnknownTicket`, `Duplicate`, `Expired`: counted, and nothing else changes.
    #[inline]
    pub fn answer(&mut self, ticket: u64, reward: Reward) -> Result<Option<Event>> {
        let window = self.window;
        #[cfg(feature = "test-hooks")]
        if let Some(sequence) = self.key.open(ticket)
            && sequence < self.counts.decisions
            && self.slot(sequence).state == State::Done
            && self.fault.is(crate::config::Fault::DuplicateBelieved)
        {
            return Ok(Some(Event::Answered(self.slot(sequence).pull, reward)));
        }
        let slot = self.find(ticket, |state| state == State::Open)?;
        let pull = slot.pull;
        if window > 0 {
            (slot.state, slot.reward) = (State::Held, reward);
            #[cfg(feature = "test-hooks")]
            if self.fault.is(crate::config::Fault::ClosedByArrival) {
                return Ok(Some(self.settle_now(ticket)));
            }
            return Ok(None);
        }
        slot.state = State::Done;
        self.counts.answered += 1;
        Ok(Some(Event::Answered(pull, reward)))
    }

    #[cfg(feature = "test-hooks")]
    fn settle_now(&mut self, ticket: u64) -> Event {
        let sequence = self.key.open(ticket).unwrap_or_default();
        self.counts.answered += 1;
        let slot = self.slot(sequence);
        let (_, reward) = slot.end();
        Event::Answered(slot.pull, reward)
    }

    #[cfg(feature = "test-hooks")]
    fn refuse_held(&mut self, ticket: u64) -> Result<()> {
        let fault = self.fault;
        self.find(ticket, |state| state != State::Held || !fault.is(crate::config::Fault::CancelTells))?;
        Ok(())
    }

    /// Takes a decision back: the pull that counts as not played. A held answer goes with it: its
    /// window is not over, so that it was there must not be told, by a status or by a count.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), but for a held answer.
    #[inline]
    pub fn cancel(&mut self, ticket: u64) -> Result<Pull> {
        #[cfg(feature = "test-hooks")]
        self.refuse_held(ticket)?;
        let slot = self.find(ticket, |state| state != State::Done)?;
        slot.end();
        let pull = slot.pull;
        self.counts.cancelled += 1;
        Ok(pull)
    }

    /// The decisions whose end is open.
    pub fn pending(&self) -> impl Iterator<Item = Pull> {
        let held = |slot: &&Slot| slot.state != State::Done;
        self.ring.iter().filter(held).map(|slot| slot.pull)
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

    /// The slot of a ticket whose time is not over, and whose state will do.
    #[inline]
    fn find(&mut self, ticket: u64, will_do: impl FnOnce(State) -> bool) -> Result<&mut Slot> {
        let issued = self.counts.decisions;
        let Some(sequence) = self.key.open(ticket).filter(|&s| s < issued) else {
            self.diagnostics.unknown += 1;
            return Err(Error::UnknownTicket);
        };
        let mask = self.ring.len() - 1;
        let slot = &mut self.ring[sequence as usize & mask];
        if slot.sequence != sequence || (self.window > 0 && issued - sequence > self.window) {
            self.diagnostics.late += 1;
            return Err(Error::Expired);
        }
        if !will_do(slot.state) {
            self.diagnostics.duplicates += 1;
            return Err(Error::Duplicate);
        }
        Ok(slot)
    }
}
