//! dpb_pool: a bandit for each of thousands of segments.

use super::bandit::{Hears, answer_many, dpb_decision};
use super::config::{construct, dpb_config, dpb_error, explain};
use super::guard::{self, Guard, Handle, call, slice, tell, tell_among};
use super::report::{diagnose, dpb_arm, dpb_diagnostics};
use super::sized::{self, Growing};
use super::snapshot::{fill, merged, restored};
use super::status::{DPB_NULL, dpb_status};
use crate::error::{Error, Result};
use crate::pool::Pool;

/// A bandit for each of thousands of segments (placements, countries, hours), in one handle: they lend each other what
/// they know. A segment starts with what all the others say of its arms, and comes to trust itself as it learns.
///
/// Pure epsilon-DP, or by zCDP with delta > 0, for all segments together and however many there are: every reward is in
/// one batch, of its segment's arm or of that arm in all segments, and released once (Theorem P). Which segment a
/// request is in must be public, and not chosen by looking at rewards.
///
/// Made by dpb_new_pool, dpb_pool_restore or dpb_pool_restore_as, destroyed by dpb_pool_free. May be used from any
/// number of threads at once. After fork() the child's copy is DPB_POISONED.
pub struct dpb_pool {
    guard: Guard,
    pool: Pool,
}

impl Handle for dpb_pool {
    fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl Hears for dpb_pool {
    fn update_many(&self, answers: impl Iterator<Item = (u64, f64)>, each: impl FnMut(Result<()>)) -> Result<()> {
        self.pool.update_many(answers, each)
    }
}

impl dpb_pool {
    fn of(pool: Pool) -> dpb_pool {
        dpb_pool { guard: Guard::default(), pool }
    }
}

/// What may be published of a pool: released values and public counts. With an answer_window as in dpb_report.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_pool_report {
    /// sizeof(dpb_pool_report), set by the caller; lets the struct grow.
    pub struct_size: u32,
    /// Segments in use.
    pub segments: u32,
    /// Segments that there may be.
    pub max_segments: u32,
    /// Arms of each segment.
    pub arms: u32,
    /// Decisions whose end is open.
    pub pending: u32,
    /// 1, or 0 under a test_seed.
    pub is_private: u32,
    /// Decisions handed out.
    pub decisions: u64,
    /// Decisions whose answer took effect.
    pub answered: u64,
    /// Decisions taken back by dpb_pool_cancel.
    pub cancelled: u64,
    /// Decisions pushed out of the pending table unanswered.
    pub expired: u64,
    /// Privacy loss of one user so far, an upper bound at delta_spent: the largest of any segment, and of all. Where
    /// dpb_config.users is set, of one who came in all periods. With a test_seed: what real entropy would have spent.
    pub epsilon_spent: f64,
    /// The configuration's delta.
    pub delta_spent: f64,
    /// Batches released.
    pub releases: u64,
}

const _: () = assert!(size_of::<dpb_pool_report>() == 80);

// SAFETY: repr(C), begins with its size, ends with a u64; all its fields are numbers.
unsafe impl Growing for dpb_pool_report {
    const SHORTEST: usize = 80;
}

/// A pool of at most so many segments of config.arms arms each, and none at first. pending_capacity, answer_window and
/// memory M count the decisions of all segments together; with a memory what was released counts half every M/4 of
/// them, and a segment falls back to what the others say. horizon, beta, batch, base and interval_exponent are not used.
///
/// With users every decision is somebody's (dpb_pool_select_for); their counters are as dpb_config says.
///
/// The handle's memory is fixed here: about 1000 + 152 K + (80 K + 64) S + 8 P bytes, K the arms, S max_segments and
/// P the larger of pending_capacity and answer_window, rounded up to a power of two, and 4 P more with an answer_window.
/// On most systems what segments to come have no use for yet is not taken from the machine.
///
/// config: filled by dpb_config_init; read here, not kept. max_segments: 1 and more, arms times max_segments + 1
/// at most 2^27. out: receives the handle, which the caller frees with dpb_pool_free. error: NULL, or filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_UNSUPPORTED (min_propensity); DPB_NEWER_VERSION (struct_size of
/// a newer library); DPB_ENTROPY; DPB_NO_MEMORY; DPB_OVER_BUDGET. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_pool(
    config: *const dpb_config,
    max_segments: u32,
    out: *mut *mut dpb_pool,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract; config is not NULL where it is read.
    unsafe { construct(config, out, error, || Pool::new(&dpb_config::read(config)?, max_segments).map(dpb_pool::of)) }
}

/// Destroys a pool. NULL is a no-op. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_pool_free(pool: *mut dpb_pool) {
    guard::free(pool);
}

