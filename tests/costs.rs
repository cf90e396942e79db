//! Requests whose arms have costs, and that may get no arm: refusals, what is played, and propensities.

use crate::audit::sabotage::with_fault;
use crate::support::coins::Coins;
use crate::values::{able, bandit, imed};
use dpb::{Algorithm, Bandit, Config, Decision, Error, Fault, NO_ARM, Request};

/// A request for all arms of what [`able`] made.
fn of<'a>(values: Option<&'a [f64]>, costs: &'a [f64], abstain: bool, request: Request<'a>) -> Request<'a> {
    Request { values, costs: Some(costs), abstain, ..request }
}

#[test]
fn bad_costs_are_refused_and_change_nothing() {
    for (bandit, request) in able(&Config { reward_max: 2.0, ..Config::new(5, 1.0) }) {
        let refused = |request: Request| {
            let checked = bandit.check_request(&request).unwrap_err();
            assert_eq!(bandit.select_slots(&request, |_, _| ()), Err(checked.clone()));
            checked.to_string()
        };
        let most = "costs must be finite, and at most 2^20 times the largest value times config.reward_max";
        for (costs, why) in [
            (&[1.0; 4][..], "costs_len must be 5, the number of arms, got 4".to_owned()),
            (&[], "costs_len must be 5, the number of arms, got 0".into()),
            (&[0.0, 0.0, f64::NAN, 0.0, 0.0], format!("{most}, got NaN")),
            (&[0.0, f64::NEG_INFINITY, 0.0, 0.0, 0.0], format!("{most}, got -inf")),
            (&[0.0, 0.0, 0.0, 0.0, 2_097_152.5], format!("{most}, got 2097152.5")),
            (&[0.0, 0.0, 0.0, 0.0, -2_097_152.5], format!("{most}, got -2097152.5")),
        ] {
            assert_eq!(refused(of(None, costs, false, request)), why);
        }
        let large = [0.0, 0.0, 0.0, 0.0, 2_097_152.0];
        bandit.check_request(&of(None, &large, false, request)).unwrap();
        let why = "slots must be at most 0, the number of eligible arms of positive value, got 1";
        assert_eq!(refused(Request { values: Some(&[0.0; 5]), ..request }), why);
        if bandit.algorithm() != Algorithm::Med {
            let why = "slots must be 1 in a request with abstain, got 2";
            assert_eq!(refused(Request { slots: 2, ..of(None, &[0.0; 5], true, request) }), why);
        }
        assert_eq!(bandit.report().unwrap().counts.decisions, 0);
    }
    let (bandit, costs) = (imed(&Config::new(2, 1.0)), [0.1, 0.1]);
    let twice = Request { eligible: Some(&[1, 1]), costs: Some(&costs), ..Request::default() };
    let why = "eligible must not name an arm twice in a request with values or costs, got 1";
    assert_eq!(bandit.select_for(&twice).unwrap_err().to_string(), why);
    for (costs, abstain) in [(Some(&costs[..]), false), (None, true)] {
        let request = Request { costs, abstain, examined: Some(&[0.5]), ..Request::default() };
        let why = "examined_len must be 0 in a request with costs or abstain, got 1";
        assert_eq!(bandit.select_for(&request).unwrap_err().to_string(), why);
    }
    // The product of the largest value and the largest reward is a unit.
    let request = of(Some(&[f64::MAX, 1.0]), &costs, false, Request::default());
    let large = imed(&Config { reward_max: 1e3, ..Config::new(2, 1.0) });
    assert!(matches!(large.select_for(&request), Err(Error::InvalidRequest { field: "costs", .. })));
    let shifted = imed(&Config { reward_min: -1.0, ..Config::new(2, 1.0) });
    let se = Bandit::new(Algorithm::Se, &Config::new(2, 1.0)).unwrap();
    for (name, request) in [
        ("costs", of(None, &costs, false, Request::default())),
        ("abstain", Request { abstain: true, ..Request::default() }),
    ] {
        let why = format!("this configuration does not support {name}: config.reward_min is not 0");
        assert_eq!(shifted.select_for(&request).unwrap_err().to_string(), why);
        let why = format!("this policy does not support {name}: it maximises rewards");
        assert_eq!(se.select_for(&request).unwrap_err().to_string(), why);
    }
}

