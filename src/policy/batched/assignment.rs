//! How a test assigns decisions to its arms, and whether what is learned from has the ratio that it should have.

use crate::config::Config;
use crate::memory::WipedVec;
use crate::moving::persist;
use crate::random::{Random, Seed};

/// Assigns each decision by itself: by a draw, or, with `sticky`, by a hash of the visitor.
pub struct Assignment {
    coins: Random,
    salt: u64,
    /// The share of decisions for the control, arm 0.
    pub control_share: f64,
}

/// In place of the id of an arm: the hash that says whether the visitor is the control's.
const CONTROL: u64 = u64::MAX;

/// A number that differs by all of its arguments (the finaliser of SplitMix64, Steele, Lea and Flood 2014, for each).
fn hash(salt: u64, user: u64, id: u64) -> u64 {
    [user, id].into_iter().fold(salt, |state, next| {
        let mut x = (state ^ next).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    })
}

impl Assignment {
    pub fn new(config: &Config, seed: &mut Seed) -> Assignment {
        Assignment { coins: seed.stream(), salt: config.sticky, control_share: config.control_share }
    }

    /// Whether each visitor always gets the same arm.
    pub fn is_sticky(&self) -> bool {
        self.salt != 0
    }

    /// The visitor, if each always gets the same arm of the same arms; `None`: arms are drawn.
    pub fn visitor(&self, user: u64) -> Option<u64> {
        self.is_sticky().then_some(user)
    }

    /// A number below this one.
    pub fn below(&mut self, many: usize) -> usize {
        self.coins.below(many as u64) as usize
    }

    /// Whether this decision is the control's.
    pub fn is_controls(&mut self, visitor: Option<u64>) -> bool {
        self.control_share > 0.0
            && match visitor {
                None => self.coins.unit() < self.control_share,
                Some(user) => {
                    let unit = (hash(self.salt, user, CONTROL) >> 11) as f64 / (1u64 << 53) as f64;
                    unit < self.control_share
                }
            }
    }

    /// One of these arms, each with the same probability. If a visitor's arm is no longer among them, those of the others
    /// stay the same (rendezvous hashing, Thaler and Ravishankar 1996).
    pub fn one_of(&mut self, arms: &[u32], id: impl Fn(usize) -> u64, visitor: Option<u64>) -> u32 {
        match (arms, visitor) {
            (&[arm], _) => arm,
            (_, None) => arms[self.coins.below(arms.len() as u64) as usize],
            (_, Some(user)) => {
                let of = |&&arm: &&u32| hash(self.salt, user, id(arm as usize));
                arms.iter().max_by_key(of).copied().unwrap_or_default()
            }
        }
    }
}

/// Tests whether the arms that are left have their shares of the decisions that are learned from: a mixture martingale
/// (Krichevsky and Trofimov 1981). Those decisions may be of any time: given that a decision is for one of these arms, its
/// arm has the probability that the shares say.
pub struct SampleRatio {
    /// The number of rewards of each arm's decisions when the arms that are left changed last.
    base: WipedVec<u64>,
    /// ln of the martingale then.
    evidence: f64,
    found: bool,
    /// Whether some requests did not permit all arms that were left, so that there is no ratio to test.
    pub is_unknown: bool,
}

persist!(SampleRatio { base, evidence, found, is_unknown });

/// If all is well, a mismatch is ever found with probability 1/1000.
const RARE: f64 = 1000.0;

impl SampleRatio {
    pub fn new(base: WipedVec<u64>) -> SampleRatio {
        SampleRatio { base, evidence: 0.0, found: false, is_unknown: false }
    }

    /// Whether these arms do not have these shares of the decisions with a reward, whose number for an arm is `learned`.
    pub fn is_mismatch(
        &self,
        arms: impl Iterator<Item = (usize, f64)> + Clone,
        learned: impl Fn(usize) -> u64,
    ) -> bool {
        !self.is_unknown && (self.found || self.evidence_with(arms, learned) >= RARE.ln())
    }

    fn evidence_with(&self, arms: impl Iterator<Item = (usize, f64)> + Clone, learned: impl Fn(usize) -> u64) -> f64 {
        let ln_gamma = libm::lgamma;
        let (mut many, mut all, mut shares, mut sum) = (0.0, 0.0, 0.0, 0.0);
        for (arm, share) in arms {
            let count = learned(arm).saturating_sub(self.base[arm]) as f64;
            sum += ln_gamma(count + 0.5) - ln_gamma(0.5) - count * share.ln();
            (many, all, shares) = (many + 1.0, all + count, shares + share);
        }
        self.evidence + sum + ln_gamma(0.5 * many) - ln_gamma(all + 0.5 * many) + all * shares.ln()
    }

