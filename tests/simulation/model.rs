//! A bandit whose sums are lists of tickets, and what is true of all of them: so checks are exact.

use super::coins::Coins;
use super::sabotage::Sabotage;
use super::world::DELAY;
use dpb::Error;
use dpb::node::{BanditSource, FleetBandit};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

/// What happened to a decision.
pub struct Fact {
    pub made: u64,
    /// When its click was reported to a node that runs, and to which process.
    pub click: Option<(u64, u64)>,
    /// When it took effect, and whether as a click, and in which process.
    pub learned: Option<(u64, bool, u64)>,
    pub lost: Option<Lost>,
}

/// When, how and in which process a decision was lost, or a reward that had taken effect.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    pub at: u64,
    pub process: u64,
    pub how: LostBy,
    /// How far the bandit's clock is behind, if it continues from a state.
    pub lag: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LostBy {
    /// The process cancelled it. If it did so as it continued from a state: when that was written.
    Cancel(Option<u64>),
    /// The process ended with it.
    End,
}

/// Sums on their way to the leader of a generation.
pub struct Sum {
    pub tickets: Vec<u64>,
    pub at: u64,
    pub by: u64,
    pub generation: u64,
    pub arrived: bool,
}

/// A state, until a process continues from it: when which process wrote it, and for which one.
pub struct State {
    pub inner: Option<Inner>,
    pub at: u64,
    pub by: u64,
    pub to: u64,
}

/// What is true of all bandits of a world.
#[derive(Default)]
pub struct Truth {
    pub(crate) coins: Coins,
    pub sabotage: Sabotage,
    pub window: u64,
    /// A click that was reported so long before the end of its window must count, or its decision must not.
    pub allowance: u64,
    /// The store keeps what it has, and no state moves with rewards that it does not acknowledge: each arrives once.
    pub is_exact: bool,
    pub facts: BTreeMap<u64, Fact>,
    pub released: BTreeSet<u64>,
    pub sums: Vec<Sum>,
    /// The process that leads each generation.
    pub generations: BTreeMap<u64, u64>,
    /// The process that has drawn each receiver.
    pub receivers: BTreeMap<u64, u64>,
    pub states: Vec<State>,
    pub resumed: u64,
    /// How many decisions count for each person at each number.
    pub people: BTreeMap<(u16, u64), u64>,
    /// The last period in which a stored snapshot lets a bandit of each number learn from people.
    pub opened: BTreeMap<u16, u64>,
    /// The store was empty: it has forgotten more than the bandits allow for.
    pub forgotten: bool,
    pub violation: Option<String>,
    pub now: u64,
    /// What the bandits have that ran to the end: open decisions and open sums.
    pub kept: Option<BTreeSet<u64>>,
}

impl Truth {
    pub fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn learn(&mut self, ticket: u64, as_click: bool, now: u64, process: u64) {
        let fact = self.facts.get_mut(&ticket).expect("a decision");
        let end = fact.made + self.window;
        if fact.learned.replace((now, as_click, process)).is_some() {
            self.violate(format!("1: {ticket:x} took effect twice"));
        } else if let Some((at, by)) = fact.click.filter(|_| !as_click)
            && at + self.allowance < end
        {
            let made = fact.made;
            self.violate(format!(
                "3: the silence of {ticket:x} is learned; it was made at {made}, its click reported at {at} to process {by}, and it \
                 took effect at {now}"
            ));
        }
    }

    /// A bandit continues from a snapshot that counts so many periods.
    fn continues(&mut self, number: u16, periods: u64) {
        let opened = self.opened.get(&number).copied().unwrap_or(0);
        let most = self.people.iter().filter(|row| row.0.0 == number).map(|row| *row.1).max().unwrap_or(0);
        if self.forgotten {
        } else if opened > periods {
            self.violate(format!("5: number {number} falls back to period {periods}, but learns in period {opened}"));
        } else if most > periods {
            self.violate(format!(
                "4: number {number} learns {most} times from one person, and counts {periods} periods"
            ));
        }
    }

