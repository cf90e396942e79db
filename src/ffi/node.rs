//! dpb_node: a node of a fleet, whose commands the host runs.

use super::bandit::dpb_bandit;
use super::calls::{call_unless, call_with_struct, construct, explained, functions, given};
use super::config::dpb_error;
use super::generated::config::dpb_config;
use super::generated::node::{dpb_node_diagnostics, dpb_node_report};
use super::guard::{self, Guard, call, handle, lock, run, slice};
use super::sized::{self, Growing};
use super::status::{DPB_NULL, dpb_status};
use crate::error::{Error, Result};
use crate::node::command::{Command, Member, Tables};
use crate::node::{Bandits, Lane, Node, NodeOptions, Task};
use crate::policy::Algorithm;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::ptr::null;
use std::sync::Mutex;

/// A node of a fleet: many processes that learn as one bandit, through a store that they share. Made by dpb_node_new,
/// destroyed by dpb_node_free. It has no socket, thread or clock. In each of its two lanes the host asks for the next
/// command (dpb_node_next), runs it with its own client of Redis or Valkey (EVALSHA), or on its database
/// (dpb_store_run), and passes the reply (dpb_node_reply) or says that it failed (dpb_node_failed), whatever the
/// reason: the node repeats it. A command may run twice or late. Any number of threads may use a node at once.
/// After fork() the child's copy is DPB_POISONED. docs/operating/fleets.md tells of fleets, and adapters for C++, Go,
/// Python and Java do it.
pub struct dpb_node {
    guard: Guard,
    node: Node<Bandits<dpb_bandit>>,
    /// What the last dpb_node_next of each lane shows.
    shown: [Mutex<Shown>; 2],
}

handle!(dpb_node);

/// Bytes of the library. Not NUL-terminated.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_bytes {
    /// The first one.
    pub bytes: *const u8,
    /// Their number.
    pub len: usize,
}

/// dpb_command.kind: wait wait_ms, at most delay_ms / 8, and ask again.
pub const DPB_COMMAND_WAIT: u32 = 0;
/// dpb_command.kind: write text to the log, and ask again.
pub const DPB_COMMAND_LOG: u32 = 1;
/// dpb_command.kind: give a number to a process. This one and the following kinds are commands for the store.
pub const DPB_COMMAND_TAKE: u32 = 2;
/// dpb_command.kind: beat, send and receive rewards.
pub const DPB_COMMAND_ROUND: u32 = 3;
/// dpb_command.kind: store a snapshot.
pub const DPB_COMMAND_PUT: u32 = 4;
/// dpb_command.kind: read other nodes' new snapshots.
pub const DPB_COMMAND_NEWS: u32 = 5;
/// dpb_command.kind: read, take, renew or end the lease of the leader.
pub const DPB_COMMAND_LEAD: u32 = 6;
/// dpb_command.kind: send sums to the leader.
pub const DPB_COMMAND_CONTRIBUTE: u32 = 7;
/// dpb_command.kind: read what others have sent to this leader.
pub const DPB_COMMAND_COLLECT: u32 = 8;
/// dpb_command.kind: read rewards for the bandit of a node that has ended.
pub const DPB_COMMAND_KEEP: u32 = 9;
/// dpb_command.kind: offer to continue with bandits of nodes that end.
pub const DPB_COMMAND_OFFER: u32 = 10;
/// dpb_command.kind: seek a node that continues with this one's bandit.
pub const DPB_COMMAND_HOST: u32 = 11;
/// dpb_command.kind: leave a state to that node.
pub const DPB_COMMAND_ENTRUST: u32 = 12;
/// dpb_command.kind: take a state that another node has left.
pub const DPB_COMMAND_ADOPT: u32 = 13;
/// dpb_command.kind: end a number's lease.
pub const DPB_COMMAND_LEAVE: u32 = 14;

/// The kinds before it are not for the store.
pub(super) const FIRST_KIND: u32 = DPB_COMMAND_TAKE;

