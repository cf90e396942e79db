//! The releases of one arm, as plain values. All indices are functions of them.

use crate::error::Result;
use crate::moving::{Archive, Persist};
use crate::policy::compare::Totals;
use crate::policy::cumulant::Cumulant;
use crate::policy::prior::Prior;
use crate::snapshot::{ensure, is_plausible};

/// A release, or several joined. It takes 20 bytes, in single precision, rounded so that no bound computed from it gets
/// stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NoisySum {
    /// E, the sum of the probabilities with which visitors examined the slots of the rewards, rounded down: where they
    /// always do, the number of rewards.
    count: f32,
    /// n - E, for n rewards, rounded up.
    unexamined: f32,
    /// y, the noised sum, rounded up, and at least 0, because sums of rewards are.
    sum: f32,
    /// k, the number of noises in the sum.
    noises: u32,
    /// Time of the release, in [ticks](Memory::ticks).
    tick: u32,
}

impl NoisySum {
    pub fn new(count: f64, sum: f64, tick: u32) -> NoisySum {
        let (below, above) = (count as f32, sum.max(0.0) as f32);
        NoisySum {
            count: if f64::from(below) > count { below.next_down() } else { below },
            sum: if f64::from(above) < sum { above.next_up() } else { above },
            noises: 1,
            tick,
            unexamined: 0.0,
        }
    }

    /// The same, of more rewards by `lack` than the sum of the probabilities with which their slots were examined.
    pub fn unexamined(self, unexamined: f64) -> NoisySum {
        let near = unexamined as f32;
        NoisySum { unexamined: if f64::from(near) < unexamined { near.next_up() } else { near }, ..self }
    }

    /// The evidence of this release alone.
    pub fn evidence(self, distribution: Cumulant) -> Evidence {
        let mut evidence = Evidence::nothing(distribution);
        evidence.add(ReleaseGroup::of(self, self.tick), 1.0);
        evidence
    }

    /// Joins two releases. The age is the average over their rewards.
    fn join(self, later: NoisySum) -> NoisySum {
        let count = f64::from(self.count) + f64::from(later.count);
        let gap = f64::from(later.tick.wrapping_sub(self.tick)) * f64::from(later.count) / count;
        let tick = self.tick.wrapping_add(gap as u32);
        let noises = self.noises.saturating_add(later.noises);
        let joined = NoisySum::new(count, f64::from(self.sum) + f64::from(later.sum), tick);
        NoisySum { noises, ..joined }.unexamined(f64::from(self.unexamined) + f64::from(later.unexamined))
    }
}

/// Discounts releases by age, according to `forget_after`: 1 until half of it, then linearly down to 0 at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// M = `forget_after`, on the configuration's clock; 0 = never forget.
    span: u64,
}

impl Memory {
    /// Maximum number of ticks in `forget_after`.
    const TICKS: u64 = 1024;

    pub const fn new(span: u64) -> Memory {
        Memory { span }
    }

    pub fn is_finite(self) -> bool {
        self.span > 0
    }

    /// The longest time that one batch may take: the age of its release is then known to a 64th of `forget_after`.
    pub fn longest_batch(self) -> f64 {
        if self.is_finite() { self.span as f64 / 64.0 } else { f64::INFINITY }
    }

    /// The time in ticks. It wraps after 2^22 times `forget_after`, long after the discount is 0.
    pub fn ticks(self, time: u64) -> u32 {
        if self.is_finite() { (time / self.tick()) as u32 } else { 0 }
    }

    /// The length of a tick, on the configuration's clock.
    fn tick(self) -> u64 {
        self.span.div_ceil(Self::TICKS)
    }

    /// Converts an age from our ticks to those of another `forget_after`. Without one of our own the age is unknown,
    /// and is 0.
    pub fn age_in(self, other: Memory, age: u32) -> u32 {
        if !other.is_finite() {
            return 0;
        }
        (u64::from(age) * self.tick() / other.tick()).min(u64::from(u32::MAX / 2)) as u32
    }