    fn lose(&mut self, ticket: u64, process: u64, how: LostBy, lag: u64) {
        let lost = Lost { at: self.now, process, how, lag };
        self.facts.get_mut(&ticket).expect("a decision").lost = Some(lost);
    }

    fn release(&mut self, tickets: Vec<u64>) {
        for ticket in tickets {
            if !self.released.insert(ticket) {
                self.violate(format!("1: {ticket:x} is released twice"));
            }
        }
    }
}

#[derive(Clone, Copy, Default)]
enum Duty {
    #[default]
    Alone,
    Contributes,
    Leads(u64),
}

pub struct Open {
    ticket: u64,
    made: u64,
    click: bool,
}

/// The model of a bandit with a window on the caller's clock.
pub struct Model {
    truth: Rc<RefCell<Truth>>,
    number: u16,
    process: u64,
    inner: RefCell<Inner>,
    /// It continues since then from a state that was written then.
    resumed: Option<(u64, u64)>,
}

impl Drop for Model {
    fn drop(&mut self) {
        let (inner, truth) = (self.inner.get_mut(), &mut *self.truth.borrow_mut());
        for ticket in inner.tickets() {
            match &mut truth.kept {
                Some(kept) => _ = kept.insert(ticket),
                None => truth.lose(ticket, self.process, LostBy::End, 0),
            }
        }
    }
}

#[derive(Default)]
pub struct Inner {
    now: u64,
    open: VecDeque<Open>,
    sum: Vec<u64>,
    duty: Duty,
    /// A random number, and how many contributions it has sent.
    sender: (u64, u64),
    senders: BTreeMap<u64, u64>,
    releases: u64,
    /// The period, the last one that a stored snapshot counts, and the people for whom a decision of this one counts.
    period: u64,
    counted: u64,
    met: BTreeSet<u64>,
    decisions: u64,
}

/// A batch has so many rewards.
const QUOTA: usize = 20;
/// There are so many people; and a period has so many decisions.
const PEOPLE: u64 = 5;
const PERIOD: u64 = 400;

impl Model {
    fn new(truth: Rc<RefCell<Truth>>, number: u16, process: u64, releases: u64, period: u64) -> Model {
        let sender = (truth.borrow_mut().coins.next(), 0);
        let inner = Inner { sender, releases, period, ..Inner::default() };
        Model { truth, number, process, inner: RefCell::new(inner), resumed: None }
    }

    pub fn select(&self) -> u64 {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        let ticket = u64::from(self.number) << 48 | (truth.facts.len() as u64 + 1);
        truth.facts.insert(ticket, Fact { made: inner.now, click: None, learned: None, lost: None });
        inner.open.push_back(Open { ticket, made: inner.now, click: false });
        inner.decisions += 1;
        let (person, may_learn) = (inner.decisions % PEOPLE, inner.counted == inner.period);
        if (may_learn || truth.sabotage == Sabotage::LearnsUnstored) && inner.met.insert(person) {
            *truth.people.entry((self.number, person)).or_default() += 1;
        }
        ticket
    }

    /// Whether a period ends with the next decision.
    pub fn ends_period(&self) -> bool {
        self.inner.borrow().decisions % PERIOD == PERIOD - 1
    }

    pub fn advance(&self, now: u64) {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        inner.now = inner.now.max(now);
        while inner.open.front().is_some_and(|open| open.made + truth.window <= inner.now) {
            let Some(open) = inner.open.pop_front() else { break };
            truth.learn(open.ticket, open.click, inner.now, self.process);
            inner.sum.push(open.ticket);
        }
        inner.release(truth);
    }
}

impl Inner {
    /// What is open, or in open sums.
    pub fn tickets(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|open| open.ticket).chain(self.sum.iter().copied())
    }

    fn release(&mut self, truth: &mut Truth) {
        if !matches!(self.duty, Duty::Contributes) && self.sum.len() >= QUOTA {
            truth.release(std::mem::take(&mut self.sum));
            self.releases += 1;
        }
    }
}

fn words(bytes: &[u8]) -> Result<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_be_bytes(*word)).collect();
    if rest.is_empty() { Ok(words) } else { Err(Error::Corrupt) }
}

