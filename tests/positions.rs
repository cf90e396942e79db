//! Requests whose slots are not always examined: refusals, the order of the arms, the rates that are learned, and what it
//! costs.

use crate::audit::engine::seed;
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Config, Decision, Request};

fn imed(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, &Config { test_seed: Some(seed(7)), ..config.clone() }).unwrap()
}

/// A request for as many slots as there are probabilities.
fn examined(by: &[f64]) -> Request<'_> {
    Request { slots: by.len() as u32, examined: Some(by), ..Request::default() }
}

/// The decisions of a request, by slot.
fn decide(bandit: &Bandit, request: &Request) -> Vec<Decision> {
    let mut decisions = vec![None; request.slots as usize];
    bandit.select_slots(request, |slot, decision| decisions[slot] = Some(decision)).unwrap();
    decisions.into_iter().map(Option::unwrap).collect()
}

/// Twenty ads of 6% to 1%.
fn rates() -> Vec<f64> {
    (0..20).map(|ad| 0.06 - 0.05 * f64::from(ad) / 19.0).collect()
}

/// The clicks that a handle loses against the best ads in their order, in slots that are examined with these
/// probabilities. The handle is told of them, or not.
fn lost(epsilon: f64, slots: &[f64], requests: u32, told: bool, number: u64) -> f64 {
    let (rates, mut coins) = (rates(), Coins(1 + number));
    let config = Config { test_seed: Some(seed(number)), ..Config::new(20, epsilon) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let best: f64 = slots.iter().zip(&rates).map(|(e, rate)| e * rate).sum();
    let (mut lost, mut shown) = (0.0, vec![(0, 0); slots.len()]);
    for _ in 0..requests {
        let request = Request { examined: told.then_some(slots), ..examined(slots) };
        bandit.select_slots(&request, |slot, decision| shown[slot] = (decision.ticket, decision.arm)).unwrap();
        lost += best;
        for (&(ticket, arm), e) in shown.iter().zip(slots) {
            lost -= e * rates[arm as usize];
            bandit.update(ticket, coins.toss(e * rates[arm as usize])).unwrap();
        }
    }
    lost
}

/// The mean over runs, and its standard error.
fn mean(runs: u64, lost: impl Fn(u64) -> f64) -> (f64, f64) {
    let all: Vec<f64> = (0..runs).map(lost).collect();
    let mean = all.iter().sum::<f64>() / runs as f64;
    let variance = all.iter().map(|lost| (lost - mean).powi(2)).sum::<f64>() / (runs as f64 - 1.0);
    (mean, (variance / runs as f64).sqrt())
}

const THREE: [f64; 3] = [1.0, 0.6, 0.4];
const FIVE: [f64; 5] = [1.0, 0.6, 0.4, 0.3, 0.2];

/// Twelve runs of a million requests.
#[test]
#[ignore = "two minutes"]
fn a_million_requests_lose_few_clicks() {
    for (epsilon, most) in [(1.0, 1232.0), (0.25, 1866.0)] {
        let lost = mean(8, |number| lost(epsilon, &THREE, 1_000_000, true, number));
        println!("epsilon {epsilon}: {lost:.0?}");
        assert!(lost.0 <= most, "{epsilon}: {lost:?}");
    }
    for epsilon in [1.0, 0.25] {
        let [with, without] =
            [true, false].map(|told| mean(8, |number| self::lost(epsilon, &FIVE, 200_000, told, number)));
        println!("epsilon {epsilon}, five slots: {with:.0?}, without {without:.0?}");
        assert!(with.0 <= without.0, "{epsilon}: {with:?} {without:?}");
    }
}