/// What a host does next in a lane of a node. What it points to belongs to the lane until its next dpb_node_next.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct dpb_command {
    /// sizeof(dpb_command). You set it, so that the struct can grow.
    pub struct_size: u32,
    /// DPB_COMMAND_...
    pub kind: u32,
    /// Names a command for the store in dpb_node_reply and dpb_node_failed.
    pub id: u64,
    /// DPB_COMMAND_WAIT: milliseconds; otherwise 0.
    pub wait_ms: u32,
    /// A command for the store: after so many milliseconds the node has given it up, and ignores its reply.
    pub timeout_ms: u32,
    /// A command for the store: the script in Lua, and its SHA-1 as 40 hexadecimal digits, for EVALSHA; otherwise NULL.
    pub script: *const c_char,
    /// See script.
    pub sha1: *const c_char,
    /// DPB_COMMAND_LOG: the text; otherwise NULL.
    pub text: *const c_char,
    /// The script's keys. All have one hash tag, so a cluster has them on one server.
    pub keys: *const dpb_bytes,
    /// Its arguments.
    pub args: *const dpb_bytes,
    /// The number of keys.
    pub keys_len: usize,
    /// The number of arguments.
    pub args_len: usize,
}

// SAFETY: repr(C), begins with its size, ends in no padding; all its fields are numbers and addresses.
unsafe impl Growing for dpb_command {}

/// dpb_node_options.flags: a balancer brings each reward to the node that decided. Rewards of other nodes still travel,
/// and there are no outages: where rewards do not arrive, silence counts as silence.
pub const DPB_NODE_ROUTED: u32 = 1;

/// The options of a node. dpb_node_options_init fills in the defaults. All nodes of a fleet have the same ones, but for
/// snapshot.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct dpb_node_options {
    /// sizeof(dpb_node_options). dpb_node_options_init sets it.
    pub struct_size: u32,
    /// DPB_NODE_ROUTED or 0.
    pub flags: u32,
    /// The name of the bandit in the store: 1 to 200 bytes, without { and }. It is copied.
    pub name: *const c_char,
    /// The longest time between two exchanges: how old the knowledge of other nodes may be. 100 to 3,600,000;
    /// default 5000.
    pub interval_ms: u32,
    /// The longest time that a reward may take to the node that decided. A node sends a beat eight times in it, is
    /// not ready after 10 of them without an answer, and its number is free after 30. 80 to 3,600,000; default 1000.
    pub delay_ms: u32,
    /// With DPB_CLOCK_CALLER: how long a tick of dpb_advance is. At least 1; default 1.
    pub tick_ms: u32,
    /// With expected_users: how long a snapshot must have been in the store before the bandit learns on its
    /// strength. Longer than a failover of the store goes back; default 15,000.
    pub settle_ms: u32,
    /// Rewards that wait here for the store, at most. 24 bytes each are reserved. 1 to 10^8; default 100,000.
    pub queue: u32,
    /// Needs fleet_key. 0, the default: rewards travel at once, and the store shows how many do and when, which is NOT
    /// private. Otherwise each round sends a message of one length to each other node, whether rewards wait or not, with
    /// space for so many rewards a second. One that finds no space is lost.
    pub send_rate: u32,
    /// Within how many ticks of reward_window most rewards come: an outage cancels no decision that was made longer
    /// before it. 0, the default = reward_window.
    pub click_delay: u64,
    /// A snapshot of the same number from a file of this host, or NULL. The node continues from it if it counts more
    /// periods than the store's. Needs config.node.
    pub snapshot: *const u8,
    /// Its length.
    pub snapshot_len: usize,
}

// SAFETY: repr(C), begins with its size, ends in no padding; all its fields are numbers and addresses.
unsafe impl Growing for dpb_node_options {}

