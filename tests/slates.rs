//! Requests with several slots: decisions, refusals, and the cost and guarantee of each unit of privacy.
//! (src/engine/requests.rs tests how clicks are drawn, and src/privacy/slates.rs tests the noise.)

use crate::audit::engine::{Audit, Seen, Verdict, pattern, seed};
use crate::audit::sabotage::Sabotage;
use crate::support::coins::Coins;
use crate::support::requests::{among, of_slots};
use dpb::{Algorithm, Bandit, Config, Decision, Error, Request, Rows};

const ABLE: [Algorithm; 1] = [Algorithm::Imed]; // and dp-linear, with features

fn bandit(algorithm: Algorithm, config: &Config) -> Bandit {
    Bandit::new(algorithm, &Config { test_seed: Some(seed(7)), ..config.clone() }).unwrap()
}

/// The decisions of a request, in the order in which they are drawn.
fn slate(bandit: &Bandit, eligible: Option<&[u32]>, slots: u32) -> Result<Vec<Decision>, Error> {
    let mut decisions = Vec::new();
    let request = Request { eligible, ..of_slots(slots) };
    bandit.select_slots(&request, |_, decision| decisions.push(decision)).map(|()| decisions)
}

fn arms(decisions: &[Decision]) -> Vec<u32> {
    let mut arms: Vec<u32> = decisions.iter().map(|decision| decision.arm).collect();
    arms.sort_unstable();
    arms
}

/// An arm that is listed twice counts once, at its first place, for all policies: the same decisions with the same
/// propensities as without the second one, also with exploration.
#[test]
fn an_arm_that_is_listed_twice_counts_once() {
    let plain = Config { exploration: 0.5, ..Config::new(8, 1.0) };
    let segments = Config { max_segments: 4, ..plain.clone() };
    let features = Config { features: 1, ..plain.clone() };
    let kinds = [
        (Algorithm::Imed, plain.clone(), 3),
        (Algorithm::Imed, segments, 3),
        (Algorithm::Med, plain.clone(), 1),
        (Algorithm::TopTwo, Config { exploration: 0.0, ..plain.clone() }, 1),
        (Algorithm::Linear, features, 3),
    ];
    for (algorithm, config, most) in kinds {
        let [once, twice] = [(); 2].map(|()| bandit(algorithm, &config));
        let mut coins = Coins(5);
        for _ in 0..3000 {
            let slots = 1 + coins.next() as u32 % most;
            let (list, longer): (&[u32], &[u32]) = match coins.next() % 2 {
                0 => (&[6, 1, 4, 3], &[6, 1, 6, 6, 4, 1, 3, 6, 4, 3, 3, 3]),
                _ => (&[0, 2, 7, 5, 1], &[0, 2, 0, 7, 5, 1]),
            };
            let decide = |bandit: &Bandit, eligible: &[u32]| {
                let rows: Vec<f32> = eligible.iter().map(|&arm| arm as f32 / 8.0).collect();
                let features = (config.features > 0).then_some(Rows::Dense(&rows));
                let request = Request { slots, eligible: Some(eligible), features, ..Request::default() };
                let mut decided = Vec::new();
                bandit.select_slots(&request, |slot, decision| decided.push((slot, decision))).unwrap();
                decided
            };
            let (one, other) = (decide(&once, list), decide(&twice, longer));
            assert_eq!((one.len(), other.len()), (slots as usize, slots as usize));
            for ((slot, ours), (their_slot, theirs)) in one.into_iter().zip(other) {
                assert_eq!((slot, ours.arm, ours.phase), (their_slot, theirs.arm, theirs.phase), "{algorithm:?}");
                assert_eq!(ours.propensity.to_bits(), theirs.propensity.to_bits(), "{algorithm:?}");
                let click = coins.toss(0.1 + 0.05 * f64::from(ours.arm));
                once.update(ours.ticket, click).unwrap();
                twice.update(theirs.ticket, click).unwrap();
            }
        }
    }
}