/// The segment that is called so: its number, counted from 0 in the order in which they came. A new one, unless there
/// is one. Keys are the caller's, a placement's own number or a hash of its name, and public.
///
/// In a full pool let a new segment share one with others that are like it, or make a larger pool
/// (dpb_pool_restore_as). Numbers last as long as the handle and those restored from it.
///
/// segment: receives the number. O(log segments), for a new one some 16 bytes moved for each that there is; never
/// allocates.
/// Returns DPB_OK; DPB_NULL; DPB_FULL (a new one in a pool that has max_segments); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_segment(pool: *mut dpb_pool, key: u64, segment: *mut u32) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { tell(pool, segment, |p: &dpb_pool| p.pool.segment(key)) }
}

/// Which arm in this segment? Writes one decision; its propensity is NaN, its phase 0 where it learns with all
/// segments together and 1 where its segment learns for itself. Never allocates; O(1), and O(arms) where a batch ended.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (no such segment); DPB_UNSUPPORTED (dpb_config.users is set);
/// DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_select(pool: *mut dpb_pool, segment: u32, out: *mut dpb_decision) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { tell(pool, out, |p: &dpb_pool| p.pool.select(segment).map(Into::into)) }
}

/// Which of these arms in this segment? As dpb_select_among: the set must be public information.
/// arms: n >= 1 arms, in any order, duplicates harmless. out: receives one decision. Never allocates on success; O(n).
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (no such segment or arm, or no arm at all); DPB_UNSUPPORTED as
/// dpb_pool_select; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_select_among(
    pool: *mut dpb_pool,
    segment: u32,
    arms: *const u32,
    n: usize,
    out: *mut dpb_decision,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { tell_among(pool, arms, n, out, |p: &dpb_pool, arms| p.pool.select_among(segment, arms).map(Into::into)) }
}

/// dpb_pool_select for the slots of one page, or for many requests, under one lock: decision i is for segment i. The
/// same segment may come again.
/// segments, out: n each (NULL with n = 0).
/// Returns DPB_OK (all n); DPB_NULL; DPB_INVALID_CONFIG (one of the segments there is not: no decision was made);
/// DPB_UNSUPPORTED as dpb_pool_select; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_select_many(
    pool: *mut dpb_pool,
    segments: *const u32,
    out: *mut dpb_decision,
    n: usize,
) -> dpb_status {
    if n > 0 && (segments.is_null() || out.is_null()) {
        return DPB_NULL;
    }
    call(pool, |p: &dpb_pool| {
        // SAFETY: not NULL where there are any, and n segments, by contract.
        let segments = unsafe { slice(segments, n) };
        let mut written = 0;
        p.pool.select_many(segments, |decision| {
            // SAFETY: room for n decisions, by contract.
            unsafe { out.add(written).write(decision.into()) };
            written += 1;
        })
    })
}

/// Which arm in this segment for this user? dpb_pool_select as dpb_select_for is dpb_select: of a user
/// contributions_per_user rewards are learned from in a period, whichever the segments. The several slots of a page are
/// as many decisions. A decision that is not learned from makes no segment older.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (no such segment); DPB_UNSUPPORTED (dpb_config.users is 0); DPB_NOT_READY
/// (as dpb_select_for); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_select_for(
    pool: *mut dpb_pool,
    segment: u32,
    user_hash: u64,
    out: *mut dpb_decision,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { tell(pool, out, |p: &dpb_pool| p.pool.select_for(segment, user_hash).map(Into::into)) }
}

/// Which of these arms in this segment for this user? dpb_pool_select_among as dpb_pool_select_for is dpb_pool_select.
/// What is refused has counted nothing.
/// Returns as both. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_select_among_for(
    pool: *mut dpb_pool,
    segment: u32,
    user_hash: u64,
    arms: *const u32,
    n: usize,
    out: *mut dpb_decision,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe {
        tell_among(pool, arms, n, out, |p: &dpb_pool, arms| {
            p.pool.select_among_for(segment, user_hash, arms).map(Into::into)
        })
    }
}

/// A new period for all segments. What that is, and what to do then, is said at dpb_next_period.
/// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (dpb_config.users is 0); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_next_period(pool: *mut dpb_pool) -> dpb_status {
    call(pool, |p: &dpb_pool| p.pool.next_period())
}

/// What came of a decision, whichever its segment: at most once a ticket. Parameters, statuses and threads as
/// dpb_update, whose comment says more. Never allocates; O(1), and O(arms) where a batch ends.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_update(pool: *mut dpb_pool, ticket: u64, reward: f64) -> dpb_status {
    call(pool, |p: &dpb_pool| p.pool.update(ticket, reward))
}

/// dpb_pool_update for n tickets under one lock. Parameters, statuses and threads as dpb_update_many.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_update_many(
    pool: *mut dpb_pool,
    tickets: *const u64,
    rewards: *const f64,
    n: usize,
    each: *mut dpb_status,
    done: *mut usize,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { answer_many(pool, tickets, rewards, n, each, done) }
}