impl dpb_node_options {
    /// What dpb_node_options_init fills in, for those who call the interface from Rust.
    pub fn defaults(name: *const c_char) -> dpb_node_options {
        let NodeOptions { interval, delay, settle, queue, .. } = NodeOptions::new("", 0);
        dpb_node_options {
            struct_size: size_of::<dpb_node_options>() as u32,
            name,
            interval_ms: interval as u32,
            delay_ms: delay as u32,
            tick_ms: 1,
            settle_ms: settle as u32,
            queue: queue as u32,
            ..dpb_node_options::default()
        }
    }

    /// The options of a node with such bandits.
    ///
    /// # Safety
    /// `name` is NULL or valid, `snapshot` for its length.
    unsafe fn read(&self, bandits: &Bandits<dpb_bandit>) -> Result<NodeOptions> {
        let within = |field, value: u32, least: u32, most: u32| match value {
            _ if (least..=most).contains(&value) => Ok(u64::from(value)),
            _ => Err(Error::config(field, &format!("must be in {least}..={most}"), value)),
        };
        Error::unless(self.flags & !DPB_NODE_ROUTED == 0, "flags", "must be 0 or DPB_NODE_ROUTED", self.flags)?;
        // SAFETY: as above.
        let (name, snapshot) = unsafe { (name(self.name)?, slice(self.snapshot, self.snapshot_len).to_vec()) };
        let options = bandits.options(&name)?;
        Ok(NodeOptions {
            snapshot: (!self.snapshot.is_null()).then_some(snapshot),
            interval: within("interval_ms", self.interval_ms, 100, 3_600_000)?,
            delay: within("delay_ms", self.delay_ms, 80, 3_600_000)?,
            settle: within("settle_ms", self.settle_ms, 0, 3_600_000)?,
            queue: within("queue", self.queue, 1, 100_000_000)? as usize,
            send_rate: self.send_rate.into(),
            routed: self.flags & DPB_NODE_ROUTED != 0,
            tick: options.tick * within("tick_ms", self.tick_ms, 1, 3_600_000)?,
            click_delay: if self.click_delay == 0 { options.window } else { self.click_delay },
            ..options
        })
    }
}

/// The name of a bandit in the store.
///
/// # Safety
/// `name` is NULL or valid.
unsafe fn name(name: *const c_char) -> Result<String> {
    // SAFETY: as above.
    let name = if name.is_null() { "".into() } else { unsafe { CStr::from_ptr(name) }.to_string_lossy() };
    match name.len() {
        1..=200 if !name.contains(['{', '}']) => Ok(name.into_owned()),
        _ => Err(Error::config("name", "must have 1 to 200 bytes, without { and }", name.len() as u64)),
    }
}

/// dpb_node_report.state: it takes its number.
pub const DPB_NODE_TAKING: u32 = 0;
/// dpb_node_report.state: it stores its first snapshot, and reads those of others.
pub const DPB_NODE_STORING: u32 = 1;
/// dpb_node_report.state: it has joined.
pub const DPB_NODE_SERVING: u32 = 2;
/// dpb_node_report.state: it leaves, and collects what is on its way to it as the leader.
pub const DPB_NODE_RESIGNING: u32 = 3;
/// dpb_node_report.state: it leaves, and passes on its rewards and its state.
pub const DPB_NODE_MOVING: u32 = 4;
/// dpb_node_report.state: it has left.
pub const DPB_NODE_LEFT: u32 = 5;
/// dpb_node_report.state: another process has its number. The fleet learns nothing from this one, so end it.
pub const DPB_NODE_REPLACED: u32 = 6;
/// dpb_node_report.state: it could not continue from the snapshot of its number; last_error says why.
pub const DPB_NODE_FAILED: u32 = 7;

/// What a dpb_command points to.
#[derive(Default)]
struct Shown {
    command: Option<Command>,
    text: CString,
    keys: Vec<dpb_bytes>,
    args: Vec<dpb_bytes>,
}