/// Every policy that supports several slots, with all calls in random order: the arms of a request are distinct, live
/// and eligible, counts add up, and the loss stays within epsilon.
#[test]
fn all_calls_in_random_order() {
    for algorithm in ABLE {
        for (slate, max_clicks, reward_window, exploration) in
            [(0, 0, 0, 0.0), (4, 0, 0, 0.3), (4, 0, 50, 0.0), (4, 1, 50, 0.0), (5, 2, 64, 0.2)]
        {
            let config = Config {
                max_slots: slate,
                max_clicks,
                reward_window,
                exploration,
                pending_capacity: 64,
                ..Config::new(8, 2.0)
            };
            let bandit = bandit(algorithm, &config);
            let (mut coins, mut open, mut live) = (Coins(3), Vec::new(), vec![true; 8]);
            for _ in 0..1500 {
                let of = |live: &[bool]| (0..live.len() as u32).filter(|&arm| live[arm as usize]).collect::<Vec<_>>();
                let mut set = of(&live);
                let some = coins.next() % 2 == 0 && set.len() > 4;
                if some {
                    let by = coins.next() as usize % set.len();
                    set.rotate_left(by);
                    set.truncate(4);
                    set.push(set[0]);
                }
                let slots = 1 + (coins.next() as usize % 4.min(set.len() - usize::from(some))) as u32;
                let decisions = self::slate(&bandit, some.then_some(&set), slots).unwrap();
                let mut shown = arms(&decisions);
                assert!(shown.iter().all(|arm| set.contains(arm)), "{shown:?} of {set:?}");
                shown.dedup();
                assert_eq!(shown.len(), slots as usize);
                assert!(decisions.iter().all(|d| d.propensity > 0.0 && d.propensity <= 1.0), "{decisions:?}");
                open.extend(decisions);
                if coins.next() % 4 == 0 {
                    open.push(bandit.select().unwrap());
                }
                while open.len() > 20 {
                    let end = open.swap_remove(coins.next() as usize % open.len());
                    let outcome = match coins.next() % 8 {
                        0 => bandit.cancel(end.ticket),
                        _ => bandit.update(end.ticket, coins.toss(0.1 * f64::from(end.arm % 10))),
                    };
                    assert!(matches!(outcome, Ok(()) | Err(Error::Expired)), "{outcome:?}");
                }
                match coins.next() % 100 {
                    0 if live.len() < 20 => {
                        assert_eq!(bandit.add_arm().unwrap() as usize, live.len());
                        live.push(true);
                    }
                    1 if of(&live).len() > 5 => {
                        let arm = of(&live)[0];
                        bandit.retire_arm(arm).unwrap();
                        live[arm as usize] = false;
                    }
                    _ => {}
                }
            }
            let report = bandit.report().unwrap();
            let lost = report.counts.cancelled + report.counts.expired;
            let pulls: u64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum();
            assert_eq!(pulls, report.counts.decisions - lost);
            let used = report.epsilon_spent;
            assert!(report.phase > 10 && used <= 2.0 && used > 1.999, "{algorithm:?}: {report:?}");
            assert_eq!(bandit.epsilon_spent(0.0), Ok(used));
        }
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    for algorithm in ABLE {
        let config = Config { max_slots: 3, reward_window: 64, ..Config::new(5, 1.0) };
        let bandit = bandit(algorithm, &config);
        bandit.retire_arm(4).unwrap();
        for (eligible, slots, why) in [
            (None, 0, "slots must be at least 1, got 0"),
            (None, 5, "slots must be at most 4, the number of eligible arms, got 5"),
            (None, 4, "slots must be at most 3, which is config.max_slots, got 4"),
            (None, u32::MAX, "slots must be at most 4, the number of eligible arms, got 4294967295"),
            (Some(&[][..]), 1, "eligible_len must be at least 1, got 0"),
            (Some(&[]), 2, "eligible_len must be at least 1, got 0"),
            (Some(&[1, 2, 1, 2, 2, 1, 1]), 3, "slots must be at most 2, the number of eligible arms, got 3"),
            (Some(&[1, 4]), 1, "eligible must not be a retired arm, got 4"),
            (Some(&[5, 1]), 1, "eligible must be below 5, got 5"),
        ] {
            assert_eq!(slate(&bandit, eligible, slots).unwrap_err().to_string(), why);
        }
        // select_for makes one decision only.
        let refused = bandit.select_for(&of_slots(2)).unwrap_err().to_string();
        assert_eq!(refused, "slots must be 1 here: see Bandit::select_slots, got 2");
        assert_eq!(bandit.report().unwrap().counts.decisions, 0);
        assert_eq!(arms(&slate(&bandit, Some(&[2, 0, 2, 0, 0, 2, 2, 2, 3]), 3).unwrap()), [0, 2, 3]);
        // A request that would push its own decisions out of the ring.
        for (reward_window, most) in [(3, 3), (0, 4)] {
            let config = Config { reward_window, pending_capacity: 3, ..Config::new(5, 1.0) };
            let bandit = self::bandit(algorithm, &config);
            slate(&bandit, None, most).unwrap();
            let refused = slate(&bandit, None, most + 1).unwrap_err().to_string();
            let open = "the number of decisions that can be open";
            assert_eq!(refused, format!("slots must be at most {}, {open}, got {}", most, most + 1));
            assert_eq!(bandit.report().unwrap().counts.decisions, u64::from(most));
        }
    }
}

#[test]
fn unsupported_combinations_are_refused() {
    let able = |algorithm: &&Algorithm| ABLE.contains(algorithm) || **algorithm == Algorithm::Linear;
    for &algorithm in Algorithm::ALL.iter().filter(|algorithm| !able(algorithm)) {
        let config = |delta| algorithm.fit(&Config { delta, horizon: 1000, base: 2, ..Config::new(5, 1.0) });
        let with = |max_slots, delta| Bandit::new(algorithm, &Config { max_slots, ..config(delta) });
        let bandit = with(0, 0.0).or_else(|_| with(0, 1e-6)).unwrap();
        let refused = slate(&bandit, None, 2).unwrap_err().to_string();
        assert_eq!(refused, "this policy does not support slots 2: it has one slot for each request");
        assert!(matches!(slate(&bandit, None, 0), Err(Error::InvalidRequest { .. })));
        assert_eq!(bandit.report().unwrap().counts.decisions, 0);
        let refused = with(2, 0.0).err().unwrap().to_string();
        let why = format!("max_slots must be 0: {} does not use it, got 2", algorithm.name());
        assert_eq!(refused, why);
    }
    let refused = |config: &Config| Bandit::new(Algorithm::Imed, config).err().unwrap().to_string();
    let plain = Config { reward_window: 9, ..Config::new(5, 1.0) };
    assert_eq!(refused(&Config { max_clicks: 1, ..plain.clone() }), "max_clicks must be at most max_slots, got 1");
    assert_eq!(
        refused(&Config { max_slots: u32::MAX, ..plain.clone() }),
        "max_slots must be at most 2^24, got 4294967295"
    );
    let no_window = Config { max_slots: 3, max_clicks: 1, ..Config::new(5, 1.0) };
    assert!(refused(&no_window).starts_with("max_clicks must be 0 without a reward_window, "));
    // All handles of a fleet must have the same unit of privacy.
    let with = |slate, max_clicks| bandit(Algorithm::Imed, &Config { max_slots: slate, max_clicks, ..plain.clone() });
    let snapshot = with(3, 1).snapshot().unwrap();
    with(3, 1).merge(&snapshot).unwrap();
    for (slate, clicks, why) in
        [(0, 0, "max_slots must be 3"), (2, 1, "max_slots must be 3"), (3, 2, "max_clicks must be 1")]
    {
        assert!(with(slate, clicks).merge(&snapshot).unwrap_err().to_string().starts_with(why));
    }
    // And so must a restored handle.
    let next = Bandit::restore(&snapshot).unwrap();
    let first = slate(&next, None, 3).unwrap();
    assert!(slate(&next, None, 4).is_err());
    for slots in [3, 3, 2] {
        slate(&next, None, slots).unwrap();
    }
    assert_eq!(next.update(first[2].ticket, 1.0), Err(Error::Expired)); // although its own window is not over
    assert_eq!(next.cancel(first[2].ticket), Ok(()));
}

/// All policies play the m best arms most, and never an arm that is not eligible.
#[test]
fn the_best_arms_are_shown() {
    const MEANS: [f64; 8] = [0.1, 0.6, 0.3, 0.9, 0.2, 0.7, 0.1, 0.5];
    for algorithm in ABLE {
        let bandit = bandit(algorithm, &Config { max_slots: 3, ..Config::new(8, 3.0) });
        let (mut coins, mut shown) = (Coins(5), [[0u32; 8]; 2]);
        for request in 0..8_000usize {
            let eligible: Option<&[u32]> = if request.is_multiple_of(4) { Some(&[7, 6, 5, 4, 2, 0]) } else { None };
            for decision in slate(&bandit, eligible, 3).unwrap() {
                shown[usize::from(eligible.is_some())][decision.arm as usize] += 1;
                bandit.update(decision.ticket, coins.toss(MEANS[decision.arm as usize])).unwrap();
            }
        }
        let most = |shown: &[u32; 8], arms: &[usize], all: u32| {
            let best: u32 = arms.iter().map(|&arm| shown[arm]).sum();
            assert!(best > 3 * all * 85 / 100, "{algorithm:?}: {shown:?}");
        };
        most(&shown[0], &[1, 3, 5], 6_000);
        most(&shown[1], &[2, 5, 7], 2_000);
    }
}

/// Every order of the slots has the same probability, whichever arms are drawn, and in whichever order: over all
/// requests, and over those with a certain arm. Hoeffding: one of n tosses is off by sqrt(10 n) with probability at
/// most 2 e^-20; one of all 90 with 4e-7.
#[test]
fn slots_are_shuffled() {
    const MEANS: [f64; 8] = [0.1, 0.6, 0.3, 0.9, 0.2, 0.7, 0.1, 0.5];
    for algorithm in ABLE {
        let bandit = bandit(algorithm, &Config::new(8, 1.0));
        let (mut coins, mut orders, mut shown) = (Coins(6), [0u32; 6], [[0u32; 3]; 8]);
        for _ in 0..6_000 {
            let (mut order, mut open) = (Vec::new(), Vec::new());
            let each = |slot: usize, decision: Decision| {
                order.push(slot);
                open.push(decision);
            };
            bandit.select_slots(&of_slots(3), each).unwrap();
            assert_ne!(order[1], order[0]);
            orders[2 * order[0] + usize::from(order[1] > order[2])] += 1;
            for (slot, Decision { arm, ticket, .. }) in order.into_iter().zip(open) {
                shown[arm as usize][slot] += 1;
                bandit.update(ticket, coins.toss(MEANS[arm as usize])).unwrap();
            }
        }
        let evenly = |counts: &[u32]| {
            let all = f64::from(counts.iter().sum::<u32>());
            let even = all / counts.len() as f64;
            assert!(
                counts.iter().all(|&n| (f64::from(n) - even).abs() < (10.0 * all).sqrt()),
                "{algorithm:?}: {counts:?}"
            );
        };
        evenly(&orders);
        shown.iter().for_each(|counts| evenly(counts));
    }
}

/// A propensity is the probability of a draw given those before it: the mean of 1/propensity over the draws of a
/// certain arm at a certain position is the probability that the arm is left. 20,000 requests with 1/p of at most
/// 6/0.9: 5 errors of a mean are below 0.09, which one of all 54 exceeds with probability 3e-5.
#[test]
fn propensities_are_exact() {
    for algorithm in ABLE {
        let bandit = bandit(algorithm, &Config { exploration: 0.9, ..Config::new(6, 1.0) });
        let mut coins = Coins(1);
        let mut play = |rounds| {
            let mut weights = [[0.0; 6]; 3];
            for _ in 0..rounds {
                let decisions = slate(&bandit, None, 3).unwrap();
                for (slot, decision) in decisions.iter().enumerate() {
                    weights[slot][decision.arm as usize] += 1.0 / decision.propensity;
                    for before in &decisions[..slot] {
                        weights[slot][before.arm as usize] += 1.0; // no earlier draw took it
                    }
                    bandit.update(decision.ticket, coins.toss(0.1 * f64::from(1 + decision.arm))).unwrap();
                }
            }
            weights
        };
        play(2000);
        let weights = play(20_000);
        for weight in weights.iter().flatten() {
            assert!((weight / 20_000.0 - 1.0).abs() < 0.09, "{algorithm:?}: {weights:?}");
        }
    }
}

/// Two worlds differ in which slots of each request are clicked, and in how many. Nobody can distinguish them without
/// releases, of which there is none here. Also with duplicate and late clicks, and cancelled decisions.
#[test]
fn no_output_reveals_which_clicks_were_kept() {
    let told = |clicks: fn(usize, usize) -> bool| {
        let config = Config { max_slots: 4, max_clicks: 1, reward_window: 16, ..Config::new(6, 1e-5) };
        let bandit = bandit(Algorithm::Imed, &config);
        let (mut told, mut log) = (Vec::new(), Vec::<Decision>::new());
        for request in 0..400 {
            log.extend(slate(&bandit, None, 1 + (request % 4) as u32).unwrap());
            for back in [0, 1, 2, 3, 9, 14, 15, 16, 17, 18, 40].into_iter().filter(|&back| back < log.len()) {
                let number = log.len() - 1 - back;
                let ticket = log[number].ticket;
                let outcome = match (number + request) % 11 {
                    5 => bandit.cancel(ticket),
                    _ => bandit.update(ticket, f64::from(u8::from(clicks(number, request)))),
                };
                told.push(format!("{outcome:?}"));
            }
            told.push(format!("{:?} {:?}", bandit.report().unwrap(), bandit.diagnostics().unwrap()));
            told.push(format!("{:?}", bandit.arm_reports().unwrap()));
        }
        let played: Vec<u32> = log.iter().map(|decision| decision.arm).collect();
        (told, played)
    };
    let silent = told(|_, _| false);
    let expired = |outcome: &&String| outcome.contains("Expired");
    assert!(silent.0.iter().filter(expired).count() > 500);
    assert!(silent == told(|_, _| true) && silent == told(|number, request| (number * request).is_multiple_of(3)));
}

/// The public outputs of a handle that shows all its arms in every request, where the first request has these rewards
/// and all others none: the means of the first releases, in rewards.
fn seen(config: &Config, number: u64, sabotage: Sabotage, answers: &[f64]) -> Vec<Seen> {
    let _hand = sabotage.hand(config.arms);
    let bandit = Bandit::new(Algorithm::Imed, &Config { test_seed: Some(seed(number)), ..config.clone() }).unwrap();
    let (mut order, mut released) = (Vec::new(), false);
    let mut request = 0;
    while !released {
        let decisions = slate(&bandit, None, config.arms).unwrap();
        for decision in decisions {
            let answer = if request == 0 { answers[decision.arm as usize] } else { 0.0 };
            if config.reward_window == 0 || answer > 0.0 {
                bandit.update(decision.ticket, answer).unwrap();
            }
            order.push(decision.arm);
        }
        request += 1;
        released = bandit.arm_reports().unwrap().iter().all(|arm| arm.effective_pulls > 0.0);
        assert!(request < 1000);
    }
    let sums: Vec<f64> = bandit.arm_reports().unwrap().iter().map(|arm| arm.mean * arm.effective_pulls).collect();
    let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
    vec![
        Seen::Number(sums[0]),
        Seen::Number(least),
        Seen::Number(sums.iter().sum()),
        Seen::Number(sums[0].min(1.0 - sums[1])), // a click that moves to the other slot
        Seen::Pattern(pattern(&order)),
    ]
}

/// Audits whether these rewards of a request can be distinguished from those by more than epsilon.
fn audit(config: &Config, sabotage: Sabotage, epsilon: f64, runs: u64, answers: [&[f64]; 2]) -> Verdict {
    let verdict = Audit::pure(epsilon, runs)
        .search(1, |_, number, neighbour| seen(config, number, sabotage, answers[usize::from(neighbour)]));
    println!("slate {} clicks {} {sabotage:?}: {verdict:?}", config.max_slots, config.max_clicks);
    verdict
}

/// The unit is one reward: another one of the same request is a second epsilon. False alarms have probability 1e-6
/// each.
#[test]
fn one_reward_costs_epsilon() {
    let config = Config::new(3, 1.0);
    let one: [&[f64]; 2] = [&[0.0, 1.0, 0.0], &[1.0, 1.0, 0.0]];
    assert!(!audit(&config, Sabotage::Nothing, 1.0, 3000, one).alarm);
    assert!(audit(&config, Sabotage::HalfNoise, 1.0, 3000, one).alarm);
}

/// The unit is a request with all its rewards. The accounting without its factor is that of one reward.
#[test]
fn all_rewards_of_a_request_cost_epsilon() {
    let config = Config { max_slots: 3, ..Config::new(3, 1.0) };
    let all: [&[f64]; 2] = [&[0.0; 3], &[1.0; 3]];
    assert!(!audit(&config, Sabotage::Nothing, 1.0, 3000, all).alarm);
    assert!(audit(&Config { max_slots: 0, ..config }, Sabotage::Nothing, 1.0, 3000, all).alarm);
}

/// The unit is a request of one click, which moves from one slot to another, so both slots lose. Without the factor of
/// two the audit fails.
#[test]
fn a_click_that_moves_costs_epsilon() {
    let config = Config { max_slots: 4, max_clicks: 1, reward_window: 4, ..Config::new(4, 1.0) };
    let moved: [&[f64]; 2] = [&[0.0, 1.0, 0.0, 0.0], &[1.0, 0.0, 0.0, 0.0]];
    assert!(!audit(&config, Sabotage::Nothing, 1.0, 4000, moved).alarm);
    let uncounted = Config { max_slots: 0, max_clicks: 0, ..config };
    assert!(audit(&uncounted, Sabotage::Nothing, 1.0, 4000, moved).alarm);
}

/// The same unit, with every slot clicked, or none: one click is kept. If all were kept with the same noise, the audit
/// would fail.
#[test]
fn more_clicks_than_one_cost_no_more() {
    let config = Config { max_slots: 4, max_clicks: 1, reward_window: 4, ..Config::new(4, 2.0) };
    let all: [&[f64]; 2] = [&[0.0; 4], &[1.0; 4]];
    assert!(!audit(&config, Sabotage::Nothing, 2.0, 4000, all).alarm);
    let kept = Config { max_slots: 0, max_clicks: 0, epsilon: 1.0, ..config };
    assert!(audit(&kept, Sabotage::Nothing, 2.0, 4000, all).alarm);
}

/// 20 ads of 6% down to 1%.
fn ads() -> Vec<f64> {
    (0..20).map(|ad| 0.06 - 0.05 * f64::from(ad) / 19.0).collect()
}

/// The regret of the three slots of this many requests against the three best ads. Rewards come at once, or with the
/// next request if there is a window of 3.
fn regret(config: &Config, requests: u32, number: u64) -> f64 {
    let bandit = Bandit::new(Algorithm::Imed, &Config { test_seed: Some(seed(number)), ..config.clone() }).unwrap();
    let (ads, mut coins, mut lost) = (ads(), Coins(number << 20), 0.0);
    let best: f64 = ads[..3].iter().sum();
    for _ in 0..requests {
        let mut slate = [None; 3];
        let each = |slot: usize, decision| slate[slot] = Some(decision);
        bandit.select_slots(&of_slots(3), each).unwrap();
        lost += best;
        for Decision { ticket, arm, .. } in slate.into_iter().flatten() {
            lost -= ads[arm as usize];
            let click = coins.toss(ads[arm as usize]);
            if config.reward_window == 0 || click > 0.0 {
                bandit.update(ticket, click).unwrap();
            }
        }
    }
    lost
}

/// The same for a bandit with one slot in each request.
fn regret_of_a_bandit_a_slot(epsilon: f64, requests: u32, number: u64) -> f64 {
    let bandits = [0, 1, 2].map(|slot| {
        let config = Config { test_seed: Some(seed(3 * number + slot)), ..Config::new(20, epsilon) };
        Bandit::new(Algorithm::Imed, &config).unwrap()
    });
    let (ads, mut coins, mut lost) = (ads(), Coins(number << 20), 0.0);
    for _ in 0..requests {
        let mut left: Vec<u32> = (0..20).collect();
        for (slot, bandit) in bandits.iter().enumerate() {
            let Decision { ticket, arm, .. } = bandit.select_for(&among(&left)).unwrap();
            left.retain(|&other| other != arm);
            lost += ads[slot] - ads[arm as usize];
            bandit.update(ticket, coins.toss(ads[arm as usize])).unwrap();
        }
    }
    lost
}

/// A million requests, two runs of each, at epsilon 1 and 0.25. In thirty runs and more the means were 1130/1630 if the
/// unit is one reward, 1370/2470 for a request with one click, 1510/3570 for a request with any rewards, and 1780/3110
/// for a bandit for each slot; a run's deviation is 200 to 450. The sums of the first three are then 4010/7670 with an
/// error of 460/400, and must be below 5600/9500. The sum of both runs of the first kind is 2100 below that of the
/// bandits, with an error of 420.
#[test]
#[ignore = "a quarter of a minute"]
fn one_bandit_for_all_slots_learns_more_than_one_for_each() {
    const REQUESTS: u32 = 1_000_000;
    let mean = |regret: &dyn Fn(u64) -> f64| (regret(0) + regret(1)) / 2.0;
    let (mut slates, mut bandits) = (0.0, 0.0);
    for (epsilon, most) in [(1.0, 5600.0), (0.25, 9500.0)] {
        let lost = [(0, 0, 0), (3, 1, 3), (3, 0, 0)].map(|(slate, max_clicks, reward_window)| {
            let config = Config { max_slots: slate, max_clicks, reward_window, ..Config::new(20, epsilon) };
            mean(&|number| regret(&config, REQUESTS, number))
        });
        let of_bandits = mean(&|number| regret_of_a_bandit_a_slot(epsilon, REQUESTS, number));
        println!("epsilon {epsilon}: {lost:.0?}, a bandit a slot: {of_bandits:.0}");
        assert!(lost.iter().sum::<f64>() < most, "{lost:?}");
        (slates, bandits) = (slates + lost[0], bandits + of_bandits);
    }
    assert!(slates < bandits, "{slates} {bandits}");
}
