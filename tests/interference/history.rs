//! A random history, which is the same in both worlds except for the rewards.

use super::handle::Subject;
use crate::audit::engine::seed;
use crate::audit::sabotage::Sabotage;
use dpb::noise::probe::Draw;
use dpb::{Clock, Config, Seed};

pub const WINDOW: u32 = 16;
/// One reward, in grid units.
const ONE: i64 = 1 << 24;

/// All that happens to some handles. Everything is public except the rewards.
pub struct History {
    pub config: Config,
    pub sabotage: Sabotage,
    /// The seed of all handles.
    pub number: u64,
    /// The number of handles at a time; each may be freed and another one restored in its place.
    pub handles: usize,
    pub steps: Vec<Step>,
    /// The reward of each decision; None if no update comes.
    rewards: Vec<Option<f64>>,
    /// The user of each decision, if users are counted.
    pub who: Vec<u64>,
    /// The decisions of the user whose rewards differ; those of one request are adjacent.
    pub changed: Vec<usize>,
    /// The differing reward in each world.
    worlds: [Option<f64>; 2],
    differs: Differs,
}

/// Which rewards of each of the user's requests differ.
#[derive(Clone, Copy, PartialEq)]
enum Differs {
    /// All of them, by the pair in `worlds`.
    All,
    /// The first two: in one world the first reward is 1 and the second is nothing, in the other world the reverse.
    Moved,
    /// Only the first. The others are rewards of 1 in both worlds.
    First,
}

/// Some events, then one decision, then some calls.
pub struct Step {
    pub events: Vec<Event>,
    /// The handle that decides, and the segment.
    pub at: usize,
    pub key: u64,
    /// The request offers only this many active arms, starting from this index.
    pub shows: Option<(usize, usize)>,
    /// The request has values, if the policy supports them.
    pub valued: bool,
    /// The request says how often its slots are examined, if the policy supports that.
    pub examined: bool,
    /// Whether it belongs to the same request as the decision before.
    pub follows: bool,
    pub calls: Vec<Call>,
}

/// Numbers may be of any size; they select modulo the number of choices.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    AddArm(Option<u64>),
    RetireArm(Which),
    Prior {
        arm: Which,
        mean: f64,
        strength: f64,
    },
    Period,
    /// The caller's clock moves by this many ticks, perhaps backwards.
    Advance(i64),
    /// Ticks pass without decisions.
    Skip(u64),
    /// Takes a snapshot, keeps it, and says that it is stored.
    Snapshot,
    /// Takes a snapshot, whose write fails. Says that the last one that was kept is stored.
    Lost,
    /// Frees the handle and restores another from a kept snapshot of any handle: the last one, or this many before it.
    Restore(usize),
    /// Merges a kept snapshot: the last one, or this many before it.
    Merge(usize),
    /// Leads the fleet.
    Lead,
    /// Ends contributing and leading.
    Alone,
    /// Sets the number of handles that share the work.
    SetHandles(u32),
    /// Contributes to the last leader, or to the one this many before it.
    Contribute(usize),
    /// Combines the last contribution, or the one this many before it.
    Combine(usize),
    /// Seals a message.
    Seal,
    /// Suspends the handle, and resumes its state: an addressed one, or one at rest.
    Move {
        addressed: bool,
    },
}

/// Selects an arm.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    Any(usize),
    /// The arm of this decision.
    Of(usize),
}

/// A call with the number of its decision.
#[derive(Clone, Copy)]
pub enum Call {
    Answer(usize),
    Cancel(usize),
}

/// The calls for one decision.
type Fate = &'static [fn(usize) -> Call];

/// The most likely one first.
const FATES: [Fate; 6] = [
    &[Call::Answer],
    &[Call::Answer, Call::Answer],
    &[Call::Answer, Call::Cancel],
    &[Call::Cancel, Call::Answer],
    &[Call::Cancel],
    &[],
];

/// If users are counted, one user makes this many times as many requests as the limit.
const OFTEN: usize = 6;

