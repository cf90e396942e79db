//! The auditor itself: it reports a violation if there is one, and only then.

use crate::audit::engine::{Audit, binomial_tail, clopper_pearson, pattern, seed};
use dpb::{Random, Seed};

/// Randomised response: the true bit with probability e^eps/(1+e^eps), so its loss is exactly eps. A random digit
/// without meaning disguises it.
fn response(epsilon: f64) -> impl Fn(u64, bool) -> u64 {
    move |number, secret| {
        let mut random: Random = Seed::new(Some(seed(number))).unwrap().stream();
        let truth = random.unit() < epsilon.exp() / (1.0 + epsilon.exp());
        pattern((secret == truth, random.below(10)))
    }
}

#[test]
fn a_true_claim_passes_and_a_false_one_fails() {
    for epsilon in [0.2, 1.0, 3.0] {
        let audit = Audit::pure(epsilon, 4000);
        assert!(!audit.run(response(epsilon)).alarm);
        let twice = audit.run(response(2.0 * epsilon));
        assert_eq!(twice.alarm, epsilon > 0.3, "{twice:?}"); // 0.2 against 0.4 needs more runs
    }
}

#[test]
fn delta_permits_what_it_should() {
    // Reveals the secret with probability 1/10 and otherwise nothing: (0, 1/10)-DP.
    let blab = |number: u64, secret: bool| {
        let mut random = Seed::new(Some(seed(number))).unwrap().stream();
        if random.below(10) == 0 { 1 + u64::from(secret) } else { 0 }
    };
    let audit = Audit::pure(1.0, 4000);
    assert!(audit.run(blab).alarm);
    assert!(!Audit { delta: 0.1, ..audit }.run(blab).alarm);
}

#[test]
fn clopper_pearson_is_the_textbook_interval() {
    // 5 of 10 and 0 of 20 at 95%, from published tables.
    let (low, high) = clopper_pearson(5, 10, 0.025);
    assert!((low - 0.187086).abs() < 1e-5 && (high - 0.812914).abs() < 1e-5, "{low} {high}");
    let (low, high) = clopper_pearson(0, 20, 0.025);
    assert!(low == 0.0 && (high - 0.168433).abs() < 1e-5, "{high}");
    assert_eq!(clopper_pearson(20, 20, 0.025).1, 1.0);
    // P(X >= 8), X ~ B(10, 1/2) = (45 + 10 + 1)/1024
    assert!((binomial_tail(8, 10, 0.5) - 56.0 / 1024.0).abs() < 1e-12);
}
