//! The auditor as a tool: every policy keeps its claim, and every fault is caught.
//!
//! A true claim is refuted with chance 1e-6 an audit (`FAILURE`), so with fixed seeds these tests fail
//! without a fault in the library in one of some 20,000 worlds. They find policies by themselves:
//! a new one is audited from its first day.

#[path = "audit/auditor.rs"]
#[allow(dead_code, reason = "the tool prints more than the tests need")]
mod auditor;

use auditor::{Case, Delivery};
use dpb::{Algorithm, Fault};

fn case(policy: &str, epsilon: f64, runs: u64) -> Case {
    let policy = *Algorithm::ALL.iter().find(|a| a.name() == policy).expect("a policy of this name");
    Case { runs, ..Case::new(policy, epsilon).expect("a valid claim") }
}

fn alarms(case: &Case) -> bool {
    let verdict = case.run().expect("a valid claim");
    println!("{} {:?} {:?} {}: {verdict:?}", case.policy.name(), case.fault, case.delivery, case.runs);
    verdict.alarm
}

fn policies(private: bool) -> impl Iterator<Item = &'static str> {
    Algorithm::ALL.iter().map(|a| a.name()).filter(move |name| name.starts_with("nonprivate") != private)
}

#[test]
fn private_policies_keep_their_claims() {
    for policy in policies(true) {
        assert!(!alarms(&case(policy, 1.0, 400)), "{policy}");
    }
}

/// At a small loss a group of 1/eps rewards is changed.
#[test]
fn small_claims_hold_for_groups() {
    for policy in ["dp-se", "dp-imed", "tsallis"] {
        let honest = case(policy, 0.1, 500);
        assert_eq!(honest.changed(), 10);
        assert!(!alarms(&honest), "{policy}");
        assert!(alarms(&Case { runs: 1000, ..honest }.with_fault(Fault::HalfNoise)), "{policy}");
    }
}

#[test]
fn baselines_have_no_privacy() {
    for policy in policies(false) {
        assert!(alarms(&case(policy, 1.0, 400)), "{policy}");
    }
}

/// Without its noise every policy is caught, so that the audits above look at the right thing. The
/// one that adds none hides its draws only: its audit sees little.
#[test]
fn no_noise_is_caught_everywhere() {
    for policy in policies(true).filter(|&policy| policy != "exp3-tau") {
        assert!(alarms(&case(policy, 1.0, 200).with_fault(Fault::NoNoise)), "{policy}");
    }
    let gaussian = Case { delta: 1e-3, ..case("dp-imed", 1.0, 200) };
    assert!(!alarms(&gaussian));
    assert!(alarms(&gaussian.with_fault(Fault::NoNoise)), "Gaussian noise");
}

#[test]
fn every_fault_is_caught() {
    for (fault, policy, epsilon, runs) in [
        (Fault::HalfNoise, "dp-se", 1.0, 1000),
        (Fault::HalfNoise, "tsallis", 1.0, 1000),
        (Fault::TenPercentLess, "tsallis", 1.0, 80_000),
        (Fault::SharedNoise, "dp-se", 1.0, 200),
        (Fault::UnnoisedMaximum, "dp-se", 1.0, 1500),
        (Fault::ReleasedTwice, "dp-se", 2.0, 3000),
        (Fault::DuplicateBelieved, "dp-se", 1.0, 1000),
        (Fault::DuplicateBelieved, "dp-imed", 1.0, 1200),
        (Fault::ClosedByArrival, "dp-se", 1.0, 200),
        (Fault::ClosedByArrival, "dp-imed", 1.0, 200),
        (Fault::ClosedByArrival, "tsallis", 1.0, 3000),
    ] {
        assert!(alarms(&case(policy, epsilon, runs).with_fault(fault)), "{fault:?} in {policy}");
    }
}

/// The same deliveries do an honest library no harm.
#[test]
fn duplicates_and_silence_tell_nothing() {
    for policy in ["dp-se", "dp-imed", "tsallis"] {
        for delivery in [Delivery::Repeated, Delivery::Window] {
            let honest = Case { delivery, ..case(policy, 1.0, 300) };
            assert!(!alarms(&honest), "{policy} {delivery:?}");
        }
    }
}
