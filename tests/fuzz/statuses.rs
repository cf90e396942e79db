//! The C interface with a check: each function that returns a status is wrapped, and returns only what its comment in the
//! header lists.
#![allow(dead_code)] // the guided fuzzer does not ask what is missing

pub use dpb::ffi::*;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const HEADER: &str = include_str!("../../include/dpb.h");

/// A function of the interface: the statuses that its comment lists, and those that it has returned, as bits.
pub struct Function {
    pub name: &'static str,
    listed: OnceLock<u32>,
    returned: AtomicU32,
}

impl Function {
    const fn new(name: &'static str) -> Function {
        Function { name, listed: OnceLock::new(), returned: AtomicU32::new(0) }
    }

    fn listed(&self) -> u32 {
        *self.listed.get_or_init(|| listed(self.name).unwrap_or_else(|| panic!("{} is not in the header", self.name)))
    }

    #[track_caller]
    fn returns(&self, status: dpb_status) -> dpb_status {
        assert!(self.listed() >> status & 1 == 1, "the comment of {} does not list {}", self.name, name(status));
        self.returned.fetch_or(1 << status, Ordering::Relaxed);
        status
    }

    /// The listed statuses that it has not returned so far, except those of a machine that fails.
    pub fn missing(&self) -> Vec<String> {
        let failures = [DPB_ENTROPY, DPB_NO_MEMORY, DPB_POISONED];
        let missing = self.listed() & !self.returned.load(Ordering::Relaxed);
        (0..32).filter(|status| missing >> status & 1 == 1 && !failures.contains(status)).map(name).collect()
    }
}

fn name(status: dpb_status) -> String {
    // SAFETY: a static string.
    unsafe { CStr::from_ptr(dpb_status_name(status)) }.to_str().unwrap().to_owned()
}

/// Checks that an error explains this status. A message about an argument begins with its name, as C calls it.
#[track_caller]
pub fn explained(error: &dpb_error, status: dpb_status) {
    static NAMES: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let code = || HEADER.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
    let is_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    let names = NAMES.get_or_init(|| code().flat_map(|code| code.split(|c| !is_of_a_name(c))).collect());
    assert!(error.status == status && error.message[251] == 0);
    // SAFETY: it ends with NUL.
    let text = unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_str().unwrap();
    let first = text.split(|c| !is_of_a_name(c)).next().unwrap();
    let named = names.contains(first) || !matches!(status, DPB_INVALID_CONFIG | DPB_INVALID_REQUEST);
    assert!(!text.is_empty() && named && !text.contains("::"), "{text}");
}

/// Where the header declares functions that return a status.
fn declarations() -> impl Iterator<Item = (usize, &'static str)> {
    let after = |(place, text): (usize, &'static str)| {
        let declared = HEADER[place + text.len()..].trim_start();
        Some((place, declared.split_once('(')?.0)).filter(|(_, name)| name.starts_with("dpb_"))
    };
    HEADER.match_indices("dpb_status ").filter_map(after)
}

/// The names of all functions in the header that return a status.
pub fn declared() -> BTreeSet<&'static str> {
    declarations().map(|(_, name)| name).filter(|name| !name.contains(char::is_whitespace)).collect()
}

/// The statuses in the comment of this function, from the word "Returns" on, and those of the functions that it refers to
/// for its statuses.
fn listed(function: &str) -> Option<u32> {
    let (place, _) = declarations().find(|(_, name)| *name == function)?;
    let comment = HEADER[..place].rsplit("/**").next()?.split("*/").next()?;
    let words: Vec<_> = comment.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ';', ':'])).collect();
    let returns = words.iter().position(|word| *word == "Returns");
    let own = words[returns.unwrap_or(words.len())..].iter();
    let own = own.flat_map(|word| word.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let own =
        own.filter_map(|word| (0..32).find(|&status| name(status) == word)).fold(0, |bits, status| bits | 1 << status);
    // "Returns as f", "the status of f", "statuses and threads as f", "Otherwise as f".
    let refers = |i: usize| {
        let before = words[..i].iter().rev().map(|word| word.trim_start_matches('*'));
        let before: Vec<_> = before.take(4).collect();
        matches!(before[..], ["as", "Returns" | "threads" | "Otherwise", ..] | ["of", "status", ..])
    };
    let others = (1..words.len()).filter(|&i| words[i].starts_with("dpb_") && refers(i));
    others.map(|i| listed(words[i])).try_fold(own, |bits, other| Some(bits | other?))
}

