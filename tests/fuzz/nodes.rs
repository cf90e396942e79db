//! The fuzz target for nodes of a fleet on rows in memory: commands fail, replies are lost, repeated, late and altered.
//! The simulator (tests/simulation) checks what a fleet learns; here no bytes of a store may break a node.

use super::*;
use std::collections::BTreeMap;
use std::ffi::c_void;

#[derive(Default)]
struct Table {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What `get` has returned.
    value: Vec<u8>,
    fails: bool,
}

unsafe fn text<'a>(first: *const u8, len: usize) -> &'a [u8] {
    if len == 0 { &[] } else { std::slice::from_raw_parts(first, len) }
}

unsafe extern "C" fn get(host: *mut c_void, key: *const u8, n: usize, value: *mut *const u8, len: *mut usize) -> i32 {
    let table = &mut *host.cast::<Table>();
    value.write(null());
    if let Some(found) = table.rows.get(text(key, n)) {
        table.value.clone_from(found);
        value.write(if found.is_empty() { [0].as_ptr() } else { table.value.as_ptr() });
        len.write(table.value.len());
    }
    table.fails.into()
}

unsafe extern "C" fn put(host: *mut c_void, key: *const u8, n: usize, value: *const u8, len: usize) -> i32 {
    let table = &mut *host.cast::<Table>();
    table.rows.insert(text(key, n).to_vec(), text(value, len).to_vec());
    table.fails.into()
}

unsafe extern "C" fn remove(host: *mut c_void, key: *const u8, n: usize) -> i32 {
    let table = &mut *host.cast::<Table>();
    table.rows.remove(text(key, n));
    table.fails.into()
}

unsafe extern "C" fn list(
    host: *mut c_void,
    prefix: *const u8,
    n: usize,
    each: dpb_each_row,
    rows: *mut c_void,
) -> i32 {
    let table = &*host.cast::<Table>();
    let prefix = text(prefix, n);
    for (key, value) in table.rows.range(prefix.to_vec()..).take_while(|row| row.0.starts_with(prefix)) {
        each.unwrap()(rows, key.as_ptr(), key.len(), value.as_ptr(), value.len());
    }
    table.fails.into()
}

/// No call on a node may panic inside.
#[track_caller]
fn safe(status: dpb_status) -> dpb_status {
    assert_ne!(status, DPB_POISONED);
    status
}

#[derive(Default)]
struct Fleet {
    table: Box<Table>,
    nodes: Vec<*mut dpb_node>,
    now: u64,
    tickets: Vec<u64>,
    /// Replies that come late: the node, the command's id, the bytes.
    late: Vec<(usize, u64, Vec<u8>)>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // SAFETY: freed once.
        self.nodes.iter().for_each(|node| unsafe { dpb_node_free(*node) });
    }
}

fn no_command() -> dpb_command {
    // SAFETY: numbers and addresses all.
    dpb_command { struct_size: size_of::<dpb_command>() as u32, ..unsafe { zeroed() } }
}

fn config() -> dpb_config {
    dpb_config { fleet_key: KEY.as_ptr(), reward_window: 40, pending_capacity: 64, ..dpb_config::defaults(3, 4.0) }
}

fn report_of(node: *mut dpb_node, now: u64) -> dpb_node_report {
    // SAFETY: numbers all, and the size is true.
    unsafe {
        let mut read = dpb_node_report { struct_size: size_of::<dpb_node_report>() as u32, ..zeroed() };
        assert_eq!(dpb_node_report_read(node, now, &raw mut read), DPB_OK);
        read
    }
}

impl Fleet {
    fn at(now: u64) -> Fleet {
        let mut fleet = Fleet::default();
        fleet.now = now;
        fleet
    }

    unsafe fn join(&mut self, config: &dpb_config, options: &dpb_node_options) -> dpb_status {
        let (mut node, mut error) = (null_mut(), no_error());
        let status = safe(dpb_node_new(null(), config, options, &raw mut node, &raw mut error));
        self.nodes.extend(made(status, node, &error));
        status
    }

