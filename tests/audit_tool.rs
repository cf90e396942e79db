//! The auditor as a tool: every policy is within its epsilon, and the auditor detects every sabotage.
//!
//! An audit refutes a true claim with probability 1e-6 (`FAILURE`). Seeds are fixed, so these tests fail without a
//! fault in the library for one of some 10,000 sets of seeds. They audit every policy in the library's list. The tool's
//! `--power`, which .ci/run prints, shows how many runs detect how little noise.

use crate::audit::auditor::{Case, Delivery};
use crate::audit::library::Library;
use crate::audit::sabotage::Sabotage;
use dpb::{Algorithm, Fault};

fn case(policy: Algorithm, epsilon: f64, runs: u64) -> Case {
    Case { runs, ..Case::new(policy, epsilon).expect("a valid claim") }
}

fn alarms(case: &Case) -> bool {
    let outcome = case.run().unwrap_or_else(|problem| panic!("{problem}: {case:?}"));
    println!("{case:?}: {outcome:?}");
    outcome.verdict.alarm
}

fn policies(private: bool) -> impl Iterator<Item = Algorithm> {
    Algorithm::ALL.iter().copied().filter(move |policy| policy.name().starts_with("nonprivate") != private)
}

#[test]
fn private_policies_keep_their_claims() {
    for policy in policies(true) {
        assert!(!alarms(&case(policy, 1.0, 300)), "{policy:?}");
    }
}

/// The same with more runs, and for later releases: for most policies, a claim that is exceeded by a fifth would fail.
#[test]
#[ignore = "5,000 runs of each world: minutes"]
fn claims_hold_in_many_runs() {
    let cases: Vec<Case> = policies(true).flat_map(Case::with_noise).collect();
    let holds = |honest: &Case| {
        let later = Case { later: true, runs: 2000, ..honest.clone() };
        for case in [Case { runs: 5_000, ..honest.clone() }, later] {
            assert!(!alarms(&case), "{case:?}");
        }
    };
    std::thread::scope(|scope| {
        for half in 0..2 {
            let half = cases.iter().skip(half).step_by(2);
            scope.spawn(|| half.for_each(holds));
        }
    });
}

/// At small epsilon, the worlds differ in a group of 1/eps rewards.
#[test]
#[ignore = "fifteen seconds"]
fn small_claims_hold_for_groups() {
    for policy in [Algorithm::Se, Algorithm::Imed, Algorithm::Tsallis] {
        let honest = case(policy, 0.1, 300);
        let outcome = honest.run().expect("a valid claim");
        assert!(outcome.changed == 10 && !outcome.verdict.alarm, "{policy:?} {outcome:?}");
        assert!(alarms(&Case { runs: 1000, ..honest }.with(Sabotage::HalfNoise)), "{policy:?}");
    }
}

/// A user with three rewards loses at most epsilon.
#[test]
#[ignore = "ten seconds"]
fn claims_hold_for_all_rewards_of_a_user() {
    for (policy, delta) in [(Algorithm::Se, 0.0), (Algorithm::Imed, 0.1), (Algorithm::SdpAe, 0.1)] {
        let three = Case { contributions: 3, delta, ..case(policy, 1.0, 200) };
        let outcome = three.run().expect("a valid claim");
        assert!(outcome.changed == 3 && outcome.claim <= 1.0 && !outcome.verdict.alarm, "{policy:?} {outcome:?}");
        assert!(alarms(&three.with(Sabotage::NoNoise)), "{policy:?}");
    }
}

#[test]
fn baselines_have_no_privacy() {
    for policy in policies(false) {
        assert!(alarms(&case(policy, 1.0, 400)), "{policy:?}");
    }
}

/// The auditor detects every policy without its noise, so the audits above examine outputs that matter. A policy that
/// adds no noise hides its draws only, and its audit sees little.
#[test]
#[ignore = "ten seconds"]
fn missing_noise_is_caught_in_every_policy() {
    let mut noisy = 0;
    for case in policies(true).flat_map(Case::with_noise) {
        assert!(alarms(&Case { runs: 200, ..case.clone() }.with(Sabotage::NoNoise)), "{case:?}");
        noisy += 1;
    }
    assert_eq!(noisy, policies(true).count() - 1 + 3); // three have two noise distributions
}

/// Without this the audits above could pass because they see nothing.
#[test]
fn sabotage_is_caught() {
    for (fault, policy) in [
        (Fault::SharedNoise, Algorithm::Se),
        (Fault::ClosedByArrival, Algorithm::Imed),
        (Fault::CancelTells, Algorithm::Imed),
    ] {
        assert!(alarms(&case(policy, 1.0, 200).with(Sabotage::Built(fault))), "{fault:?} of {policy:?}");
    }
}

