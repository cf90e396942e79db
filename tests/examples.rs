//! The example programs in C, built with the commands in their comments.

use crate::support::{Link, build, have, run};
use std::process::Command;

#[test]
fn quickstart_learns() {
    if !have("cc") {
        return;
    }
    for (standard, link) in [("-std=c99", Link::Static), ("-std=c17", Link::Shared)] {
        let printed = run(&mut Command::new(build("cc", "examples/c/quickstart.c", &[standard], link)));
        let shown = |ad: usize| -> u32 {
            let line = printed.lines().nth(ad).unwrap();
            line.strip_prefix(&format!("ad {ad}: shown"))
                .and_then(|rest| rest.split_once("times")?.0.trim().parse().ok())
                .unwrap()
        };
        assert_eq!((0..5).map(shown).sum::<u32>(), 100_000, "{printed}");
        // The second arm pays 0.3 less: DP-SE drops it by its second epoch, except with probability beta = 1e-5.
        assert!(shown(4) > 50_000, "{printed}");
        assert!(printed.ends_with("privacy loss of one reward: 1\n"), "{printed}");
    }
}

/// A handle for each thread: the program prints four lines, and all rewards count (otherwise it exits with 1).
#[test]
#[cfg(unix)]
fn threads_share_what_they_learn() {
    if !have("cc") {
        return;
    }
    let program = build("cc", "examples/c/cores.c", &["-std=gnu11", "-pthread"], Link::Static);
    let printed = run(Command::new(program).args(["3", "90000"]));
    assert_eq!(printed.lines().count(), 4, "{printed}");
    for line in printed.lines() {
        let clicks = |after: &str| -> f64 {
            let rest = line.split_once(after).unwrap().1.trim_start();
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let (lost, chance) = (clicks("second,"), clicks("lost of"));
        assert!(chance == 2025.0 && lost < 0.75 * chance, "{line}");
    }
}