    /// The reply of the store.
    unsafe fn runs(&mut self, command: &dpb_command) -> Option<Vec<u8>> {
        let before = self.table.rows.clone();
        let host: *mut Table = &raw mut *self.table;
        let rows =
            dpb_rows { host: host.cast(), get: Some(get), put: Some(put), remove: Some(remove), list: Some(list) };
        let (mut reply, mut len) = (vec![0; 1 << 16], 0);
        let status = dpb_store_run(&raw const rows, command, self.now, reply.as_mut_ptr(), reply.len(), &raw mut len);
        if one_of(status, &[DPB_OK, DPB_NOT_READY]) != DPB_OK {
            self.table.rows = before;
            return None;
        }
        reply.truncate(len);
        Some(reply)
    }

    /// Time passes, in steps of 125 ms. `bytes` say which commands fail.
    unsafe fn pass(&mut self, steps: usize, bytes: &mut Bytes) {
        for _ in 0..steps {
            self.now += 125;
            for at in 0..self.nodes.len() {
                for lane in [DPB_LANE_ROUNDS, DPB_LANE_EXCHANGES] {
                    while self.takes(at, lane, bytes) {}
                }
            }
        }
    }

    /// Whether a lane of a node had anything to do.
    unsafe fn takes(&mut self, at: usize, lane: u32, bytes: &mut Bytes) -> bool {
        let (node, mut command, mut error) = (self.nodes[at], no_command(), no_error());
        let status = safe(dpb_node_next(node, lane, self.now, &raw mut command, &raw mut error));
        if status != DPB_OK {
            explained(&error, status);
            return false;
        }
        match command.kind {
            DPB_COMMAND_WAIT => return false,
            DPB_COMMAND_LOG => {
                assert!(!CStr::from_ptr(command.text).is_empty());
                return true;
            }
            _ => {}
        }
        let Some(mut reply) = self.runs(&command) else {
            safe(dpb_node_failed(node, command.id, self.now, c"no rows".as_ptr()));
            return true;
        };
        match bytes.byte() {
            200..=205 => _ = safe(dpb_node_failed(node, command.id, self.now, null())), // the reply is lost
            206..=211 => self.late.push((at, command.id, reply)),
            212..=220 => {
                for _ in 0..=bytes.below(4) {
                    let place = (usize::from(bytes.byte()) << 8 | usize::from(bytes.byte())) % reply.len();
                    reply[place] = bytes.byte();
                }
                reply.truncate(if bytes.once_in(3) { bytes.below(reply.len()) } else { reply.len() });
                safe(dpb_node_reply(node, command.id, self.now, reply.as_ptr(), reply.len()));
            }
            _ => {
                safe(dpb_node_reply(node, command.id, self.now, reply.as_ptr(), reply.len()));
                safe(dpb_node_reply(node, command.id, self.now, reply.as_ptr(), reply.len()));
            }
        }
        true
    }

