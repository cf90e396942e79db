//! The Chernoff index of DP-IMED, which [`imed`](super::imed) explains.

use super::explore::kappa;
use super::released::Evidence;
use crate::config::Config;
use crate::tournament::Line;

/// The index c D'(mu*) + ln N.
pub struct Chernoff {
    /// 1 - c if all is noise.
    caution: f64,
    /// Whether the index uses D' instead of D.
    banded: bool,
    /// How many indices were computed.
    #[cfg(test)]
    pub computed: std::cell::Cell<u64>,
}

impl Chernoff {
    /// Number of arms above which the index is c D + ln N.
    const MANY_ARMS: u32 = 1024;

    pub fn new(config: &Config) -> Chernoff {
        // With forgetting, a lost arm is tried again.
        let caution = if config.forget_after == 0 { 1.0 / 3.0 } else { 0.0 };
        let banded = config.arms <= Self::MANY_ARMS;
        Chernoff {
            caution,
            banded,
            #[cfg(test)]
            computed: Default::default(),
        }
    }

    /// c, multiplied by the growth of the evidence that pending decisions cover.
    fn rate(&self, arm: &Evidence) -> f64 {
        let growth = if arm.count > 0.0 { arm.awaited / arm.count } else { 1.0 };
        (1.0 - self.caution * arm.share_of_noise()) * growth
    }

    /// The arm's index where the leading mean is q, and a line that is nowhere above it. The arm with the smallest index is
    /// pulled.
    pub fn at(&self, arm: &Evidence, q: f64) -> (f64, Line) {
        #[cfg(test)]
        self.computed.set(self.computed.get() + 1);
        let (exponent, slope) = arm.exponent(q);
        let (rate, log) = (self.rate(arm), rewards(arm).ln());
        let evidence = if self.banded { arm.banded(q, exponent) } else { exponent };
        (rate * evidence + log, Line::through(q, rate * exponent + log, rate * slope))
    }

    /// Rewards in the next batch of an arm with this index, where the leader has so many.
    pub fn batch(&self, arm: &Evidence, leaders: f64, index: f64, margin: f64) -> f64 {
        let n = rewards(arm);
        let evidence = index - n.ln();
        let need = leaders.ln() - margin + 0.25 + 0.5 * arm.share_of_noise() - index;
        if evidence > 0.0 { (need * n / evidence).clamp(n / 8.0, n) } else { n }
    }

    /// Rewards in the next batch of the arm with the leading mean.
    pub fn leaders_batch(&self, leader: &Evidence) -> f64 {
        3.0 * leader.awaited
    }

    /// How far an index must be below that of a leading arm for its arm to be pulled instead.
    pub fn margin(&self, arms: usize) -> f64 {
        kappa(arms).ln()
    }
}

/// N; 1 if there is only a prior.
pub fn rewards(arm: &Evidence) -> f64 {
    if arm.awaited > 0.0 { arm.awaited } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::released::{Memory, NoisySum, ReleaseHistory};
    use super::*;
    use crate::policy::cumulant::Cumulant;

    /// The size of an arm's batch is that for a leader with 1/kappa of the rewards.
    #[test]
    fn a_batch_reaches_the_leaders_smaller_index() {
        let config = Config::new(40, 1.0);
        let (policy, distribution) = (Chernoff::new(&config), Cumulant::of(&config.noise().unwrap()));
        let evidence = |rewards, mean| {
            let mut released = ReleaseHistory::NOTHING;
            released.push(NoisySum::new(rewards, mean * rewards, 0));
            released.and(None, distribution, Memory::new(0), 0)
        };
        let (arm, leader, fewer) = (evidence(1000.0, 0.05), evidence(64_000.0, 0.07), evidence(16_000.0, 0.07));
        let index = policy.at(&arm, 0.07).0;
        let sizes = [(&leader, 4f64.ln()), (&fewer, 0.0), (&leader, 0.0)]
            .map(|(leader, margin)| policy.batch(&arm, rewards(leader), index, margin));
        assert!((sizes[0] / sizes[1] - 1.0).abs() < 1e-9 && sizes[0] < 0.9 * sizes[2], "{sizes:?}");
    }
}