    /// Whether a 256th of `forget_after` has passed since `then`.
    pub fn is_stale(self, now: u32, then: u32) -> bool {
        self.is_finite() && u64::from(now.wrapping_sub(then)) >= Self::TICKS / 256
    }

    /// The discount g = clamp(2 - 2 age/M, 0, 1).
    pub fn discount(self, now: u32, then: u32) -> f64 {
        self.discount_at(f64::from(now.wrapping_sub(then)))
    }

    /// The discount at this age, in ticks.
    fn discount_at(self, age: f64) -> f64 {
        if self.is_finite() { (2.0 - 2.0 * age / Self::TICKS as f64).clamp(0.0, 1.0) } else { 1.0 }
    }
}

/// The releases of one arm by one handle, oldest first. If the list is full, the two neighbours with the fewest
/// rewards are joined. With twelve entries that costs no measurable regret.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseHistory {
    pairs: [NoisySum; ReleaseHistory::MOST],
    count: u8,
    /// Totals of all releases, for [`compare`](crate::policy::compare).
    pub totals: Totals,
}

impl ReleaseHistory {
    pub const MOST: usize = 12;

    pub const NOTHING: ReleaseHistory = ReleaseHistory {
        pairs: [NoisySum { count: 0.0, unexamined: 0.0, sum: 0.0, noises: 0, tick: 0 }; Self::MOST],
        count: 0,
        totals: Totals::NONE,
    };

    pub fn push(&mut self, pair: NoisySum) {
        if self.count as usize == Self::MOST {
            let rewards = |i: usize| self.pairs[i].count + self.pairs[i + 1].count;
            let fewest = (1..Self::MOST - 1).fold(0, |best, i| if rewards(i) < rewards(best) { i } else { best });
            self.pairs[fewest + 1] = self.pairs[fewest].join(self.pairs[fewest + 1]);
            self.remove(fewest);
        }
        self.pairs[self.count as usize] = pair;
        self.count += 1;
    }

    pub fn pairs(&self) -> &[NoisySum] {
        &self.pairs[..self.count as usize]
    }

    /// Converts its times by `converted`.
    pub fn convert_times(&mut self, converted: impl Fn(u32) -> u32) {
        self.pairs.iter_mut().for_each(|pair| pair.tick = converted(pair.tick));
    }

    /// Flag of the number of releases where slots were not always examined.
    const LACKS: u8 = 128;

    /// Removes releases whose discount is 0.
    pub fn expire(&mut self, memory: Memory, now: u32) {
        while self.count > 0 && memory.discount(now, self.pairs[0].tick) == 0.0 {
            self.remove(0);
        }
    }

    fn remove(&mut self, i: usize) {
        self.pairs.copy_within(i + 1.., i);
        self.count -= 1;
    }

    /// The evidence of these and others' releases, now. It is the same at every handle with the same set of releases,
    /// whichever of them are its own.
    pub fn and(&self, others: Option<&JoinedReleases>, distribution: Cumulant, memory: Memory, now: u32) -> Evidence {
        let mut evidence = Evidence::nothing(distribution);
        let mut add = |group: &ReleaseGroup| {
            let discount = memory.discount_at(group.age());
            if group.count > 0.0 && discount > 0.0 {
                evidence.add(*group, discount);
            }
        };
        match others {
            Some(others) if others.origins > 0 => {
                let mut all = *others;
                all.add(self, distribution, memory, now);
                all.groups.iter_mut().for_each(|group| group.grow(now.wrapping_sub(all.at)));
                all.groups.iter().for_each(add);
            }
            _ => self.pairs().iter().for_each(|pair| add(&ReleaseGroup::of(*pair, now))),
        }
        evidence
    }
}

