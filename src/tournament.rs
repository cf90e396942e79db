//! Finds the lowest of many lines at a moving point: a kinetic tournament (Basch, Guibas, Hershberger 1999).
//!
//! Every minimum-index policy solves the same problem at the end of each batch: the public number that all indices
//! depend on has moved a little, and the smallest index may belong to another arm. Each match of the tournament
//! stores the interval in which its outcome, and all outcomes below it, remain valid. So a move replays only the
//! matches whose outcome may change. 40 bytes a line.

use crate::error::Result;
use crate::memory::WipedVec;

/// A line `base + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The value at 0.
    pub base: f64,
    /// The slope.
    pub slope: f64,
}

impl Line {
    /// A line that is lowest only if all lines are like it.
    pub const NEVER: Line = Line::level(f64::INFINITY);

    /// A constant line.
    pub const fn level(base: f64) -> Line {
        Line { base, slope: 0.0 }
    }

    /// The line of this slope through (`x`, `value`).
    pub fn through(x: f64, value: f64, slope: f64) -> Line {
        Line { base: value - slope * x, slope }
    }

    /// The value at `x`.
    #[inline]
    pub fn at(self, x: f64) -> f64 {
        self.base + self.slope * x
    }
}

/// A match, won by one of the lines below it.
#[derive(Clone, Copy)]
struct Match {
    winner: u32,
    /// The outcome is valid for x in `from ..= until`.
    from: f64,
    until: f64,
}

/// The lines and their tournament. Line `i` is leaf `lines.len() + i` of a binary tree in an array.
pub struct Tournament {
    lines: WipedVec<Line>,
    matches: WipedVec<Match>,
    count: usize,
    x: f64,
}

impl Tournament {
    /// `count > 0` lines, all the same.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(count: usize, line: Line) -> Result<Tournament> {
        Tournament::with_lines(count, count, |_| line)
    }

    fn with_lines(capacity: usize, count: usize, line: impl FnMut(usize) -> Line) -> Result<Tournament> {
        let unplayed = Match { winner: 0, from: 0.0, until: 0.0 };
        let (lines, matches) = (WipedVec::new(capacity, line)?, WipedVec::new(capacity, |_| unplayed)?);
        let mut tournament = Tournament { lines, matches, count, x: 0.0 };
        (1..capacity).rev().for_each(|node| tournament.play(node));
        Ok(tournament)
    }

    /// The lowest line at the current point; the first of equal ones.
    #[inline]
    pub fn winner(&self) -> usize {
        self.matches.get(1).map_or(0, |last| last.winner as usize) // a single line plays no match
    }

    /// Changes a line: O(log n).
    pub fn set(&mut self, i: usize, line: Line) {
        self.lines[i] = line;
        let mut node = (self.lines.len() + i) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// Moves the point: O(matches that are replayed).
    pub fn move_to(&mut self, x: f64) {
        self.x = x;
        self.settle(1);
    }

    /// Reserves memory for one more line, so that the next [`push`](Self::push) cannot fail.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        if self.count == self.lines.len() {
            let line = |i: usize| self.lines.get(i).copied().unwrap_or(Line::NEVER);
            let mut larger = Tournament::with_lines(2 * self.count, self.count, line)?;
            larger.move_to(self.x);
            *self = larger;
        }
        Ok(())
    }

    /// Appends a line, after [`reserve`](Self::reserve): O(log n).
    pub fn push(&mut self, line: Line) {
        self.count += 1;
        self.set(self.count - 1, line);
    }

    #[inline]
    fn outcome(&self, node: usize) -> Match {
        match node.checked_sub(self.lines.len()) {
            Some(leaf) => Match { winner: leaf as u32, from: f64::NEG_INFINITY, until: f64::INFINITY },
            None => self.matches[node],
        }
    }

    fn settle(&mut self, node: usize) {
        let now = self.outcome(node);
        if self.x < now.from || self.x > now.until {
            self.settle(2 * node);
            self.settle(2 * node + 1);
            self.play(node);
        }
    }

    fn play(&mut self, node: usize) {
        let (a, b) = (self.outcome(2 * node), self.outcome(2 * node + 1));
        let (one, other) = (self.lines[a.winner as usize], self.lines[b.winner as usize]);
        let (low, high) = (one.at(self.x), other.at(self.x));
        let winner = if low < high || (low == high && a.winner < b.winner) { a.winner } else { b.winner };
        let mut outcome = Match { winner, from: a.from.max(b.from), until: a.until.min(b.until) };
        if one.slope != other.slope {
            let crossing = (one.base - other.base) / (other.slope - one.slope);
            if crossing > self.x {
                outcome.until = outcome.until.min(crossing);
            } else {
                outcome.from = outcome.from.max(crossing);
            }
        }
        self.matches[node] = outcome;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn finds_the_lowest_line_wherever_the_point_goes() {
        let mut random = Seed::new(Some([5; 32])).unwrap().stream();
        for count in [1usize, 2, 3, 7, 100] {
            let mut tournament = Tournament::new(count, Line::level(0.0)).unwrap();
            let mut lines = vec![Line::level(0.0); count];
            let mut x = 0.0;
            for step in 0..3000 {
                if step % 3 == 0 {
                    x = random.unit();
                    tournament.move_to(x);
                } else if step % 500 == 1 {
                    lines.push(Line::level(random.unit()));
                    tournament.reserve().unwrap();
                    tournament.push(lines[lines.len() - 1]);
                } else {
                    let i = random.below(lines.len() as u64) as usize;
                    lines[i] = match random.below(10) {
                        0 => Line::NEVER,
                        _ => Line { base: random.unit() - 0.5, slope: random.unit() },
                    };
                    tournament.set(i, lines[i]);
                }
                let lowest = lines.iter().map(|line| line.at(x)).fold(f64::INFINITY, f64::min);
                assert!(lines[tournament.winner()].at(x) <= lowest + 1e-12, "{count} {step}");
            }
        }
    }

    #[test]
    fn the_first_of_equals_wins() {
        let mut tournament = Tournament::new(5, Line::level(1.0)).unwrap();
        assert_eq!(tournament.winner(), 0);
        tournament.set(0, Line::level(2.0));
        assert_eq!(tournament.winner(), 1);
        tournament.reserve().unwrap();
        tournament.push(Line::level(1.0));
        tournament.set(1, Line::NEVER);
        assert_eq!(tournament.winner(), 2);
    }
}
