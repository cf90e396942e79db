//! select + update through Rust and through the C interface, beside a bare mutex in the same run.

use criterion::{Criterion, criterion_group, criterion_main};
use dpb::ffi::{dpb_bandit, dpb_config, dpb_decision, dpb_free, dpb_new_nonprivate_ucb1, dpb_new_se};
use dpb::ffi::{dpb_error, dpb_select, dpb_status, dpb_update};
use dpb::{Algorithm, Bandit, Config};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Mutex;

type Constructor = unsafe extern "C" fn(*const dpb_config, *mut *mut dpb_bandit, *mut dpb_error) -> dpb_status;

fn hot_path(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select+update");
    let lock = Mutex::new(0u64);
    group.bench_function("reference: lock a mutex twice", |b| {
        b.iter(|| {
            *lock.lock().unwrap() += 1;
            *lock.lock().unwrap() += 1;
        })
    });
    let policies: [(Algorithm, Constructor); 2] =
        [(Algorithm::Se, dpb_new_se), (Algorithm::NonprivateUcb1, dpb_new_nonprivate_ucb1)];
    for (algorithm, constructor) in policies {
        for arms in [5, 50] {
            let config = Config { horizon: 1 << 40, ..Config::new(arms, 0.25) };
            let bandit = Bandit::new(algorithm, &config).unwrap();
            group.bench_function(format!("rust/{}/{arms}", algorithm.name()), |b| {
                b.iter(|| {
                    let decision = bandit.select().unwrap();
                    bandit.update(black_box(decision.ticket), 0.5).unwrap();
                })
            });
            group.bench_function(format!("c/{}/{arms}", algorithm.name()), |b| {
                let config = dpb_config { horizon: 1 << 40, ..dpb_config::defaults(arms, 0.25) };
                let mut bandit = std::ptr::null_mut();
                // SAFETY: valid pointers, and the handle is freed once, at the end.
                unsafe {
                    assert_eq!(constructor(&config, &mut bandit, std::ptr::null_mut()), 0);
                    b.iter(|| {
                        let mut decision = MaybeUninit::<dpb_decision>::uninit();
                        assert_eq!(dpb_select(bandit, decision.as_mut_ptr()), 0);
                        assert_eq!(dpb_update(bandit, black_box(decision.assume_init().ticket), 0.5), 0);
                    });
                    dpb_free(bandit);
                }
            });
        }
    }
    group.finish();
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
