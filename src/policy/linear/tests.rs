//! Numerical tests, and tests of learning. (tests/interference.rs executes the proof of Theorem L.)

use super::model::{Belief, SHRINKAGES};
use super::rows::{LARGEST, MOST, Scale, UnpackedRow};
use super::sample::RewardPurpose;
use super::*;
use crate::ledger::peers::PeerId;
use crate::policy::contract::{Policy, Pull};
use crate::policy::learner::{AnyLearner, Growth, Learner};
use crate::policy::lift::{self, ShownArm};
use crate::policy::{Algorithm, Prior};
use crate::random::Random;
use crate::request::{Choice, Feature, Limits, Offers, Request, Rows};
use crate::snapshot::{Reader, write};
use crate::{Bandit, Error};

fn stream(number: u64) -> Random {
    let mut key = [7; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Seed::new(Some(key)).unwrap().stream()
}

/// This configuration with 32 pending decisions and this shape.
fn shaped(config: &Config, shape: Shape) -> Config {
    let Shape { features, per_arm: model_per_arm } = shape;
    Config { features, model_per_arm, pending_capacity: 32, ..config.clone() }
}

fn policy(config: &Config, shape: Shape, seed: u8) -> Linear {
    Linear::new(&shaped(config, shape), &mut Seed::new(Some([seed; 32])).unwrap()).unwrap()
}

fn request<'a>(eligible: Option<&'a [u32]>, rows: Rows<'a>) -> Request<'a> {
    Request { eligible, features: Some(rows), ..Request::default() }
}

/// Checks and decides a request, whose row is kept in slot 0. Returns the arm and its propensity.
fn choose(policy: &mut Linear, eligible: Option<&[u32]>, rows: Rows) -> (u32, f64) {
    let chosen = decide(policy, &request(eligible, rows), 0).unwrap();
    (chosen[0].arm, chosen[0].pull.propensity)
}

/// The memory for requests of a policy.
fn offers(policy: &Linear) -> Offers {
    let Shape { features, per_arm: model_per_arm, .. } = policy.shape;
    Offers::for_tests(&Config { features, model_per_arm, ..config(2, 1.0) }, policy.ledger.roster.arms())
}

/// Checks and decides a request, whose rows are kept from this slot on.
fn decide(policy: &mut Linear, request: &Request, slot: u64) -> Result<Vec<Choice>> {
    let mut offers = offers(policy);
    let mut offer = offers.check(request, policy.catalog(), &Limits::for_tests(slot))?;
    policy.decide(&mut offer);
    Ok(offers.choices().map(|(_, &choice)| choice).collect())
}

/// Checks a request, and returns its predictions.
fn predict(policy: &mut Linear, request: &Request) -> Vec<(f64, f64)> {
    let (mut offers, mut predicted) = (offers(policy), Vec::new());
    let offer = offers.check(request, policy.catalog(), &Limits::for_tests(0)).unwrap();
    policy.predict(&offer, &mut |mean, deviation| predicted.push((mean, deviation)));
    predicted
}

fn observe(policy: &mut Linear, slot: usize, reward: f64) {
    policy.observe(Pull::of(slot as u32), units(reward));
}

/// The reward range `[0, 1]` of a handle.
fn units(x: f64) -> Reward {
    Reward::from_units((x * Reward::ONE as f64) as u32)
}

const SHAPE: Shape = Shape { features: 4, per_arm: false };
const SHAPE_PER_ARM: Shape = Shape { per_arm: true, ..SHAPE };

fn config(arms: u32, epsilon: f64) -> Config {
    Config::new(arms, epsilon)
}

fn saved(policy: &mut Linear) -> Vec<u8> {
    write(usize::MAX, |to| policy.persist_public(&mut Archive::Out(to), &mut std::iter::empty())).unwrap().seal()
}

/// |r|_1 <= MOST exactly, for rows of every size, and x is within a unit of what it was.
#[test]
fn rows_are_as_small_as_is_claimed() {
    let mut coins = stream(1);
    for number in 0..4000 {
        let features = [1, 2, 5, 128, 256][number % 5];
        let (mut scale, unit) = (Scale::default(), 10f64.powi(coins.below(41) as i32 - 20));
        scale.unit = scale.see(unit).unwrap();
        assert!((scale.unit / unit).log2().abs() <= 1.0 / 16.0 + 1e-9);
        let size = unit * [0.0, 0.3, 1.0, 3.0, 100.0][coins.below(5) as usize];
        let dense: Vec<f32> = (0..features).map(|_| ((coins.unit() - 0.5) * size) as f32).collect();
        let entries: Vec<Feature> = (0..features as u64)
            .map(|_| Feature {
                index: coins.below(features as u64) as u32,
                value: ((coins.unit() - 0.5) * size) as f32,
            })
            .collect();
        let ends = [features as u32];
        for rows in [Rows::Dense(&dense), Rows::Sparse(&entries, &ends)] {
            let mut row = UnpackedRow::new(features).unwrap();
            let (size, is_large) = row.quantise(rows.get(0, features), &scale);
            let grid = row.grid(scale.unit);
            assert!(
                row.size() <= MOST && row.size() as f64 * grid <= LARGEST && is_large == (size > LARGEST * scale.unit)
            );
            let Rows::Dense(x) = rows else { continue };
            assert!(size == 0.0 || 2 * (row.size() + features as i64) >= MOST);
            if !is_large {
                let error = |(&r, &x): (&i32, &f32)| (f64::from(x) / scale.unit - f64::from(r) * grid).abs();
                assert!(row.r.iter().zip(x).map(error).all(|error| error <= grid * 1.01));
            }
        }
    }
}

/// C is near the .9 quantile of the first 64 rows that are not zero, whatever their unit, and then it stays.
#[test]
fn the_unit_is_found() {
    for unit in [1e-20, 1.0, 1e20] {
        let (mut scale, mut coins) = (Scale::default(), stream(1));
        let mut found = Vec::new();
        for _ in 0..1000 {
            found.extend([0.0, (0.5 + 1.5 * coins.unit()) * unit].into_iter().filter_map(|size| scale.see(size)));
        }
        assert!(found.len() == 2 && (0.5..2.0).contains(&(found[0] / unit)) && scale.is_final());
        assert!((1.6..2.2).contains(&(found[1] / unit)), "{found:?}");
    }
}

/// A logistic world with three informative features, and the configuration. Returns the loss in % of the loss of
/// uniform play.
fn play(policy: &mut Linear, decisions: usize, norm: f64, theta: &[f64], coins: &mut Random) -> f64 {
    let d = policy.shape.features as usize;
    let eligible = policy.ledger.roster.live().to_vec();
    let n = eligible.len();
    let (mut lost, mut uniform) = (0.0, 0.0);
    for _ in 0..decisions {
        let rows = if policy.shape.per_arm { 1 } else { n };
        let x: Vec<f32> = (0..rows * d)
            .map(|i| ((2.0 * coins.unit() - 1.0) * norm * if i % d < 4 { 0.5 } else { 0.0 }) as f32)
            .collect();
        let means: Vec<f64> = (0..n)
            .map(|a| {
                let row = if policy.shape.per_arm { &x[..] } else { &x[a * d..][..d] };
                let sign = if policy.shape.per_arm && eligible[a] % 2 == 1 { -1.0 } else { 1.0 };
                let logit: f64 = row.iter().zip(theta).map(|(&x, t)| f64::from(x) / norm * t).sum();
                1.0 / (1.0 + (2.0 - sign * logit).exp())
            })
            .collect();
        let (arm, _) = choose(policy, Some(&eligible), Rows::Dense(&x));
        let mean = means[eligible.iter().position(|&other| other == arm).unwrap()];
        observe(policy, 0, f64::from(u8::from(coins.unit() < mean)));
        let best = means.iter().copied().fold(0.0, f64::max);
        lost += best - mean;
        uniform += best - means.iter().sum::<f64>() / n as f64;
    }
    lost / uniform
}

const THETA: [f64; 3] = [2.0, -2.0, 1.0];

fn is_sound(policy: &mut Linear) -> bool {
    let d = policy.shape.features as usize;
    let eligible = policy.ledger.roster.live().to_vec();
    let mut sound = policy.models.failures == 0;
    for scale in [0.0, 1.0, -1.0, 1e30] {
        let rows = if policy.shape.per_arm { 1 } else { eligible.len() };
        let x: Vec<f32> = (0..rows * d).map(|i| (scale * (i as f64 - 3.0)) as f32).collect();
        for (mean, deviation) in predict(policy, &request(Some(&eligible), Rows::Dense(&x))) {
            sound &= (0.0..=1.0).contains(&mean) && (0.0..1e9).contains(&deviation);
        }
    }
    sound
}

/// Both models. The bounds are twice the values of the seeds. Without learning all values are near 1.
#[test]
fn it_learns() {
    for (per_arm, most) in [(false, 0.3), (true, 0.45)] {
        let shape = Shape { per_arm, ..SHAPE };
        let mut policy = policy(&config(4, 1.0), shape, 1);
        let lost = play(&mut policy, 30_000, 2.0, &THETA, &mut stream(2));
        println!("{per_arm}: {lost:.3}, {} releases", policy.ledger.facts.releases);
        assert!(lost < most && is_sound(&mut policy), "{per_arm}: {lost}");
    }
}

/// After the pilot no call draws from more than one model. Decisions are even until all models are ready. With large
/// noise, a model for each arm begins with plain sums of rewards.
#[test]
fn after_the_pilot_each_decision_prepares_a_model() {
    let eligible: Vec<u32> = (0..50).collect();
    for per_arm in [true, false] {
        let mut policy = policy(&config(50, 0.1), Shape { per_arm, ..SHAPE }, 3);
        let mut coins = stream(4);
        let (mut before, mut even_after) = (50, 0);
        for _ in 0..6000 {
            let piloted = policy.ledger.whole.is_some();
            let rows: Vec<f32> = (0..if per_arm { 4 } else { 200 }).map(|_| 0.25 * coins.unit() as f32).collect();
            let (_, propensity) = choose(&mut policy, Some(&eligible), Rows::Dense(&rows));
            even_after += u32::from(!piloted && propensity == 0.02);
            observe(&mut policy, 0, f64::from(u8::from(coins.unit() < 0.1)));
            assert!(piloted || policy.ready - before <= 1);
            before = policy.ready;
        }
        assert_eq!((policy.ready, even_after), if per_arm { (50, 49) } else { (1, 0) });
        assert!(!per_arm || policy.saved.first == Instrument::Cells(1));
    }
}

/// A prediction right after the pilot prepares the models up to those that it reads, each once.
#[test]
fn a_prediction_after_the_pilot_prepares_models() {
    let shape = Shape { per_arm: true, ..SHAPE };
    let (mut policy, mut coins) = (policy(&config(50, 0.1), shape, 3), stream(4));
    let row = [0.1; 4];
    while policy.ledger.whole.is_some() {
        choose(&mut policy, None, Rows::Dense(&row));
        observe(&mut policy, 0, f64::from(u8::from(coins.unit() < 0.1)));
    }
    assert_eq!(policy.ready, 1);
    let mut means = Vec::new();
    for (eligible, ready) in [(&[20][..], 21), (&[49, 3], 50)] {
        means.extend(predict(&mut policy, &request(Some(eligible), Rows::Dense(&row))).iter().map(|&(mean, _)| mean));
        assert_eq!(policy.ready, ready);
    }
    assert!(means.iter().all(|mean| *mean == means[0]), "{means:?}"); // no model has a release yet
}

/// The logarithm of the marginal likelihood, beside numerical integrals over theta of two coordinates.
#[test]
fn the_marginal_likelihood_is_an_integral() {
    let mut policy = policy(&config(2, 1.0), Shape { features: 1, ..SHAPE }, 1);
    let belief = Belief { intercept: -2.0, precision: 0.5, shrinkage: 1.0 };
    policy.models.belief = belief;
    let model = &mut policy.models.all[0];
    let (precision, shift) = ([3.0, 1.0, 2.0], [-4.0, 1.5]);
    model.own.precision.copy_from_slice(&precision);
    model.own.shift.copy_from_slice(&shift);
    policy.models.fit(0);
    let likelihoods = policy.models.all[0].likelihoods;
    let integral = |shrinkage: f64| {
        let mut sum = 0.0;
        for (i, j) in (-1000..1000).flat_map(|i| (-1000..1000).map(move |j| (i, j))) {
            let (a, b) = (0.01 * f64::from(i), 0.02 * f64::from(j));
            let evidence = precision[0] * a * a + 2.0 * precision[1] * a * b + precision[2] * b * b;
            let prior = (a - belief.intercept).powi(2) + shrinkage * belief.precision * b * b;
            sum += (shift[0] * a + shift[1] * b - (evidence + prior) / 2.0).exp();
        }
        (sum * shrinkage.sqrt()).ln()
    };
    let offset = likelihoods[0] - integral(SHRINKAGES[0].0);
    for ((shrinkage, _), likelihood) in SHRINKAGES.into_iter().zip(likelihoods) {
        assert!((likelihood - integral(shrinkage) - offset).abs() < 1e-6, "{shrinkage}");
    }
}

/// A mean is linearised where theta puts it, within 8 logits of the rate, and its slope is that within 3 of the rate: it
/// is never almost 0.
#[test]
fn a_slope_is_never_almost_zero() {
    let mut policy = policy(&config(2, 1.0), SHAPE, 1);
    policy.models.belief.intercept = -2.0;
    policy.set_x();
    let sigma = |m: f64| 1.0 / (1.0 + (-m).exp());
    for (logit, point, slope) in [(-1.0, -1.0, -1.0), (3.0, 3.0, 1.0), (-7.0, -7.0, -5.0), (90.0, 6.0, 1.0)] {
        policy.models.all[0].mean[0] = logit;
        let [m, p, v] = policy.models.belief.linearise(policy.x_dot(&policy.models.all[0].mean));
        let expected = [point, sigma(point), sigma(slope) * (1.0 - sigma(slope))];
        assert!([m, p, v].iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-12), "{logit}: {m} {p} {v}");
    }
}

