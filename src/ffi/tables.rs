//! Tables of probabilities that are published, and decisions that were made by them elsewhere.

use super::bandit::{dpb_bandit, dpb_decision};
use super::calls::{call_unless, call_with_output, explained, explained_with_output, functions, given, produce};
use super::config::dpb_error;
use super::generated::request::dpb_request;
use super::guard::{slice, write_list};
use super::status::dpb_status;
use crate::request::Request;
use crate::table::{Elsewhere, decide};
use std::ffi::{CStr, c_char};

/// A decision that was made elsewhere, by a table. 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_elsewhere {
    /// The name of this decision in dpb_record and dpb_find. It uses all 64 bits: JSON has its 16 hexadecimal digits.
    pub id: u64,
    /// The arm's probability.
    pub propensity: f64,
    /// The arm, 0-based.
    pub arm: u32,
    /// 0.
    pub reserved: u32,
}

const _: () = assert!(size_of::<dpb_elsewhere>() == 24);

functions! {
    /// Decides by a table, as every other program does that has the table: without a handle, a clock or a state. The
    /// SHA-256 of "salt\ncontext\nunit" gives the arm (its first 32 bits, as a big-endian number) and the id (its first 64).
    ///
    /// weights: one for each of n arms; they sum to 2^32. salt: the table's. context: the key of the weights in the
    /// table, "" for the default; NULL is "". unit: who gets the same arm while the table is the same: a visitor's id, or a
    /// request's. All end with NUL, and are UTF-8. out: receives the decision. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (another sum or number of weights); DPB_INVALID_REQUEST (a unit that is
    /// empty; a newline). Any thread.
    fn dpb_decide(weights: *const u64, n: usize, salt: *const c_char, context: *const c_char, unit: *const c_char,
        out: *mut dpb_elsewhere, error: *mut dpb_error)
        = produce(out, error, &[given("weights", weights, n), ("salt", salt.is_null()), ("unit", unit.is_null())], || {
            let text = |text: *const c_char| if text.is_null() { &[][..] } else { CStr::from_ptr(text).to_bytes() };
            let Elsewhere { id, propensity, arm } =
                decide(slice(weights, n), text(salt), text(context), text(unit))?;
            Ok(dpb_elsewhere { id, propensity, arm, reserved: 0 })
        });

    /// Reads the probability of each arm in the next decision of a request, as integers that sum to 2^32: what a program
    /// needs to decide elsewhere (docs/tables.md). They are functions of releases, so they cost no privacy. Changes and
    /// counts nothing. For dpb_new_med and dpb_new_linear.
    ///
    /// request: of one slot, without abstain; user is not used. NULL: the default request. weights: receives up to cap
    /// numbers, one for each arm by its number; 0 for an arm that the decision cannot have, such as a retired one. n:
    /// receives the number of arms, also if cap is too small. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only n written); DPB_INVALID_REQUEST; DPB_UNSUPPORTED (other
    /// policies, which plan single decisions; a field that this configuration does not support); DPB_FULL (a new
    /// segment, and there are max_segments); DPB_NO_MEMORY; DPB_NEWER_VERSION; DPB_POISONED. Any thread.
    fn dpb_weights(bandit: *const dpb_bandit, request: *const dpb_request, weights: *mut u64, cap: usize, n: *mut usize,
        error: *mut dpb_error)
        = explained(bandit, error, &[("weights", weights.is_null() && cap > 0), ("n", n.is_null())], |b| {
            let request = match request.is_null() {
                true => Request::default(),
                false => dpb_request::read(request)?,
            };
            write_list(b.bandit.weights(&request), (weights, cap, n))
        });

    /// Begins a version of this handle's table, and returns its number, which no other version of this handle has, whatever
    /// restarts. Publish it with the dpb_weights of each request that programs elsewhere decide. dpb_record takes the
    /// decisions that they have made by it. The version before it closes after grace more ticks of the handle's clock, and
    /// all earlier ones at once.
    ///
    /// When it is called must not depend on rewards, but by releases. No snapshot has the versions: after a restart publish
    /// the table anew. A state that moves (dpb_suspend) has them.
    ///
    /// version: receives the number: 16 bits of the node's name (dpb_ticket_node) and 48 bits. It uses all 64 bits: JSON
    /// needs a string. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (dpb_config.table_capacity is 0; this policy takes no eligible arms);
    /// DPB_POISONED. Any thread.
    fn dpb_table_begin(bandit: *mut dpb_bandit, grace: u64, version: *mut u64, error: *mut dpb_error)
        = explained_with_output(bandit, error, ("version", version), |b| b.bandit.table_begin(grace));

    /// Records a decision that was made elsewhere, by a version of this handle's table: it becomes an open decision like any
    /// other, with a ticket and a reward_window of its own. Never allocates.
    ///
    /// Record each decision that was shown, and no other, soon after it was shown, whether a reward comes or not. Which
    /// ones you record must not depend on rewards. A repeat of an id returns the same decision and changes nothing, until
    /// that decision ends, so a message may come twice.
    ///
    /// version: from dpb_table_begin. id: names the decision, as dpb_decide returns it. request: what was decided for, with
    /// the user and the features; its one eligible arm is the arm that was shown; values, costs and abstain are not used.
    /// out: receives the decision. Its propensity is NaN, because the table has it, and its phase 0.
    /// Returns DPB_OK; DPB_NULL; DPB_EXPIRED (a version that is closed, or not of this life of this handle);
    /// DPB_DUPLICATE (the decision of this id has ended, was cancelled or expired); DPB_FULL (the ids of
    /// dpb_config.table_capacity decisions must be kept); DPB_UNSUPPORTED (dpb_config.table_capacity is 0); or the
    /// status of dpb_select_for. Unless DPB_OK, only a count of dpb_diagnostics has changed. Any thread.
    ///
    /// Like that of dpb_update, the status may reveal whether the decision has a reward: it is for you, not for visitors.
    fn dpb_record(bandit: *mut dpb_bandit, version: u64, id: u64, request: *const dpb_request, out: *mut dpb_decision)
        = call_unless(request.is_null() || out.is_null(), bandit, |b| {
            out.write(b.bandit.record(version, id, &dpb_request::read(request)?)?.into());
            Ok(())
        });

    /// Finds the decision of an id that was recorded, for a reward that names the id: pass its ticket to dpb_update. Opens
    /// nothing. It finds the decision until that ends, also when its version is closed. Never allocates.
    ///
    /// A reward whose id is not recorded yet may come before its record: keep it until then, or until the version closes.
    /// version, id: as for dpb_record. out: receives what dpb_record returned.
    /// Returns DPB_OK; DPB_NULL; DPB_UNKNOWN_TICKET (an id that is not recorded); DPB_DUPLICATE (its decision has ended);
    /// DPB_EXPIRED (an unknown id of a version that is closed, or not of this life of this handle); DPB_UNSUPPORTED
    /// (dpb_config.table_capacity is 0); DPB_POISONED. Any thread.
    fn dpb_find(bandit: *mut dpb_bandit, version: u64, id: u64, out: *mut dpb_decision)
        = call_with_output(bandit, out, |b| b.bandit.find(version, id).map(dpb_decision::from));
}