    unsafe fn step(&mut self, bytes: &mut Bytes) {
        let at = bytes.below(self.nodes.len());
        let node = self.nodes.get(at).copied();
        match (bytes.byte(), node) {
            (0..=20, _) if self.nodes.len() < 4 => {
                let config = dpb_config { node: bytes.pick(&[0, 0, 0, 1, 2]), ..config() };
                let send_rate = bytes.pick(&[0, 0, 9]);
                let options = dpb_node_options { send_rate, ..dpb_node_options::defaults(c"ads".as_ptr()) };
                assert_eq!(self.join(&config, &options), DPB_OK);
            }
            (21..=60, _) => self.pass(1, bytes),
            (61..=90, _) => self.pass(8, bytes),
            (91..=100, _) => self.pass(60, bytes),
            (101..=160, Some(node)) => {
                let bandit = dpb_node_bandit(node);
                let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
                if !bandit.is_null() && dpb::ffi::dpb_select(bandit, &raw mut decision) == DPB_OK {
                    self.tickets.push(decision.ticket);
                }
            }
            (161..=220, Some(node)) => {
                let flip = if bytes.once_in(9) { 1 << bytes.below(64) } else { 0 };
                let ticket = self.tickets.get(bytes.below(self.tickets.len())).map_or(7, |ticket| ticket ^ flip);
                let reward = bytes.pick(&[1.0, 1.0, 1.0, 0.0, 7.0]);
                safe(match ticket % 4 {
                    0 => dpb_node_update_part(node, ticket, (ticket / 4 % 2) as u32, reward),
                    _ => dpb_node_update(node, ticket, reward),
                });
            }
            (221..=228, Some(node)) => _ = safe(dpb_node_leave(node, self.now)),
            (229..=232, Some(node)) => {
                dpb_node_free(node); // killed
                self.nodes.remove(at);
                self.late.clear();
            }
            (233..=236, Some(_)) => {
                for (at, id, reply) in std::mem::take(&mut self.late) {
                    safe(dpb_node_reply(self.nodes[at], id, self.now, reply.as_ptr(), reply.len()));
                }
            }
            (237..=240, _) => self.table.fails = !self.table.fails,
            (241..=243, _) => self.table.rows.clear(),
            (244..=247, _) => {
                let mut command = no_command();
                let number = bytes.below(4) as u16;
                let status = dpb_node_gone(c"ads".as_ptr(), number, &raw mut command);
                assert_eq!(status == DPB_OK, number > 0);
                if status == DPB_OK {
                    self.runs(&command);
                }
            }
            (_, Some(node)) => _ = safe(dpb_node_next_period(node)),
            _ => {}
        }
        for node in &self.nodes {
            let read = report_of(*node, self.now);
            assert!(read.state <= DPB_NODE_FAILED && read.last_error[255] == 0);
            assert!(read.ready == 0 || !dpb_node_bandit(*node).is_null() && read.state == DPB_NODE_SERVING);
        }
    }
}

/// A program of nodes.
pub(super) unsafe fn play(bytes: &mut Bytes) {
    let mut fleet = Fleet::at(1_700_000_000_000);
    while !bytes.0.is_empty() {
        fleet.step(bytes);
    }
}

