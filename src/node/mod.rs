//! A node of a fleet, without sockets, threads or clock: it names the next [`command`], and the host runs it with a client
//! of its own, or with [`store::run`] on rows of its database.
//!
//! | state | what it does | next |
//! |---|---|---|
//! | Taking | TAKE, restores the snapshot, for a given number TAKE again | Storing; Failed if the snapshot is foreign |
//! | Storing | PUT, NEWS, LEAD, contributes, OFFER; rounds begin | Serving |
//! | Serving | ROUND in each eighth of a delay; an exchange after half to a whole interval: KEEP for each draining bandit, LEAD, CONTRIBUTE or COLLECT, PUT if due, NEWS, ends draining bandits; each twelfth OFFER; ADOPT when a state waits | `leave`: Resigning if it leads, otherwise Moving |
//! | Resigning | ends the lease; COLLECT until two intervals (at most 10 s) have passed and another node leads, or none comes; at once if no other is alive | Moving |
//! | Moving | KEEP, CONTRIBUTE, PUT, sends the rewards that wait, withdraws its offers, ADOPT; then for each draining bandit and itself HOST and ENTRUST, or LEAVE | Left |
//! | Replaced, Failed | cancels everything | |
//!
//! A reply `replaced` leads to Replaced from every state. In parallel runs the watch over outages (`membership.rs`).

pub mod command;
mod draining;
mod exchange;
mod leading;
mod machine;
mod membership;
mod outbox;
mod real;
mod report;
mod snapshots;
pub mod store;

pub use machine::{Lane, Node, NodeState, Task};
pub use real::Bandits;
pub use report::{NodeDiagnostics, NodeReport};

use crate::error::Result;

/// What a node needs of its bandit. `Bandit` is one, and so is the model of the tests.
pub trait FleetBandit {
    /// As `Bandit::update_part`.
    ///
    /// # Errors
    /// As `Bandit::update_part`.
    fn update_part(&self, ticket: u64, part: u32, value: f64) -> Result<()>;
    /// The time of the bandit's clock, in which `reward_window` is.
    ///
    /// # Errors
    /// `Poisoned`.
    fn ticks(&self) -> Result<u64>;
    /// As `Bandit::next_period`.
    ///
    /// # Errors
    /// As `Bandit::next_period`.
    fn next_period(&self) -> Result<()>;
    /// Cancels the open decisions made at `from` or later.
    ///
    /// # Errors
    /// `Poisoned`.
    fn cancel_since(&self, from: u64) -> Result<()>;
    /// How often it has released.
    ///
    /// # Errors
    /// `Poisoned`.
    fn releases(&self) -> Result<u64>;
    /// As `Bandit::snapshot`.
    ///
    /// # Errors
    /// As `Bandit::snapshot`.
    fn snapshot(&self) -> Result<Vec<u8>>;
    /// As `Bandit::stored`.
    ///
    /// # Errors
    /// As `Bandit::stored`.
    fn stored(&self, snapshot: &[u8]) -> Result<()>;
    /// As `Bandit::merge`.
    ///
    /// # Errors
    /// As `Bandit::merge`.
    fn merge(&self, snapshot: &[u8]) -> Result<()>;
    /// As `Bandit::lead`.
    ///
    /// # Errors
    /// As `Bandit::lead`.
    fn lead(&self) -> Result<u64>;
    /// As `Bandit::set_handles`.
    ///
    /// # Errors
    /// As `Bandit::set_handles`.
    fn set_handles(&self, handles: u32) -> Result<()>;
    /// As `Bandit::contribution`.
    ///
    /// # Errors
    /// As `Bandit::contribution`.
    fn contribution(&self, generation: u64) -> Result<Vec<u8>>;
    /// As `Bandit::combine`.
    ///
    /// # Errors
    /// As `Bandit::combine`.
    fn combine(&self, contribution: &[u8]) -> Result<()>;
    /// How many decisions are open.
    ///
    /// # Errors
    /// `Poisoned`.
    fn pending(&self) -> Result<u64>;
    /// As `Bandit::skip`.
    ///
    /// # Errors
    /// As `Bandit::skip`.
    fn skip(&self, ticks: u64) -> Result<()>;
    /// As `Bandit::receiver`.
    ///
    /// # Errors
    /// As `Bandit::receiver`.
    fn receiver(&self) -> Result<u64>;
    /// The length of the state that `suspend` would write.
    ///
    /// # Errors
    /// As `Bandit::suspend`.
    fn state_length(&self) -> Result<u64>;
    /// As `Bandit::suspend`.
    ///
    /// # Errors
    /// As `Bandit::suspend`.
    fn suspend(&self, receiver: u64) -> Result<Vec<u8>>;
    /// As `Bandit::seal`; without a fleet key the message itself.
    ///
    /// # Errors
    /// As `Bandit::seal`.
    fn seal(&self, message: &[u8]) -> Result<Vec<u8>>;
    /// As `Bandit::open`; without a fleet key the message itself.
    ///
    /// # Errors
    /// As `Bandit::open`.
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>>;
}

