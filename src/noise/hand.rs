//! A test's hand on the noise of its own thread (tests only).
//!
//! Proofs of privacy move noise: where a reward changes a sum by d, noise moved by -d hides it, at a
//! price of |d|/scale. A test with its hand here does just that: it sees every draw, and moves some.
//! Or it weakens noise, whoever draws it, to see whether that is noticed.

use crate::config::DONE;
use crate::shuffle::Params;
use std::cell::RefCell;

thread_local! {
    static HAND: RefCell<Option<State>> = const { RefCell::new(None) };
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
}

/// The share of its scale that a draw keeps, by the number of releases covered before it.
type Weakening = dyn Fn(usize, Draw) -> f64;

/// As long as this lives it sees the noise of its thread, counted from its first day.
pub struct Hand(());

impl Hand {
    /// One that changes nothing.
    #[allow(clippy::new_without_default, reason = "a thread has one hand")]
    pub fn new() -> Hand {
        HAND.set(Some(State::default()));
        Hand(())
    }

    /// Moves each of these draws by so much.
    pub fn moving(self, draws: &[(usize, i64)]) -> Hand {
        with(|state| state.moves = draws.to_vec());
        self
    }

    /// Takes scale from draws.
    pub fn weakening(self, rule: impl Fn(usize, Draw) -> f64 + 'static) -> Hand {
        with(|state| state.weakening = Some(Box::new(rule)));
        self
    }

    /// Releases every batch twice, and shows the mean of both: what an outsider has of it.
    pub fn releasing_twice(self) -> Hand {
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

impl Drop for Hand {
    fn drop(&mut self) {
        HAND.set(None);
    }
}

fn with<T>(f: impl FnOnce(&mut State) -> T) -> Option<T> {
    HAND.with_borrow_mut(|hand| hand.as_mut().map(f))
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