impl Shown {
    /// A command that the host can read until this changes.
    fn show(&mut self, task: Task) -> Result<dpb_command> {
        let nothing = dpb_command { struct_size: size_of::<dpb_command>() as u32, ..dpb_command::default() };
        Ok(match task {
            Task::Wait(time) => dpb_command { kind: DPB_COMMAND_WAIT, wait_ms: time as u32, ..nothing },
            Task::Log(text) => {
                self.text = CString::new(text.replace('\0', " ")).unwrap_or_default();
                dpb_command { kind: DPB_COMMAND_LOG, text: self.text.as_ptr(), ..nothing }
            }
            Task::Run { id, command, timeout } => {
                let command = self.command.insert(command);
                let bytes = |list: &[Vec<u8>]| {
                    list.iter().map(|bytes| dpb_bytes { bytes: bytes.as_ptr(), len: bytes.len() }).collect()
                };
                (self.keys, self.args) = (bytes(&command.keys), bytes(&command.args));
                dpb_command {
                    kind: command.kind as u32 + FIRST_KIND,
                    id,
                    timeout_ms: timeout as u32,
                    script: command.kind.script().as_ptr(),
                    sha1: command.kind.sha1().as_ptr(),
                    keys: self.keys.as_ptr(),
                    args: self.args.as_ptr(),
                    keys_len: self.keys.len(),
                    args_len: self.args.len(),
                    ..nothing
                }
            }
            Task::Ended => return Err(Error::Halted),
        })
    }
}

/// Fills options with the defaults for this name. Checks nothing: dpb_node_new checks. NULL is a no-op. Any thread.
///
/// struct_size: the size of the struct in the program's header. In C and C++ dpb_node_options_init(&options, name)
/// passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_node_options_init_sized(
    options: *mut dpb_node_options,
    struct_size: u32,
    name: *const c_char,
) {
    // SAFETY: NULL or valid for that many bytes, by contract.
    unsafe { sized::init(options, struct_size, || dpb_node_options::defaults(name)) };
}

functions! {
    /// Makes a node. It begins to join with its first dpb_node_next, and has joined when dpb_node_bandit is not NULL.
    /// Make it after fork(), in each worker.
    ///
    /// name: of the policy, one that can merge; NULL: the policy of dpb_new. config: the same at all nodes, but for
    /// node: the number of this process, from 1 to 65535, which no other process has; or 0: the lowest that is free.
    /// With a fleet_key one node releases for all, rewards are sealed, and states move. options: filled by
    /// dpb_node_options_init. Both are read here, not kept. out: receives the node, which the caller frees with
    /// dpb_node_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_UNSUPPORTED (a policy that cannot merge); DPB_NEWER_VERSION;
    /// DPB_ENTROPY; DPB_NO_MEMORY. What only the bandit finds wrong in config ends the node: DPB_NODE_FAILED. Any
    /// thread.
    fn dpb_node_new(name: *const c_char, config: *const dpb_config, options: *const dpb_node_options,
        out: *mut *mut dpb_node, error: *mut dpb_error)
        = construct(out, error, &[("config", config.is_null()), ("options", options.is_null())], || {
            let config = dpb_config::read(config)?;
            let policy = match name.is_null() {
                true => Algorithm::recommended(&config),
                false => CStr::from_ptr(name).to_string_lossy().parse()?,
            };
            let bandits = Bandits::new(policy, config)?;
            let options = sized::read(options, dpb_node_options::defaults(null()))?;
            let is_missing = given("", options.snapshot, options.snapshot_len).1;
            Error::unless(!is_missing, "snapshot_len", "must be 0 without snapshot", options.snapshot_len)?;
            let options = options.read(&bandits)?;
            Ok(dpb_node { guard: Guard::default(), node: Node::new(options, bandits, 0)?, shown: Default::default() })
        });
}

/// Destroys a node and its bandit. NULL is a no-op. Leave first (dpb_node_leave). No other call on the node or its
/// bandit may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_node_free(node: *mut dpb_node) {
    guard::free(node);
}