/// The auditor detects sabotage, except a leader found by raw sums, where one reward changes few choices, and
/// faults of snapshots, priors, sizes, slots, clocks, contributions and features (tests/interference.rs detects these) and of users
/// (tests/users.rs). tests/faults.rs checks that a test names each fault.
#[test]
#[ignore = "fifteen seconds"]
fn all_sabotage_is_caught() {
    use Algorithm::{Imed, Linear, Se, Tsallis};
    use Fault::{CancelTells, ClosedByArrival, DuplicateBelieved, RawRetired, RawWidth, SharedNoise, UnnoisedMaximum};
    use Sabotage::{Built, HalfNoise, QuarterLater};
    let caught = [
        (HalfNoise, Tsallis, 1.0, 1000),
        (QuarterLater, Tsallis, 1.0, 200),
        (Built(SharedNoise), Se, 1.0, 200),
        (Built(UnnoisedMaximum), Se, 1.0, 1000),
        (Built(DuplicateBelieved), Se, 1.0, 400),
        (Built(DuplicateBelieved), Imed, 1.0, 600),
        (Built(ClosedByArrival), Se, 1.0, 200),
        (Built(ClosedByArrival), Imed, 1.0, 200),
        (Built(ClosedByArrival), Tsallis, 1.0, 1500),
        (Built(CancelTells), Imed, 1.0, 200),
        (Built(RawWidth), Imed, 1.0, 200),
        (Built(RawRetired), Imed, 1.0, 500),
    ];
    for (sabotage, policy, epsilon, runs) in caught {
        assert!(alarms(&case(policy, epsilon, runs).with(sabotage)), "{sabotage:?} of {policy:?}");
    }
    assert!(alarms(&Case { arms: 2, ..case(Linear, 1.0, 200) }.with(QuarterLater)), "dp-linear");
}

#[test]
#[ignore = "twice takes some runs to see, 10% many: 20 s"]
fn slightly_less_noise_is_caught() {
    assert!(alarms(&case(Algorithm::Tsallis, 2.0, 4000).with(Sabotage::ReleasedTwice)));
    assert!(alarms(&case(Algorithm::Tsallis, 1.0, 40_000).with(Sabotage::TenPercentLess)));
}

/// A sabotage that changes nothing proves nothing, so it is an error.
#[test]
fn sabotage_that_changes_nothing_is_an_error() {
    for (policy, sabotage) in [
        (Algorithm::Ucb, Sabotage::ReleasedTwice),
        (Algorithm::Imed, Sabotage::Built(Fault::SharedNoise)),
        (Algorithm::Tsallis, Sabotage::Built(Fault::RawWidth)),
        (Algorithm::Se, Sabotage::Built(Fault::RawLeader)),
        (Algorithm::LdpUcb, Sabotage::Built(Fault::ClosedByArrival)),
        (Algorithm::Exp3Tau, Sabotage::HalfNoise),
    ] {
        let outcome = case(policy, 1.0, 100).with(sabotage).run();
        assert!(outcome.is_err(), "{sabotage:?} of {policy:?}: {outcome:?}");
    }
}

/// An honest library reveals no more, however rewards are delivered and whatever else is called.
#[test]
#[ignore = "ten seconds"]
fn claims_hold_for_every_delivery_of_rewards() {
    for policy in [Algorithm::Se, Algorithm::Imed, Algorithm::Tsallis, Algorithm::UcbBound] {
        for delivery in Delivery::ALL {
            let honest = Case { delivery, ..case(policy, 1.0, 200) };
            let flexible = policy == Algorithm::Imed;
            if delivery == Delivery::Sets {
                assert_eq!(honest.run().is_ok(), flexible, "{policy:?}");
            }
            if delivery != Delivery::Sets || flexible {
                assert!(!alarms(&honest), "{policy:?} {delivery:?}");
            }
        }
    }
}

/// The audit of a released library, in its file: its claim holds, half of it does not, and what is no libdpb is refused.
#[test]
#[ignore = "8,000 runs of each world: seconds"]
fn a_library_in_a_file_is_audited() {
    let file = crate::support::library_dir().join("libdpb.so");
    let library = Library::open(&file).expect("this version");
    for policy in [Algorithm::Imed, Algorithm::Se] {
        let honest = Case { runs: 4000, ..Case::of(library, policy, 1.0).expect("a valid claim") };
        assert!(!alarms(&honest), "{policy:?}");
        assert!(alarms(&Case { claimed: 0.5, ..honest }), "{policy:?}");
    }
    let refused = |file: &str| Library::open(file.as_ref()).map(|_| ()).unwrap_err();
    assert!(refused("/nonexistent/libdpb.so").contains("cannot open shared object file"));
    assert!(refused("libc.so.6").contains("no libdpb"));
}
