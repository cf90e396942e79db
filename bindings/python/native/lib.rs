//! The library of the Python package: the C interface, which `dpb` exports, and what only Python calls.
#![allow(non_camel_case_types)]

pub use dpb::ffi;

use plan::log::{Columns, Log, MOST_ARMS};
use plan::replay::{Estimate, Evidence};
use plan::{Options, doubt, indistinct, is_baseline};
use serde_json::{Value, json};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A log in memory: a column each, of `entries` elements.
#[repr(C)]
pub struct dpb_log {
    entries: usize,
    arm: *const u32,
    propensity: *const f64,
    reward: *const f64,
    /// The eligible arms of all entries, and where those of each end; or NULL.
    eligible: *const u32,
    eligible_ends: *const usize,
    /// What a reward of each eligible arm is worth; or NULL.
    values: *const f64,
    /// What it costs to play each eligible arm; or NULL.
    costs: *const f64,
    /// How likely a visitor examined the slot; or NULL.
    examined: *const f64,
    /// Rows of features; or NULL.
    features: *const f32,
    features_len: usize,
    arms: u32,
}

/// # Safety
/// NULL, or `len` elements.
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    // SAFETY: by contract.
    if data.is_null() { &[] } else { unsafe { from_raw_parts(data, len) } }
}

impl dpb_log {
    /// # Safety
    /// All pointers are NULL or have the stated lengths. The last of `eligible_ends` is the length of `eligible`.
    unsafe fn columns(&self) -> Result<Columns<'_>, String> {
        // SAFETY: by contract.
        let (arm, propensity, reward, ends, examined, features) = unsafe {
            (
                slice(self.arm, self.entries),
                slice(self.propensity, self.entries),
                slice(self.reward, self.entries),
                slice(self.eligible_ends, self.entries),
                slice(self.examined, self.entries),
                slice(self.features, self.features_len),
            )
        };
        // SAFETY: by contract.
        let (eligible, values, costs) = unsafe {
            let len = ends.last().copied().unwrap_or(0);
            (slice(self.eligible, len), slice(self.values, len), slice(self.costs, len))
        };
        if self.arms as usize > MOST_ARMS || arm.iter().any(|&arm| arm >= self.arms) {
            return Err(format!("arm: {} arms of at most {MOST_ARMS}", self.arms));
        }
        let (arms, eligible) = (self.arms as usize, (eligible, ends));
        Ok(Columns { arms, arm, propensity, reward, eligible, values, costs, examined, features })
    }
}

/// Simulates or replays, by the arguments of `plan`, each of which ends with NUL. `log` is NULL, or replaces its --log.
/// While it runs, `progress` is the share of the work that is done, and it ends if `stop` is not 0. Writes JSON, or if it
/// does not return 0 the error's text. The caller frees both with dpb_plan_free.
///
/// # Safety
/// The pointers are valid; those of `log` as in [`dpb_log`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_plan(
    arguments: *const u8,
    len: usize,
    log: *const dpb_log,
    progress: *mut f64,
    stop: *mut u32,
    out: *mut *mut u8,
    out_len: *mut usize,
) -> i32 {
    // SAFETY: by contract. Python reads and writes them as whole words.
    let (arguments, log, progress, stop) = unsafe {
        (slice(arguments, len), log.as_ref(), AtomicU64::from_ptr(progress.cast()), AtomicU32::from_ptr(stop))
    };
    let work = || -> Result<Value, Box<dyn Error>> {
        let arguments = std::str::from_utf8(arguments)?;
        let parser = lexopt::Parser::from_args(arguments.split_terminator('\0'));
        let options = Options::parse(parser)?.ok_or("--help: has no meaning here")?;
        let at = |begin: f64, share: f64| {
            progress.store((begin + share * (1.0 - begin)).to_bits(), Relaxed);
            stop.load(Relaxed) == 0
        };
        match (&options.log, log) {
            (None, _) if options.winner => test(&options, |share| at(0.0, share)),
            (None, _) => simulate(&options, |share| at(0.0, share)),
            // SAFETY: by contract.
            (Some(_), Some(log)) => replay(&options, &Log::Columns(unsafe { log.columns() }?), at),
            (Some(path), None) => replay(&options, &Log::File(path), at),
        }
    };
    let (status, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => (0, value.to_string()),
        Ok(Err(error)) => (1, error.to_string()),
        Err(_) => (2, "an internal failure".to_owned()),
    };
    let text = Box::leak(text.into_bytes().into_boxed_slice());
    // SAFETY: by contract.
    unsafe { (*out, *out_len) = (text.as_mut_ptr(), text.len()) };
    status
}

/// Frees what dpb_plan wrote.
///
/// # Safety
/// `out` and `len` are from dpb_plan, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_plan_free(out: *mut u8, len: usize) {
    // SAFETY: by contract.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(out, len)) });
}