impl History {
    /// The number determines which of the first four fates the user's decisions have. In every second history the arm of
    /// one of them is retired soon after, mostly before its reward takes effect. With `restarts` the history includes
    /// snapshots, restores, merges and priors; an arm that is not retired gets a prior soon. Without, a handle with a key
    /// moves. In every second history rewards are rare.
    pub fn new(config: &Config, sabotage: Sabotage, number: u64, restarts: bool) -> History {
        History::with(config, sabotage, number, restarts, false)
    }

    /// The same, whose user comes late: the policy has released much by then, and plans by it. So epsilon is larger.
    pub fn late(config: &Config, sabotage: Sabotage, number: u64, restarts: bool) -> History {
        History::with(config, sabotage, number, restarts, true)
    }

    fn with(config: &Config, sabotage: Sabotage, number: u64, restarts: bool, late: bool) -> History {
        let mut random = Seed::new(Some(seed(!number))).unwrap().stream();
        let mut draw = |n: usize| random.below(n as u64) as usize;
        let Config { reward_window, contributions_per_user, horizon, expected_users: users, .. } = *config;
        let decisions = horizon as usize;
        let windowed = reward_window > 0;
        let (epsilon, batch) = (if late { [4.0, 16.0] } else { [1.0, 4.0] }[draw(2)], [0, 5][draw(2)]);
        let config = Config { epsilon, batch, ..config.clone() };
        // Each handle learns from a user up to the limit, so histories with users have one handle only.
        let fleet = config.fleet_key.is_some();
        let handles = match restarts && users == 0 {
            true if fleet => 3 - number as usize % 2,
            true => 3 - number as usize % 3,
            false => 1,
        };
        let step = |_| Step {
            events: Vec::new(),
            at: draw(handles),
            key: Subject::KEYS[draw(Subject::KEYS.len())],
            shows: (draw(4) == 0).then(|| (draw(64), 1 + draw(3))),
            valued: false,
            examined: false,
            follows: false,
            calls: Vec::new(),
        };
        let mut steps: Vec<_> = (0..decisions).map(step).collect();
        let twins = handles > 1 && draw(2) == 0;
        let restores = if twins { 0 } else { [0, 2, 6][draw(3)] };
        for step in &mut steps {
            step.events.extend(happens(restarts.then_some(restores), users > 0, &mut draw));
            step.events.extend(match (fleet, restarts) {
                (true, true) => combines(&mut draw),
                (true, false) => match draw(40) {
                    0 => Some(Event::Move { addressed: draw(2) == 0 }),
                    1 => Some(Event::Skip(5)),
                    _ => None,
                },
                (false, _) => None,
            });
        }
        let first = draw(decisions / 3) + if late { decisions / 2 } else { 0 };
        let often = contributions_per_user as usize * if users > 0 { OFTEN } else { 1 };
        let mut changed: Vec<_> = (0..often).map(|i| first + 20 * i + draw(20 - config.max_slots as usize)).collect();
        if users > 0 && restarts && number & 1 == 1 {
            // The user comes in a period, then in one that is not stored and is lost, and then in the next one; or only in
            // the lost one.
            steps[changed[0]].events.push(Event::Snapshot);
            steps[changed[often / 3]].events.extend([Event::Period, Event::Lost]);
            steps[changed[2 * often / 3]].events.extend([Event::Restore(0), Event::Snapshot]);
            if number & 4 == 4 {
                changed = changed[often / 3..2 * often / 3].to_vec();
            }
        }
        let mut who = Vec::new();
        if users > 0 {
            // Some other users also make many requests.
            let mut other = || 1 + if draw(5) == 0 { draw(8) } else { 8 + draw(1 << 20) } as u64;
            who.extend((0..decisions).map(|at| if changed.contains(&at) { 0 } else { other() }));
            if (number & 1 == 1 || fleet) && !restarts {
                steps[changed[often / 2]].events.extend([Event::Period, Event::Snapshot]);
            }
        }
        let slate = config.max_slots as usize;
        if slate > 0 {
            steps.iter_mut().skip(1).for_each(|step| step.follows = draw(2) == 0);
            // The user's requests use all slots, and no other request has more.
            changed = changed.into_iter().flat_map(|first| first..first + slate).collect();
            changed.iter().enumerate().for_each(|(i, &decision)| steps[decision].follows = i % slate > 0);
            steps[changed[changed.len() - 1] + 1].follows = false;
            for at in slate..decisions {
                let full = steps[at - slate + 1..at].iter().all(|step| step.follows);
                steps[at].follows &= !full;
            }
        }
        if config.clock == Clock::Caller {
            // On average one tick for each decision; with bursts during which no window ends, and with long pauses.
            let mut burst = 0;
            for step in &mut steps {
                let ticks = match draw(40) {
                    0 => [60, -7, 5000][draw(3)],
                    1 if draw(8) == 0 => {
                        burst = 20 + draw(50);
                        0
                    }
                    2..24 if burst == 0 => 1 + draw(3) as i64,
                    _ => 0,
                };
                burst = burst.saturating_sub(1);
                step.events.extend((ticks != 0).then_some(Event::Advance(ticks)));
            }
        }
        let differs = if slate > 1 { [Differs::All, Differs::Moved, Differs::First][draw(3)] } else { Differs::All };
        let (that, retires) = (Which::Of(changed[0]), draw(2) == 0);
        if retires || restarts {
            let soon = changed[0] + 1 + draw(if retires { WINDOW as usize } else { 40 });
            steps[soon].events.push(if retires { Event::RetireArm(that) } else { prior(that, &mut draw) });
            steps[soon].at = steps[changed[0]].at;
        }
        if twins {
            // Soon after the user's first decision another handle continues from that handle's snapshot, and both
            // decide.
            let soon = changed[0] + 2 + draw(20);
            steps[soon].at = steps[changed[0]].at;
            steps[soon].events.push(Event::Snapshot);
            steps[soon + 1].at = (steps[soon].at + 1) % handles;
            steps[soon + 1].events.push(Event::Restore(0));
        }
        for decision in 0..decisions {
            let fate = match changed.iter().position(|&changed| changed == decision) {
                Some(slot) if differs == Differs::First && slot % slate > 0 => 0,
                Some(_) => number as usize & 3,
                None => draw(16).saturating_sub(10),
            };
            let mut at = decision;
            for call in FATES[fate] {
                at += draw(12); // with a window, some come too late
                if let Some(step) = steps.get_mut(at) {
                    step.calls.push(call(decision));
                }
            }
        }
        let rare = draw(2) == 0;
        let mut reward = || if rare { f64::from(u8::from(draw(10) == 0)) } else { draw(9) as f64 / 8.0 };
        let rewards = (0..decisions).map(|_| Some(reward())).collect::<Vec<_>>();
        let rewards = rewards.into_iter().map(|reward| reward.filter(|_| !windowed || draw(2) == 0)).collect();
        let none = if windowed { None } else { Some(0.0) };
        let worlds = if draw(2) == 0 { [none, Some(1.0)] } else { [Some(1.0), none] };
        steps.iter_mut().for_each(|step| step.valued = draw(3) == 0);
        steps.iter_mut().for_each(|step| step.examined = draw(3) == 0);
        History { config, sabotage, number, handles, steps, rewards, who, changed, worlds, differs }
    }