/// Rows whose means are near 0 or 1 do not hold theta back, where rows of up to 10 logits have a slope of 10. It is
/// learned as 7.4 with a standard deviation of .2 (20 seeds). (Linearised within 3 logits of the rate, 5.3 and .4: a line
/// through such points leaves [0, 1] soon.)
#[test]
fn means_near_certainty_do_not_hold_theta_back() {
    for seed in 0..5 {
        let shape = Shape { features: 1, ..SHAPE };
        let (mut policy, mut coins) = (policy(&config(2, 1e4), shape, seed), stream(u64::from(seed)));
        for _ in 0..20_000 {
            let x = 2.0 * coins.unit() - 1.0;
            choose(&mut policy, Some(&[0]), Rows::Dense(&[x as f32]));
            let mean = 1.0 / (1.0 + (-10.0 * x).exp());
            observe(&mut policy, 0, f64::from(u8::from(coins.unit() < mean)));
        }
        let slope = policy.models.all[0].mean[1] / policy.saved.scale.unit;
        assert!((6.3..10.0).contains(&slope), "{slope}");
    }
}

/// The prior becomes as wide as the features are strong, for both models.
#[test]
fn the_prior_is_as_wide_as_the_features_are_strong() {
    for per_arm in [false, true] {
        let shrinkage = |strength: f64| {
            let shape = Shape { per_arm, ..SHAPE };
            let mut policy = policy(&config(4, 4.0), shape, 1);
            let lost = play(&mut policy, 20_000, 2.0, &THETA.map(|theta| strength * theta), &mut stream(2));
            println!("{per_arm} {strength}: {lost:.3}, {:?}", policy.models.all[0].likelihoods);
            policy.models.belief.shrinkage
        };
        assert!(shrinkage(6.0) < 0.5 && shrinkage(0.3) >= 1.0, "{per_arm}");
    }
}