/// The node's bandit, for decisions and reports; NULL until the node has joined, and for NULL. It lives as long as the
/// node, and dpb_free does nothing to it. The node itself does what concerns the fleet: do not call dpb_update but
/// dpb_node_update, nor dpb_next_period but dpb_node_next_period, nor dpb_merge, dpb_lead, dpb_alone,
/// dpb_set_handles, dpb_contribution, dpb_combine, dpb_suspend. dpb_stored is DPB_UNSUPPORTED. With DPB_CLOCK_CALLER
/// call dpb_advance only after a dpb_node_next of that time. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_node_bandit(node: *const dpb_node) -> *mut dpb_bandit {
    // SAFETY: NULL or live, by contract.
    let bandit = unsafe { node.as_ref() }.and_then(|node| node.node.bandit());
    // Its functions need no exclusive access.
    bandit.map_or(std::ptr::null_mut(), |bandit| std::ptr::from_ref(bandit).cast_mut())
}

/// A lane, dpb_node_next: beats and rewards.
pub const DPB_LANE_ROUNDS: u32 = 0;
/// A lane, dpb_node_next: everything else.
pub const DPB_LANE_EXCHANGES: u32 = 1;

const _: () = assert!(DPB_LANE_ROUNDS == Lane::Rounds as u32 && DPB_LANE_EXCHANGES == Lane::Exchanges as u32);

