//! DP-TT: a test stops, as soon as it should, and its winner is the best arm as often as it should be.

use crate::audit::engine::{clopper_pearson, seed};
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Config, Error, Request};

const A: [f64; 5] = [0.25, 0.375, 0.75, 0.625, 0.5];
const C: [f64; 5] = [0.7, 0.7, 0.7, 0.75, 0.7];

fn best(rates: &[f64]) -> u32 {
    (0..rates.len()).fold(0, |best, arm| if rates[arm] > rates[best] { arm } else { best }) as u32
}

fn config(rates: &[f64], epsilon: f64, number: u64) -> Config {
    Config { beta: 0.01, test_seed: Some(seed(number)), ..Config::new(rates.len() as u32, epsilon) }
}

/// Decides until one arm is left. Returns the number of decisions, and the winner.
fn length(bandit: &Bandit, rates: &[f64], coins: &mut Coins) -> (u64, u32) {
    for decisions in 1.. {
        let decision = bandit.select().unwrap();
        bandit.update(decision.ticket, coins.toss(rates[decision.arm as usize])).unwrap();
        if let Ok(winner) = bandit.best_arm() {
            return (decisions, winner);
        }
    }
    unreachable!()
}

/// The mean number of decisions of so many tests, and how many end with another arm than the best.
fn lengths(rates: &[f64], epsilon: f64, tests: u64) -> (f64, u64) {
    let (mut sum, mut wrong) = (0, 0);
    for number in 0..tests {
        let bandit = Bandit::new(Algorithm::TopTwo, &config(rates, epsilon, number)).unwrap();
        let (decisions, winner) = length(&bandit, rates, &mut Coins(number + 1));
        sum += decisions;
        wrong += u64::from(winner != best(rates));
    }
    let mean = sum as f64 / tests as f64;
    println!("{rates:?} at {epsilon}: {mean:.0} decisions, {wrong} of {tests} wrong");
    (mean, wrong)
}

/// 1000 tests each at beta = 1%: the mean length, and at most 1% wrong.
#[test]
#[ignore = "two minutes"]
fn tests_stop_in_time() {
    for (rates, epsilon, most) in [(A, 1.0, 1500.0), (A, 0.1, 5300.0), (C, 1.0, 16_000.0), (C, 0.1, 30_000.0)] {
        let (mean, wrong) = lengths(&rates, epsilon, 1000);
        assert!(mean <= most, "{rates:?} at {epsilon}: {mean}");
        assert!(clopper_pearson(wrong, 1000, 1e-6).0 <= 0.01, "{rates:?} at {epsilon}: {wrong}");
    }
}

/// The lengths in the guide's table, at 95%: `plan --winner` simulated others. The standard errors are up to 7% and 9%.
#[test]
#[ignore = "two minutes"]
fn tests_are_as_long_as_the_guide_says() {
    let page = std::fs::read_to_string(crate::support::root().join("docs/guide.md")).unwrap();
    for (row, rates) in
        [("2.2% and 2%", &[0.022, 0.02][..]), ("5.5% and 5%", &[0.055, 0.05]), ("12%, 11% and 10%", &[0.12, 0.11, 0.1])]
    {
        let cells = page.lines().find_map(|line| line.strip_prefix(&format!("| {row} |"))).unwrap();
        let stated = cells.split('|').filter_map(|cell| cell.trim().replace(',', "").parse::<f64>().ok());
        let stated: Vec<_> = stated.collect();
        assert_eq!(stated.len(), 3);
        for (epsilon, visitors) in [1.0, 0.25, 0.1].into_iter().zip(stated) {
            let made = |number| Config { beta: 0.05, ..config(rates, epsilon, number) };
            let of = |number: u64| {
                let bandit = Bandit::new(Algorithm::TopTwo, &made(number)).unwrap();
                length(&bandit, rates, &mut Coins(number + 1)).0 as f64
            };
            let mean = (0..60).map(of).sum::<f64>() / 60.0;
            println!("{row} at {epsilon}: {mean:.0}, stated {visitors}");
            assert!((mean / visitors - 1.0).abs() < 0.3, "{row} at {epsilon}: {mean}, stated {visitors}");
        }
    }
}

/// A few of them. (The seeds are fixed. If each test were wrong with probability 1%, 4 of 40 would be with probability
/// below 1e-3.)
#[test]
fn a_test_stops() {
    let (mean, wrong) = lengths(&A, 1.0, 40);
    assert!((800.0..2100.0).contains(&mean) && wrong < 4, "{mean} {wrong}");
}

/// Means that are nearly equal, at beta = 1/5: if the better arm lost with that probability, more than 250 of 900 tests
/// would end wrong with probability below 1e-8.
#[test]
#[ignore = "half a minute"]
fn nearly_equal_arms_are_seldom_confused() {
    for (rates, epsilon, delta) in
        [([0.5, 0.502, 0.5], 0.1, 0.0), ([0.02, 0.0205, 0.02], 1.0, 0.0), ([0.5, 0.502, 0.5], 0.5, 1e-6)]
    {
        let wrong = |number: u64| {
            let config = Config { beta: 0.2, delta, ..config(&rates, epsilon, number) };
            let (bandit, mut coins) = (Bandit::new(Algorithm::TopTwo, &config).unwrap(), Coins(number + 1));
            for _ in 0..20_000 {
                let decision = bandit.select().unwrap();
                bandit.update(decision.ticket, coins.toss(rates[decision.arm as usize])).unwrap();
            }
            bandit.best_arm().is_ok_and(|winner| winner != 1)
        };
        let wrong = (0..900).filter(|&number| wrong(number)).count();
        println!("{rates:?} at {epsilon}, {delta}: {wrong} of 900");
        assert!(wrong <= 250, "{rates:?} at {epsilon}, {delta}: {wrong}");
    }
}