macro_rules! checked {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[track_caller]
            pub unsafe fn $name($($argument: $type),*) -> dpb_status {
                // SAFETY: passed on.
                $name::FUNCTION.returns(unsafe { dpb::ffi::$name($($argument),*) })
            }

            mod $name {
                pub static FUNCTION: super::Function = super::Function::new(stringify!($name));
            }
        )*

        /// All functions that return a status.
        pub const FUNCTIONS: &[&Function] = &[$(&$name::FUNCTION),*];
    };
}

checked! {
    // begin generated functions
    dpb_add_arm(bandit: *mut dpb_bandit, id: u64, arm: *mut u32, error: *mut dpb_error);
    dpb_retire_arm(bandit: *mut dpb_bandit, arm: u32);
    dpb_set_prior(bandit: *mut dpb_bandit, arm: u32, mean: f64, strength: f64, error: *mut dpb_error);
    dpb_next_period(bandit: *mut dpb_bandit);
    dpb_new_policy(name: *const c_char, config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_select(bandit: *mut dpb_bandit, out: *mut dpb_decision);
    dpb_update(bandit: *mut dpb_bandit, ticket: u64, reward: f64);
    dpb_update_part(bandit: *mut dpb_bandit, ticket: u64, part: u32, value: f64);
    dpb_cancel(bandit: *mut dpb_bandit, ticket: u64);
    dpb_advance(bandit: *mut dpb_bandit, now: u64);
    dpb_skip(bandit: *mut dpb_bandit, ticks: u64);
    dpb_cancel_all(bandit: *mut dpb_bandit);
    dpb_update_many(bandit: *mut dpb_bandit, tickets: *const u64, rewards: *const f64, n: usize, each: *mut dpb_status, done: *mut usize);
    dpb_new_budget(epsilon: f64, delta: f64, out: *mut *mut dpb_budget, error: *mut dpb_error);
    dpb_budget_charge(budget: *const dpb_budget, epsilon: f64, delta: f64, error: *mut dpb_error);
    dpb_budget_spent(budget: *const dpb_budget, delta: f64, epsilon: *mut f64);
    dpb_budget_remaining(budget: *const dpb_budget, epsilon: *mut f64);
    dpb_codebook(rows: *const f32, n: usize, features: u32, len: u32, book: *mut f32, error: *mut dpb_error);
    dpb_new_counter(config: *const dpb_counter_config, out: *mut *mut dpb_counter, error: *mut dpb_error);
    dpb_counter_add(counter: *mut dpb_counter, value: f64);
    dpb_counter_read(counter: *const dpb_counter, sum: *mut f64);
    dpb_counter_is_private(counter: *const dpb_counter, is_private: *mut u32);
    dpb_merge(bandit: *mut dpb_bandit, snapshot: *const u8, len: usize, error: *mut dpb_error);
    dpb_lead(bandit: *mut dpb_bandit, generation: *mut u64, error: *mut dpb_error);
    dpb_alone(bandit: *mut dpb_bandit, error: *mut dpb_error);
    dpb_set_handles(bandit: *mut dpb_bandit, handles: u32, error: *mut dpb_error);
    dpb_contribution(bandit: *mut dpb_bandit, generation: u64, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error);
    dpb_combine(bandit: *mut dpb_bandit, contribution: *const u8, len: usize, error: *mut dpb_error);
    dpb_seal(bandit: *const dpb_bandit, message: *const u8, message_len: usize, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error);
    dpb_open(bandit: *const dpb_bandit, sealed: *const u8, sealed_len: usize, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error);
    dpb_ldp_encode(epsilon: f64, reward: f64, bit: *mut u8);
    dpb_suspend(bandit: *mut dpb_bandit, receiver: u64, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error);
    dpb_resume(name: *const c_char, config: *const dpb_config, buf: *const u8, len: usize, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_claimed(bandit: *mut dpb_bandit);
    dpb_receiver(bandit: *mut dpb_bandit, receiver: *mut u64, error: *mut dpb_error);
    dpb_node_new(name: *const c_char, config: *const dpb_config, options: *const dpb_node_options, out: *mut *mut dpb_node, error: *mut dpb_error);
    dpb_node_next(node: *mut dpb_node, lane: u32, now_ms: u64, out: *mut dpb_command, error: *mut dpb_error);
    dpb_node_reply(node: *mut dpb_node, id: u64, now_ms: u64, reply: *const u8, len: usize);
    dpb_node_failed(node: *mut dpb_node, id: u64, now_ms: u64, why: *const c_char);
    dpb_node_update(node: *mut dpb_node, ticket: u64, reward: f64);
    dpb_node_update_part(node: *mut dpb_node, ticket: u64, part: u32, value: f64);
    dpb_node_next_period(node: *mut dpb_node);
    dpb_node_leave(node: *mut dpb_node, now_ms: u64);
    dpb_node_report_read(node: *const dpb_node, now_ms: u64, out: *mut dpb_node_report);
    dpb_node_diagnostics_read(node: *const dpb_node, out: *mut dpb_node_diagnostics);
    dpb_node_gone(name: *const c_char, number: u16, out: *mut dpb_command);
    dpb_report_read(bandit: *const dpb_bandit, out: *mut dpb_report);
    dpb_diagnostics_read(bandit: *const dpb_bandit, out: *mut dpb_diagnostics);
    dpb_arms_read(bandit: *const dpb_bandit, out: *mut dpb_arm, cap: usize, n: *mut usize);
    dpb_segment_read(bandit: *const dpb_bandit, segment: u64, out: *mut dpb_arm, cap: usize, n: *mut usize);
    dpb_best_arm(bandit: *const dpb_bandit, arm: *mut u32);
    dpb_verdict_read(bandit: *const dpb_bandit, out: *mut dpb_verdict);
    dpb_verdict_text(verdict: *const dpb_verdict, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error);
    dpb_statement( bandit: *const dpb_bandit, form: u32, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error );
    dpb_compare(bandit: *const dpb_bandit, i: u32, j: u32, confidence: f64, low: *mut f64, high: *mut f64);
    dpb_lift(bandit: *const dpb_bandit, control: u32, confidence: f64, low: *mut f64, high: *mut f64);
    dpb_feature_weights(bandit: *const dpb_bandit, arm: u32, mean: *mut f64, deviation: *mut f64, cap: usize, n: *mut usize);
    dpb_epsilon_spent(bandit: *const dpb_bandit, delta: f64, epsilon: *mut f64);
    dpb_select_for(bandit: *mut dpb_bandit, request: *const dpb_request, out: *mut dpb_decision);
    dpb_select_many(bandit: *mut dpb_bandit, requests: *const dpb_request, n: usize, out: *mut dpb_decision, done: *mut usize);
    dpb_request_check(bandit: *const dpb_bandit, request: *const dpb_request, error: *mut dpb_error);
    dpb_predict(bandit: *const dpb_bandit, request: *const dpb_request, mean: *mut f64, deviation: *mut f64, cap: usize, n: *mut usize);
    dpb_store_run(rows: *const dpb_rows, command: *const dpb_command, now_ms: u64, buf: *mut u8, cap: usize, len: *mut usize);
    dpb_shuffle_plan(epsilon: f64, delta: f64, users: u32, flags: u32, out: *mut dpb_shuffle_params, error: *mut dpb_error);
    dpb_shuffle_encode(params: *const dpb_shuffle_params, reward: f64, bits: *mut u8, cap: usize, len: *mut usize);
    dpb_new_shuffler(params: *const dpb_shuffle_params, out: *mut *mut dpb_shuffler, error: *mut dpb_error);
    dpb_shuffler_push(shuffler: *mut dpb_shuffler, bits: *const u8, len: usize);
    dpb_shuffler_take(shuffler: *mut dpb_shuffler, out: *mut u8, cap: usize, len: *mut usize);
    dpb_shuffle_params_read(bandit: *const dpb_bandit, phase: u32, out: *mut dpb_shuffle_params);
    dpb_submit_shuffled(bandit: *mut dpb_bandit, phase: u32, arm: u32, bits: *const u8, len: usize);
    dpb_snapshot(bandit: *const dpb_bandit, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error);
    dpb_stored(bandit: *mut dpb_bandit, snapshot: *const u8, len: usize, error: *mut dpb_error);
    dpb_restore(buf: *const u8, len: usize, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_restore_as(name: *const c_char, config: *const dpb_config, buf: *const u8, len: usize, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_nas(config: *const dpb_stopping_config, out: *mut *mut dpb_stopping, error: *mut dpb_error);
    dpb_new_dp_nas(config: *const dpb_stopping_config, out: *mut *mut dpb_stopping, error: *mut dpb_error);
    dpb_new_dp_exp_nas(config: *const dpb_stopping_config, out: *mut *mut dpb_stopping, error: *mut dpb_error);
    dpb_stopping_push(stopping: *mut dpb_stopping, sample: f64, halted: *mut u32);
    dpb_stopping_mean(stopping: *const dpb_stopping, mean: *mut f64);
    dpb_stopping_is_private(stopping: *const dpb_stopping, is_private: *mut u32);
    dpb_decide(weights: *const u64, n: usize, salt: *const c_char, context: *const c_char, unit: *const c_char, out: *mut dpb_elsewhere, error: *mut dpb_error);
    dpb_weights(bandit: *const dpb_bandit, request: *const dpb_request, weights: *mut u64, cap: usize, n: *mut usize, error: *mut dpb_error);
    dpb_table_begin(bandit: *mut dpb_bandit, grace: u64, version: *mut u64, error: *mut dpb_error);
    dpb_record(bandit: *mut dpb_bandit, version: u64, id: u64, request: *const dpb_request, out: *mut dpb_decision);
    dpb_find(bandit: *mut dpb_bandit, version: u64, id: u64, out: *mut dpb_decision);
    dpb_new_imed(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_med(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_tt(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_linear(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_se(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_ucb_bound(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_ucb(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_ucb_int(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_private_ucb(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_lap(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_exp3_lap(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_exp3_tau(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_tsallis(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_nonprivate_ucb1(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_nonprivate_klucb(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_nonprivate_imed(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_nonprivate_se(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_nonprivate_exp3(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_sdp_ae(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_vb_sdp_ae(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_ldp_ucb(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    dpb_new_ldp_klucb(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error);
    // end generated functions
}

/// Calls that return the statuses which programs of random bytes hardly ever reach.
pub fn rare(constructors: &[super::Constructor]) {
    let (mut handle, mut none, mut n, mut number, mut real) = (null_mut(), null_mut(), 0usize, 0u32, 0.0);
    let expect = |status: dpb_status, expected: dpb_status| assert_eq!(name(status), name(expected));
    // SAFETY: pointers are NULL or valid, sizes are true but for those that no library knows, and what is freed is not
    // used again.
    unsafe {
        let newer = size_of::<dpb_config>() as u32 + 8;
        let mut budget = null_mut();
        expect(dpb_new_budget(1e-3, 0.0, &raw mut budget, null_mut()), DPB_OK);
        expect(dpb_budget_spent(budget, 1.0, &raw mut real), DPB_INVALID_CONFIG);
        // Each policy with the delta that it needs.
        for (constructor, delta) in
            constructors.iter().flat_map(|constructor| [(constructor, 0.0), (constructor, 1e-6)])
        {
            for base in [0, dpb::Algorithm::Se as u32] {
                let config = dpb_config { budget, delta, horizon: 1000, base, ..dpb_config::defaults(2, 0.5) };
                let _ = constructor(&raw const config, &raw mut handle, null_mut());
            }
        }
        let config = dpb_config { features: 2, budget, ..dpb_config::defaults(2, 0.5) };
        expect(dpb_new_linear(&raw const config, &raw mut handle, null_mut()), DPB_OVER_BUDGET);
        expect(dpb_new_linear(null(), &raw mut handle, null_mut()), DPB_NULL);

        // A restored handle without users whose snapshot had them, and an arm that is retired.
        let plain = dpb_config::defaults(2, 0.5);
        let made = |config: &dpb_config| {
            let mut handle = null_mut();
            expect(dpb_new(config, &raw mut handle, null_mut()), DPB_OK);
            handle
        };
        let saved = |handle| {
            let mut n = 0;
            expect(dpb_snapshot(handle, null_mut(), 0, &raw mut n, null_mut()), DPB_BUFFER_TOO_SMALL);
            let mut bytes = vec![0; n];
            expect(dpb_snapshot(handle, bytes.as_mut_ptr(), n, &raw mut n, null_mut()), DPB_OK);
            bytes
        };
        let users = made(&dpb_config { expected_users: 9, ..plain });
        let mut bytes = saved(users);
        dpb_free(users);
        let restore_as = |name: &CStr, config: &dpb_config, bytes: &[u8], handle| {
            dpb_restore_as(name.as_ptr(), config, bytes.as_ptr(), bytes.len(), handle, null_mut())
        };
        let new = dpb_config { struct_size: newer, ..plain };
        expect(restore_as(c"dp-imed", &dpb_config { budget, ..plain }, &bytes, &raw mut handle), DPB_OVER_BUDGET);
        expect(restore_as(c"dp-imed", &new, &bytes, &raw mut handle), DPB_NEWER_VERSION);
        expect(restore_as(c"dp-imed", &plain, &bytes[1..], &raw mut handle), DPB_CORRUPT);
        expect(restore_as(c"dp-imed", &plain, &bytes, &raw mut handle), DPB_OK);
        let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
        let request = dpb_request::defaults();
        expect(dpb_select(handle, &raw mut decision), DPB_NOT_READY);
        expect(dpb_select_many(handle, null(), 1, &raw mut decision, &raw mut n), DPB_NOT_READY);
        expect(dpb_request_check(handle, &raw const request, null_mut()), DPB_NOT_READY);
        let stored = |handle, bytes: &[u8]| dpb_stored(handle, bytes.as_ptr(), bytes.len(), null_mut());
        expect(stored(handle, &bytes), DPB_INVALID_CONFIG);
        expect(stored(handle, &bytes[1..]), DPB_CORRUPT);
        bytes[3] += 1;
        expect(stored(handle, &bytes), DPB_NEWER_VERSION);
        bytes[3] -= 1;
        expect(dpb_select(handle, &raw mut decision), DPB_NOT_READY);
        expect(stored(handle, &saved(handle)), DPB_OK);
        expect(dpb_select(handle, &raw mut decision), DPB_OK);
        expect(stored(null_mut(), &bytes), DPB_NULL);
        expect(dpb_add_arm(handle, 9, &raw mut number, null_mut()), DPB_OK);
        expect(dpb_retire_arm(handle, number), DPB_OK);
        expect(dpb_add_arm(handle, 9, &raw mut number, null_mut()), DPB_INVALID_REQUEST);
        let predict = |request: &dpb_request, n| dpb_predict(handle, request, null_mut(), null_mut(), 0, n);
        expect(predict(&request, &raw mut n), DPB_UNSUPPORTED);
        expect(dpb_feature_weights(handle, 0, null_mut(), null_mut(), 0, &raw mut n), DPB_UNSUPPORTED);
        expect(predict(&dpb_request { struct_size: newer, ..request }, &raw mut n), DPB_NEWER_VERSION);
        let mut sizes = [0u64; 32];
        for (size, expected) in [(8, DPB_INVALID_CONFIG), (newer, DPB_NEWER_VERSION)] {
            sizes[0] = size.into();
            expect(dpb_diagnostics_read(handle, sizes.as_mut_ptr().cast()), expected);
        }
        // Snapshots of a later version, and of a policy that has none.
        let merge = |bytes: &[u8]| dpb_merge(handle, bytes.as_ptr(), bytes.len(), null_mut());
        bytes[3] += 1;
        expect(merge(&bytes), DPB_NEWER_VERSION);
        bytes[3] -= 1;
        bytes[5] = dpb::Algorithm::NonprivateUcb1 as u32 as u8;
        let bytes = super::sealed(bytes);
        expect(restore_as(c"nonprivate-ucb1", &plain, &bytes, &raw mut none), DPB_UNSUPPORTED);
        expect(dpb_restore(bytes.as_ptr(), bytes.len(), &raw mut none, null_mut()), DPB_UNSUPPORTED);
        // More handles than can be merged.
        for number in 0..=1024 {
            let other = made(&plain);
            expect(merge(&saved(other)), if number < 1024 { DPB_OK } else { DPB_FULL });
            dpb_free(other);
        }
        dpb_free(handle);

        expect(dpb_new_nonprivate_se(&dpb_config { beta: 0.5, ..plain }, &raw mut handle, null_mut()), DPB_OK);
        while dpb_best_arm(handle, &raw mut number) != DPB_OK {
            expect(dpb_select(handle, &raw mut decision), DPB_OK);
            expect(dpb_update(handle, decision.ticket, decision.arm.into()), DPB_OK);
        }
        dpb_free(handle);

        expect(dpb_new_tt(&raw const plain, &raw mut handle, null_mut()), DPB_OK);
        for (size, expected) in [(8, DPB_INVALID_CONFIG), (newer, DPB_NEWER_VERSION)] {
            sizes[0] = size.into();
            expect(dpb_verdict_read(handle, sizes.as_mut_ptr().cast()), expected);
        }
        dpb_free(handle);

        // Decisions elsewhere.
        let mut weights = [0u64; 2];
        let mut read = |handle, request: *const dpb_request, cap| {
            let mut error = zeroed();
            let status = dpb_weights(handle, request, weights.as_mut_ptr(), cap, &raw mut n, &raw mut error);
            if status != DPB_OK {
                explained(&error, status);
            }
            status
        };
        let of_tables = dpb_config { table_capacity: 1, ..plain };
        let mut tables = null_mut();
        expect(dpb_new_med(&raw const of_tables, &raw mut tables, null_mut()), DPB_OK);
        expect(read(tables, null(), 1), DPB_BUFFER_TOO_SMALL);
        expect(read(tables, null(), 2), DPB_OK);
        expect(read(tables, &dpb_request { slots: 2, ..request }, 2), DPB_INVALID_REQUEST);
        expect(read(tables, &dpb_request { abstain: 1, ..request }, 2), DPB_INVALID_REQUEST);
        expect(read(tables, &dpb_request { struct_size: newer, ..request }, 2), DPB_NEWER_VERSION);
        let segments = made(&dpb_config { max_segments: 1, table_capacity: 1, ..plain });
        let of_segment = |segment| dpb_request { segment, eligible: &1, eligible_len: 1, ..request };
        expect(dpb_select_for(segments, &of_segment(1), &raw mut decision), DPB_OK);
        expect(read(segments, &of_segment(1), 2), DPB_UNSUPPORTED);
        expect(read(segments, &of_segment(2), 2), DPB_FULL);
        let begin = |handle, version: &mut u64| dpb_table_begin(handle, 0, version, null_mut());
        let mut version = 0;
        expect(begin(segments, &mut version), DPB_OK);
        expect(dpb_record(segments, version, 1, &of_segment(1), &raw mut decision), DPB_OK);
        dpb_free(segments);
        let shown = of_segment(0);
        expect(dpb_find(tables, version, 1, &raw mut decision), DPB_EXPIRED);
        expect(begin(tables, &mut version), DPB_OK);
        expect(dpb_find(tables, version, 1, &raw mut decision), DPB_UNKNOWN_TICKET);
        expect(dpb_record(tables, version, 1, &raw const request, &raw mut decision), DPB_INVALID_REQUEST);
        let wrong = dpb_request { struct_size: newer, ..request };
        expect(dpb_record(tables, version, 1, &raw const wrong, &raw mut decision), DPB_NEWER_VERSION);
        expect(dpb_record(tables, version + 1, 1, &raw const shown, &raw mut decision), DPB_EXPIRED);
        expect(dpb_record(tables, version, 1, &raw const shown, &raw mut decision), DPB_OK);
        expect(dpb_record(tables, version, 2, &raw const shown, &raw mut decision), DPB_FULL);
        expect(dpb_find(tables, version, 1, &raw mut decision), DPB_OK);
        expect(dpb_cancel(tables, decision.ticket), DPB_OK);
        expect(dpb_find(tables, version, 1, &raw mut decision), DPB_DUPLICATE);
        expect(dpb_record(tables, version, 1, &raw const shown, &raw mut decision), DPB_DUPLICATE);
        dpb_free(tables);
        let none_kept = made(&plain);
        expect(begin(none_kept, &mut version), DPB_UNSUPPORTED);
        expect(dpb_record(none_kept, version, 1, &raw const shown, &raw mut decision), DPB_UNSUPPORTED);
        expect(dpb_find(none_kept, version, 1, &raw mut decision), DPB_UNSUPPORTED);
        dpb_free(none_kept);
        let counting = made(&dpb_config { expected_users: 9, table_capacity: 1, ..plain });
        let bytes = saved(counting);
        dpb_free(counting);
        let mut restored = null_mut();
        expect(
            dpb_restore_as(
                c"dp-imed".as_ptr(),
                &dpb_config { expected_users: 9, table_capacity: 1, ..plain },
                bytes.as_ptr(),
                bytes.len(),
                &raw mut restored,
                null_mut(),
            ),
            DPB_OK,
        );
        expect(begin(restored, &mut version), DPB_OK);
        expect(dpb_record(restored, version, 1, &raw const shown, &raw mut decision), DPB_NOT_READY);
        dpb_free(restored);
        let (mut elsewhere, all, text) = (zeroed(), 1u64 << 32, c"text".as_ptr());
        let mut decide =
            |weights: *const u64, unit| dpb_decide(weights, 1, text, text, unit, &raw mut elsewhere, null_mut());
        expect(decide(&all, text), DPB_OK);
        expect(decide(&1, text), DPB_INVALID_CONFIG);
        expect(decide(&all, c"".as_ptr()), DPB_INVALID_REQUEST);
        for status in [
            dpb_weights(null(), null(), null_mut(), 0, &raw mut n, null_mut()),
            dpb_table_begin(null_mut(), 0, &raw mut version, null_mut()),
            dpb_record(null_mut(), 0, 0, &raw const request, &raw mut decision),
            dpb_find(null_mut(), 0, 0, &raw mut decision),
            decide(null(), text),
        ] {
            expect(status, DPB_NULL);
        }

        // A part that comes too late.
        let parts = made(&dpb_config { reward_window: 1, parts: 8, part_weights: [1.0; 8], ..plain });
        expect(dpb_select(parts, &raw mut decision), DPB_OK);
        let late = decision.ticket;
        (0..2).for_each(|_| expect(dpb_select(parts, &raw mut decision), DPB_OK));
        expect(dpb_update_part(parts, late, 7, 1.0), DPB_EXPIRED);
        expect(dpb_update_part(parts, !0, 7, 1.0), DPB_UNKNOWN_TICKET);
        dpb_free(parts);

        // A fleet with a key.
        let mut generation = 0;
        let of_fleet = dpb_config { fleet_key: [9; 32].as_ptr(), ..plain };
        let (leader, other) = (made(&of_fleet), made(&dpb_config { epsilon: 0.4, ..of_fleet }));
        expect(dpb_lead(leader, &raw mut generation, null_mut()), DPB_OK);
        expect(dpb_select(other, &raw mut decision), DPB_OK);
        expect(dpb_update(other, decision.ticket, 1.0), DPB_OK);
        let mut sent = [0; 1000];
        expect(dpb_contribution(other, generation, sent.as_mut_ptr(), 1000, &raw mut n, null_mut()), DPB_OK);
        expect(dpb_combine(leader, sent.as_ptr(), n, null_mut()), DPB_INVALID_CONFIG);
        sent[3] += 1;
        expect(dpb_combine(leader, sent.as_ptr(), n, null_mut()), DPB_NEWER_VERSION);
        [leader, other].into_iter().for_each(|handle| dpb_free(handle));
        expect(dpb_lead(null_mut(), &raw mut generation, null_mut()), DPB_NULL);
        expect(dpb_alone(null_mut(), null_mut()), DPB_NULL);
        expect(dpb_set_handles(null_mut(), 2, null_mut()), DPB_NULL);
        expect(dpb_contribution(null_mut(), 1, null_mut(), 0, &raw mut n, null_mut()), DPB_NULL);
        expect(dpb_combine(null_mut(), null(), 0, null_mut()), DPB_NULL);
        expect(dpb_seal(null(), null(), 0, null_mut(), 0, &raw mut n, null_mut()), DPB_NULL);
        expect(dpb_open(null(), null(), 0, null_mut(), 0, &raw mut n, null_mut()), DPB_NULL);

        // States that move.
        let state_of = |handle: *mut dpb_bandit, receiver: u64| {
            let mut len = 0;
            expect(dpb_suspend(handle, receiver, null_mut(), 0, &raw mut len, null_mut()), DPB_BUFFER_TOO_SMALL);
            let mut state = vec![0; len];
            expect(dpb_suspend(handle, receiver, state.as_mut_ptr(), len, &raw mut len, null_mut()), DPB_OK);
            expect(dpb_suspend(handle, receiver, state.as_mut_ptr(), len, &raw mut len, null_mut()), DPB_HALTED);
            expect(dpb_claimed(handle), DPB_HALTED);
            state
        };
        let resume = |name, config: *const dpb_config, state: &[u8], out| {
            dpb_resume(name, config, state.as_ptr(), state.len(), out, null_mut())
        };
        let (keeper, old, mut next, mut held) = (made(&of_fleet), made(&of_fleet), null_mut(), null_mut());
        expect(dpb_claimed(null_mut()), DPB_NULL);
        expect(dpb_claimed(old), DPB_OK);
        expect(dpb_receiver(null_mut(), &raw mut generation, null_mut()), DPB_NULL);
        (0..1024).for_each(|_| expect(dpb_receiver(keeper, &raw mut generation, null_mut()), DPB_OK));
        expect(dpb_receiver(keeper, &raw mut generation, null_mut()), DPB_FULL);
        expect(dpb_suspend(null_mut(), 0, null_mut(), 0, &raw mut n, null_mut()), DPB_NULL);
        let without = made(&plain);
        expect(dpb_suspend(without, 0, null_mut(), 0, &raw mut n, null_mut()), DPB_UNSUPPORTED);
        dpb_free(without);
        let ours = saved(old);
        let mut state = state_of(old, generation);
        expect(resume(null(), null(), &state, &raw mut next), DPB_NULL);
        expect(resume(null(), &raw const plain, &state, &raw mut next), DPB_UNSUPPORTED);
        expect(resume(c"dp-se".as_ptr(), &raw const of_fleet, &state, &raw mut next), DPB_INVALID_CONFIG);
        state[3] += 1;
        expect(resume(null(), &raw const of_fleet, &state, &raw mut next), DPB_NEWER_VERSION);
        state[3] -= 1;
        expect(resume(null(), &raw const of_fleet, &state[1..], &raw mut next), DPB_CORRUPT);
        let mut small = null_mut();
        expect(dpb_new_budget(1e-6, 0.0, &raw mut small, null_mut()), DPB_OK);
        let charged = dpb_config { budget: small, ..of_fleet };
        expect(resume(null(), &raw const charged, &state, &raw mut next), DPB_OVER_BUDGET);
        dpb_budget_free(small);
        expect(resume(null(), &raw const of_fleet, &state, &raw mut next), DPB_OK);
        expect(resume(null(), &raw const of_fleet, &state, &raw mut held), DPB_EXPIRED);
        expect(resume(null(), &raw const of_fleet, &state_of(next, 0), &raw mut held), DPB_OK);
        expect(dpb_suspend(held, 0, null_mut(), 0, &raw mut n, null_mut()), DPB_NOT_READY);
        expect(stored(held, &bytes[1..]), DPB_CORRUPT);
        expect(stored(held, &ours), DPB_NOT_READY);
        expect(stored(old, &ours), DPB_HALTED);
        [keeper, old, next, held].into_iter().for_each(|handle| dpb_free(handle));

        // Beside the bandits.
        let (mut counting, mut counter): (dpb_counter_config, _) = (zeroed(), null_mut());
        counting.struct_size = newer;
        expect(dpb_new_counter(&raw const counting, &raw mut counter, null_mut()), DPB_NEWER_VERSION);
        let mut stopping: dpb_stopping_config = zeroed();
        let mut rule = null_mut();
        for new in [dpb_new_nas, dpb_new_dp_nas, dpb_new_dp_exp_nas] {
            expect(new(null(), &raw mut rule, null_mut()), DPB_NULL);
            stopping.struct_size = newer;
            expect(new(&raw const stopping, &raw mut rule, null_mut()), DPB_NEWER_VERSION);
        }
        dpb_stopping_config_init_sized(&raw mut stopping, size_of::<dpb_stopping_config>() as u32, 1.0, 1.0);
        (stopping.alpha, stopping.beta) = (0.9, 0.5);
        expect(dpb_new_nas(&raw const stopping, &raw mut rule, null_mut()), DPB_OK);
        while dpb_stopping_push(rule, 1.0, &raw mut number) != DPB_HALTED {}
        expect(dpb_stopping_mean(rule, &raw mut real), DPB_OK);
        dpb_stopping_free(rule);
        let (mut plan, mut shuffler) = (zeroed(), null_mut());
        expect(dpb_shuffle_plan(10.0, 0.5, 1, 0, &raw mut plan, null_mut()), DPB_OK);
        let mut bits = vec![0; 1 + plan.coins_per_user as usize];
        let encode = |plan: &dpb_shuffle_params, n| dpb_shuffle_encode(plan, 1.0, null_mut(), 0, n);
        expect(encode(&dpb_shuffle_params { users: 0, ..plan }, &raw mut n), DPB_INVALID_CONFIG);
        expect(encode(&dpb_shuffle_params { struct_size: newer, ..plan }, &raw mut n), DPB_NEWER_VERSION);
        expect(dpb_new_shuffler(&raw const plan, &raw mut shuffler, null_mut()), DPB_OK);
        expect(dpb_shuffler_push(shuffler, bits.as_ptr(), bits.len()), DPB_OK);
        expect(dpb_shuffler_take(shuffler, null_mut(), 0, &raw mut n), DPB_BUFFER_TOO_SMALL);
        expect(dpb_shuffler_take(shuffler, bits.as_mut_ptr(), bits.len(), &raw mut n), DPB_OK);
        dpb_shuffler_free(shuffler);
        dpb_budget_free(budget);
    }
}
