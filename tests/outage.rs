//! What visitors see while everything is cancelled, and nothing is learned: the best arm by the releases.

use crate::audit::engine::seed;
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Config, Decision, Request, Rows};

/// Ten ads of 5% to 1%.
fn rate(ad: u32) -> f64 {
    0.05 - 0.04 * f64::from(ad) / 9.0
}

fn decide(bandit: &Bandit, request: &Request) -> Decision {
    let features = bandit.report().unwrap().features > 0;
    bandit.select_for(&Request { features: features.then_some(Rows::Dense(&[1.0, 0.0])), ..*request }).unwrap()
}

/// Cancels so many decisions in a row.
fn cancel(bandit: &Bandit, decisions: usize) {
    (0..decisions).for_each(|_| bandit.cancel(decide(bandit, &Request::default()).ticket).unwrap());
}

const BEFORE: u32 = 20_000;
const OUTAGE: u32 = 8_000;
const WINDOW: u32 = 500;

/// The mean rate of the ads that an outage of 8,000 decisions shows, after 20,000 decisions of clicks; and the rate of the
/// ad with the largest released mean. `cancel_all` is called once in each window, as the header asks for.
fn rates_in_an_outage(algorithm: Algorithm, config: &Config, number: u64) -> [f64; 2] {
    let config = Config { reward_window: WINDOW, test_seed: Some(seed(number)), ..config.clone() };
    let bandit = Bandit::new(algorithm, &config).unwrap();
    let mut coins = Coins(1 + number);
    for _ in 0..BEFORE {
        let Decision { ticket, arm, .. } = decide(&bandit, &Request::default());
        if coins.toss(rate(arm)) > 0.0 {
            bandit.update(ticket, 1.0).unwrap();
        }
    }
    let means: Vec<f64> = bandit.arm_reports().unwrap().iter().map(|arm| arm.mean).collect();
    let best = (0..10).max_by(|&a: &u32, &b| means[a as usize].total_cmp(&means[b as usize])).unwrap();
    let mut shown = 0.0;
    for step in 0..OUTAGE {
        if step % WINDOW == 0 {
            bandit.cancel_all().unwrap();
        }
        shown += rate(decide(&bandit, &Request::default()).arm);
    }
    [shown / f64::from(OUTAGE), rate(best)]
}

/// In each run the outage shows the ad with the largest released mean, but for the first window, in which nothing was
/// cancelled yet, and in which every ad has a rate of 1% at least. The same on average over the runs for policies whose
/// best ad a report does not name: their outage is worth 90% of the best ad on average, and no run less than 70%.
#[test]
fn an_outage_shows_the_best_ad() {
    let plain = Config::new(10, 1.0);
    let learned = 1.0 - f64::from(WINDOW) / f64::from(OUTAGE);
    for algorithm in [Algorithm::Imed, Algorithm::Med] {
        let runs: Vec<_> = (0..12).map(|number| rates_in_an_outage(algorithm, &plain, number)).collect();
        for [shown, best] in &runs {
            println!("{}: {shown:.4} of {best:.4}", algorithm.name());
        }
        for [shown, best] in runs {
            assert!(shown >= learned * best + (1.0 - learned) * 0.01, "{}: {shown} of {best}", algorithm.name());
        }
    }
    let segments = Config { max_segments: 3, ..plain.clone() };
    let linear = Config { features: 2, model_per_arm: true, ..plain };
    for (algorithm, config) in [(Algorithm::Imed, segments), (Algorithm::Linear, linear)] {
        let runs: Vec<_> = (0..6).map(|number| rates_in_an_outage(algorithm, &config, number)[0]).collect();
        println!("{}: {runs:?}", algorithm.name());
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        assert!(mean >= 0.9 * 0.05 && runs.iter().all(|&shown| shown >= 0.7 * 0.05), "{}: {runs:?}", algorithm.name());
    }
}

/// A handle that knows its arms: arm a has the rate 0.1 (a + 1). It plays as the policy does, or each arm in turn.
fn learned(algorithm: Algorithm, config: Config, in_turn: bool) -> Bandit {
    let bandit = Bandit::new(algorithm, &Config { test_seed: Some(seed(5)), ..config }).unwrap();
    let mut coins = Coins(9);
    for turn in 0..20_000 {
        let eligible = [turn % 6];
        let request = Request { eligible: in_turn.then_some(&eligible), ..Request::default() };
        let Decision { ticket, arm, .. } = decide(&bandit, &request);
        bandit.update(ticket, coins.toss(0.1 * f64::from(arm + 1))).unwrap();
    }
    bandit
}