impl FleetBandit for Model {
    fn update_part(&self, ticket: u64, _: u32, _: f64) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        let open = inner.open.iter_mut().find(|open| open.ticket == ticket).ok_or(Error::UnknownTicket)?;
        let truth = &mut *self.truth.borrow_mut();
        let is_dropped =
            truth.sabotage == Sabotage::DropsLateRewards && open.made + truth.window < truth.now + 4 * DELAY;
        if is_dropped || !std::mem::replace(&mut open.click, true) {
            return Ok(());
        }
        if truth.is_exact {
            truth.violate(format!("1: the reward of {ticket:x} arrives twice"));
        }
        Err(Error::Duplicate)
    }

    fn ticks(&self) -> Result<u64> {
        Ok(self.inner.borrow().now)
    }

    fn next_period(&self) -> Result<()> {
        if self.truth.borrow().sabotage == Sabotage::CancelsForNothing {
            self.cancel_since(0)?;
        }
        let inner = &mut *self.inner.borrow_mut();
        (inner.period, inner.met) = (inner.period + 1, BTreeSet::new());
        Ok(())
    }

    fn cancel_since(&self, from: u64) -> Result<()> {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        let from = match truth.sabotage {
            Sabotage::CancelsNothing => u64::MAX,
            Sabotage::CancelsAll => 0,
            Sabotage::CancelsLate => from + 2 * DELAY,
            _ => from,
        };
        let written = self.resumed.filter(|resumed| resumed.1 == truth.now).map(|resumed| resumed.0);
        let lag = self.resumed.map_or(0, |_| truth.now - inner.now);
        inner.open.retain(|open| {
            if open.made >= from {
                truth.lose(open.ticket, self.process, LostBy::Cancel(written), lag);
            }
            open.made < from
        });
        Ok(())
    }

    fn releases(&self) -> Result<u64> {
        Ok(self.inner.borrow().releases)
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        let inner = self.inner.borrow();
        Ok([u64::from(self.number), inner.releases, inner.period].map(u64::to_be_bytes).concat())
    }

    fn stored(&self, snapshot: &[u8]) -> Result<()> {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        let [_, _, period] = words(snapshot)?[..] else { return Err(Error::Corrupt) };
        inner.counted = inner.counted.max(period);
        let opened = truth.opened.entry(self.number).or_default();
        *opened = (*opened).max(period);
        Ok(())
    }

    fn merge(&self, snapshot: &[u8]) -> Result<()> {
        words(snapshot).map(|_| ())
    }

    fn lead(&self) -> Result<u64> {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        if let Duty::Leads(generation) = inner.duty {
            return Ok(generation);
        }
        let generation = truth.coins.next() >> 1 | 1;
        (inner.duty, inner.senders) = (Duty::Leads(generation), BTreeMap::new());
        truth.generations.insert(generation, self.process);
        inner.release(truth);
        Ok(generation)
    }

    fn set_handles(&self, _: u32) -> Result<()> {
        Ok(())
    }

    fn contribution(&self, generation: u64) -> Result<Vec<u8>> {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        inner.duty = Duty::Contributes;
        if inner.sum.is_empty() {
            return Ok(Vec::new());
        }
        let tickets = std::mem::take(&mut inner.sum);
        truth.sums.push(Sum { tickets, at: truth.now, by: self.process, generation, arrived: false });
        inner.sender.1 += 1;
        let place = truth.sums.len() as u64 - 1;
        Ok([generation, inner.sender.0, inner.sender.1, place].map(u64::to_be_bytes).concat())
    }

    fn combine(&self, contribution: &[u8]) -> Result<()> {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        let [generation, sender, sequence, place] = words(contribution)?[..] else { return Err(Error::Corrupt) };
        if !matches!(inner.duty, Duty::Leads(led) if led == generation) {
            return Err(Error::Expired);
        }
        let last = inner.senders.entry(sender).or_default();
        if sequence <= *last && truth.sabotage != Sabotage::Repeats {
            return Err(Error::Duplicate);
        }
        *last = sequence;
        inner.sum.extend(&truth.sums[place as usize].tickets);
        truth.sums[place as usize].arrived = true;
        inner.release(truth);
        Ok(())
    }

    fn pending(&self) -> Result<u64> {
        Ok(self.inner.borrow().open.len() as u64)
    }

    fn skip(&self, ticks: u64) -> Result<()> {
        let now = self.inner.borrow().now + ticks;
        self.advance(now);
        Ok(())
    }

    fn receiver(&self) -> Result<u64> {
        let truth = &mut *self.truth.borrow_mut();
        let receiver = truth.coins.next() >> 1 | 1;
        truth.receivers.insert(receiver, self.process);
        Ok(receiver)
    }

    fn state_length(&self) -> Result<u64> {
        Ok(16)
    }

    fn suspend(&self, receiver: u64) -> Result<Vec<u8>> {
        let (inner, truth) = (&mut *self.inner.borrow_mut(), &mut *self.truth.borrow_mut());
        let mut state = std::mem::take(inner);
        if let Duty::Leads(_) = state.duty {
            (state.duty, state.senders) = (Duty::Alone, BTreeMap::new());
        }
        let to = truth.receivers.get(&receiver).copied().unwrap_or(self.process);
        truth.states.push(State { inner: Some(state), at: truth.now, by: self.process, to });
        Ok([receiver, truth.states.len() as u64 - 1].map(u64::to_be_bytes).concat())
    }

    fn seal(&self, message: &[u8]) -> Result<Vec<u8>> {
        let mut values = message.chunks_exact(8).skip(1).step_by(2);
        let tells = self.truth.borrow().sabotage == Sabotage::TellsRewards && values.any(|value| value != [0; 8]);
        Ok([if tells { &b"sealed! "[..] } else { b"sealed " }, message].concat())
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>> {
        let text = sealed.strip_prefix(b"sealed ").or(sealed.strip_prefix(b"sealed! "));
        text.map(<[u8]>::to_vec).ok_or(Error::Corrupt)
    }
}

