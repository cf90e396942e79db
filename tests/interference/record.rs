//! The guard of a change that must not change behaviour: everything that histories show, bit by bit.
//!
//! Each line has two hashes for one kind of handle. The first is of the transcripts of random
//! [histories](super::history), with the scale of each draw and each released sum in order. The second leaves out the bytes
//! of snapshots, contributions and states: a change of a format changes the first one alone. A line of a small fleet in a
//! longer game has one hash, of all decisions, propensities and estimates. `.ci/guard COMMIT` compares more of them with those of another commit, on one machine.

use super::handle::Subject;
use super::history::History;
use super::world::run;
use super::{configs, in_a_fleet, on, subjects, with_users};
use crate::audit::engine::pattern;
use crate::audit::sabotage::Sabotage;
use crate::combine::exchange;
use crate::support::coins::Coins;
use crate::support::root;
use dpb::{Algorithm, Bandit, Clock, Config};
use std::fmt::Write;

/// The library's logarithms and exponentials are the system's, so other systems record other numbers.
fn mathematics() -> u64 {
    let points = (1..1000).map(|i| f64::from(i) / 37.0);
    pattern(points.map(|x| [x.ln(), x.exp(), x.ln_1p(), x.exp_m1(), x.powf(0.3)].map(f64::to_bits)).collect::<Vec<_>>())
}

/// Histories with these numbers, of every policy and of segments, of each configuration that the executed proof has.
fn of_histories(numbers: std::ops::Range<u64>) -> String {
    let mut lines = String::new();
    for private in [true, false] {
        for subject in subjects(private) {
            let saves = super::has_restarts(&subject);
            let mut kinds: Vec<(String, Config, bool)> = Vec::new();
            let mut add = |what: &str, configs: &mut dyn Iterator<Item = Config>, restarts: &[bool]| {
                for (at, config) in configs.enumerate() {
                    for &restarts in restarts.iter().filter(|&&restarts| saves || !restarts) {
                        kinds.push((
                            format!("{what} {at} {}", if restarts { "restarts" } else { "-" }),
                            config.clone(),
                            restarts,
                        ));
                    }
                }
            };
            for window in [0, super::WINDOW] {
                add(&format!("window {window}"), &mut configs(subject, window).into_iter(), &[false, true]);
                add(&format!("users, window {window}"), &mut with_users(subject, window), &[true]);
                if saves && private {
                    add(&format!("fleet, window {window}"), &mut in_a_fleet(subject, window), &[true]);
                }
            }
            add("time", &mut on(Clock::Caller, configs(subject, super::WINDOW)), &[saves]);
            for (what, config, restarts) in kinds {
                let runs = numbers.clone().map(|number| {
                    let ran = run(subject, &History::new(&config, Sabotage::Nothing, number, restarts), 0, &[], &[]);
                    let rest = (format!("{:?}", ran.draws), ran.reported.map(f64::to_bits));
                    (pattern((ran.transcript, &rest)), pattern((ran.known, rest)))
                });
                let (all, known): (Vec<_>, Vec<_>) = runs.unzip();
                writeln!(lines, "{}, {what}: {:016x} {:016x}", subject.name(), pattern(all), pattern(known)).unwrap();
            }
        }
    }
    lines
}

/// Three handles that learn from each other, some with one noise, while rates change.
fn of_fleets(arms: u32, decisions: u32) -> String {
    let mut lines = String::new();
    for kind in Subject::FLEETS {
        for (forget_after, leads, most) in [(0, false, 0.5), (0, true, 0.03), (4000, false, 0.2), (4000, true, 0.2)] {
            if matches!(kind, Subject::Policy(Algorithm::TopTwo)) && forget_after > 0 {
                continue;
            }
            let handle = |node: u8| {
                let fleet_key = leads.then(|| [7; 32].into());
                let (node, test_seed) = (node.into(), Some([node; 32]));
                let config = Config::new(arms, 1.0);
                kind.make(&Config {
                    node,
                    test_seed,
                    fleet_key,
                    forget_after,
                    reward_window: 50,
                    features: 2,
                    ..config
                })
                .unwrap()
            };
            let handles = [1, 2, 3].map(handle);
            let (mut coins, mut seen) = (Coins(u64::from(arms)), Vec::new());
            for time in 0..decisions {
                let turned = time >= decisions / 2;
                let rate = |arm: usize| {
                    most * (1 + if turned { arms as usize - 1 - arm } else { arm }) as f64 / f64::from(arms)
                };
                for handle in &handles {
                    seen.push(kind.decide(handle, &mut coins, |arm, coins| coins.toss(rate(arm))));
                }
                if time % 250 == 249 {
                    merge(&handles, leads);
                    let known = handles.iter().map(|handle| format!("{:?}", handle.arm_reports().unwrap()));
                    seen.push(pattern(known.collect::<Vec<_>>()) as u32);
                }
            }
            let name = if let Subject::Policy(policy) = kind { format!("{policy:?}") } else { format!("{kind:?}") };
            let what = format!("{name}, {arms} arms, forget_after {forget_after}, leads {leads}");
            writeln!(lines, "{what}: {:016x}", pattern(seen)).unwrap();
        }
    }
    lines
}

fn merge(handles: &[Bandit], leads: bool) {
    if leads {
        return exchange(handles);
    }
    for handle in handles {
        let snapshot = handle.snapshot().unwrap();
        handles.iter().for_each(|other| other.merge(&snapshot).unwrap());
    }
}

/// As the file has it, which `DPB_BLESS=1` writes. A system with other mathematical functions does not compare.
#[test]
#[ignore = "ten seconds"]
fn handles_do_what_is_recorded() {
    let file = root().join("tests/data/recorded.txt");
    let mathematics = format!("{:016x}\n", mathematics());
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    let bless = std::env::var_os("DPB_BLESS").is_some();
    if !bless && !recorded.starts_with(&mathematics) {
        return println!("skipped: recorded with other mathematical functions");
    }
    let now = mathematics + &of_histories(0..1) + &of_fleets(8, 1500);
    if bless {
        std::fs::write(file, now).unwrap();
        return;
    }
    let differ: Vec<_> = now.lines().filter(|line| !recorded.contains(line)).collect();
    assert!(differ.is_empty() && now.lines().count() == recorded.lines().count(), "{differ:#?}");
}

/// A longer record equals the one in the file that `DPB_RECORD` names. If there is no such file, writes it.
#[test]
#[ignore = "two minutes; .ci/guard calls it"]
fn a_long_record() {
    let file = std::env::var_os("DPB_RECORD").expect("DPB_RECORD names a file: run .ci/guard");
    let now = of_histories(1..7) + &of_fleets(8, 12_000) + &of_fleets(256, 8000);
    let Ok(recorded) = std::fs::read_to_string(&file) else {
        return std::fs::write(file, now).unwrap();
    };
    let differ: Vec<_> = now.lines().filter(|line| !recorded.contains(line)).collect();
    assert!(now == recorded, "{} of {} kinds of handles differ: {differ:#?}", differ.len(), recorded.lines().count());
}