/// The ad was never shown: the decision counts as not played. Parameters, statuses and threads as dpb_cancel.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_cancel(pool: *mut dpb_pool, ticket: u64) -> dpb_status {
    call(pool, |p: &dpb_pool| p.pool.cancel(ticket))
}

/// Cancels every open decision of all segments. Statuses and threads as dpb_cancel_all.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_cancel_all(pool: *mut dpb_pool) -> dpb_status {
    call(pool, |p: &dpb_pool| p.pool.cancel_all())
}

/// What public data say of an arm, whatever the segment. Parameters, statuses and threads as dpb_set_prior, but that every
/// pool takes it, and that dpb_pool_arms_read shows it, in what the pool believes. Segments differ from it by what
/// they learn.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_set_prior(pool: *mut dpb_pool, arm: u32, mean: f64, strength: f64) -> dpb_status {
    call(pool, |p: &dpb_pool| p.pool.set_prior(arm, mean, strength))
}

/// Reads all arms of a segment, arm i in place i of out. Released values only.
///
/// Of each dpb_arm, mean is what the pool believes of the arm in this segment, from the releases of all segments: a
/// number from the start, and no estimate from this segment alone. It has no confidence interval, so width is NaN.
/// effective_pulls counts the rewards behind the releases that are this segment's own, here and in pools that were
/// merged, each by its power where there is a dpb_config.memory: 0 means that all it goes by is what other segments
/// have said. active is 1.
///
/// out: room for cap arms (NULL with cap = 0). n: receives the number of arms, also when cap is too small.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (no such segment); DPB_BUFFER_TOO_SMALL (only n written); DPB_POISONED.
/// Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_arms_read(
    pool: *const dpb_pool,
    segment: u32,
    out: *mut dpb_arm,
    cap: usize,
    n: *mut usize,
) -> dpb_status {
    if n.is_null() || (out.is_null() && cap > 0) {
        return DPB_NULL;
    }
    call(pool, |p: &dpb_pool| {
        let needed = p.pool.arms() as usize;
        let room = cap >= needed;
        p.pool.for_each_arm(segment, |arm, cell| {
            let read = dpb_arm {
                mean: cell.mean,
                width: f64::NAN,
                pulls: cell.pulls,
                active: 1,
                effective_pulls: cell.effective_pulls,
                ..dpb_arm::default()
            };
            if room {
                // SAFETY: arm < needed <= cap, and there is room for cap, by contract.
                unsafe { out.add(arm as usize).write(read) };
            }
        })?;
        // SAFETY: not NULL, so valid by contract.
        unsafe { n.write(needed) };
        if room { Ok(()) } else { Err(Error::BufferTooSmall { needed }) }
    })
}

/// Reads the report of the whole pool. All of it is released already, so reading costs no privacy.
/// out: with struct_size set to sizeof(dpb_pool_report).
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_report_read(pool: *const dpb_pool, out: *mut dpb_pool_report) -> dpb_status {
    if out.is_null() {
        return DPB_NULL;
    }
    call(pool, |p: &dpb_pool| {
        let r = p.pool.report()?;
        let report = dpb_pool_report {
            struct_size: size_of::<dpb_pool_report>() as u32,
            segments: r.segments,
            max_segments: r.max_segments,
            arms: p.pool.arms(),
            pending: r.counts.pending() as u32, // at most pending_capacity
            is_private: r.is_private.into(),
            decisions: r.counts.decisions,
            answered: r.counts.answered,
            cancelled: r.counts.cancelled,
            expired: r.counts.expired,
            epsilon_spent: r.epsilon_spent,
            delta_spent: r.delta_spent,
            releases: r.releases.into(),
        };
        // SAFETY: not NULL, so valid for as many bytes as it says, by contract.
        unsafe { sized::write(out, report) }
    })
}

/// Reads counts of refused calls: the only read that is NOT private. Parameters, statuses and threads as
/// dpb_diagnostics_read.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_diagnostics_read(pool: *const dpb_pool, out: *mut dpb_diagnostics) -> dpb_status {
    if out.is_null() {
        return DPB_NULL;
    }
    // SAFETY: not NULL, so valid for as many bytes as it says, by contract.
    call(pool, |p: &dpb_pool| unsafe { diagnose(p.pool.diagnostics()?, out) })
}