/// The estimates of a fixed policy from n decisions: the weighted rewards, the weights and the doubly robust terms.
/// Writes the mean and the half-width of a 95% interval for each of three estimators.
///
/// # Safety
/// The pointers have n elements; `out` has six.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_plan_estimate(
    weighted: *const f64,
    weights: *const f64,
    robust: *const f64,
    n: usize,
    out: *mut f64,
) {
    // SAFETY: by contract.
    let (weighted, weights, robust) = unsafe { (slice(weighted, n), slice(weights, n), slice(robust, n)) };
    let mut evidence = Evidence::default();
    for ((&weighted, &weight), &robust) in weighted.iter().zip(weights).zip(robust) {
        evidence.add(weighted, weight, robust);
    }
    for (place, (mean, variance)) in evidence.estimates().into_iter().enumerate() {
        let Estimate { mean, width } = Estimate::new(mean, variance);
        // SAFETY: by contract.
        unsafe { (*out.add(2 * place), *out.add(2 * place + 1)) = (mean, width) };
    }
}

/// The epsilon of a row, which a baseline does not have.
fn epsilon_of(policy: dpb::Algorithm, epsilon: f64) -> Option<f64> {
    (!is_baseline(policy)).then_some(epsilon)
}

fn simulate(options: &Options, progress: impl Fn(f64) -> bool + Sync) -> Result<Value, Box<dyn Error>> {
    let plan::Simulated { world, named, losses, refusals } = plan::simulated(options, progress)?;
    let rotation = world.rotation() * world.horizon as f64;
    let rows = named.iter().zip(&losses).map(|(&(policy, epsilon), loss)| {
        json!({
            "policy": policy.name(),
            "epsilon": epsilon_of(policy, epsilon),
            "lost": loss.whole.map(|(mean, _)| mean),
            "error": loss.whole.map(|(_, error)| error),
            "percent": loss.whole.map(|(mean, _)| 100.0 * mean / rotation),
            "at_least": loss.part.0,
            "simulated": loss.simulated,
            "runs": loss.runs,
        })
    });
    Ok(json!({
        "rows": rows.collect::<Vec<_>>(),
        "decisions": world.horizon,
        "best": world.best() * world.horizon as f64,
        "rotation": rotation,
        "notes": refusals.lines().collect::<Vec<_>>(),
    }))
}

fn test(options: &Options, progress: impl Fn(f64) -> bool + Sync) -> Result<Value, Box<dyn Error>> {
    let tested = plan::tested(options, progress)?;
    let rows = tested.named.iter().zip(&tested.ended).enumerate().map(|(at, (&(policy, epsilon), runs))| {
        let ((mean, error), ended) = (tested.mean(at), runs.iter().flatten());
        let all = runs.iter().all(Option::is_some); // otherwise a length is not known
        json!({
            "policy": policy.name(),
            "epsilon": epsilon_of(policy, epsilon),
            "decisions": all.then_some(mean),
            "error": all.then_some(error),
            "late": all.then(|| tested.late(at)),
            "ended": ended.clone().count(),
            "wrong": ended.filter(|(_, right)| !right).count(),
            "runs": runs.len(),
        })
    });
    Ok(json!({
        "rows": rows.collect::<Vec<_>>(),
        "most": tested.world.horizon,
        "notes": tested.refusals.lines().collect::<Vec<_>>(),
    }))
}

fn replay(options: &Options, log: &Log, at: impl Fn(f64, f64) -> bool) -> Result<Value, Box<dyn Error>> {
    const CHECKING: f64 = 0.05;
    let checking = |share| at(0.0, CHECKING * share);
    let done = plan::replayed(options, log, checking, |share| at(CHECKING, share))?;
    let mut notes = Vec::new();
    let row = |name: &str, epsilon: Option<f64>, estimates: &[Option<Estimate>; 3], played: Option<f64>| {
        let [ips, snips, dr] = estimates.map(|estimate| estimate.map(|estimate| (estimate.mean, estimate.width)));
        let [(ips, ips_width), (snips, snips_width), (dr, dr_width)] =
            [ips, snips, dr].map(|one| (one.map(|one| one.0), one.map(|one| one.1)));
        json!({
            "policy": name, "epsilon": epsilon, "ips": ips, "ips_width": ips_width, "snips": snips,
            "snips_width": snips_width, "dr": dr, "dr_width": dr_width, "played": played,
        })
    };
    let (logged, rotation) = done.fixed.estimates();
    let mut rows = vec![
        row("the log's own", None, &[Some(logged); 3], None),
        row("even rotation", None, &rotation.map(Some), None),
    ];
    let played = done.survey.entries as f64 * done.least;
    for (&(policy, epsilon), evaluation) in done.named.iter().zip(&done.evaluations) {
        match evaluation {
            Ok(evaluation) => {
                let estimates = evaluation.estimates.map(Some);
                rows.push(row(policy.name(), epsilon_of(policy, epsilon), &estimates, Some(evaluation.played)));
                notes.extend(doubt(evaluation, played).map(|doubt| format!("{}: {doubt}", policy.name())));
            }
            Err(error) => notes.push(format!("{}: {error}", policy.name())),
        }
    }
    if played < 10.0 * done.survey.arms as f64 {
        notes.push("too few decisions can be replayed: log with exploration".to_owned());
    }
    notes.extend(indistinct(&done.evaluations, played, done.survey.entries));
    notes.dedup();
    Ok(json!({
        "rows": rows,
        "decisions": done.survey.entries,
        "arms": done.survey.arms,
        "features": done.survey.features,
        "least_propensity": done.least,
        "notes": notes,
    }))
}
