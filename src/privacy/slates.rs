//! Bounds the privacy loss of a request with several slots.
//!
#![doc = include_str!("../../docs/theory/slots.md")]

use super::PrivacyLoss;
use super::composition::mul_up;

/// d: the number of batches that one reward (`max_slots` = 0), or one request, may change.
pub fn batches_changed(slate: u32, max_clicks: u32) -> u32 {
    match (slate, max_clicks) {
        (0, _) => 1,
        (slots, 0) => slots,
        (slots, clicks) => slots.min(clicks.saturating_mul(2)),
    }
}

/// One of `parts` equal parts of a loss, rounded down, so that together they never exceed it.
pub(crate) fn share(whole: f64, parts: u32) -> f64 {
    if parts == 1 { whole } else { (whole / f64::from(parts)).next_down() }
}

impl PrivacyLoss {
    /// The loss of a change in `changed` batches, from that in one: Theorem S. `Unbounded` if the theorem does not
    /// apply.
    pub fn of_batches(self, changed: u32) -> PrivacyLoss {
        let times = |loss: f64| mul_up(loss, changed.into());
        match self {
            PrivacyLoss::Pure(epsilon) => PrivacyLoss::Pure(times(epsilon)),
            PrivacyLoss::Zcdp(rho) => PrivacyLoss::Zcdp(times(rho)),
            other if changed == 1 => other,
            _ => PrivacyLoss::Unbounded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::noise::Noise;

    #[test]
    fn the_table() {
        let changed = [(0, 0), (3, 0), (3, 1), (3, 2), (3, 3), (1, 1), (1000, 1), (u32::MAX, u32::MAX)]
            .map(|(slate, clicks)| batches_changed(slate, clicks));
        assert_eq!(changed, [1, 3, 2, 3, 3, 1, 2, u32::MAX]);
    }

    /// Noise is for d batches and u requests, u d eps and u^2 d rho. The reported loss is never more than the
    /// configured one, nor much less.
    #[test]
    fn the_noise_is_for_the_unit() {
        for (slate, max_clicks, d) in [(0, 0, 1), (3, 0, 3), (7, 2, 4)] {
            for u in [1, 5] {
                for epsilon in [0.1, 1.0 / 3.0, 1.0] {
                    for delta in [0.0, 1e-6] {
                        let config = Config {
                            delta,
                            max_slots: slate,
                            max_clicks,
                            reward_window: 10,
                            contributions_per_user: u,
                            ..Config::new(9, epsilon)
                        };
                        let of_one = match config.noise().unwrap() {
                            Noise::Laplace(distribution) => PrivacyLoss::Pure(distribution.epsilon()),
                            Noise::Gaussian(distribution) => PrivacyLoss::Zcdp(distribution.rho()),
                        };
                        let spent = of_one.of_batches(d).epsilon(delta, u);
                        assert!(spent <= epsilon && spent > epsilon * (1.0 - 1e-4), "{config:?}: {spent}");
                        // Computed a second time, independently.
                        let by_hand = match of_one {
                            PrivacyLoss::Zcdp(rho) => {
                                PrivacyLoss::Zcdp(rho * f64::from(d) * f64::from(u * u)).epsilon(delta, 1)
                            }
                            _ => of_one.epsilon(0.0, 1) * f64::from(d * u),
                        };
                        assert!((spent / by_hand - 1.0).abs() < 1e-9, "{config:?}: {spent} {by_hand}");
                    }
                }
            }
        }
    }
}