    fn slots(&self) -> usize {
        self.config.max_slots.max(1) as usize
    }

    pub fn reward(&self, decision: usize, world: usize) -> Option<f64> {
        let Some(place) = self.changed.iter().position(|&changed| changed == decision) else {
            return self.rewards[decision];
        };
        match (self.differs, place % self.slots()) {
            (Differs::Moved, slot) if slot != world => (self.config.reward_window == 0).then_some(0.0),
            (Differs::Moved, _) | (Differs::First, 1..) => Some(1.0),
            _ => self.worlds[world],
        }
    }

    /// How many requests of the user can differ: a reward differs, the decision was not cancelled in time, and its period
    /// was stored; in each period no more than the limit. `made` has the period of each decision, and whether its reward
    /// cannot matter.
    pub fn contributions(&self, made: &[(usize, bool)]) -> usize {
        let differs = |decision: usize| self.reward(decision, 0) != self.reward(decision, 1) && !made[decision].1;
        let requests = self.changed.chunks(self.slots()).filter(|request| request.iter().any(|&slot| differs(slot)));
        let mut came = vec![0; made[made.len() - 1].0 + 1];
        requests.for_each(|request| came[made[request[0]].0] += 1);
        came.into_iter().map(|times: usize| times.min(self.config.contributions_per_user as usize)).sum()
    }