/// Calls that return each status.
pub fn rare() {
    // SAFETY: pointers are NULL or valid, sizes are true but for those that no library knows.
    unsafe {
        let name = c"ads".as_ptr();
        let mut nothing = Bytes(&[]);
        let mut fleet = Fleet::at(1_700_000_000_000);
        let options = dpb_node_options { queue: 1, settle_ms: 200, ..dpb_node_options::defaults(name) };
        let plain = dpb_config { fleet_key: null(), reward_window: 5, ..config() };
        let mut budget = null_mut();
        assert_eq!(dpb_new_budget(8.0, 0.0, &raw mut budget, null_mut()), DPB_OK);
        let counts = dpb_config { expected_users: 9, budget, budget_periods: 1, ..plain };

        // Constructors.
        let (mut made, newer) = (null_mut(), size_of::<dpb_node_options>() as u32 + 8);
        let new = |name, config: *const dpb_config, options: *const dpb_node_options| {
            let mut node = null_mut();
            dpb_node_new(name, config, options, &raw mut node, null_mut())
        };
        assert_eq!(new(null(), null(), &raw const options), DPB_NULL);
        assert_eq!(new(c"none".as_ptr(), &raw const plain, &raw const options), DPB_INVALID_CONFIG);
        assert_eq!(new(c"dp-ucb".as_ptr(), &raw const plain, &raw const options), DPB_UNSUPPORTED);
        let later = dpb_node_options { struct_size: newer, ..options };
        assert_eq!(new(null(), &raw const plain, &raw const later), DPB_NEWER_VERSION);
        dpb_node_options_init_sized(null_mut(), 4, name);

        assert_eq!(fleet.join(&plain, &options), DPB_OK);
        assert_eq!(dpb_node_next_period(fleet.nodes[0]), DPB_NOT_READY);
        assert_eq!(dpb_node_update(fleet.nodes[0], 7, 1.0), DPB_UNKNOWN_TICKET);
        assert_eq!(dpb_node_update_part(fleet.nodes[0], 7, 0, 1.0), DPB_UNKNOWN_TICKET);
        assert_eq!(fleet.join(&plain, &options), DPB_OK);
        fleet.pass(20, &mut nothing);
        let [one, two] = [fleet.nodes[0], fleet.nodes[1]];
        let decide = |node| {
            let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
            assert_eq!(dpb_select(dpb_node_bandit(node), &raw mut decision), DPB_OK);
            decision.ticket
        };
        let ticket = decide(one);
        assert_eq!(dpb_node_update(one, ticket, 7.0), DPB_INVALID_REWARD);
        assert_eq!(dpb_node_update_part(one, ticket, 0, 7.0), DPB_INVALID_REWARD);
        assert_eq!(dpb_node_update_part(one, ticket, 1, 1.0), DPB_INVALID_CONFIG);
        assert_eq!(dpb_node_update_part(two, ticket, 8, 1.0), DPB_INVALID_CONFIG);
        assert_eq!(dpb_node_update(one, ticket, 1.0), DPB_OK);
        assert_eq!(dpb_node_update(one, ticket, 1.0), DPB_DUPLICATE);
        assert_eq!(dpb_node_update_part(one, ticket, 0, 1.0), DPB_DUPLICATE);
        assert_eq!(dpb_node_update_part(one, decide(one), 0, 1.0), DPB_OK);
        (0..9).for_each(|_| _ = decide(one));
        assert_eq!(dpb_node_update(one, ticket, 1.0), DPB_EXPIRED);
        assert_eq!(dpb_node_update_part(one, ticket, 0, 1.0), DPB_EXPIRED);
        assert_eq!(dpb_node_update(two, ticket, 1.0), DPB_OK);
        assert_eq!(dpb_node_update(two, ticket, 1.0), DPB_FULL);
        assert_eq!(dpb_node_update_part(two, ticket, 0, 1.0), DPB_FULL);
        assert_eq!(dpb_node_update(null_mut(), ticket, 1.0), DPB_NULL);
        assert_eq!(dpb_node_update_part(null_mut(), ticket, 0, 1.0), DPB_NULL);
        assert_eq!(dpb_node_next_period(one), DPB_UNSUPPORTED);
        assert_eq!(dpb_node_next_period(null_mut()), DPB_NULL);
        let mut people = Fleet::at(fleet.now);
        assert_eq!(people.join(&counts, &options), DPB_OK);
        people.pass(20, &mut nothing);
        assert_eq!(dpb_node_next_period(people.nodes[0]), DPB_OVER_BUDGET);
        let unlimited = dpb_config { budget: null(), budget_periods: 0, node: 9, ..counts };
        assert_eq!(people.join(&unlimited, &options), DPB_OK);
        people.pass(20, &mut nothing);
        assert_eq!(dpb_node_next_period(people.nodes[1]), DPB_OK);

        assert_eq!(dpb_stored(dpb_node_bandit(one), null(), 0, null_mut()), DPB_UNSUPPORTED);

        // Commands and replies.
        let mut command = no_command();
        let mut next = |node, lane, size| {
            command.struct_size = size;
            dpb_node_next(node, lane, fleet.now, &raw mut command, null_mut())
        };
        let whole = size_of::<dpb_command>() as u32;
        assert_eq!(next(null_mut(), 0, whole), DPB_NULL);
        assert_eq!(next(one, 2, whole), DPB_INVALID_CONFIG);
        assert_eq!(next(one, 0, whole + 8), DPB_NEWER_VERSION);
        assert_eq!(dpb_node_reply(one, 1, fleet.now, null(), 1), DPB_NULL);
        assert_eq!(dpb_node_failed(null_mut(), 1, fleet.now, null()), DPB_NULL);
        let mut sizes = [0u64; 64];
        for (size, expected) in [(8, DPB_INVALID_CONFIG), (4000, DPB_NEWER_VERSION)] {
            sizes[0] = size;
            assert_eq!(dpb_node_report_read(one, fleet.now, sizes.as_mut_ptr().cast()), expected);
            assert_eq!(dpb_node_diagnostics_read(one, sizes.as_mut_ptr().cast()), expected);
            assert_eq!(dpb_node_gone(name, 1, sizes.as_mut_ptr().cast()), expected);
        }
        assert_eq!(dpb_node_report_read(one, fleet.now, null_mut()), DPB_NULL);
        let mut read = dpb_node_diagnostics { struct_size: size_of::<dpb_node_diagnostics>() as u32, ..zeroed() };
        assert_eq!(dpb_node_diagnostics_read(null(), &raw mut read), DPB_NULL);
        assert_eq!(dpb_node_diagnostics_read(two, &raw mut read), DPB_OK);
        assert_eq!((read.waiting, read.unsent), (1, 2));
        assert_eq!(dpb_node_gone(null(), 1, &raw mut command), DPB_NULL);
        command.struct_size = whole;
        assert_eq!(dpb_node_gone(name, 7, &raw mut command), DPB_OK);

        // The store.
        let host: *mut Table = &raw mut *fleet.table;
        let rows =
            dpb_rows { host: host.cast(), get: Some(get), put: Some(put), remove: Some(remove), list: Some(list) };
        let (mut reply, mut len) = ([0u8; 100], 0);
        let mut run = |command: &dpb_command, cap| {
            dpb_store_run(&raw const rows, command, fleet.now, reply.as_mut_ptr(), cap, &raw mut len)
        };
        assert_eq!(run(&command, 1), DPB_BUFFER_TOO_SMALL);
        assert_eq!(run(&command, 100), DPB_OK);
        assert_eq!(run(&dpb_command { keys_len: 0, ..command }, 100), DPB_NOT_READY);
        assert_eq!(run(&dpb_command { kind: 0, ..command }, 100), DPB_INVALID_CONFIG);
        assert_eq!(run(&dpb_command { struct_size: whole + 8, ..command }, 100), DPB_NEWER_VERSION);
        assert_eq!(dpb_store_run(null(), &raw const command, 1, null_mut(), 0, &raw mut len), DPB_NULL);

        // The end.
        assert_eq!(dpb_node_leave(null_mut(), fleet.now), DPB_NULL);
        let ends = dpb_config { fleet_key: KEY.as_ptr(), node: 0, ..unlimited };
        let mut moving = Fleet::at(fleet.now);
        (0..2).for_each(|_| assert_eq!(moving.join(&ends, &options), DPB_OK));
        moving.pass(20, &mut nothing);
        let left = moving.nodes[1];
        let request = dpb_request { user: 7, ..dpb_request::defaults() };
        let mut open = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
        assert_eq!(dpb_select_for(dpb_node_bandit(left), &raw const request, &raw mut open), DPB_OK);
        assert_eq!(dpb_node_leave(left, moving.now), DPB_OK);
        moving.pass(200, &mut nothing);
        assert_eq!(report_of(left, moving.now).state, DPB_NODE_LEFT);
        assert_eq!(dpb_node_next(left, 0, moving.now, &raw mut command, null_mut()), DPB_HALTED);
        assert_eq!(dpb_node_update(left, open.ticket, 1.0), DPB_HALTED);
        assert_eq!(dpb_node_update_part(left, open.ticket, 0, 1.0), DPB_HALTED);
        assert_eq!(dpb_node_next_period(left), DPB_HALTED);
        dpb_node_free(made);
        made = null_mut();
        dpb_node_free(made);
        dpb_budget_free(budget);
    }
}
