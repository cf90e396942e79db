//! Audits a mechanism: whether its public outputs distinguish two neighbouring inputs better than epsilon allows.
//!
//! `world(seed, neighbour)` runs the mechanism on one of two inputs and returns its public outputs as a number. A first
//! half of the runs chooses the event and the direction. New seeds give the verdict, so the choice costs no confidence.
#![allow(dead_code, reason = "the tests and the tool use a part each")]

use dpb::{Algorithm, Bandit, Config};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An audit of one claim.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// The claimed loss between the two worlds (m eps for m changed rewards).
    pub epsilon: f64,
    /// The claimed delta (for m changed rewards: m e^((m-1) eps) delta); 0 for a pure claim.
    pub delta: f64,
    /// Runs of each world that choose the event.
    pub pilot: u64,
    /// Fresh runs of each world that give the verdict.
    pub verdict: u64,
    /// The probability of an alarm against a true claim.
    pub failure: f64,
}

/// The result of an audit.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// With confidence 1 - failure, the true loss is at least this (at the audit's delta).
    pub epsilon: f64,
    /// How often the event happened in the world where it is likelier, and in the other one.
    pub hits: (u64, u64),
    /// Whether the audit refutes the claim.
    pub alarm: bool,
    /// The pair of inputs and the output that distinguished the worlds best.
    pub candidate: usize,
    pub sight: usize,
}

/// One output of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// A pattern; two patterns are equal or not.
    Pattern(u64),
    /// A number; the events are that it is large, or small. NaN is neither.
    Number(f64),
}

impl Audit {
    /// An audit of a pure claim with `runs` of each world, half of them pilots, and a false alarm with probability at
    /// most one in a million.
    pub fn pure(epsilon: f64, runs: u64) -> Audit {
        Audit { epsilon, delta: 0.0, pilot: runs / 2, verdict: runs - runs / 2, failure: 1e-6 }
    }

    /// Runs the worlds. Seeds are `0 .. 2 * (pilot + verdict)`, each used once.
    pub fn run(&self, world: impl Fn(u64, bool) -> u64) -> Verdict {
        self.search(1, |_, seed, neighbour| vec![Seen::Pattern(world(seed, neighbour))])
    }