/// The report shows the end. A restart keeps the winner, and all decisions take it, unless it is not eligible.
#[test]
fn the_winner_is_reported_served_and_kept() {
    let bandit = Bandit::new(Algorithm::TopTwo, &config(&A, 1.0, 3)).unwrap();
    assert_eq!((bandit.best_arm(), bandit.report().unwrap().best_arm), (Err(Error::NotReady), None));
    let (_, winner) = length(&bandit, &A, &mut Coins(4));
    assert_eq!(winner, 2);
    for bandit in [&bandit, &Bandit::restore(&bandit.snapshot().unwrap()).unwrap()] {
        let report = bandit.report().unwrap();
        assert_eq!((report.best_arm, report.arms_active, bandit.best_arm()), (Some(2), 1, Ok(2)));
        let active: Vec<bool> = bandit.arm_reports().unwrap().into_iter().map(|arm| arm.active).collect();
        assert_eq!(active, [false, false, true, false, false]);
        assert!((0..1000).all(|_| bandit.select().unwrap().arm == 2));
        let among = Request { eligible: Some(&[0, 3]), ..Request::default() };
        assert_eq!(bandit.select_for(&among).unwrap().arm, 3);
        assert!(bandit.compare(2, 0, 0.99).unwrap().0 > 0.0);
    }
}

/// After a winner was found, arms may retire and be added: a new test begins if it must, and stops.
#[test]
fn a_new_test_begins_after_the_last_one() {
    let mut rates = A.to_vec();
    let bandit = Bandit::new(Algorithm::TopTwo, &config(&A, 1.0, 3)).unwrap();
    let mut coins = Coins(4);
    length(&bandit, &rates, &mut coins);
    bandit.retire_arm(0).unwrap();
    assert_eq!(bandit.best_arm(), Ok(2));
    bandit.retire_arm(2).unwrap();
    let report = bandit.report().unwrap();
    assert_eq!((bandit.best_arm(), report.best_arm), (Err(Error::NotReady), None));
    assert_eq!(length(&bandit, &rates, &mut coins).1, 3);
    rates.push(0.9);
    assert_eq!(bandit.add_arm(), Ok(5));
    assert_eq!(length(&bandit, &rates, &mut coins).1, 5);
    for (arm, best) in [(1, 5), (5, 3), (3, 4)] {
        bandit.retire_arm(arm).unwrap();
        if bandit.best_arm() == Err(Error::NotReady) {
            length(&bandit, &rates, &mut coins);
        }
        assert_eq!(bandit.best_arm(), Ok(best));
    }
    let last = bandit.retire_arm(4).unwrap_err().to_string();
    assert_eq!(last, "arm must not be the last one, got 4");
}

/// A handle that continues from a decision has its beta, by a snapshot or by a state.
#[test]
fn the_confidence_of_a_decision_does_not_change() {
    let config = Config { fleet_key: Some([7; 32].into()), ..config(&A, 1.0, 3) };
    let bandit = Bandit::new(Algorithm::TopTwo, &config).unwrap();
    length(&bandit, &A, &mut Coins(4));
    let snapshot = bandit.snapshot().unwrap();
    let state = bandit.suspend(0).unwrap();
    for beta in [0.0, 0.005, 0.2] {
        let other = Config { beta, ..config.clone() };
        let restored = Bandit::restore_as(Algorithm::TopTwo, &other, &snapshot).err().unwrap();
        let resumed = Bandit::resume(None, &other, &state).err().unwrap();
        for refused in [restored, resumed] {
            assert!(refused.to_string().starts_with("beta must be 0.01, as in the snapshot"), "{refused}");
        }
    }
    let longer = Config { horizon: 1_000_000, ..config };
    let restored = Bandit::restore_as(Algorithm::TopTwo, &longer, &snapshot).unwrap();
    let resumed = Bandit::resume(None, &longer, &state).unwrap();
    resumed.claimed().unwrap();
    assert_eq!((restored.best_arm(), resumed.best_arm()), (Ok(2), Ok(2)));
}

/// Handles that merge find the winner with fewer decisions each, and so does a fleet with one noise.
#[test]
fn a_fleet_finds_the_winner() {
    for leads in [false, true] {
        let handles: Vec<_> = (0..4)
            .map(|number| {
                let config = Config { fleet_key: Some([7; 32].into()), ..config(&A, 1.0, 50 + number) };
                Bandit::new(Algorithm::TopTwo, &config).unwrap()
            })
            .collect();
        let mut coins = Coins(8);
        let mut rounds = 0;
        while handles.iter().any(|handle| handle.best_arm().is_err()) {
            rounds += 1;
            assert!(rounds < 200, "{leads}");
            for handle in &handles {
                for _ in 0..50 {
                    let decision = handle.select().unwrap();
                    handle.update(decision.ticket, coins.toss(A[decision.arm as usize])).unwrap();
                }
            }
            if leads {
                crate::combine::exchange(&handles);
            } else {
                for snapshot in handles.iter().map(|handle| handle.snapshot().unwrap()).collect::<Vec<_>>() {
                    handles.iter().for_each(|handle| handle.merge(&snapshot).unwrap());
                }
            }
        }
        println!("{leads}: {} decisions each", 50 * rounds);
        assert!(handles.iter().all(|handle| handle.best_arm() == Ok(2)), "{leads}");
    }
}
