//! A test's hand on the noise of its own thread (tests only).
//!
//! Proofs of privacy move noise: where a reward changes a sum by d, noise moved by -d hides it, at a
//! price of |d|/scale. A test with its hand here does just that: it sees every draw, and moves some.

use crate::shuffle::Params;
use std::cell::RefCell;

thread_local! {
    static HAND: RefCell<Option<Moves>> = const { RefCell::new(None) };
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
struct Moves {
    by: Vec<(usize, i64)>,
    draws: Vec<Draw>,
    released: Vec<(usize, i64)>,
}

/// As long as this lives, the noise of its thread is seen and moved.
pub struct Hand(());

impl Hand {
    /// Moves each of these draws, counted from now on, by so much.
    pub fn moving(by: &[(usize, i64)]) -> Hand {
        HAND.set(Some(Moves { by: by.to_vec(), ..Moves::default() }));
        Hand(())
    }

    /// What was drawn so far.
    pub fn draws(&self) -> usize {
        HAND.with_borrow(|hand| hand.as_ref().map_or(0, |moves| moves.draws.len()))
    }

    /// The sums released since the last time, each with the number of the draw that covers it, from
    /// mechanisms whose releases cannot all be read.
    pub fn released(&self) -> Vec<(usize, i64)> {
        HAND.with_borrow_mut(|hand| hand.as_mut().map_or(Vec::new(), |moves| std::mem::take(&mut moves.released)))
    }

    /// All that was drawn.
    pub fn lift(self) -> Vec<Draw> {
        HAND.take().map_or(Vec::new(), |moves| moves.draws)
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        HAND.set(None);
    }
}

/// A draw: how far it is moved.
pub(crate) fn moved(draw: Draw) -> i64 {
    HAND.with_borrow_mut(|hand| {
        let Some(moves) = hand else { return 0 };
        let number = moves.draws.len();
        moves.draws.push(draw);
        moves.by.iter().filter(|by| by.0 == number).map(|by| by.1).sum()
    })
}

/// A message's ones, covered by its coins.
pub(crate) fn covered(ones: u64, plan: &Params) -> u64 {
    let ones = ones.saturating_add_signed(moved(Draw::Coins(*plan)));
    released(ones as i64);
    ones
}

/// A release, covered by the last draw.
pub(crate) fn released(sum: i64) {
    HAND.with_borrow_mut(|hand| {
        let Some(moves) = hand else { return };
        moves.released.push((moves.draws.len() - 1, sum));
    });
}