    /// The periods of user counts: each restore begins one.
    pub fn periods(&self) -> u32 {
        let begins =
            |event: &&Event| matches!(event, Event::Period | Event::Restore(_)) && self.config.expected_users > 0;
        1 + self.steps.iter().flat_map(|step| &step.events).filter(begins).count() as u32
    }

    /// By how much the second world may have to move a draw: one reward for each contribution of the user.
    pub fn moves(&self, draw: Draw) -> impl Iterator<Item = i64> {
        let one = if matches!(draw, Draw::Coins(_)) { 1 } else { ONE };
        let back = if self.worlds[0] == Some(1.0) { one } else { -one };
        let most = i64::from(self.config.contributions_per_user * self.periods());
        let forth = if self.differs == Differs::All { 0 } else { most };
        (1..=most).chain((1..=forth).map(|rewards| -rewards)).map(move |rewards| rewards * back)
    }
}

/// A prior for this arm.
fn prior(arm: Which, draw: &mut impl FnMut(usize) -> usize) -> Event {
    Event::Prior { arm, mean: draw(9) as f64 / 8.0, strength: (1 << draw(12)) as f64 }
}

/// What a fleet with one noise does before a decision. Most contributions are to the last leader, and most are combined.
fn combines(draw: &mut impl FnMut(usize) -> usize) -> Option<Event> {
    match draw(300) {
        0..4 => Some(Event::Lead),
        4..60 => Some(Event::Contribute(draw(12).saturating_sub(9))),
        60..180 => Some(Event::Combine(draw(16).saturating_sub(10))),
        180..190 => Some(Event::Seal),
        190..194 => Some(Event::Alone),
        194..196 => Some(Event::SetHandles(draw(5) as u32)),
        196..200 => Some(Event::Move { addressed: true }),
        _ => None,
    }
}

/// The events before a decision. With `restores` a restore happens with that probability in 300.
fn happens(restores: Option<usize>, users: bool, draw: &mut impl FnMut(usize) -> usize) -> Vec<Event> {
    let (restarts, last) = (restores.is_some(), 53 + restores.unwrap_or_default());
    let mut events = Vec::new();
    match draw(300) {
        0 => events.push(Event::AddArm(None)),
        1 => events.push(Event::RetireArm(Which::Any(draw(64)))),
        2 if restarts => events.push(Event::AddArm(Some(100 + draw(3) as u64))),
        3..10 if restarts => events.push(prior(Which::Any(draw(64)), draw)),
        10 if users => events.extend([Event::Period, Event::Snapshot]),
        11 if users && restarts => events.extend([Event::Period, Event::Lost]),
        12 if users && restarts => events.extend([Event::Restore(0), Event::Lost, Event::Restore(0), Event::Snapshot]),
        13..33 if restarts => events.push(Event::Snapshot),
        33..53 if restarts => events.push(Event::Merge(draw(8))),
        // With users only a handle restored from the newest snapshot knows the loss so far, and one of its own must be
        // stored before it decides.
        n if (53..last).contains(&n) && users => events.extend([Event::Restore(0), Event::Snapshot]),
        n if (53..last).contains(&n) => events.push(Event::Restore(draw(8))),
        _ => {}
    }
    events
}