/// A handle begins with the most probable shrinkage. One release with much noise, which moves the likelihood by some nats,
/// is not believed, and several are.
#[test]
fn noise_alone_does_not_choose_the_shrinkage() {
    let mut policy = policy(&config(2, 1.0), SHAPE, 1);
    let mut chosen = |likelihoods| {
        policy.models.all[0].likelihoods = likelihoods;
        (policy.choose_shrinkage(), policy.models.belief.shrinkage)
    };
    assert_eq!(chosen([0.0; 3]), (false, 0.3));
    assert_eq!(chosen([2.0, 1.0, 0.0]), (false, 0.3)); // as after a scalar with noise of three deviations
    assert_eq!(chosen([-2.0, -1.0, 0.0]), (false, 0.3));
    assert_eq!(chosen([9.0, 6.0, 0.0]), (true, 0.1));
    assert_eq!(chosen([-9.0, -4.0, 0.0]), (true, 1.0));
}

/// After the shrinkage has changed, each decision refreshes one model, and a prediction those that it reads. Arms are
/// not played evenly meanwhile.
#[test]
fn after_a_change_of_the_shrinkage_each_decision_refreshes_a_model() {
    let shape = Shape { per_arm: true, ..SHAPE };
    let mut policy = policy(&config(10, 10.0), shape, 3);
    play(&mut policy, 3000, 1.0, &THETA, &mut stream(4));
    let row = [0.1; 4];
    let shrinkage = policy.models.belief.shrinkage;
    policy.models.all[0].likelihoods = if shrinkage < 1.0 { [0.0, 0.0, 1e6] } else { [1e6, 0.0, 0.0] };
    assert!(policy.choose_shrinkage() && policy.models.belief.shrinkage != shrinkage);
    let before = policy.models.all[9].mean.to_vec();
    for ready in 1..=5 {
        let (_, propensity) = choose(&mut policy, None, Rows::Dense(&row));
        policy.cancel(Pull::of(0));
        assert!(policy.ready == ready && propensity.is_nan());
    }
    assert_eq!(*policy.models.all[9].mean, *before);
    predict(&mut policy, &request(Some(&[9]), Rows::Dense(&row)));
    assert!(policy.ready == 10 && *policy.models.all[9].mean != *before);
}

/// Batches are half of all before where noise is large, a tenth where it is small, and the geometric mean in between:
/// there n is the size at which most is known.
#[test]
fn batches_end_when_most_is_known() {
    let mut policy = policy(&config(2, 1.0), SHAPE, 1);
    policy.models.all[0].own.count = 1e6;
    let mut quota = |variance: f64, instrument| {
        policy.common.variance = variance;
        policy.models.all[0].quota(instrument, &policy.common, policy.ledger.facts.share())
    };
    for instrument in [Instrument::Sum, Instrument::Bin, Instrument::Cells(1), Instrument::Cells(64)] {
        assert!(quota(1e9, instrument) >= 5e5);
        assert_eq!(quota(1e-9, instrument), 1e5);
    }
    assert_eq!(quota(1e4, Instrument::Bin), 5e5);
    let (spread, d, noise) = (0.25, 5.0, 1e3);
    let n = quota(noise, Instrument::Bin);
    assert!(n > 1e5 && n < 5e5, "{n}");
    let known = |n: f64| n / (n + d * noise / spread) / (1.0 + n / 2e6);
    assert!(known(n) > known(0.99 * n) && known(n) > known(1.01 * n), "{n}");
}

/// With features in other units by powers of two, results are the same to the last bit. By other factors, the loss is as
/// small.
#[test]
fn units_do_not_matter() {
    let lost = |norm: f64| {
        let mut policy = policy(&config(4, 1.0), SHAPE, 3);
        let lost = play(&mut policy, 10_000, norm, &THETA, &mut stream(4));
        assert!(is_sound(&mut policy));
        lost
    };
    let one = lost(1.0);
    assert!(one < 0.6);
    for power in [-90, -20, 7, 90] {
        assert_eq!(lost(2f64.powi(power)), one, "{power}");
    }
    assert!(lost(1e-9) < 0.6 && lost(1e9) < 0.6);
}