    /// As `run`, with several pairs of neighbouring inputs and several outputs. `world(candidate, seed, neighbour)`
    /// returns all outputs. Every candidate gets its own pilot runs; the verdict is about the best candidate and
    /// output.
    pub fn search(&self, candidates: usize, world: impl Fn(usize, u64, bool) -> Vec<Seen>) -> Verdict {
        let pilots: Vec<_> = (0..candidates)
            .map(|candidate| {
                [false, true].map(|neighbour| {
                    let seeds = (0..self.pilot).map(|i| 2 * i + u64::from(neighbour));
                    seeds.map(|seed| world(candidate, seed, neighbour)).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut best = self.choose(&pilots);
        if best.score < 4.0 {
            // No event violates the claim: judge the one that distinguishes best, so that the measured loss is
            // meaningful.
            best = Audit { epsilon: self.epsilon / 2.0, ..*self }.choose(&pilots);
        }
        let Choice { candidate, sight, likelier, event, .. } = best;
        let hits = |neighbour: bool| {
            let seeds = (self.pilot..self.pilot + self.verdict).map(|i| 2 * i + u64::from(neighbour));
            seeds.filter(|&seed| event.holds(world(candidate, seed, neighbour)[sight])).count() as u64
        };
        let hits = (hits(likelier), hits(!likelier));
        let low = clopper_pearson(hits.0, self.verdict, self.failure / 2.0).0;
        let high = clopper_pearson(hits.1, self.verdict, self.failure / 2.0).1;
        let epsilon = if low > self.delta { ((low - self.delta) / high).ln() } else { f64::NEG_INFINITY };
        Verdict { epsilon, hits, alarm: epsilon > self.epsilon, candidate, sight }
    }

    /// The candidate, output and direction whose best event violates this claim most. Each half of the pilots scores
    /// the choice of the other half, so that an output with many patterns does not win by chance.
    fn choose(&self, pilots: &[[Vec<Vec<Seen>>; 2]]) -> Choice {
        let seen = |runs: &[Vec<Seen>], sight: usize| runs.iter().map(|seen| seen[sight]).collect::<Vec<_>>();
        let mut best: Option<Choice> = None;
        for (candidate, [plain, changed]) in pilots.iter().enumerate() {
            for sight in 0..plain.first().map_or(0, Vec::len) {
                let (plain, changed) = (seen(plain, sight), seen(changed, sight));
                for (likelier, a, b) in [(true, &changed, &plain), (false, &plain, &changed)] {
                    let (a1, a2) = a.split_at(a.len() / 2);
                    let (b1, b2) = b.split_at(b.len() / 2);
                    let score =
                        self.score(&self.choose_event(a1, b1), a2, b2) + self.score(&self.choose_event(a2, b2), a1, b1);
                    if best.as_ref().is_none_or(|best| score > best.score) {
                        best = Some(Choice { candidate, sight, likelier, event: self.choose_event(a, b), score });
                    }
                }
            }
        }
        best.expect("a candidate, a sight and a pilot")
    }

    /// The event with the highest score. For numbers: all beyond a threshold. For patterns: a prefix of their order by
    /// likelihood ratio. Choosing by the largest lower bound instead takes up to 1000 times more runs.
    fn choose_event(&self, likelier: &[Seen], other: &[Seen]) -> Event {
        let mut patterns: HashMap<u64, (f64, f64)> = HashMap::new();
        let mut numbers: Vec<(f64, (f64, f64))> = Vec::new();
        for (runs, one) in [(likelier, (1.0, 0.0)), (other, (0.0, 1.0))] {
            for seen in runs {
                match *seen {
                    Seen::Pattern(pattern) => {
                        let counts = patterns.entry(pattern).or_default();
                        *counts = (counts.0 + one.0, counts.1 + one.1);
                    }
                    Seen::Number(number) if !number.is_nan() => numbers.push((number, one)),
                    Seen::Number(_) => {}
                }
            }
        }
        if !patterns.is_empty() {
            let mut order: Vec<_> = patterns.into_iter().collect();
            let ratio = |&(_, (a, b)): &(u64, (f64, f64))| (a + 0.5) / (b + 0.5);
            order.sort_by(|x, y| ratio(y).total_cmp(&ratio(x)).then(x.0.cmp(&y.0)));
            let (most, _) = self.best_prefix(&order, likelier.len());
            return Event::Among(order[..most].iter().map(|&(pattern, _)| pattern).collect());
        }
        numbers.sort_by(|x, y| x.0.total_cmp(&y.0));
        let (small, score_of_small) = self.best_prefix(&numbers, likelier.len());
        let at_most = Event::AtMost(numbers.get(small.wrapping_sub(1)).map_or(f64::NAN, |number| number.0));
        numbers.reverse();
        let (large, score_of_large) = self.best_prefix(&numbers, likelier.len());
        let at_least = Event::AtLeast(numbers.get(large.wrapping_sub(1)).map_or(f64::NAN, |number| number.0));
        if score_of_small > score_of_large { at_most } else { at_least }
    }

    /// The length of the prefix that violates the claim most, with equal elements kept together; and its violation.
    fn best_prefix<T: PartialEq>(&self, order: &[(T, (f64, f64))], runs: usize) -> (usize, f64) {
        let (mut hits, mut misses, mut best) = (0.0, 0.0, (0, f64::NEG_INFINITY));
        for (i, (what, (a, b))) in order.iter().enumerate() {
            (hits, misses) = (hits + a, misses + b);
            let score = self.violation(hits, misses, runs);
            if score > best.1 && order.get(i + 1).is_none_or(|next| next.0 != *what) {
                best = (i + 1, score);
            }
        }
        best
    }

    /// The violation by this event on fresh runs, in standard deviations.
    fn score(&self, event: &Event, likelier: &[Seen], other: &[Seen]) -> f64 {
        let count = |runs: &[Seen]| runs.iter().filter(|&&seen| event.holds(seen)).count() as f64;
        self.violation(count(likelier), count(other), likelier.len())
    }

    /// (p1 - delta - e^eps p0)/sqrt(p1 + e^(2 eps) p0), with half a count against the alarm, so that a few lucky runs
    /// do not win.
    fn violation(&self, hits: f64, misses: f64, runs: usize) -> f64 {
        let factor = self.epsilon.exp();
        let forgiven = self.delta * runs as f64;
        (hits - forgiven - factor * (misses + 0.5)) / (hits + factor * factor * (misses + 0.5)).sqrt()
    }
}

/// The choice of the pilot runs: the event, and the world in which it is likelier.
struct Choice {
    candidate: usize,
    sight: usize,
    likelier: bool,
    event: Event,
    score: f64,
}

enum Event {
    Among(HashSet<u64>),
    AtLeast(f64),
    AtMost(f64),
}

impl Event {
    fn holds(&self, seen: Seen) -> bool {
        match (self, seen) {
            (Event::Among(patterns), Seen::Pattern(pattern)) => patterns.contains(&pattern),
            (Event::AtLeast(bound), Seen::Number(number)) => number >= *bound,
            (Event::AtMost(bound), Seen::Number(number)) => number <= *bound,
            _ => false,
        }
    }
}

/// One-sided Clopper-Pearson bounds of a binomial proportion; each fails with probability at most `gamma`.
pub fn clopper_pearson(hits: u64, runs: u64, gamma: f64) -> (f64, f64) {
    // P(X >= hits) grows with p from 0 to 1, P(X <= hits) falls.
    let low = if hits == 0 { 0.0 } else { bisect(|p| binomial_tail(hits, runs, p) > gamma) };
    let high = if hits == runs { 1.0 } else { bisect(|p| 1.0 - binomial_tail(hits + 1, runs, p) <= gamma) };
    (low, high)
}

/// The point in [0, 1] at which a condition turns from false to true.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { high = middle } else { low = middle }
    }
    (low + high) / 2.0
}

/// P(X >= hits) for X ~ Binomial(runs, p).
pub fn binomial_tail(hits: u64, runs: u64, p: f64) -> f64 {
    // ln C(n, i) p^i q^(n-i), from i to i + 1 by one factor
    let (n, mut log, mut below, mut above) = (runs as f64, runs as f64 * (-p).ln_1p(), 0.0, 0.0);
    for i in 0..=runs {
        *(if i < hits { &mut below } else { &mut above }) += log.exp();
        let i = i as f64;
        log += ((n - i) / (i + 1.0)).ln() + p.ln() - (-p).ln_1p();
    }
    // the smaller tail is the accurate one
    if above < below { above } else { 1.0 - below }
}

/// A test seed from a number.
pub fn seed(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Hashes a pattern to one number.
pub fn pattern(seen: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    seen.hash(&mut hasher);
    hasher.finish()
}

/// Plays a bandit on a reward table (arm, pull of that arm) and returns the arms it played.
pub fn play(algorithm: Algorithm, config: &Config, decisions: usize, table: impl Fn(u32, u64) -> f64) -> Vec<u32> {
    let bandit = Bandit::new(algorithm, &algorithm.fit(config)).expect("a valid configuration");
    let mut pulls = vec![0; config.arms as usize];
    (0..decisions)
        .map(|_| {
            let decision = bandit.select().expect("a decision");
            let pull = &mut pulls[decision.arm as usize];
            bandit.update(decision.ticket, table(decision.arm, *pull)).expect("an answer");
            *pull += 1;
            decision.arm
        })
        .collect()
}
