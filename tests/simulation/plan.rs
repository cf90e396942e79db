//! What may fail in a world.

use super::coins::Coins;
use super::sabotage::Sabotage;
use super::world::DELAY;

const WINDOW: u64 = 24_000;
/// More than what comes: no reward is without a place.
pub const SEND_RATE: u64 = 40;

/// One failure: the place, and how long it lasts.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// The process is killed, and another one begins then.
    Kill(usize, u64),
    /// The process stands still.
    Pause(usize, u64),
    /// Its network is cut.
    Cut(usize, u64),
    /// It is asked to leave.
    Leave(usize),
    /// A replica that lags by this takes over after a time without a store.
    Failover(u64, u64),
    /// The store is empty.
    Empty,
    /// The store's clock jumps ahead, or back.
    Jump(u64, bool),
}

/// What may happen in a world, besides decisions and clicks.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub nodes: usize,
    pub sabotage: Sabotage,
    pub window: u64,
    /// All clicks come so soon, and the nodes know it.
    pub click_delay: u64,
    /// A node decides again after so long at most.
    pub pause: u64,
    /// What each reward is; None: none is reported.
    pub reward: Option<f64>,
    /// Rewards a second to each number; 0: they leave as they come.
    pub send_rate: u64,
    /// Each place has a number of its own, and a disk with a snapshot of it.
    pub disks: bool,
    /// The host asks what comes next as soon as a reply has come, and not only after its wait.
    pub prompt: bool,
    /// One in so many commands comes again.
    pub repeats: u64,
    /// A bit for each random fault that does not happen, by its number; bit 0 for all lost, late and repeated commands.
    pub without: u64,
    /// What fails when, after the beginning; and nothing else then.
    pub script: &'static [(u64, Failure)],
    /// Nodes leave, and others come.
    pub leaves: bool,
    pub kills: bool,
    /// Processes stand still, and networks are cut.
    pub pauses: bool,
    /// Commands and replies are lost, repeated and late.
    pub losses: bool,
    /// A replica that lags takes over, or an empty store.
    pub failovers: bool,
    /// The store's clock jumps.
    pub jumps: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan::QUIET
    }
}

impl Plan {
    pub const QUIET: Plan = Plan {
        nodes: 4,
        sabotage: Sabotage::None,
        window: WINDOW,
        click_delay: WINDOW,
        pause: 400,
        reward: Some(1.0),
        send_rate: 0,
        disks: false,
        prompt: false,
        repeats: 60,
        without: 0,
        script: &[],
        leaves: true,
        kills: false,
        pauses: false,
        losses: false,
        failovers: false,
        jumps: false,
    };
    pub const ALL: Plan = Plan { kills: true, pauses: true, losses: true, failovers: true, jumps: true, ..Plan::QUIET };

    /// Without a good round or a beat for so long, there is an outage.
    pub fn limit(&self) -> u64 {
        (self.window / 8).max(DELAY)
    }

    /// A random choice of faults.
    pub fn random(seed: u64) -> Plan {
        let mut coins = Coins(seed ^ 0x5151);
        let mut flag = || coins.one_in(2);
        let plan = Plan { leaves: flag(), kills: flag(), pauses: flag(), losses: flag(), ..Plan::QUIET };
        let plan = Plan { failovers: flag(), jumps: flag(), ..plan };
        let plan = Plan { click_delay: if flag() { WINDOW } else { WINDOW / 4 }, ..plan };
        let plan = Plan { nodes: 1 + coins.below(6) as usize, ..plan };
        let send_rate = if coins.one_in(2) { SEND_RATE } else { 0 };
        let disks = coins.one_in(4);
        Plan { send_rate, disks, prompt: coins.one_in(2), ..plan }
    }
}
