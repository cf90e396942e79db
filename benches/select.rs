//! select + update of the recommended policies at K = 5 .. 100,000, the batches' ends included: a
//! fresh handle plays on, so the first rounds, when every decision ends a batch, are in the mean.

use criterion::{Criterion, criterion_group, criterion_main};
use dpb::{Algorithm, Bandit, Config};
use std::hint::black_box;

fn select(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select+update");
    for algorithm in [Algorithm::Imed, Algorithm::KlUcb, Algorithm::Ts, Algorithm::Se] {
        for arms in [5, 50, 1000, 100_000] {
            if algorithm == Algorithm::Ts && arms > 50 {
                continue; // a policy for hundreds of arms: see its page
            }
            let config = Config { horizon: 1 << 40, test_seed: Some([1; 32]), ..Config::new(arms, 0.25) };
            let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
            let mut coins = 1u64;
            group.bench_function(format!("{}/{arms}", algorithm.name()), |b| {
                b.iter(|| {
                    let decision = bandit.select().expect("a decision");
                    coins = coins.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // means from 0.2 to 0.7
                    let mean = 0.2 + 0.5 * f64::from(decision.arm) / f64::from(arms);
                    let reward = f64::from(u8::from(((coins >> 11) as f64) < mean * (1u64 << 53) as f64));
                    bandit.update(black_box(decision.ticket), reward).expect("accepted");
                })
            });
        }
    }
    group.finish();
    let mut group = criterion.benchmark_group("select_among 10 of 1000 + update");
    for algorithm in [Algorithm::Imed, Algorithm::KlUcb, Algorithm::Ts] {
        let config = Config { test_seed: Some([1; 32]), ..Config::new(1000, 0.25) };
        let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
        let mut coins = 1u64;
        group.bench_function(algorithm.name(), |b| {
            b.iter(|| {
                coins = coins.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let set: [u32; 10] = std::array::from_fn(|i| ((coins >> 40) as u32 + 97 * i as u32) % 1000);
                let decision = bandit.select_among(&set).expect("a decision");
                let reward = f64::from(u8::from((coins >> 33) as u32 % 1000 < decision.arm));
                bandit.update(black_box(decision.ticket), reward).expect("accepted");
            })
        });
    }
    group.finish();
}

criterion_group!(benches, select);
criterion_main!(benches);
