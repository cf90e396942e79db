//! Benchmarks of dp-linear through the C interface: decisions, compared with plain dot products of the same rows, and
//! releases, compared with matrix products.

use crate::cases::{Case, Reference, Run, timed};
use dpb::ffi::{DPB_OK, dpb_bandit, dpb_cancel, dpb_config, dpb_decision, dpb_feature, dpb_free, dpb_new, dpb_report};
use dpb::ffi::{dpb_report_read, dpb_request, dpb_select_for, dpb_update};
use dpb::{Random, Seed};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// The shape of a request's rows: the number of arms, of features (d), and of entries that are not 0 in each row.
#[derive(Clone, Copy)]
struct Shape {
    arms: usize,
    d: usize,
    entries: usize,
}

const DENSE: Shape = Shape { arms: 20, d: 16, entries: 16 };
const ONE_HOT: Shape = Shape { arms: 20, d: 64, entries: 5 };

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes = [
        ("20 rows, d = 16", DENSE, "20 dense dot products"),
        ("20 rows, 5 of d = 64", ONE_HOT, "20 sparse dot products"),
    ];
    for (name, shape, reference) in shapes {
        for (what, is_learned) in [("select + cancel", false), ("select + update", true)] {
            cases.push(Case {
                name: format!("{what}, dp-linear, {name}"),
                make: Box::new(move || {
                    let mut handle = Linear::new(shape, 4.0, 1);
                    // Warm up the models, independently of the rounds.
                    (0..20_000).for_each(|_| handle.round(true));
                    timed(move || handle.round(is_learned))
                }),
                warm_up: 100_000,
                reference: Reference { name: reference, run: plain(shape) },
            });
        }
    }
    cases
}

/// The reference: dot products of the same rows with one vector.
fn plain(shape: Shape) -> Run {
    let (rows, theta) = (Rows::new(shape, &mut coins(1)), vec![0.3f64; shape.d]);
    timed(move || {
        let (rows, theta) = (black_box(&rows), black_box(&theta));
        let mut best = f64::NEG_INFINITY;
        if rows.ends.is_empty() {
            for row in rows.dense.chunks_exact(shape.d) {
                best = best.max(row.iter().zip(theta).map(|(&x, t)| f64::from(x) * t).sum());
            }
        } else {
            for row in rows.sparse.chunks_exact(shape.entries) {
                best = best.max(row.iter().map(|x| f64::from(x.value) * theta[x.index as usize]).sum());
            }
        }
        black_box(best);
    })
}

fn coins(seed: u8) -> Random {
    Seed::new(Some([seed; 32])).expect("a test seed needs no entropy").stream()
}

struct Rows {
    dense: Vec<f32>,
    sparse: Vec<dpb_feature>,
    ends: Vec<u32>,
}

impl Rows {
    fn new(shape: Shape, coins: &mut Random) -> Rows {
        let Shape { arms, d, entries } = shape;
        if entries == d {
            let dense = (0..arms * d).map(|_| (coins.unit() as f32 - 0.5) / d as f32).collect();
            return Rows { dense, sparse: Vec::new(), ends: Vec::new() };
        }
        // One-hot fields: each entry is a random level of one field.
        let level =
            |entry: usize, coins: &mut Random| (entry * (d / entries)) as u64 + coins.below((d / entries) as u64);
        let entry = |i: usize| dpb_feature { index: level(i % entries, coins) as u32, value: 1.0 };
        let sparse = (0..arms * entries).map(entry).collect();
        Rows { dense: Vec::new(), sparse, ends: (1..=arms).map(|row| (row * entries) as u32).collect() }
    }

    fn request(&self) -> dpb_request {
        let mut request = dpb_request::defaults();
        if self.ends.is_empty() {
            (request.features, request.features_len) = (self.dense.as_ptr(), self.dense.len());
        } else {
            (request.sparse, request.features_len) = (self.sparse.as_ptr(), self.sparse.len());
            (request.sparse_ends, request.sparse_ends_len) = (self.ends.as_ptr(), self.ends.len());
        }
        request
    }
}

/// A handle with one model, and 16 requests in rotation.
struct Linear {
    bandit: *mut dpb_bandit,
    requests: Vec<Rows>,
    coins: Random,
    turn: usize,
}

