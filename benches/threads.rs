//! Two threads that share a handle, or have a handle each, compared with one thread that makes as many decisions as
//! each of them.

use crate::cases::{Case, Handle, Reference, Run, timed};
use std::sync::Barrier;
use std::time::Instant;

pub fn cases() -> impl Iterator<Item = Case> {
    let shared = ["dp-se", "dp-imed"].into_iter().flat_map(|policy| [10, 100_000].map(|arms| (policy, arms, 1)));
    shared.chain([("dp-imed", 10, 2), ("dp-imed", 1000, 2)]).map(|(policy, arms, handles)| Case {
        name: format!("two threads, {policy}, {arms} arms, {handles} handle{}", if handles == 1 { "" } else { "s" }),
        make: Box::new(move || together((0..handles).map(|_| Handle::new(policy, arms)).collect())),
        warm_up: 1_000_000, // after the first batches, in which most decisions end a batch
        reference: Reference {
            name: "one thread",
            run: {
                let mut handle = None;
                timed(move || handle.get_or_insert_with(|| Handle::new(policy, arms)).round())
            },
        },
    })
}

/// Two threads that share one handle, or have one each. With two handles, each merges the releases of the other every
/// 10,000 decisions.
fn together(handles: Vec<Handle>) -> Run {
    let mut worlds = [0, 1].map(|thread| (handles[thread % handles.len()].alias(thread as u64 + 1), 0u64, thread));
    Box::new(move |rounds| {
        let (handles, barrier) = (&handles, &Barrier::new(2));
        std::thread::scope(|scope| {
            let threads = worlds.each_mut().map(|world| {
                scope.spawn(move || {
                    let (world, done, number) = (&mut world.0, &mut world.1, world.2);
                    barrier.wait();
                    let start = Instant::now();
                    for _ in 0..rounds {
                        world.round();
                        *done += 1;
                        if handles.len() == 2 && done.is_multiple_of(10_000) {
                            handles[number].merge(&handles[1 - number]);
                        }
                    }
                    start.elapsed()
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).max().expect("two threads")
        })
    })
}