/// Features that are 0, constant, copies of others, or seen once; 128 of them; rows of zeros; hardly any noise, so that
/// only the library's own safeguards keep matrices positive definite; and a history of 10^9 decisions.
#[test]
fn precisions_stay_positive_definite() {
    for (features, epsilon, per_arm) in
        [(3, 1.0, false), (3, 1e6, false), (3, 1e6, true), (20, 1e6, true), (128, 1e4, false)]
    {
        let shape = Shape { features, per_arm };
        let mut policy = policy(&config(3, epsilon), shape, 5);
        let (d, mut coins) = (features as usize, stream(6));
        let turns = if features > 100 { 1500 } else { 6000 };
        for time in 0..2 * turns {
            if time == turns {
                policy.models.all.iter_mut().for_each(|model| model.own.fade(1e9 / model.own.count.max(1.0)));
                (0..policy.ledger.cells.arms()).for_each(|model| policy.ledger.cells[(0, model)].quota = 50); // not a third of 1e9
            }
            let rows = if per_arm { 1 } else { 3 };
            let mut x = vec![0.0; rows * d];
            for row in x.chunks_exact_mut(d).filter(|_| time % 5 > 0) {
                row.fill([1.0, 0.7, 1e-3][time % 3]);
                row[0] = if time == 77 { 3.0 } else { 0.0 };
                row[d - 1] = coins.unit() as f32;
            }
            choose(&mut policy, None, Rows::Dense(&x));
            observe(&mut policy, 0, f64::from(u8::from(coins.unit() < 0.3)));
        }
        assert!(
            is_sound(&mut policy) && policy.ledger.facts.releases > 5,
            "{features} {epsilon}: {}",
            policy.models.failures
        );
        assert!(policy.models.all.iter().all(|model| model.mean.iter().all(|x| x.abs() < 1e6)));
    }
}

fn refused(policy: &mut Linear, eligible: &[u32], rows: Rows, about: &str) {
    let outcome = decide(policy, &request(Some(eligible), rows), 0).map(drop);
    assert!(matches!(outcome, Err(Error::InvalidRequest { field, .. }) if field == about), "{about}: {outcome:?}");
}

/// Invalid calls are refused, and afterwards the policy behaves as a twin without those calls.
#[test]
fn bad_requests_change_nothing() {
    for per_arm in [false, true] {
        let shape = Shape { per_arm, ..SHAPE };
        let [mut policy, mut twin] = [0; 2].map(|_| policy(&config(2, 10.0), shape, 8));
        policy.retire_arm(1);
        twin.retire_arm(1);
        let mut coins = stream(9);
        for time in 0..2000 {
            let good = [if time == 100 { 1e3 } else { 1.0 }, 0.0, coins.unit() as f32, 0.0];
            let feature = |index, value| Feature { index, value };
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                refused(&mut policy, &[0], Rows::Dense(&[0.0, bad, 1.0, 0.0]), "features");
                refused(&mut policy, &[0], Rows::Sparse(&[feature(1, bad)], &[1]), "sparse");
            }
            let one: &[u32] = &[0];
            for (rows, field) in [
                (Rows::Dense(&[]), "features_len"),
                (Rows::Dense(&good[..3]), "features_len"),
                (Rows::Sparse(&[feature(4, 1.0)], &[1]), "sparse"),
                (Rows::Sparse(&[feature(0, 1.0)], &[0]), "features_len"),
                (Rows::Sparse(&[feature(0, 1.0)], &[2]), "features_len"),
                (Rows::Sparse(&[feature(0, 1.0); 2], &[2, 1]), "sparse_ends_len"),
                (Rows::Sparse(&[feature(0, 1.0)], &[]), "sparse_ends_len"),
            ] {
                refused(&mut policy, one, rows, field);
            }
            if !per_arm {
                refused(&mut policy, &[0, 0], Rows::Sparse(&[feature(0, 1.0)], &[2, 1]), "sparse_ends");
            }
            for bare in [Request { segment: 1, ..request(None, Rows::Dense(&good)) }, Request::default()] {
                assert!(decide(&mut policy, &bare, 0).is_err());
            }
            let [ours, theirs] = [&mut policy, &mut twin].map(|p| choose(p, Some(one), Rows::Dense(&good)));
            assert_eq!((ours.0, ours.1.to_bits()), (theirs.0, theirs.1.to_bits()));
            let reward = f64::from(time % 3) / 2.0;
            observe(&mut policy, 0, reward);
            observe(&mut twin, 0, reward);
        }
        assert_eq!(saved(&mut policy), saved(&mut twin));
        assert!(policy.ledger.facts.releases > 5 && policy.saved.oversized > 0);
    }
    for shape in [Shape { features: 0, ..SHAPE }, Shape { features: 257, ..SHAPE }] {
        assert!(Bandit::new(Algorithm::Linear, &shaped(&config(2, 1.0), shape)).is_err());
    }
    for epsilon in [0.0, f64::NAN, 1e-4] {
        assert!(Bandit::new(Algorithm::Linear, &shaped(&config(2, epsilon), SHAPE)).is_err());
    }
}

/// A model that is not positive definite is dropped: the last one stays, decisions continue, and the report counts it.
#[test]
fn what_cannot_be_learned_is_left_out_and_counted() {
    let mut policy = policy(&config(2, 4.0), SHAPE, 1);
    play(&mut policy, 3000, 1.0, &THETA, &mut stream(3));
    let believed = policy.models.all[0].mean.to_vec();
    let mut broken = ModelEvidence::new(5).unwrap();
    broken.precision.fill(-1e12);
    let join = |policy: &mut Linear, others: &[(&ModelEvidence, f64, f64)]| {
        policy.grow(Growth::Peers).unwrap();
        let Models { all, scratch, .. } = &mut policy.models;
        all[0].join(others.iter().copied(), scratch);
        policy.refit(0);
    };
    join(&mut policy, &[(&broken, 1.0, 1.0)]);
    assert_eq!(*policy.models.all[0].mean, *believed);
    assert_eq!(policy.models.failures, 1);
    let releases = policy.ledger.facts.releases;
    play(&mut policy, 3000, 1.0, &THETA, &mut stream(4));
    assert!(
        policy.ledger.facts.releases > releases && policy.models.failures > 1 && policy.ledger.facts.decisions == 6000
    );
    assert_eq!(*policy.models.all[0].mean, *believed);
    // Once the broken matrix is replaced, the model learns again.
    join(&mut policy, &[]);
    let failures = policy.models.failures;
    play(&mut policy, 6000, 1.0, &THETA, &mut stream(5));
    assert!(*policy.models.all[0].mean != *believed && policy.models.failures == failures);
}

// Tests of features.

/// A new policy of two arms, with a third one added.
fn policy_of_two(shape: Shape) -> Linear {
    let mut fresh = policy(&config(2, 2.0), shape, 9);
    fresh.add_arm(77).unwrap();
    fresh
}