impl Linear {
    fn new(shape: Shape, epsilon: f64, seed: u8) -> Linear {
        let key = [seed; 32];
        let mut config = dpb_config::defaults(shape.arms as u32, epsilon);
        config.features = shape.d as u32;
        config.test_seed = key.as_ptr(); // so that every run counts the same instructions
        let mut bandit = std::ptr::null_mut();
        // SAFETY: the pointers are valid.
        unsafe { assert_eq!(dpb_new(&config, &mut bandit, std::ptr::null_mut()), DPB_OK) };
        let mut coins = coins(seed);
        let requests = (0..16).map(|_| Rows::new(shape, &mut coins)).collect();
        Linear { bandit, requests, coins, turn: 0 }
    }

    #[inline]
    fn round(&mut self, is_learned: bool) {
        let decision = self.select();
        let status = match is_learned {
            true => self.update(decision),
            // SAFETY: the handle is live.
            false => unsafe { dpb_cancel(self.bandit, decision.ticket) },
        };
        assert_eq!(status, DPB_OK);
    }

    #[inline]
    fn select(&mut self) -> dpb_decision {
        let mut decision = MaybeUninit::<dpb_decision>::uninit();
        self.turn = (self.turn + 1) % self.requests.len();
        let request = self.requests[self.turn].request();
        // SAFETY: the handle is live, the pointer to the decision is valid, and the rows match the configuration.
        unsafe {
            assert_eq!(dpb_select_for(self.bandit, &request, decision.as_mut_ptr()), DPB_OK);
            decision.assume_init()
        }
    }

    #[inline]
    fn update(&mut self, decision: dpb_decision) -> dpb::ffi::dpb_status {
        let reward = f64::from(u8::from(self.coins.unit() < 0.1 + 0.2 * f64::from(decision.arm % 2)));
        // SAFETY: the handle is live.
        unsafe { dpb_update(self.bandit, decision.ticket, reward) }
    }

    fn releases(&self) -> u32 {
        let mut report = MaybeUninit::<dpb_report>::zeroed();
        // SAFETY: the handle is live. The struct begins with its size, and all its fields are numbers.
        unsafe {
            report.as_mut_ptr().cast::<u32>().write(size_of::<dpb_report>() as u32);
            assert_eq!(dpb_report_read(self.bandit, report.as_mut_ptr()), DPB_OK);
            report.assume_init().phase
        }
    }
}

impl Drop for Linear {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and is freed once.
        unsafe { dpb_free(self.bandit) };
    }
}

/// The calls of dpb_update that end a batch. The reference is a product of two d x d matrices.
pub fn releases() -> impl Iterator<Item = Case> {
    [16, 64, 128].into_iter().map(|d| Case {
        name: format!("a release of dp-linear, d = {d}"),
        make: Box::new(move || {
            let mut handle = Linear::new(Shape { arms: 4, d, entries: d }, 100.0, 1);
            let (mut seed, mut decisions, mut before) = (1, 0, 0);
            Box::new(move |releases| {
                let (mut total, mut count) = (Duration::ZERO, 0);
                while count < releases {
                    if decisions == 20_000 {
                        seed += 1;
                        handle = Linear::new(Shape { arms: 4, d, entries: d }, 100.0, seed);
                        (decisions, before) = (0, handle.releases());
                    }
                    decisions += 1;
                    let decision = handle.select();
                    let start = Instant::now();
                    assert_eq!(handle.update(decision), DPB_OK);
                    let time = start.elapsed();
                    let after = handle.releases();
                    if after > before && before > 2 {
                        // The pilot's releases do not count, because they have no matrix.
                        (total, count) = (total + time, count + 1);
                    }
                    before = after;
                }
                total
            })
        }),
        warm_up: 0,
        reference: Reference { name: "d x d matrix products", run: product(d) },
    })
}

fn product(d: usize) -> Run {
    let (a, mut c) = (vec![0.5f64; d * d], vec![0.0; d * d]);
    timed(move || {
        for (row, out) in black_box(&a).chunks_exact(d).zip(c.chunks_exact_mut(d)) {
            for (x, other) in row.iter().zip(a.chunks_exact(d)) {
                out.iter_mut().zip(other).for_each(|(out, y)| *out += x * y);
            }
        }
        black_box(&mut c);
    })
}