/// What is played with these means and costs, in units of `scale`: how often each arm is, and how often none.
fn play(
    bandit: &Bandit,
    means: &[f64],
    costs: &[f64],
    (abstain, scale, decisions): (bool, f64, usize),
    mut each: impl FnMut(Decision),
    request: Request,
) -> Vec<u32> {
    let (mut coins, mut played) = (Coins(5), vec![0; means.len() + 1]);
    let values: Vec<f64> = means.iter().map(|_| scale).collect();
    let costs: Vec<f64> = costs.iter().map(|cost| scale * cost).collect();
    for _ in 0..decisions {
        let decision = bandit.select_for(&of(Some(&values), &costs, abstain, request)).unwrap();
        each(decision);
        match decision.arm {
            NO_ARM => *played.last_mut().unwrap() += 1,
            arm => {
                played[arm as usize] += 1;
                bandit.update(decision.ticket, coins.toss(means[arm as usize])).unwrap();
            }
        }
    }
    played
}

/// The best arm is the one that is worth most, not the one of the largest mean; and that the same in any currency.
#[test]
fn the_arm_that_is_worth_most_is_played() {
    let (means, costs) = ([0.95, 0.9, 0.5, 0.1, 0.05], [0.9, 0.3, 0.25, 0.0, 0.4]);
    for (number, (bandit, request)) in able(&Config::new(5, 1.0)).into_iter().enumerate() {
        let played = play(&bandit, &means, &costs, (false, 1.0, 20_000), |_| (), request);
        println!("{number}: {played:?}");
        // A model of all arms does not tell these apart.
        assert!(played[1] > 15_000 || number == 3, "{number}: {played:?}");
    }
}

/// Costs and values that are all multiplied by one number mean the same, and so do rewards and costs. A build that does
/// not divide costs plays otherwise.
#[test]
fn a_currency_does_not_matter() {
    let play_in = |scale: f64, reward_max: f64| {
        let bandit = imed(&Config { reward_max, reward_bits: 0, ..Config::new(3, 1.0) });
        let (mut coins, mut arms) = (Coins(2), Vec::new());
        let costs = [0.5, 0.25, 0.125].map(|cost| scale * reward_max * cost);
        for _ in 0..2000 {
            let values = [scale; 3];
            let request = of(Some(&values), &costs, true, Request::default());
            let Decision { arm, ticket, .. } = bandit.select_for(&request).unwrap();
            arms.push(arm);
            if arm != NO_ARM {
                let reward = coins.toss([0.9, 0.5, 0.25][arm as usize]);
                bandit.update(ticket, reward_max * reward).unwrap();
            }
        }
        arms
    };
    let plain = play_in(1.0, 1.0);
    assert_eq!(
        [play_in(1024.0, 1.0), play_in(1.0, 8.0), play_in(0.125, 16.0)],
        [plain.clone(), plain.clone(), plain.clone()]
    );
    assert!(plain.iter().filter(|&&arm| arm == 0).count() > 1000);
    with_fault(Fault::CostUnscaled, || assert_ne!(play_in(1024.0, 1.0), plain));
}