    /// Continues with other arms: keeps what these said.
    pub fn change(&mut self, arms: impl Iterator<Item = (usize, f64)> + Clone, learned: impl Fn(usize) -> u64) {
        self.found = self.is_mismatch(arms.clone(), &learned);
        self.evidence = self.evidence_with(arms, &learned);
        self.base.iter_mut().enumerate().for_each(|(arm, base)| *base = learned(arm));
    }

    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self) -> crate::error::Result<()> {
        self.base.reserve()
    }

    /// Adds an arm that nothing was learned from, after [`reserve`](Self::reserve).
    pub fn add_arm(&mut self) {
        self.base.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sticky(salt: u64, control_share: f64) -> Assignment {
        Assignment::new(
            &Config { sticky: salt, control_share, ..Config::new(4, 1.0) },
            &mut Seed::new(Some([5; 32])).unwrap(),
        )
    }

    /// Visitors of an arm that goes out move to the others evenly; all others stay. Another salt assigns anew. (With
    /// probability above 1 - 1e-8 no count is 5 deviations off.)
    #[test]
    fn a_visitor_keeps_the_arm() {
        let (mut one, mut other) = (sticky(7, 0.25), sticky(8, 0.25));
        let (mut controls, mut stays, mut moves) = (0, 0, [0u32; 4]);
        for user in 0..40_000u64 {
            let visitor = one.visitor(user);
            let before = one.one_of(&[0, 1, 2, 3], |arm| arm as u64, visitor);
            let after = one.one_of(&[0, 1, 3], |arm| arm as u64, visitor);
            assert!(before == 2 || before == after);
            moves[after as usize] += u32::from(before == 2);
            stays += u32::from(other.one_of(&[0, 1, 2, 3], |arm| arm as u64, visitor) == before);
            controls += u32::from(one.is_controls(visitor));
            assert_eq!(one.is_controls(visitor), one.is_controls(visitor));
        }
        let near = |count: u32, of: f64, share: f64| {
            (f64::from(count) - of * share).abs() < 5.5 * (of * share * (1.0 - share)).sqrt()
        };
        assert!(near(controls, 40_000.0, 0.25) && near(stays, 40_000.0, 0.25), "{controls} {stays}");
        assert!([0, 1, 3].iter().all(|&arm| near(moves[arm], 10_000.0, 1.0 / 3.0)) && moves[2] == 0, "{moves:?}");
        let mut drawn = sticky(0, 0.25);
        let controls = (0..40_000).filter(|_| drawn.is_controls(None)).count();
        assert!(near(controls as u32, 40_000.0, 0.25), "{controls}");
    }

    /// Of 400 tests that are as they should be, more than 4 find a mismatch with probability below 1e-4. If an arm loses
    /// a tenth of its decisions, all find it within 40,000.
    #[test]
    fn a_mismatch_is_found_and_seldom_where_there_is_none() {
        let mut coins = Seed::new(Some([4; 32])).unwrap().stream();
        let mut finds = |lost: f64, decisions: u32| {
            let mut ratio = SampleRatio::new(WipedVec::new(3, |_| 0).unwrap());
            let (mut learned, shares) = ([0u64; 3], [0.5, 0.25, 0.25]);
            let mut left = 3;
            let arms = |left: usize| (0..left).map(move |arm| (arm, shares[arm]));
            for n in 0..decisions {
                let arm = (coins.unit() * 4.0 - 1.0).max(0.0) as usize;
                learned[arm] += u64::from(arm != 1 || coins.unit() >= lost);
                if n == decisions / 2 {
                    ratio.change(arms(left), |arm| learned[arm]);
                    left = 2;
                }
                if n % 64 == 0 && ratio.is_mismatch(arms(left), |arm| learned[arm]) {
                    return true;
                }
            }
            false
        };
        let wrong = (0..400).filter(|_| finds(0.0, 3000)).count();
        let right = (0..20).filter(|_| finds(0.1, 40_000)).count();
        assert!(wrong <= 4 && right == 20, "{wrong} {right}");
    }
}