impl Persist for ReleaseHistory {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let lacks = self.totals.unexamined > 0.0 || self.pairs().iter().any(|pair| pair.unexamined > 0.0);
        let mut flagged = self.count | if lacks { Self::LACKS } else { 0 };
        flagged.persist(with)?;
        self.count = flagged & !Self::LACKS;
        ensure(self.count as usize <= Self::MOST)?;
        let (pairs, totals) = (&mut self.pairs[..self.count as usize], &mut self.totals);
        if flagged != self.count {
            for unexamined in pairs.iter_mut().map(|pair| &mut pair.unexamined) {
                unexamined.persist(with)?;
                with.ensure(is_plausible((*unexamined).into()) && *unexamined >= 0.0)?;
            }
            totals.unexamined.persist(with)?;
            with.ensure(is_plausible(totals.unexamined) && totals.unexamined >= 0.0)?;
        }
        with.each(pairs)?;
        totals.persist(with)
    }
}

/// Moves all but the lack.
impl Persist for NoisySum {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        for number in [&mut self.count, &mut self.sum] {
            number.persist(with)?;
            with.ensure(is_plausible((*number).into()))?;
        }
        self.noises.persist(with)?;
        self.tick.persist(with)?;
        with.ensure(self.count >= 1.0 && self.sum >= 0.0 && self.noises >= 1)
    }
}

/// Several releases joined. The sums are exact, so they do not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ReleaseGroup {
    count: f64,
    unexamined: f64,
    sum: f64,
    noises: f64,
    /// Sum of the ages of its rewards, in ticks.
    ages: f64,
}

impl ReleaseGroup {
    /// Sums are rounded to multiples of 1/1024, so that additions of fewer than 2^43 rewards are exact.
    const GRID: f64 = 1024.0;

    fn of(pair: NoisySum, now: u32) -> ReleaseGroup {
        let (count, age) = (f64::from(pair.count), f64::from(now.wrapping_sub(pair.tick) as i32));
        ReleaseGroup {
            count,
            unexamined: pair.unexamined.into(),
            sum: f64::from(pair.sum),
            noises: f64::from(pair.noises),
            ages: age * count,
        }
    }

    fn add(&mut self, other: ReleaseGroup) {
        self.count += other.count;
        self.unexamined += other.unexamined;
        self.sum += (other.sum * Self::GRID).ceil() / Self::GRID;
        self.noises += other.noises;
        self.ages += other.ages;
    }

    /// Advances the time by so many ticks.
    fn grow(&mut self, ticks: u32) {
        self.ages += f64::from(ticks) * self.count;
    }

    fn age(&self) -> f64 {
        self.ages / self.count
    }

    fn kind(&self, distribution: Cumulant, memory: Memory) -> usize {
        const LAST: f64 = (ReleaseHistory::MOST - 1) as f64;
        if memory.is_finite() {
            return (LAST - (self.age() * ReleaseHistory::MOST as f64 / Memory::TICKS as f64).floor()).clamp(0.0, LAST)
                as usize;
        }
        // log2, rounded down: the exponent.
        let exponent = (self.count / (self.noises * distribution.variance())).to_bits() >> 52;
        (exponent as f64 - 1023.0 + LAST - 6.0).clamp(0.0, LAST) as usize
    }
}

/// The releases of an arm by several handles, the *origins*. With one origin, it holds that origin's list. With more,
/// releases of the same kind are joined. Two releases are of the same kind if their rewards for each noise are within
/// a factor of 2, up to 64 V, where the weight is nearly 1; with `forget_after`, if their ages are within a twelfth
/// of it. A release's kind depends on that release alone, and sums are exact. So the result is a function of the set
/// of the origins' lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinedReleases {
    groups: [ReleaseGroup; ReleaseHistory::MOST],
    origins: u32,
    /// Time that the ages refer to.
    at: u32,
    pub totals: Totals,
}

impl JoinedReleases {
    /// Nothing, at this time.
    pub fn nothing(at: u32) -> JoinedReleases {
        JoinedReleases { groups: [ReleaseGroup::default(); ReleaseHistory::MOST], origins: 0, at, totals: Totals::NONE }
    }