/// Nothing is played once all arms are known to be worth less, but some are tried now and then. What gets no arm counts as
/// cancelled at once, and there is nothing to report of it.
#[test]
fn nothing_is_played_where_nothing_is_worth_it() {
    let (means, costs) = ([0.5, 0.4, 0.3, 0.2, 0.1], [0.7, 0.6, 0.6, 0.6, 0.6]);
    for (number, (bandit, request)) in able(&Config::new(5, 1.0)).into_iter().enumerate() {
        let none = |decision: Decision| {
            if decision.arm == NO_ARM {
                assert_eq!(decision.ticket, 0);
                assert!(decision.propensity > 0.0 || request.features.is_some());
            }
        };
        let played = play(&bandit, &means, &costs, (true, 3.0, 30_000), none, request);
        println!("{number}: {played:?}");
        assert!(played[5] > 24_000 && played[..5].iter().sum::<u32>() > 50, "{number}: {played:?}");
        let counts = bandit.report().unwrap().counts;
        assert_eq!((counts.decisions, counts.cancelled), (30_000, u64::from(played[5])));
        assert_eq!(bandit.update(0, 1.0), Err(Error::UnknownTicket));
        // And where an arm is worth it, it is found again.
        let costs = [0.7, 0.3, 0.6, 0.6, 0.6];
        let played = play(&bandit, &means, &costs, (true, 3.0, 10_000), |_| (), request);
        assert!(played[1] > 5000 || number == 3, "{number}: {played:?}");
    }
}

/// Trials of all segments look for arms that may be worth more than what is sure. Where most ads cost more than they earn,
/// trials that only look for the best ad lose much more.
#[test]
fn trials_compare_with_what_is_sure() {
    let lost = || {
        let (bandit, mut coins) = (imed(&Config { max_segments: 1, ..Config::new(10, 1.0) }), Coins(2));
        let rates = |arm: u32| 0.05 - 0.004 * f64::from(arm);
        let unit = |coins: &mut Coins| coins.below(1 << 20) as f64 / f64::from(1 << 20);
        let prices: Vec<f64> = (0..10).map(|_| 0.4 * unit(&mut coins)).collect();
        let mut lost = 0.0;
        for _ in 0..20_000 {
            // Each price is another one in each request, from a third to three times as much.
            let costs: Vec<f64> = prices.iter().map(|price| price * (2.2 * unit(&mut coins) - 1.1).exp()).collect();
            let Decision { arm, ticket, .. } = bandit.select_for(&of(None, &costs, true, Request::default())).unwrap();
            let worth = |arm: u32| rates(arm) - costs[arm as usize];
            lost += (0..10).map(worth).fold(0.0, f64::max) - if arm == NO_ARM { 0.0 } else { worth(arm) };
            if arm != NO_ARM {
                bandit.update(ticket, coins.toss(rates(arm))).unwrap();
            }
        }
        println!("lost {lost:.1}");
        lost
    };
    let (right, wrong) = (lost(), with_fault(Fault::TrialBeneathSure, lost));
    assert!(wrong > 2.0 * right, "{wrong} {right}");
}

/// The worth of an arm without value is known: the cheapest one is played if no other is worth more, and nothing if that
/// is worth more.
#[test]
fn an_arm_without_value_has_a_known_worth() {
    let values = [1.0, 0.0, 0.0, 1e-9, 1.0];
    for (bandit, request) in able(&Config::new(5, 1.0)) {
        let played = |costs: &[f64; 5], abstain| {
            let mut played = [0; 6];
            for number in 0..4000 {
                let Decision { arm, ticket, .. } =
                    bandit.select_for(&of(Some(&values), costs, abstain, request)).unwrap();
                played[arm.min(5) as usize] += u32::from(number >= 2000);
                assert!(arm == NO_ARM || bandit.update(ticket, 0.25).is_ok());
            }
            played
        };
        let [_, first, cheap, other, _, _] = played(&[0.9, 0.3, 0.2, 0.25, 0.9], false);
        assert!(first + other == 0 && cheap > 1400, "{cheap}");
        let [_, first, cheap, other, _, none] = played(&[0.9, 0.3, 0.2, 0.25, 0.9], true);
        assert!(first + other + cheap == 0 && none > 1400, "{none}");
        let [_, first, gain, other, _, none] = played(&[0.9, -0.2, -0.3, 0.25, 0.9], true);
        assert!(first + other + none == 0 && gain > 1400, "{gain}");
    }
}