/// An outage begins with the 256th decision that is cancelled in a row, and ends with the next reward that takes effect.
/// Then dp-med draws again. It moves with a state, and no snapshot has it.
#[test]
fn an_outage_begins_and_ends_with_public_events() {
    let test_seed = Some(seed(5));
    let config = Config { fleet_key: Some([3; 32].into()), test_seed, ..Config::new(6, 1.0) };
    let bandit = learned(Algorithm::Med, config.clone(), false);
    let is_outage = |bandit: &Bandit| {
        let Decision { ticket, arm, propensity, .. } = bandit.select().unwrap();
        bandit.cancel(ticket).unwrap();
        assert!(propensity < 1.0 || arm == 5);
        propensity == 1.0
    };
    cancel(&bandit, 255);
    let [open, other] = [(); 2].map(|()| bandit.select().unwrap());
    assert!(open.propensity < 1.0);
    bandit.cancel(other.ticket).unwrap();
    assert!((0..300).all(|_| is_outage(&bandit)));
    bandit.update(open.ticket, 0.0).unwrap();
    assert!(!is_outage(&bandit));
    cancel(&bandit, 254);
    assert!(!is_outage(&bandit) && is_outage(&bandit));
    let restored = Bandit::restore_as(Algorithm::Med, &config, &bandit.snapshot().unwrap()).unwrap();
    assert!(!is_outage(&restored));
    let resumed = Bandit::resume(None, &config, &bandit.suspend(0).unwrap()).unwrap();
    resumed.claimed().unwrap();
    assert!(is_outage(&resumed));
}

/// Decisions that are not learned from, because their user made too many, teach nothing either. Their rewards do not end the
/// outage. That of another user does.
#[test]
fn decisions_that_are_not_learned_from_are_an_outage_too() {
    let config = Config { expected_users: 100_000, contributions_per_user: 3, ..Config::new(6, 1.0) };
    let bandit = Bandit::new(Algorithm::Med, &Config { test_seed: Some(seed(5)), ..config }).unwrap();
    let mut coins = Coins(9);
    let mut propensity = |user: u64| {
        let Decision { ticket, arm, propensity, .. } = decide(&bandit, &Request { user, ..Request::default() });
        bandit.update(ticket, coins.toss(0.1 * f64::from(arm + 1))).unwrap();
        propensity
    };
    assert!((1..20_000).all(|user| propensity(user) < 1.0));
    // Three of the first requests are learned from, or fewer if another user has the same counters.
    let all: Vec<_> = (0..300).map(|_| propensity(50_000)).collect();
    let first = all.iter().position(|&propensity| propensity == 1.0).unwrap();
    assert!((256..260).contains(&first) && all[first..].iter().all(|&propensity| propensity == 1.0), "{first}");
    assert!(propensity(60_000) == 1.0 && propensity(60_001) < 1.0);
}

/// In an outage each request gets the best of its own arms: those that are eligible, with their values, and as many as it
/// has slots. Exploration goes on, so propensities are at least those that it promises. Without it they are 1.
#[test]
fn in_an_outage_each_request_gets_its_best_arms() {
    for exploration in [0.0, 0.5] {
        let bandit = learned(Algorithm::Imed, Config { exploration, ..Config::new(6, 1.0) }, true);
        cancel(&bandit, 256);
        let mut drawn = [0; 6];
        for _ in 0..400 {
            // Arm 3 is listed twice, and counts once.
            let eligible = Request { eligible: Some(&[3, 1, 3, 4]), ..Request::default() };
            let Decision { ticket, arm, propensity, .. } = bandit.select_for(&eligible).unwrap();
            drawn[arm as usize] += 1;
            let own = f64::from(u8::from(arm == 4));
            assert!([1, 3, 4].contains(&arm));
            assert!((propensity - (1.0 - exploration) * own - exploration / 3.0).abs() < 1e-12, "{arm} {propensity}");
            bandit.cancel(ticket).unwrap();

            // The worth of arm a is 0.1 (a + 1) v: the best three are 2, 0 and 5.
            let values = Request { values: Some(&[9.0, 1.0, 5.0, 1.0, 1.0, 1.2]), slots: 3, ..Request::default() };
            let (mut left, mut tickets) = (vec![2, 0, 5, 1, 3, 4], Vec::new());
            bandit.select_slots(&values, |_, decision| tickets.push(decision)).unwrap();
            if exploration == 0.0 {
                tickets.sort_unstable_by_key(|decision| [1, 3, 0, 4, 5, 2][decision.arm as usize]);
                assert_eq!([0, 1, 2].map(|slot| tickets[slot].arm), [2, 0, 5]);
            }
            for Decision { ticket, arm, propensity, .. } in tickets {
                let least = exploration / left.len() as f64;
                assert!(left.contains(&arm) && propensity >= least, "{arm} {propensity}");
                left.retain(|&other| other != arm || exploration > 0.0);
                bandit.cancel(ticket).unwrap();
            }
        }
        assert_eq!(drawn[4] == 400, exploration == 0.0);
        // Each of the others has a sixth of 400 with exploration: fewer than 35 with a probability below 1e-5.
        assert!(exploration == 0.0 || [1, 3].iter().all(|&arm| drawn[arm] >= 35), "{drawn:?}");
    }
}

/// In an outage a request that may stay without an arm, and in which no arm is worth anything, gets none for certain. Its
/// propensity is 1, whether the policy explores or not.
#[test]
fn in_an_outage_what_is_certain_has_propensity_one() {
    for exploration in [0.0, 0.5] {
        let config = Config { exploration, features: 2, model_per_arm: true, ..Config::new(6, 1.0) };
        let bandit = learned(Algorithm::Linear, config, true);
        cancel(&bandit, 256);
        for _ in 0..100 {
            let worthless = Request { values: Some(&[0.0; 6]), abstain: true, ..Request::default() };
            let Decision { ticket, propensity, .. } = decide(&bandit, &worthless);
            assert_eq!((ticket, propensity), (0, 1.0), "exploration {exploration}");
        }
    }
}