    /// The rewards, their noised sum, and the number of its noises.
    pub fn overall(&self) -> [f64; 3] {
        let total = |each: fn(&ReleaseGroup) -> f64| self.groups.iter().map(each).fold(0.0, |all, x| all + x);
        [total(|group| group.count), total(|group| group.sum), total(|group| group.noises)]
    }

    /// Adds an origin with its releases whose discount is not 0 now.
    pub fn add(&mut self, released: &ReleaseHistory, distribution: Cumulant, memory: Memory, now: u32) {
        self.totals.add(&released.totals);
        let mut pairs = released.pairs().iter().filter(|pair| memory.discount(now, pair.tick) > 0.0).peekable();
        if pairs.peek().is_none() {
            return;
        }
        self.origins += 1;
        let place = |group: &ReleaseGroup| group.kind(distribution, memory);
        match self.origins {
            1 => self.groups.iter_mut().zip(pairs).for_each(|(group, pair)| *group = ReleaseGroup::of(*pair, self.at)),
            origins => {
                if origins == 2 {
                    let first = std::mem::replace(&mut self.groups, [ReleaseGroup::default(); ReleaseHistory::MOST]);
                    first
                        .iter()
                        .filter(|group| group.count > 0.0)
                        .for_each(|group| self.groups[place(group)].add(*group));
                }
                pairs
                    .map(|pair| ReleaseGroup::of(*pair, self.at))
                    .for_each(|group| self.groups[place(&group)].add(group));
            }
        }
    }
}

/// A release, or several joined, as the formulas use it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Term {
    /// E, the sum of the probabilities with which visitors examined the slots of n rewards; n where they always do.
    pub count: f64,
    /// n - E.
    pub unexamined: f64,
    /// y, their noised sum.
    pub sum: f64,
    /// k, the number of noises in it; 0 for a prior.
    pub noises: f64,
    /// w = 1/(1 + 4 V k/E), where V is the variance of one noise: about the inverse of the variance in the worst case. E
    /// is rounded down to the size for which the batch was opened.
    pub weight: f64,
    /// g, its discount.
    pub discount: f64,
}

impl Term {
    /// n, the number of rewards.
    #[inline]
    pub fn rewards(&self) -> f64 {
        self.count + self.unexamined
    }

    /// The mean that a reward has where the arm's mean is q.
    #[inline]
    pub fn seen(&self, q: f64) -> f64 {
        if self.unexamined > 0.0 { q * (self.count / self.rewards()) } else { q }
    }
}

/// The weighted and discounted releases of one arm, and its prior.
pub struct Evidence {
    pub distribution: Cumulant,
    /// Terms of the releases, and of a prior.
    terms: [Term; ReleaseHistory::MOST + 1],
    length: usize,
    /// Z = sum g w y.
    pub sum: f64,
    /// W = sum g w E.
    pub weight: f64,
    /// N = sum g E, over releases.
    pub count: f64,
    /// Number of rewards that a prior counts for.
    pub prior_count: f64,
    /// N plus the rewards that pending decisions will bring.
    pub awaited: f64,
}

impl Evidence {
    pub fn nothing(distribution: Cumulant) -> Evidence {
        let terms = [Term::default(); ReleaseHistory::MOST + 1];
        Evidence { distribution, terms, length: 0, sum: 0.0, weight: 0.0, count: 0.0, prior_count: 0.0, awaited: 0.0 }
    }

    fn add(&mut self, ReleaseGroup { count, unexamined, sum, noises, .. }: ReleaseGroup, discount: f64) {
        // The size of a batch is whole, and its last reward may bring more than is missing.
        let size = if unexamined > 0.0 { count.floor() } else { count };
        let weight = 1.0 / (1.0 + 4.0 * self.distribution.variance() * noises / size);
        self.put(Term { count, unexamined, sum, noises, weight, discount });
        self.count += discount * count;
        self.awaited = self.count;
    }