/// A snapshot contains everything that is known: a restored policy makes the same estimates, without open batches.
/// Altered bytes give `Corrupt` or a valid policy.
#[test]
fn a_snapshot_has_what_was_released() {
    for per_arm in [false, true] {
        let shape = Shape { per_arm, ..SHAPE };
        for decisions in [10, 5000] {
            let mut policy = policy(&config(3, 2.0), shape, 1);
            play(&mut policy, decisions, 1.0, &THETA, &mut stream(3));
            policy.retire_arm(2);
            let bytes = saved(&mut policy);
            let load = |bytes: &[u8]| -> Result<Linear> {
                let mut fresh = policy_of_two(shape);
                let mut from = Reader::of_fields(bytes);
                fresh.persist_public(&mut Archive::In(&mut from), &mut std::iter::empty())?;
                from.finish()?;
                Ok(fresh)
            };
            let fields = &bytes[5..bytes.len() - 4];
            let mut loaded = load(fields).unwrap();
            (policy.ready..policy.models.all.len()).for_each(|model| policy.refresh(model)); // to the last shrinkage
            assert_eq!(loaded.models.belief, policy.models.belief);
            assert_eq!(&saved(&mut loaded)[5..bytes.len() - 4], fields);
            assert_eq!(loaded.ledger.whole.is_some(), decisions == 10);
            for (ours, theirs) in policy.models.all.iter().zip(&*loaded.models.all) {
                assert!(ours.mean.iter().zip(&*theirs.mean).all(|(a, b)| (a - b).abs() < 1e-9));
            }
            play(&mut loaded, 2000, 1.0, &THETA, &mut stream(4));
            assert!(is_sound(&mut loaded) && loaded.ledger.facts.decisions == decisions as u64 + 2000);
            for cut in 0..fields.len() {
                assert!(load(&fields[..cut]).is_err());
            }
            let mut coins = stream(5);
            for _ in 0..300 {
                let mut altered = fields.to_vec();
                altered[coins.below(fields.len() as u64) as usize] ^= 1 << coins.below(8);
                if let Ok(mut policy) = load(&altered) {
                    play(&mut policy, 100, 1.0, &THETA, &mut coins);
                    assert!(policy.models.all.iter().all(|model| model.mean.iter().all(|x| x.is_finite())));
                }
            }
        }
    }
}

/// A contribution of another instrument, or to a pilot that has ended, is in no release, and counts as incomplete.
#[test]
fn only_vectors_of_one_instrument_add_up() {
    let play = |policy: &mut Linear| {
        choose(policy, None, Rows::Dense(&[0.1; 8]));
        observe(policy, 0, 1.0);
    };
    let contribute = |policy: &mut Linear, leader: &mut Linear| {
        let bytes = write(usize::MAX, |to| policy.write_open(to)).unwrap().seal();
        let before = leader.ledger.cells[(0, 0)].count;
        let complete = leader.combine(&mut Reader::new(&bytes).unwrap()).unwrap();
        (complete, leader.ledger.cells[(0, 0)].count - before)
    };
    let [mut leader, mut in_pilot, mut other] = [1, 2, 3].map(|seed| policy(&config(2, 20.0), SHAPE, seed));
    for policy in [&mut leader, &mut other] {
        while policy.ledger.whole.is_some() {
            play(policy);
        }
    }
    play(&mut in_pilot);
    assert_eq!(contribute(&mut in_pilot, &mut leader), (false, 0));
    for (instrument, added) in [(Instrument::Sum, (false, 0)), (Instrument::Bin, (true, 1))] {
        for (policy, instrument) in [(&mut leader, Instrument::Bin), (&mut other, instrument)] {
            let setting = policy.setting(instrument);
            policy.ledger.cells[(0, 0)].open(setting, 1000);
        }
        play(&mut other);
        assert_eq!(contribute(&mut other, &mut leader), added, "{instrument:?}");
    }
}

/// A merge that ends the pilot drops its open rewards: whatever they are, the handle is the same afterwards, with the
/// instruments of its first batches.
#[test]
fn a_merge_that_ends_the_pilot_reads_no_open_reward() {
    let shape = Shape { per_arm: true, ..SHAPE };
    let config = shaped(&config(3, 1.0), shape);
    let mut peer = policy(&config, shape, 9);
    play(&mut peer, 3000, 1.0, &THETA, &mut stream(8));
    let bytes = saved(&mut peer);
    let merged = |rewards: u32| {
        let (mut policy, mut coins) = (policy(&config, shape, 1), stream(2));
        for number in 0..7 {
            let row: Vec<f32> = (0..shape.features).map(|_| coins.unit() as f32).collect();
            choose(&mut policy, None, Rows::Dense(&row));
            observe(&mut policy, 0, f64::from(rewards >> number & 1));
        }
        assert!(policy.ledger.whole.as_ref().is_some_and(|pilot| pilot.count == 7));
        assert!(merge_saved(&mut policy, &config, &bytes, 1, &[]) && policy.ledger.whole.is_none());
        let instruments: Vec<_> =
            policy.ledger.cells.iter().map(|batch| (batch.setting.instrument, batch.quota)).collect();
        (saved(&mut policy), instruments)
    };
    assert!([1, 6, 0x55, 0x7f].into_iter().all(|rewards| merged(rewards) == merged(0)));
}

/// Merges a snapshot of a handle that has added these arms. Returns whether it was new.
fn merge_saved(policy: &mut Linear, config: &Config, bytes: &[u8], origin: u64, added: &[u64]) -> bool {
    let (id, from) = (PeerId { origin, generation: 0, added }, &mut Reader::new(bytes).unwrap());
    let peer = policy.peer_reader()(config, &id, from).unwrap();
    policy.merge(peer).unwrap()
}

/// Handles that know the same releases make the same estimates to the last bit, whichever are their own and whatever
/// the order. Their estimates are more precise than each handle's alone. A handle whose pilot is running continues with
/// the rate of the others.
#[test]
fn what_others_released_counts_as_ones_own() {
    for (per_arm, memory) in [(false, 0), (true, 0), (false, 30_000)] {
        let shape = Shape { per_arm, ..SHAPE };
        let config = shaped(&Config { forget_after: memory, ..config(3, 1.0) }, shape);
        let mut handles = [1, 2, 3, 4].map(|seed| policy(&config, shape, seed));
        for (number, policy) in handles.iter_mut().enumerate().take(3) {
            play(policy, 20_000 - 3000 * number, 2.0, &THETA, &mut stream(10 + number as u64));
        }
        let ask = |policy: &mut Linear| {
            let rows = [0.5, -0.25, 0.25, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.7, -0.3, 0.0];
            let rows = Rows::Dense(if per_arm { &rows[..4] } else { &rows });
            predict(policy, &request(None, rows))
        };
        let alone = handles.each_mut().map(ask);
        let snapshots = handles.each_mut().map(saved);
        for (number, order) in [[1, 2, 3], [3, 0, 2], [0, 1, 3], [2, 1, 0]].into_iter().enumerate() {
            for is_new in [true, false] {
                // Merging again changes nothing.
                for other in order {
                    let policy = &mut handles[number];
                    assert_eq!(merge_saved(policy, &config, &snapshots[other], other as u64, &[]), is_new);
                }
            }
        }
        let together = handles.each_mut().map(ask);
        assert!(together.iter().all(|predicted| *predicted == together[0]), "{together:?}");
        let is_surer = |alone: &[(f64, f64)]| {
            alone.iter().zip(&together[0]).all(|(alone, predicted)| predicted.1 < 0.95 * alone.1)
        };
        assert!(alone[..3].iter().all(|alone| is_surer(alone)), "{alone:?} {together:?}");
        let lost = play(&mut handles[3], 1000, 2.0, &THETA, &mut stream(20));
        assert!(lost < 0.4, "{lost}");
    }
}

