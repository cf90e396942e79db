//! DP-SE, compared with the numbers in its paper.

use dpb::{Algorithm, Bandit, Config};

/// Bernoulli rewards from a generator of its own.
struct Coins(u64);

impl Coins {
    fn toss(&mut self, p: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        f64::from(u8::from(((self.0 >> 11) as f64) < p * (1u64 << 53) as f64))
    }
}

/// The paper's instance at T = 5e7, played until one arm is left: regret, pulls
/// of arm 0 in epochs 1 and 2, and viable arms in epoch 2.
fn paper_run(epsilon: f64, number: u64) -> (f64, u64, u64, u32) {
    const MEANS: [f64; 5] = [0.75, 0.625, 0.5, 0.375, 0.25];
    let config = Config { horizon: 50_000_000, test_seed: Some([number as u8; 32]), ..Config::new(5, epsilon) };
    let bandit = Bandit::new(Algorithm::Se, &config).unwrap();
    let (mut coins, mut regret, mut pulls) = (Coins(number), 0.0, [[0u64; 5]; 40]);
    loop {
        let decision = bandit.select().unwrap();
        if bandit.best_arm().is_ok() {
            break;
        }
        let arm = decision.arm as usize;
        regret += MEANS[0] - MEANS[arm];
        pulls[decision.phase as usize][arm] += 1;
        bandit.update(decision.ticket, coins.toss(MEANS[arm])).unwrap();
    }
    assert_eq!(bandit.best_arm().unwrap(), 0);
    (regret, pulls[1][0], pulls[2][0], pulls[2].iter().filter(|&&n| n > 0).count() as u32)
}

/// Golden numbers of SS19's instance: R_1 = 2743 and, with two arms left, R_2 = 11207 at eps 0.25,
/// regret about 4.8e3; R_1 = 3317 at eps 0.1. The mean of 20 runs has a standard error near 20.
#[test]
fn the_papers_schedule_and_regret() {
    let runs: Vec<_> = (0..20).map(|number| paper_run(0.25, number)).collect();
    assert!(runs.iter().all(|run| run.1 == 2743));
    let typical: Vec<_> = runs.iter().filter(|run| run.3 == 2).collect();
    assert!(typical.len() > 10 && typical.iter().all(|run| run.2 == 11207), "{runs:?}");
    let regret = runs.iter().map(|run| run.0).sum::<f64>() / 20.0;
    assert!((4600.0..5000.0).contains(&regret), "{regret}");
    assert_eq!(paper_run(0.1, 1).1, 3317);
}