/// Where a node's bandit comes from, and its random numbers.
pub trait BanditSource {
    /// The bandits.
    type Bandit: FleetBandit;
    /// A bandit with this number, which continues from the snapshot if there is one. It learns from people only in
    /// periods that a stored snapshot counts, also in its first one.
    ///
    /// # Errors
    /// As `Bandit::new` and `Bandit::restore_as`. The node has failed then.
    fn bandit(&mut self, number: u16, snapshot: Option<&[u8]>) -> Result<Self::Bandit>;
    /// The origin of a snapshot of this number; and how many periods, decisions and generations it counts: of two of
    /// one origin, the newer one counts more.
    ///
    /// # Errors
    /// `Corrupt`; `NewerVersion`; `InvalidConfig` for a snapshot of another number.
    fn counts(&self, number: u16, snapshot: &[u8]) -> Result<(u64, [u64; 3])>;
    /// The bandit of a state that was addressed to this process.
    ///
    /// # Errors
    /// As `Bandit::resume`.
    fn resume(&mut self, number: u16, state: &[u8]) -> Result<Self::Bandit>;
    /// A random number.
    fn draw(&mut self) -> u64;
}

/// The options of a node. Durations are in milliseconds.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The bandit's name.
    pub name: String,
    /// The node's number; 0: the lowest that is free.
    pub number: u16,
    /// A snapshot of the same number, from a file of this host. The node continues from it if it counts more than the
    /// store's: first periods, then decisions. One that is foreign ends the node.
    pub snapshot: Option<Vec<u8>>,
    /// The longest time between two exchanges.
    pub interval: u64,
    /// The longest time that a reward may take.
    pub delay: u64,
    /// How long a snapshot must have been in the store before the bandit learns on its strength: longer than a failover
    /// goes back.
    pub settle: u64,
    /// Rewards that wait here for the store, at most, without `send_rate`.
    pub queue: usize,
    /// In each round, eight times in a delay, the node sends one message of one length to each number that is held,
    /// whether rewards wait or not: the store does not see them. The messages to a number hold so many rewards a
    /// second; more are lost. It needs the fleet key. 0: rewards leave as they come.
    pub send_rate: u64,
    /// A balancer brings each reward to the node that decided: silence counts whatever the fleet does.
    pub routed: bool,
    /// How long a tick of the caller's clock is; 0: a tick is a decision. Let time pass for the bandit only after
    /// [`Node::next`] has seen it, so that a process that stood still cancels before it learns.
    pub tick: u64,
    /// The bandit's `reward_window` in ticks; 0: none.
    pub window: u64,
    /// Within how many ticks most rewards come: an outage cancels no decision that was made longer before it.
    pub click_delay: u64,
    /// The id of the fleet key; 0: each node adds its own noise.
    pub fleet: u64,
}

impl NodeOptions {
    /// The defaults for the bandit with this name and window.
    pub fn new(name: &str, window: u64) -> NodeOptions {
        NodeOptions {
            name: name.into(),
            number: 0,
            snapshot: None,
            interval: 5000,
            delay: 1000,
            settle: 15_000,
            queue: 100_000,
            send_rate: 0,
            routed: false,
            tick: 0,
            window,
            click_delay: window,
            fleet: 0,
        }
    }
}