/// An arm that is added after a merge starts with what the other handle has released of the arm with its id.
#[test]
fn what_others_released_of_an_added_arm_counts() {
    let config = shaped(&config(3, 4.0), Shape { per_arm: true, ..SHAPE });
    let fresh = |seed| Linear::new(&config, &mut Seed::new(Some([seed; 32])).unwrap()).unwrap();
    let mut other = fresh(1);
    other.add_arm(77).unwrap();
    play(&mut other, 20_000, 2.0, &THETA, &mut stream(3));
    let bytes = saved(&mut other);
    let predictions = |merge_first: bool, id: u64| {
        let mut policy = fresh(2);
        let merge = |policy: &mut Linear| assert!(merge_saved(policy, &config, &bytes, 1, &[77]));
        if merge_first {
            merge(&mut policy);
            policy.add_arm(id).unwrap();
        } else {
            policy.add_arm(id).unwrap();
            merge(&mut policy);
        }
        let row = [0.5, -0.25, 0.25, 0.0];
        let predicted = predict(&mut policy, &request(None, Rows::Dense(&row))).into_iter();
        predicted.map(|(mean, deviation)| (mean.to_bits(), deviation.to_bits())).collect::<Vec<_>>()
    };
    let (before, after, another) = (predictions(false, 77), predictions(true, 77), predictions(true, 78));
    assert_eq!(before, after);
    assert!(after[3] != another[3] && after[..3] == another[..3]);
}

/// The rates are reversed. Without `forget_after` most of the later reward is lost; with it, a part.
#[test]
fn what_is_old_is_forgotten() {
    let lost = |memory: u64| {
        let mut policy = policy(&Config { forget_after: memory, ..config(4, 4.0) }, SHAPE, 1);
        play(&mut policy, 30_000, 1.0, &THETA, &mut stream(3));
        let turned = THETA.map(|theta| -theta);
        play(&mut policy, 15_000, 1.0, &turned, &mut stream(4));
        play(&mut policy, 15_000, 1.0, &turned, &mut stream(5))
    };
    let (never, soon) = (lost(0), lost(6000));
    println!("{never} {soon}");
    assert!(soon < 0.5 * never, "{never} {soon}");
}

/// Added arms are tried, with a model for each arm and with one model. Retired arms are not.
#[test]
fn arms_come_and_go() {
    for per_arm in [false, true] {
        let mut policy = policy(&config(3, 4.0), Shape { per_arm, ..SHAPE }, 1);
        play(&mut policy, 10_000, 2.0, &THETA, &mut stream(3));
        policy.add_arm(77).unwrap();
        policy.retire_arm(0);
        let lost = play(&mut policy, 20_000, 2.0, &THETA, &mut stream(4));
        assert!(lost < 0.5 && is_sound(&mut policy), "{per_arm} {lost}");
        assert!(!per_arm || policy.models.all[3].own.count > 100.0);
    }
}

/// A decision's propensity is its probability: for each position the mean of 1/p over the decisions that chose it is 1.
/// There are 20,000 decisions with p >= .1, so the standard deviation is at most .0212, and one of four in two tests
/// misses 6 of them with probability 2e-8.
#[test]
fn propensities_are_chances() {
    for per_arm in [false, true] {
        let config = Config { exploration: 0.4, ..config(4, 1.0) };
        let mut policy = policy(&config, Shape { per_arm, ..SHAPE }, 1);
        let mut coins = stream(3);
        let mut weights = [0.0f64; 4];
        for _ in 0..20_000 {
            let x: Vec<f32> = (0..if per_arm { 4 } else { 16 }).map(|_| coins.unit() as f32 / 4.0).collect();
            let (arm, propensity) = choose(&mut policy, None, Rows::Dense(&x));
            assert!((0.1..=0.7 + 1e-12).contains(&propensity));
            weights[arm as usize] += 1.0 / propensity / 20_000.0;
            if policy.ledger.facts.decisions.is_multiple_of(500) && !policy.is_pilot() {
                let (mut offers, request) = (offers(&policy), request(None, Rows::Dense(&x)));
                let offer = offers.check(&request, policy.catalog(), &Limits::for_tests(0)).unwrap();
                let sum: f64 = (0..4).map(|number| policy.propensity(Some(number), &offer)).sum();
                assert!((sum - 1.0).abs() < 1e-12);
            }
            observe(&mut policy, 0, f64::from(u8::from(coins.unit() < 0.3)));
        }
        assert!(weights.iter().all(|weight| (weight - 1.0).abs() < 0.13), "{weights:?}");
    }
}

/// The arms of one request are different, and each has the stated probability among those that are left. An arm that is
/// listed twice counts once, and the row of a retired arm is not read.
#[test]
fn slots_are_different_arms_at_their_chances() {
    for per_arm in [false, true] {
        let config = Config { exploration: 0.4, ..config(5, 1.0) };
        let mut policy = policy(&config, Shape { per_arm, ..SHAPE }, 1);
        policy.retire_arm(3);
        let (mut coins, mut weights) = (stream(3), [[0.0f64; 5]; 2]);
        for time in 0..20_000 {
            let mut x: Vec<f32> = (0..if per_arm { 4 } else { 20 }).map(|_| coins.unit() as f32 / 4.0).collect();
            let twice = [4, 0, 4, 1, 2, 0];
            let row = |arm: u32| if per_arm { &x[..] } else { &x[4 * arm as usize..][..4] };
            let rows: Vec<f32> = twice.iter().flat_map(|&arm| row(arm)).copied().collect();
            let (eligible, rows) = match (time % 2 == 0, per_arm) {
                (true, false) => {
                    x[12..16].fill(f32::NAN);
                    (None, &x)
                }
                (true, true) => (None, &x),
                (false, true) => (Some(&twice[..]), &x),
                (false, false) => (Some(&twice[..]), &rows),
            };
            let request = Request { slots: 2, ..request(eligible, Rows::Dense(rows)) };
            let (mut seen, mut slot) = ([false; 5], 0);
            for Choice { pull, arm, .. } in decide(&mut policy, &request, 7).unwrap() {
                assert!(pull.propensity >= 0.1 && !std::mem::replace(&mut seen[arm as usize], true));
                weights[slot][arm as usize] += 1.0 / pull.propensity / 20_000.0;
                slot += 1;
            }
            assert!(slot == 2 && seen[policy.kept.arm(7) as usize] && seen[policy.kept.arm(8) as usize] && !seen[3]);
            [7, 8].into_iter().for_each(|slot| observe(&mut policy, slot, f64::from(u8::from(coins.unit() < 0.3))));
        }
        // For each arm that is left, 1/p has the mean 1: in the second slot, for each of four with probability 3/4 or
        // so.
        assert!((0..5).filter(|&arm| arm != 3).all(|arm| (weights[0][arm] - 1.0).abs() < 0.13), "{weights:?}");
        assert!((weights[1].iter().sum::<f64>() - 3.0).abs() < 0.25, "{weights:?}");
    }
}