    /// Adds a prior: it has rewards without noise, and none that was collected.
    pub fn add_prior(&mut self, prior: Prior, discount: f64) {
        let count = f64::from(prior.strength);
        self.put(Term {
            count,
            unexamined: 0.0,
            sum: count * f64::from(prior.mean),
            noises: 0.0,
            weight: 1.0,
            discount,
        });
        self.prior_count = discount * count;
    }

    fn put(&mut self, term: Term) {
        self.terms[self.length] = term;
        self.length += 1;
        self.sum += term.discount * term.weight * term.sum;
        self.weight += term.discount * term.weight * term.count;
    }

    pub fn terms(&self) -> &[Term] {
        &self.terms[..self.length]
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The weighted mean, in the unit interval.
    pub fn mean(&self) -> f64 {
        (self.sum / self.weight).clamp(0.0, 1.0)
    }

    /// 4V/(4V + N), N awaited: the share of the noise in what is known.
    pub fn share_of_noise(&self) -> f64 {
        let noise = 4.0 * self.distribution.variance();
        noise / (noise + self.awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISTRIBUTION: Cumulant = Cumulant::Laplace { epsilon: 0.1 };

    #[test]
    fn rounds_against_itself() {
        let pair = NoisySum::new(1e9 + 1.0, 1e9 + 1.0, 0);
        assert!(f64::from(pair.count) <= 1e9 + 1.0 && f64::from(pair.sum) >= 1e9 + 1.0);
        assert_eq!(NoisySum::new(10.0, -3.5, 0).sum, 0.0);
    }

    #[test]
    fn joins_the_smallest_neighbours_and_counts_their_noises() {
        let mut released = ReleaseHistory::NOTHING;
        for i in 1..=15u32 {
            released.push(NoisySum::new(f64::from(i), f64::from(i) / 2.0, 0));
        }
        // 1 + 2 at the thirteenth; then (1 + 2) + 3, and 4 + 5
        let evidence = released.and(None, DISTRIBUTION, Memory::new(0), 0);
        let terms: Vec<_> = evidence.terms().iter().map(|term| (term.noises, term.count)).collect();
        assert_eq!(terms[..4], [(3.0, 6.0), (2.0, 9.0), (1.0, 6.0), (1.0, 7.0)]);
        assert_eq!((terms.len(), evidence.count, evidence.terms()[0].sum), (12, 120.0, 3.0));
        // V = 2/eps^2 = 200: the weight 1/(1 + 4 V k/n).
        assert!((evidence.terms()[0].weight - 1.0 / (1.0 + 800.0 * 3.0 / 6.0)).abs() < 1e-15);
        assert!((evidence.mean() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn powers_fade_and_what_has_none_is_forgotten() {
        let memory = Memory::new(102_400);
        let mut released = ReleaseHistory::NOTHING;
        let tick = |decisions| memory.ticks(decisions);
        released.push(NoisySum::new(100.0, 30.0, tick(0)));
        released.push(NoisySum::new(100.0, 50.0, tick(51_200)));
        let powers = |decisions| -> Vec<f64> {
            released.and(None, DISTRIBUTION, memory, tick(decisions)).terms().iter().map(|term| term.discount).collect()
        };
        assert_eq!(powers(51_200), [1.0, 1.0]);
        assert_eq!(powers(76_800), [0.5, 1.0]);
        assert_eq!(powers(102_400), [1.0]);
        assert!(powers(200_000).is_empty());
        released.expire(memory, tick(102_400));
        assert_eq!(released.count, 1);
        released.expire(memory, tick(200_000));
        assert!(released.and(None, DISTRIBUTION, memory, tick(200_000)).is_empty());
        // Ages are correct after the ticks have wrapped.
        assert_eq!(memory.discount(5, 5u32.wrapping_sub(768)), 0.5);
    }

    #[test]
    fn joined_pairs_have_the_age_of_their_rewards() {
        let joined = NoisySum::new(100.0, 1.0, u32::MAX - 9).join(NoisySum::new(300.0, 2.0, 10));
        assert_eq!((joined.count, joined.sum, joined.tick), (400.0, 3.0, 5));
    }
}