functions! {
    /// Says what to do next in a lane. Call it in a loop for each lane, in one thread each, so that a slow exchange
    /// delays no beat. There is at most one command in flight in a lane: before its reply or its timeout the next is
    /// DPB_COMMAND_WAIT. Nothing need wake a host that waits.
    ///
    /// lane: DPB_LANE_ROUNDS or DPB_LANE_EXCHANGES. now_ms: a clock that never goes back, in milliseconds since any
    /// time (CLOCK_MONOTONIC); an earlier time than in another call counts as that one. out: with struct_size set to
    /// sizeof(dpb_command). error: NULL, or filled on failure. May allocate.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (lane); DPB_HALTED (the node has ended: dpb_node_report.state);
    /// DPB_NEWER_VERSION; DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_node_next(node: *mut dpb_node, lane: u32, now_ms: u64, out: *mut dpb_command, error: *mut dpb_error)
        = explained(node, error, &[("out", out.is_null())], |n| {
            let wrong = || Error::config("lane", "must be DPB_LANE_ROUNDS or DPB_LANE_EXCHANGES", lane);
            let at = *Lane::ALL.get(lane as usize).ok_or_else(wrong)?;
            sized::known::<dpb_command>(out.cast::<u32>().read())?;
            let shown = &mut *lock(&n.shown[lane as usize])?;
            sized::write(out, shown.show(n.node.next(at, now_ms)?)?)
        });

    /// Passes the reply to a command: the bytes of the script's reply. A reply to a command that the node has given up
    /// changes nothing.
    ///
    /// id: of the command. reply: len bytes of any origin (NULL with 0). May allocate; merges at most 64 snapshots or
    /// 1 MiB.
    /// Returns DPB_OK; DPB_NULL; DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_node_reply(node: *mut dpb_node, id: u64, now_ms: u64, reply: *const u8, len: usize)
        = call_unless(given("", reply, len).1, node, |n| n.node.reply(id, now_ms, slice(reply, len)));

    /// Says that a command has failed, or perhaps has: an error of the store or the network, or no reply in time. The
    /// node repeats it later.
    ///
    /// why: for the log and dpb_node_report.last_error; NULL: unknown.
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_node_failed(node: *mut dpb_node, id: u64, now_ms: u64, why: *const c_char)
        = call(node, |n| {
            let why = if why.is_null() { "unknown".into() } else { CStr::from_ptr(why).to_string_lossy() };
            n.node.failed(id, now_ms, &why)
        });

    /// Reports the reward of a decision of any node of the fleet: here, or, if another node has decided, with a next
    /// round. Never allocates, and never waits for the store.
    ///
    /// ticket, reward: as in dpb_update.
    /// Returns as dpb_update; DPB_OK also for another node's ticket, about which nothing is known here;
    /// DPB_UNKNOWN_TICKET for a node that never was or has joined after this one's last round, and before this one has
    /// joined; DPB_FULL if too many rewards wait; DPB_HALTED once its state has moved.
    /// These statuses are NOT private. Any thread.
    fn dpb_node_update(node: *mut dpb_node, ticket: u64, reward: f64) = call(node, |n| n.node.update(ticket, reward));

    /// The same for a part of a reward, with dpb_config.parts.
    ///
    /// ticket, part, value: as in dpb_update_part.
    /// Returns as dpb_node_update; DPB_INVALID_CONFIG (part; that of another node's ticket only if it is above 7). Any
    /// thread.
    fn dpb_node_update_part(node: *mut dpb_node, ticket: u64, part: u32, value: f64)
        = call(node, |n| n.node.update_part(ticket, part, value));

    /// Begins a period (dpb_next_period), and stores a snapshot at once. The bandit learns from nobody until the store
    /// has had that for settle_ms, because a process that continues from an older one would not count this period.
    ///
    /// Returns as dpb_next_period; DPB_NOT_READY before the node has joined; DPB_HALTED once its state has moved. Any
    /// thread.
    fn dpb_node_next_period(node: *mut dpb_node)
        = call(node, |n| n.node.next_period());

    /// Begins to leave: decide nothing after it, and call dpb_node_next in both lanes until it is DPB_HALTED. So what
    /// the node has collected is released by others, and with a fleet_key another node continues with its open
    /// decisions. It ends within 25 s, whatever the store does. A process that is killed loses
    /// its open batches and decisions, and its number after 30 delays.
    ///
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_node_leave(node: *mut dpb_node, now_ms: u64) = call(node, |n| n.node.leave(now_ms));

    /// Reads what anybody may know of the node.
    ///
    /// out: with struct_size set to sizeof(dpb_node_report).
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (struct_size); DPB_NEWER_VERSION; DPB_POISONED. Any thread.
    fn dpb_node_report_read(node: *const dpb_node, now_ms: u64, out: *mut dpb_node_report)
        = call_with_struct(node, out, |n| Ok(n.node.report(now_ms)?.into()));

    /// Reads counts of rewards. NOT private.
    ///
    /// out: with struct_size set to sizeof(dpb_node_diagnostics).
    /// Returns as dpb_node_report_read. Any thread.
    fn dpb_node_diagnostics_read(node: *const dpb_node, out: *mut dpb_node_diagnostics)
        = call_with_struct(node, out, |n| Ok(n.node.diagnostics()?.into()));

    /// Writes the command that ends the lease of a number whose process has died: a supervisor runs it, so that the
    /// others need not wait 30 delays. Whoever has the number is replaced.
    ///
    /// name: as in dpb_node_options. out: with struct_size set to sizeof(dpb_command); id is 0. What it points to
    /// belongs to this thread until its next call. Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (name, number 0,
    /// struct_size); DPB_NEWER_VERSION. Any thread.
    fn dpb_node_gone(name: *const c_char, number: u16, out: *mut dpb_command)
        = gone(name, number, out);
}

unsafe fn gone(of: *const c_char, number: u16, out: *mut dpb_command) -> dpb_status {
    thread_local!(static SHOWN: RefCell<Shown> = RefCell::default());
    if of.is_null() || out.is_null() {
        return DPB_NULL;
    }
    run(|| {
        Error::unless(number != 0, "number", "must be in 1..=65535", u64::from(number))?;
        // SAFETY: not NULL, so valid by contract.
        let command = Tables::new(&unsafe { name(of) }?).leave(Member { number, incarnation: 0, life: 0 });
        let timeout = NodeOptions::new("", 0).interval;
        // SAFETY: likewise, for the size that it states.
        SHOWN.with_borrow_mut(|shown| unsafe { sized::write(out, shown.show(Task::Run { id: 0, command, timeout })?) })
    })
}