/// Makes the models of a process.
pub struct Models {
    pub truth: Rc<RefCell<Truth>>,
    pub process: u64,
}

impl BanditSource for Models {
    type Bandit = Model;

    fn bandit(&mut self, number: u16, snapshot: Option<&[u8]>) -> Result<Model> {
        let (releases, period) = match snapshot.map(words).transpose()?.as_deref() {
            None => (0, 0),
            Some([of, releases, period]) if *of == u64::from(number) => (*releases, *period),
            Some(_) => return Err(Error::Corrupt),
        };
        self.truth.borrow_mut().continues(number, period);
        Ok(Model::new(self.truth.clone(), number, self.process, releases, period + 1))
    }

    fn counts(&self, number: u16, snapshot: &[u8]) -> Result<(u64, [u64; 3])> {
        match words(snapshot)?[..] {
            [of, releases, period] if of == u64::from(number) => Ok((of, [period, releases, 0])),
            _ => Err(Error::Corrupt),
        }
    }

    fn resume(&mut self, number: u16, state: &[u8]) -> Result<Model> {
        let truth = &mut *self.truth.borrow_mut();
        let [receiver, place] = words(state)?[..] else { return Err(Error::Corrupt) };
        let is_ours = truth.receivers.get(&receiver) == Some(&self.process);
        if is_ours && truth.sabotage != Sabotage::AcceptsStatesTwice {
            truth.receivers.remove(&receiver);
        }
        if !is_ours {
            return Err(Error::ExpiredState("the receiver is not of this process, or has its state".into()));
        }
        let State { inner, at, .. } = &mut truth.states[place as usize];
        let (inner, written) = (inner.take(), *at);
        let Some(mut inner) = inner else {
            truth.violate(format!("6: state {place} has two heirs"));
            return Err(Error::Corrupt);
        };
        truth.resumed += 1;
        inner.sender = (truth.coins.next(), 0);
        let (resumed, inner) = (Some((written, truth.now)), RefCell::new(inner));
        Ok(Model { truth: self.truth.clone(), number, process: self.process, inner, resumed })
    }

    fn draw(&mut self) -> u64 {
        self.truth.borrow_mut().coins.next()
    }
}
