//! The fuzz target for decisions that were made elsewhere: versions, records, rewards and time in any order, on one handle.
//! tests/tables.rs has a model of all that a record should be; here no order of calls may break a handle, and no id opens
//! two decisions.

use super::*;

/// A handle with its versions, and what ids have opened.
struct Tables {
    handle: *mut dpb_bandit,
    versions: Vec<u64>,
    opened: HashMap<(u64, u64), u64>,
    rewarded: HashSet<u64>,
    now: u64,
}

/// Plays until the bytes end, for 255 calls at most.
pub unsafe fn play(bytes: &mut Bytes) {
    let mut config = dpb_config::defaults(3, 1.0);
    config.test_seed = SEED.as_ptr();
    config.table_capacity = bytes.pick(&[4, 1, 16]);
    config.pending_capacity = bytes.pick(&[8, 1, 64]);
    (config.clock, config.reward_window) =
        bytes.pick(&[(DPB_CLOCK_DECISIONS, 0), (DPB_CLOCK_DECISIONS, 5), (DPB_CLOCK_CALLER, 20)]);
    let mut handle = null_mut();
    assert_eq!(dpb_new_med(&raw const config, &raw mut handle, null_mut()), DPB_OK);
    let mut tables = Tables { handle, versions: Vec::new(), opened: HashMap::new(), rewarded: HashSet::new(), now: 0 };
    for _ in 0..255 {
        if bytes.0.is_empty() {
            break;
        }
        tables.step(bytes);
    }
    dpb_free(handle);
}

impl Tables {
    unsafe fn step(&mut self, bytes: &mut Bytes) {
        match bytes.below(16) {
            0 => {
                let mut version = 0;
                let grace = bytes.pick(&[0, 3, u64::MAX]);
                assert_eq!(dpb_table_begin(self.handle, grace, &raw mut version, null_mut()), DPB_OK);
                assert!(self.versions.last().is_none_or(|last| last + 1 == version));
                self.versions.push(version);
            }
            1..=6 => self.record(bytes),
            7..=9 => _ = self.find(bytes),
            10..=12 => {
                if let Some(ticket) = self.find(bytes) {
                    let status = dpb_update(self.handle, ticket, 1.0);
                    // Found, so open; and a reward is taken once.
                    assert_eq!(status == DPB_OK, self.rewarded.insert(ticket), "{status}");
                }
            }
            13 => {
                if let Some(ticket) = self.find(bytes) {
                    // A held reward may be cancelled with its decision.
                    one_of(dpb_cancel(self.handle, ticket), &[DPB_OK, DPB_DUPLICATE]);
                }
            }
            14 => {
                let mut decision = NO_DECISION;
                assert_eq!(dpb_select(self.handle, &raw mut decision), DPB_OK);
                assert!(self.opened.values().all(|&ticket| ticket != decision.ticket));
            }
            _ => {
                self.now += bytes.pick(&[1, 7, 100]);
                one_of(dpb_advance(self.handle, self.now), &[DPB_OK, DPB_UNSUPPORTED]);
                self.weigh();
            }
        }
    }

    /// A version and an id, mostly of those that there are.
    fn name(&self, bytes: &mut Bytes) -> (u64, u64) {
        let back = bytes.pick(&[0, 0, 0, 1, 1, 2]);
        let known = self.versions.iter().rev().nth(back);
        (known.map_or_else(|| bytes.number(), |&version| version), bytes.below(12) as u64)
    }

    unsafe fn record(&mut self, bytes: &mut Bytes) {
        let (version, id) = self.name(bytes);
        let arms = bytes.pick(&[[0, 0], [1, 1], [2, 2], [3, 3], [0, 1]]);
        let mut request: dpb_request = zeroed();
        dpb_request_init_sized(&raw mut request, size_of::<dpb_request>() as u32);
        (request.eligible, request.eligible_len) = (arms.as_ptr(), if arms[0] == arms[1] { 1 } else { 2 });
        let mut decision = NO_DECISION;
        let status = dpb_record(self.handle, version, id, &raw const request, &raw mut decision);
        if status != DPB_OK {
            assert!(untouched(&decision));
            return;
        }
        assert!(self.versions.contains(&version));
        match self.opened.get(&(version, id)) {
            Some(&before) => assert_eq!(decision.ticket, before, "an id opens twice"),
            None => {
                assert!(decision.arm == arms[0] && arms[0] == arms[1] && decision.propensity.is_nan());
                assert!(self.opened.values().all(|&ticket| ticket != decision.ticket));
                self.opened.insert((version, id), decision.ticket);
            }
        }
    }

    unsafe fn find(&mut self, bytes: &mut Bytes) -> Option<u64> {
        let (version, id) = self.name(bytes);
        let mut decision = NO_DECISION;
        let status = dpb_find(self.handle, version, id, &raw mut decision);
        let before = self.opened.get(&(version, id)).copied();
        match status {
            DPB_OK => assert_eq!(Some(decision.ticket), before),
            DPB_DUPLICATE => assert!(before.is_some()),
            DPB_UNKNOWN_TICKET => assert!(before.is_none() && self.versions.contains(&version)),
            _ => assert_eq!(status, DPB_EXPIRED),
        }
        (status == DPB_OK).then_some(decision.ticket)
    }

    unsafe fn weigh(&self) {
        let (mut weights, mut n) = ([0; 3], 0);
        assert_eq!(dpb_weights(self.handle, null(), weights.as_mut_ptr(), 3, &raw mut n, null_mut()), DPB_OK);
        assert_eq!((n, weights.iter().sum::<u64>()), (3, 1 << 32));
    }
}