/// Writes what the pool has released and what is public of it: safe to log and to publish, as dpb_snapshot. Taken when it
/// is written, as there.
///
/// buf: room for cap bytes (NULL with cap = 0). len: receives how many there are, also when cap is too small:
/// about 250 + 32 K + (40 K + 16) S bytes, K the arms and S the segments so far; to ask for it, with a cap that is too
/// small, is cheap, and is no snapshot. May allocate; closed to other threads while the cells are written, some 10 ms for
/// 10,000 segments of 20 arms.
/// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only len written); DPB_NO_MEMORY; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_snapshot(
    pool: *const dpb_pool,
    buf: *mut u8,
    cap: usize,
    len: *mut usize,
) -> dpb_status {
    if len.is_null() || (buf.is_null() && cap > 0) {
        return DPB_NULL;
    }
    // SAFETY: not NULL, and room for cap bytes, by contract.
    call(pool, |p: &dpb_pool| unsafe { fill(p.pool.snapshot_within(cap), buf, len) })
}

/// A pool that goes on from a snapshot, with the configuration that is in it and fresh entropy; segments keep their
/// numbers. What is promised, with dpb_config.users the snapshot that must be written before it decides, parameters, statuses
/// and threads as dpb_restore; the caller frees it with dpb_pool_free.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_restore(
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_pool,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { goes_on(None, buf, len, out, error) }
}

/// # Safety
/// `buf` is NULL or valid for `len` bytes, the configuration valid, and `out` and `error` NULL or valid.
unsafe fn goes_on(
    meant: Option<(*const dpb_config, u32)>,
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_pool,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: as above.
    unsafe {
        restored(buf, len, out, error, |bytes| {
            let pool = match meant {
                None => Pool::restore(bytes)?,
                Some((config, max_segments)) => Pool::restore_as(&dpb_config::read(config)?, max_segments, bytes)?,
            };
            Ok(dpb_pool::of(pool))
        })
    }
}

/// dpb_pool_restore with another configuration: what must be as in the snapshot, and what is taken from config, is said at
/// dpb_restore_as. max_segments may be any number that its segments fit into: so a full pool grows.
///
/// config: as in dpb_new_pool; a test_seed is not used; a budget is charged as for a fresh pool (DPB_OVER_BUDGET).
/// Parameters, statuses and threads else as dpb_pool_restore.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_restore_as(
    config: *const dpb_config,
    max_segments: u32,
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_pool,
    error: *mut dpb_error,
) -> dpb_status {
    if config.is_null() {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, "config is NULL") };
        return DPB_NULL;
    }
    // SAFETY: NULL or valid, by contract; config is not NULL.
    unsafe { goes_on(Some((config, max_segments)), buf, len, out, error) }
}

/// Learns from what another pool has released: from its dpb_pool_snapshot, made here or on another machine. Each pool of
/// a fleet merges the newest snapshots of all others every so often: in any order, again and again, and an older one
/// changes nothing. Every reward is in one batch of one pool, so the guarantee is one for all pools together; only
/// noised sums leave a pool. What crosses the wire may be read by anybody; who alters it can spoil what is learned, not
/// what is promised to anybody.
///
/// Segments are joined by their keys. One that others know and this pool does not takes none of its max_segments: what
/// they have released of it waits until dpb_pool_segment is asked for its key, and then it begins with that. (Until
/// then its part in what is said of the arms everywhere is what all learned together.) So a pool that starts empty
/// and merges knows what the fleet knows, and a full one merges as well as any. A segment is as old as its decisions in
/// all pools together, and batches are of parts of what all have released, for all that are at work, of two first
/// batches at least, since every pool adds its own noise.
///
/// A snapshot holds what its own pool has released, not what that has merged: after dpb_pool_restore merge the others'
/// again. Two pools that go on from one snapshot count as one. With a memory, what others have released fades by this
/// pool's decisions from when it came.
///
/// Each other pool takes 12 K (S + 1) + 24 (S + 1) bytes, K the arms and S its segments, and the first one
/// (32 K + 8) (M + 1) more, M this pool's max_segments. snapshot: len bytes of any origin. error: NULL, or filled on
/// failure. May allocate. The pool is closed to other threads while the cells that have news are summed up, some 10 ms
/// for 10,000 segments of 20 arms; reading the snapshot before that closes nothing. After it, dpb_pool_segment takes
/// O(others (log S + K)) for a new segment.
/// Returns DPB_OK; DPB_NULL; DPB_CORRUPT; DPB_NEWER_VERSION; DPB_INVALID_CONFIG (a field that must not differ: all but
/// node, pending_capacity, answer_window, clamp_rewards, horizon, beta, users and test_seed; or more than 1024 others);
/// DPB_NO_MEMORY; DPB_POISONED. Unless DPB_OK, nothing has changed. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_merge_with(
    pool: *mut dpb_pool,
    snapshot: *const u8,
    len: usize,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { merged(pool, snapshot, len, error, |p: &dpb_pool, bytes| p.pool.merge(bytes)) }
}

/// dpb_pool_merge_with, its error NULL.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_pool_merge(pool: *mut dpb_pool, snapshot: *const u8, len: usize) -> dpb_status {
    // SAFETY: passed on.
    unsafe { dpb_pool_merge_with(pool, snapshot, len, std::ptr::null_mut()) }
}