/// Priors that are right, reversed, or ten times too large or small, of any strength: none of them locks the best arm
/// out.
#[test]
fn a_wrong_prior_is_overcome() {
    let shape = Shape { per_arm: true, ..SHAPE };
    let lost = |mean: fn(u32) -> f32, strength: f32| {
        let mut policy = policy(&config(4, 4.0), shape, 1);
        for arm in 0..4 {
            policy.set_prior(arm, Prior { mean: mean(arm), strength });
        }
        let lost = play(&mut policy, 60_000, 2.0, &THETA, &mut stream(2));
        assert!(is_sound(&mut policy));
        lost
    };
    for mean in [|_| 0.12, |arm: u32| if arm.is_multiple_of(2) { 0.9 } else { 0.01 }, |_| 0.012, |_| 0.0, |_| 1.0] {
        for strength in [1.0, 100.0, 1e7] {
            let lost = lost(mean, strength);
            println!("{lost:.3}");
            assert!(lost < 0.05, "{lost}");
        }
    }
    for (model_per_arm, is_able) in [(true, true), (false, false)] {
        let config = Config { features: 2, model_per_arm, ..config(4, 4.0) };
        assert_eq!(Algorithm::Linear.check_prior(&config).is_ok(), is_able);
    }
}

/// With at most one click for a request, the noise is twice as wide, and without that limit as wide as there are slots.
#[test]
fn slots_have_their_noise() {
    let scale = |max_slots: u32, clicks: u32| {
        let config = Config { max_slots, max_clicks: clicks, reward_window: 8, ..config(9, 1.0) };
        policy(&config, SHAPE, 1).common.variance.sqrt()
    };
    for (clicks, factor) in [(1, 2.0), (0, 5.0)] {
        assert!((scale(5, clicks) / scale(0, 0) / factor - 1.0).abs() < 1e-6, "{clicks}");
    }
}

/// The charge for a request of several slots is the configuration's epsilon, up to the rounding of the noise.
#[test]
fn a_request_loses_what_is_promised() {
    for (max_slots, max_clicks) in [(0, 0), (3, 0), (5, 1), (5, 2)] {
        let config = Config { max_slots, max_clicks, reward_window: 8, ..config(9, 1.0) };
        let mut policy = policy(&config, SHAPE, 1);
        play(&mut policy, 2000, 1.0, &THETA, &mut stream(2));
        let loss = policy.counts().loss.of_batches(config.batches_changed()).epsilon(0.0, 1);
        assert!(loss <= 1.0 + 1e-9 && loss > 0.999, "{max_slots} {max_clicks}: {loss}");
    }
}

/// The partition grows at releases, cells under the first splits stay, and a batch keeps the partition it opened with.
#[test]
fn cells_never_change() {
    let (mut policy, mut coins) = (policy(&config(2, 10.0), SHAPE, 1), stream(7));
    let (mut partition, mut releases, mut opened) = (policy.splitter.partition, 0, policy.splitter.partition);
    for _ in 0..40_000 {
        let rows: Vec<f32> = (0..8).map(|_| coins.unit() as f32).collect();
        choose(&mut policy, None, Rows::Dense(&rows));
        observe(&mut policy, 0, f64::from(u8::from(coins.unit() < 0.3)));
        let (now, of_batch) = (policy.splitter.partition, policy.ledger.cells[(0, 0)].setting.partition);
        let is_new = std::mem::replace(&mut releases, policy.ledger.facts.releases) < policy.ledger.facts.releases;
        assert!(now.extends(&partition) && now.cells() <= partition.cells() + usize::from(is_new));
        assert!(of_batch == opened || is_new);
        (partition, opened) = (now, of_batch);
    }
    assert!(partition.cells() > 8, "{}", partition.cells());
}

#[test]
fn debug_shows_no_sum() {
    let mut policy = policy(&config(2, 1.0), SHAPE, 1);
    play(&mut policy, 30, 1.0, &THETA, &mut stream(3));
    let shown = format!("{:?}", policy.ledger.cells[(0, 0)]);
    assert!(shown.contains("quota") && !shown.contains("sums"), "{shown}");
}

/// The mean rewards of own and of even draws in the samples that were released, as they are expected before each reward.
#[derive(Default)]
struct Sampled {
    open: [[f64; 2]; 2],
    sums: [[f64; 2]; 2],
}

impl Sampled {
    /// Decides and rewards once, with arms of different rates in rows of two kinds. The rows say which kind it is.
    fn play(&mut self, policy: &mut Linear, coins: &mut Random) {
        const RATES: [[f64; 4]; 2] = [[0.3, 0.1, 0.05, 0.15], [0.05, 0.1, 0.35, 0.1]];
        let kind = usize::from(coins.unit() < 0.5);
        let (arm, _) = choose(policy, None, Rows::Dense(&[kind as f32, 1.0 - kind as f32, 0.0, 0.0]));
        policy.kept.unpack(0, &mut policy.row);
        let (rate, even) = (RATES[kind][arm as usize], RATES[kind].iter().sum::<f64>() / 4.0);
        let place = match policy.row.head.purpose {
            RewardPurpose::Own => Some((0, rate)),
            RewardPurpose::Even => Some((1, even)),
            RewardPurpose::Model => None,
        };
        if let Some((sample, rate)) = place {
            self.open[sample][0] += rate;
            self.open[sample][1] += 1.0;
        }
        let before = policy.saved.samples.rewards();
        observe(policy, 0, f64::from(u8::from(coins.unit() < rate)));
        if policy.saved.samples.rewards() != before {
            for (sums, open) in self.sums.as_flattened_mut().iter_mut().zip(self.open.as_flattened_mut()) {
                *sums += std::mem::take(open);
            }
        }
    }

    fn ratio(&self) -> f64 {
        let [own, even] = self.sums.map(|[sum, count]| sum / count);
        own / even
    }
}