/// Given the releases, decisions are drawn with the probabilities that they state: those of one request, drawn often
/// without a release in between, agree with their shares, and so they sum to 1. The chance of a share that is 5 standard
/// errors away is below 1e-6 each.
#[test]
fn propensities_are_exact() {
    let means = [0.5, 0.45, 0.3];
    for (algorithm, exploration) in [(Algorithm::Med, 0.0), (Algorithm::Med, 0.2), (Algorithm::Imed, 0.2)] {
        let config = Config { exploration, pending_capacity: 1 << 15, ..Config::new(3, 1.0) };
        for abstain in [false, true] {
            // DP-IMED has one choice besides exploration, here always the same.
            let costs = match (algorithm, abstain) {
                (Algorithm::Med, false) => [0.4, 0.38, 0.32],
                (Algorithm::Med, true) => [0.6, 0.5, 0.35],
                (_, false) => [0.0, 0.4, 0.4],
                (_, true) => [2.0; 3],
            };
            let bandit = bandit(algorithm, &config);
            play(&bandit, &means, &costs, (abstain, 1.0, 3000), |_| (), Request::default());
            const DRAWS: u32 = 20_000;
            let (mut counts, mut stated) = ([0u32; 4], [0.0; 4]);
            for _ in 0..DRAWS {
                let Decision { arm, propensity, .. } =
                    bandit.select_for(&of(None, &costs, abstain, Request::default())).unwrap();
                counts[arm.min(3) as usize] += 1;
                stated[arm.min(3) as usize] = propensity;
            }
            println!("{} {exploration} {abstain}: {counts:?} {stated:?}", algorithm.name());
            for (count, p) in counts.into_iter().zip(stated) {
                let (share, deviation) =
                    (f64::from(count) / f64::from(DRAWS), (p * (1.0 - p) / f64::from(DRAWS)).sqrt());
                assert!((share - p).abs() <= 5.0 * deviation + 1e-9, "{share} {p}");
            }
            assert_eq!(stated[3] > 0.0, abstain);
            if algorithm == Algorithm::Imed && abstain {
                assert_eq!(stated[3], 0.8);
            }
        }
    }
}

/// Whoever gets nothing has not used up the contributions of a period.
#[test]
fn an_abstention_counts_for_no_user() {
    let config = Config { expected_users: 100, contributions_per_user: 1, reward_window: 10, ..Config::new(2, 8.0) };
    let bandit = imed(&config);
    let ask = |user, costs: &[f64]| {
        let request = Request { user, ..of(None, costs, true, Request::default()) };
        bandit.select_for(&request).unwrap().arm
    };
    let learned = || bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum::<f64>();
    for user in 1..=60 {
        ask(user, &[0.99, 0.99]); // first the arms are tried
    }
    let before = learned();
    for user in 1000..1100 {
        assert_eq!(ask(user, &[2.0, 2.0]), NO_ARM);
    }
    assert_eq!(learned(), before);
    for user in 1000..1100 {
        assert_ne!(ask(user, &[-1.0, -1.0]), NO_ARM);
    }
    (0..20).for_each(|user| _ = ask(5000 + user, &[-1.0, -1.0]));
    assert!(learned() > before + 50.0, "{} {before}", learned());
}

/// While everything is cancelled, what is worth most by the releases is played, or nothing.
#[test]
fn an_outage_plays_what_is_worth_most() {
    for (bandit, request) in able(&Config::new(5, 1.0)).into_iter().take(3) {
        let means = [0.9, 0.8, 0.3, 0.3, 0.3];
        play(&bandit, &means, &[0.0; 5], (false, 1.0, 20_000), |_| (), request);
        let in_outage = |costs: [f64; 5]| {
            let mut played = [0; 6];
            for _ in 0..3000 {
                let Decision { arm, ticket, .. } = bandit.select_for(&of(None, &costs, true, request)).unwrap();
                played[arm.min(5) as usize] += 1;
                if arm != NO_ARM {
                    bandit.cancel(ticket).unwrap();
                }
            }
            played
        };
        in_outage([0.0; 5]);
        assert!(in_outage([0.8, 0.1, 0.0, 0.0, 0.0])[1] > 2900);
        assert!(in_outage([1.1; 5])[5] > 2900);
    }
}
