//! A test's hand on the noise of its own thread, and on what else it breaks there (tests only).
//!
//! Proofs of privacy move noise: where a reward changes a sum by d, noise moved by -d hides it, at a
//! price of |d|/scale. A test with its hand here does just that: it sees every draw, and moves some.
//! Or it weakens noise, whoever draws it, or builds a [`Fault`] into every handle, restored ones too, to see whether
//! that is noticed.

use crate::random::{Random, Seed};
use crate::shuffle::Params;
use std::cell::{Cell, RefCell};

thread_local! {
    static HAND: RefCell<Option<State>> = const { RefCell::new(None) };
    static DONE: Cell<bool> = const { Cell::new(false) };
}

macro_rules! faults {
    ($($(#[doc = $text:literal])* $name:ident,)*) => {
        /// What an auditor must catch, beside noise that is too weak.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[doc = $text])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    /// One noise for all arms of an epoch.
    SharedNoise,
    /// Arms are compared with the largest true mean.
    UnnoisedMaximum,
    /// A second answer to a ticket counts again.
    DuplicateBelieved,
    /// A batch closes when its clicks have come, not when its window is over.
    ClosedByArrival,
    /// A decision whose answer waits for its window is not cancelled.
    CancelTells,
    /// A decision that is pushed out of its window ends with its answer, if that has come.
    PushedOutTells,
    /// A width is a function of a sum that is not released.
    RawWidth,
    /// The leader among some arms is found by sums that are not released.
    RawLeader,
    /// An arm that is retired shows its open sum.
    RawRetired,
    /// All decisions of a user are learned from.
    UserUnbounded,
    /// A snapshot's sums include open ones.
    RawSnapshot,
    /// A snapshot counts answers that wait for their windows.
    HeldCounted,
    /// A restored handle keeps the open sums of the one whose snapshot it is.
    OpenKept,
    /// What is known of an arm when others are merged includes its open sum.
    RawMerge,
    /// A reward enters two batches.
    CollectedTwice,
    /// A batch's size depends on open sums.
    RawSize,
    /// What a prior says of its arm depends on the arm's open sum: on 0.3 of it.
    RawPrior,
    /// The same, on a thousandth of it.
    RawPriorSlightly,
    /// A click that was taken back still takes its place among those of its request.
    CancelledDrawn,
}

impl Fault {
    /// Is this fault to be built in here?
    pub(crate) fn is_built_in(self) -> bool {
        let built = with(|state| state.fault == Some(self)) == Some(true);
        if built {
            DONE.set(true);
        }
        built
    }

    /// Was anything sabotaged in this thread since this was last asked? A fault that no code of a policy asks for is
    /// not built into it.
    pub fn was_done() -> bool {
        DONE.take()
    }
}

/// One draw of noise that a claim rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// At this scale, in grid units.
    Laplace(u64),
    /// At this sigma, in grid units.
    Gaussian(u64),
    /// The coins of one message of this batch, in the shuffle model.
    Coins(Params),
}

#[derive(Default)]
struct State {
    moves: Vec<(usize, i64)>,
    weakening: Option<Box<Weakening>>,
    twice: bool,
    draws: Vec<Draw>,
    /// Releases that the draws are good for.
    covered: f64,
    released: Vec<(usize, i64)>,
    fault: Option<Fault>,
    entropy: Option<Random>,
    open: Vec<f64>,
}

/// The share of its scale that a draw keeps, by the number of releases covered before it.
type Weakening = dyn Fn(usize, Draw) -> f64;

/// As long as this lives it sees the noise of its thread, counted from its first day.
pub struct NoiseProbe(());

impl NoiseProbe {
    /// One that changes nothing.
    #[allow(clippy::new_without_default, reason = "a thread has one hand")]
    pub fn new() -> NoiseProbe {
        HAND.set(Some(State::default()));
        NoiseProbe(())
    }

    /// Moves each of these draws by so much.
    pub fn moving(self, draws: &[(usize, i64)]) -> NoiseProbe {
        with(|state| state.moves = draws.to_vec());
        self
    }

    /// Builds this into every handle.
    pub fn breaking(self, fault: Fault) -> NoiseProbe {
        with(|state| state.fault = Some(fault));
        self
    }

    /// What handles take for the operating system's entropy comes from this seed.
    pub fn seeding(self, seed: [u8; 32]) -> NoiseProbe {
        let entropy = Seed::new(Some(seed)).ok().map(|mut seed| seed.stream());
        with(|state| state.entropy = entropy);
        self
    }

    /// Takes scale from draws.
    pub fn weakening(self, rule: impl Fn(usize, Draw) -> f64 + 'static) -> NoiseProbe {
        with(|state| state.weakening = Some(Box::new(rule)));
        self
    }

    /// Releases every batch twice, and shows the mean of both: what an outsider has of it.
    pub fn releasing_twice(self) -> NoiseProbe {
        with(|state| state.twice = true);
        self
    }

    /// How many were drawn so far.
    pub fn draws(&self) -> usize {
        with(|state| state.draws.len()).unwrap_or_default()
    }

    /// The sums released since the last time, each with the number of the draw that covers it, from
    /// mechanisms whose releases cannot all be read.
    pub fn released(&self) -> Vec<(usize, i64)> {
        with(|state| std::mem::take(&mut state.released)).unwrap_or_default()
    }

    /// All that was drawn.
    pub fn lift(self) -> Vec<Draw> {
        with(|state| std::mem::take(&mut state.draws)).unwrap_or_default()
    }
}

impl Drop for NoiseProbe {
    fn drop(&mut self) {
        HAND.set(None);
    }
}

fn with<T>(f: impl FnOnce(&mut State) -> T) -> Option<T> {
    HAND.with_borrow_mut(|hand| hand.as_mut().map(f))
}

/// Fills a key, where a test seeds all handles.
pub(crate) fn fill(key: &mut [u8]) -> bool {
    let fill = |entropy: &mut Random| key.fill_with(|| entropy.next_u32() as u8);
    with(|state| state.entropy.as_mut().map(fill)).flatten().is_some()
}

/// Open sums that a restored handle will keep.
pub(crate) fn keep_open(sums: impl Iterator<Item = f64>) {
    if Fault::OpenKept.is_built_in() {
        with(|state| state.open = sums.collect());
    }
}

/// One of them.
pub(crate) fn kept_open(place: usize) -> f64 {
    with(|state| state.open.get(place).copied()).flatten().unwrap_or_default()
}

/// What a prior looks at of an open sum.
pub(crate) fn glimpse(sum: impl FnOnce() -> f64) -> f64 {
    let shares = [(Fault::RawPrior, 0.3), (Fault::RawPriorSlightly, 1e-3)];
    shares.into_iter().find(|(fault, _)| fault.is_built_in()).map_or(0.0, |(_, share)| share * sum())
}

impl State {
    /// The share of its scale that the next draw keeps.
    fn share(&mut self, draw: Draw) -> f64 {
        let share = self.weakening.as_ref().map_or(1.0, |rule| rule(self.covered as usize, draw));
        if share != 1.0 {
            DONE.set(true);
        }
        share
    }

    /// Enters a draw: how far it is moved.
    fn enter(&mut self, draw: Draw) -> i64 {
        let number = self.draws.len();
        self.draws.push(draw);
        self.covered += if let Draw::Coins(plan) = draw { 1.0 / f64::from(plan.users()) } else { 1.0 };
        self.moves.iter().filter(|moved| moved.0 == number).map(|moved| moved.1).sum()
    }

    fn note(&mut self, released: i64) {
        self.released.push((self.draws.len() - 1, released));
    }
}

/// A sample by `draw` at this scale, or what is left of it.
pub(crate) fn sample(scale: u64, kind: fn(u64) -> Draw, draw: impl FnOnce(u64) -> i64) -> i64 {
    let left = with(|state| ((state.share(kind(scale)) * scale as f64) as u64).max(1)).unwrap_or(scale);
    draw(left) + with(|state| state.enter(kind(left))).unwrap_or_default()
}

/// A message's ones, counted by `count` under this plan, or with what is left of its coins.
pub(crate) fn ones(plan: &Params, count: impl FnOnce(&Params) -> u64) -> u64 {
    let share = with(|state| state.share(Draw::Coins(*plan))).unwrap_or(1.0);
    let left = if share < 1.0 { plan.weakened(share) } else { *plan };
    let moved = with(|state| state.enter(Draw::Coins(left))).unwrap_or_default();
    let ones = count(&left) as i64 + moved;
    with(|state| state.note(ones));
    ones.max(0) as u64
}

/// A sum that is released, covered by the last draw; `again` draws anew.
pub(crate) fn release(sum: i64, again: impl FnOnce() -> i64) -> i64 {
    let mut sum = sum;
    if with(|state| state.twice) == Some(true) {
        DONE.set(true);
        sum = (sum + again()) / 2;
    }
    with(|state| state.note(sum));
    sum
}