/// The interval of a lift over even play.
fn ends(policy: &Linear, nats: f64) -> (f64, f64) {
    let [own, even] = policy.sampled_totals().unwrap();
    let of = |sums, share, of_control| ShownArm { sums: Some(sums), share, of_control };
    lift::ratio(&[of(own, 1.0, 0.0), of(even, 0.0, 1.0)], 0.0, 0.0, nats)
}

fn exploring(arms: u32, epsilon: f64) -> Config {
    Config { exploration: 0.1, ..config(arms, epsilon) }
}

/// If a run's intervals ever missed with probability 20%, more than 17 of 40 would with probability below 1e-3. With the
/// samples exchanged nearly all miss.
#[test]
fn a_lift_contains_the_truth() {
    let (mut misses, mut exchanged, mut looks) = (0, 0, 0);
    for seed in 0..40 {
        let (mut policy, mut coins) = (policy(&exploring(4, 2.0), SHAPE_PER_ARM, seed), stream(100 + u64::from(seed)));
        let (mut truth, mut is_missed, mut is_exchanged) = (Sampled::default(), false, false);
        for _ in 0..8000 {
            let before = policy.saved.samples.rewards();
            truth.play(&mut policy, &mut coins);
            if policy.saved.samples.rewards() != before {
                let ((low, high), ratio) = (ends(&policy, 5f64.ln()), truth.ratio());
                is_missed |= !(low..=high).contains(&ratio);
                is_exchanged |= !(low..=high).contains(&(1.0 / ratio));
                looks += 1;
            }
        }
        misses += u32::from(is_missed);
        exchanged += u32::from(is_exchanged);
    }
    println!("{misses} and {exchanged} of 40, {looks} looks");
    assert!(misses <= 17 && exchanged > 17 && looks > 100, "{misses} {exchanged} {looks}");
}

/// The rewards of samples are in no model, and those of models in no sample. What is open moves with a state and goes to a
/// leader; what was released is in a snapshot and counts after a merge.
#[test]
fn samples_are_sums_of_their_own() {
    let (mut truth, mut coins) = (Sampled::default(), stream(3));
    let [mut one, mut other] = [1, 2].map(|seed| policy(&exploring(4, 2.0), SHAPE_PER_ARM, seed));
    let is_midway =
        |policy: &Linear| !policy.is_pilot() && policy.ledger.whole.as_ref().is_some_and(|sum| sum.count > 9);
    for policy in [&mut one, &mut other] {
        (0..6000).for_each(|_| truth.play(policy, &mut coins));
        while !is_midway(policy) {
            let of_model = |policy: &Linear| {
                let open: u64 = (0..4).map(|model| policy.ledger.cells[(0, model)].count).sum();
                (open, policy.ledger.whole.as_ref().map_or(0, |sum| sum.count))
            };
            let ((model, sample), releases) = (of_model(policy), policy.ledger.facts.releases);
            truth.play(policy, &mut coins);
            let is_for_model = policy.row.head.purpose == RewardPurpose::Model;
            let now = (model + u64::from(is_for_model), sample + u64::from(!is_for_model));
            assert!(of_model(policy) == now || policy.ledger.facts.releases > releases);
        }
    }
    let (open, rewards) = (one.ledger.whole.as_ref().unwrap().count, one.saved.samples.rewards());
    let state = write(usize::MAX, |to| one.persist_all(&mut Archive::Out(to))).unwrap().seal();
    let mut moved = policy(&exploring(4, 2.0), SHAPE_PER_ARM, 3);
    moved.persist_all(&mut Archive::In(&mut Reader::new(&state).unwrap())).unwrap();
    assert!(
        moved.ledger.whole.as_ref().is_some_and(|sum| sum.count == open) && moved.saved.samples.rewards() == rewards
    );
    assert!(rewards > 100.0 && ends(&moved, 3.0) == ends(&one, 3.0));
    // A merge counts the other's releases, once.
    let (before, bytes) = (ends(&moved, 3.0), saved(&mut other));
    assert!(merge_saved(&mut moved, &shaped(&exploring(4, 2.0), SHAPE_PER_ARM), &bytes, 1, &[]));
    let both = ends(&moved, 3.0);
    assert!(both.1 - both.0 < before.1 - before.0, "{both:?} {before:?}");
    assert!(!merge_saved(&mut moved, &shaped(&exploring(4, 2.0), SHAPE_PER_ARM), &bytes, 1, &[]));
    assert_eq!(ends(&moved, 3.0), both);
    // A contribution: of samples to samples, and of a pilot to none.
    let contribute = |from: &mut Linear, to: &mut Linear| {
        let state = write(usize::MAX, |to| from.write_open(to)).unwrap().seal();
        from.clear_open();
        let counts = |policy: &Linear| {
            policy.ledger.whole.as_ref().map_or(0.0, |sum| sum.count as f64) + policy.saved.samples.rewards()
        };
        let before = counts(to);
        to.combine(&mut Reader::new(&state).unwrap()).unwrap();
        counts(to) - before
    };
    let open = one.ledger.whole.as_ref().unwrap().count as f64;
    assert_eq!(contribute(&mut one, &mut other), open);
    assert_eq!(contribute(&mut one, &mut other), 0.0);
    let mut fresh = policy(&exploring(4, 2.0), SHAPE_PER_ARM, 4);
    truth.play(&mut fresh, &mut coins);
    assert_eq!((contribute(&mut fresh, &mut other), contribute(&mut other, &mut fresh)), (0.0, 0.0));
}

/// Weights are in the caller's units: features that are 128 times as large have weights of 1/128. They are near what
/// rewards follow. Each model's are its own.
#[test]
fn weights_are_those_of_the_callers_features() {
    for (per_arm, arm) in [(false, 0), (true, 0), (true, 1)] {
        let weights = |norm: f64| {
            let mut policy = policy(&config(4, 20.0), Shape { per_arm, ..SHAPE }, 1);
            play(&mut policy, 40_000, norm, &THETA, &mut stream(2));
            let mut weights = Vec::new();
            policy.feature_weights(arm, &mut |mean, deviation| weights.push((norm * mean, norm * deviation)));
            weights
        };
        let (one, large) = (weights(1.0), weights(128.0));
        let sign = if arm == 1 { -1.0 } else { 1.0 };
        for (place, truth) in [2.0, -2.0, 1.0, 0.0].into_iter().enumerate() {
            let (mean, deviation) = one[place];
            assert!((mean - sign * truth).abs() < 4.0 * deviation, "{per_arm} {arm} {place}: {:?}", one);
            assert!(deviation < 0.6 && (large[place].0 - mean).abs() < 1e-3, "{one:?} {large:?}");
        }
        assert!(one.len() == 5 && (one[4].0 + 2.0).abs() < 0.7, "{one:?}");
    }
}
