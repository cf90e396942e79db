//! Estimates what policies lose in a service, by simulating it.

use super::sample::{Sample, Trial};
use super::schedule::{self, Limits, Step};
use dpb::{Algorithm, Bandit, Clock, Config, Error, NO_ARM, Random, Request, Seed};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The simulated service.
pub struct World {
    /// The probabilities that a decision gets a reward above 0. They are dealt to the arms at random.
    pub rates: Vec<f64>,
    /// The mean of these rewards before they are limited to `most`. `None`: all are `most`.
    pub amount: Option<f64>,
    /// S: these rewards are `amount` times exp(S N - S^2/2), where N is normal. 0 = they are exponential.
    pub spread: f64,
    /// The largest reward.
    pub most: f64,
    /// S: a reward of an arm is worth exp(S N) times exp(S N') in a request, at most 12. N is normal for each arm, N' for each
    /// arm in each request. 0 = all are worth 1.
    pub payouts: f64,
    /// C: to play an arm costs C times a part that is uniform, for each arm, times exp(N/2) in a request. 0 = nothing costs
    /// anything.
    pub costs: f64,
    /// Whether a request may get no arm.
    pub abstain: bool,
    /// In a test: the difference of two means that does not matter.
    pub tolerance: f64,
    /// In a test: the number of arms that it looks for.
    pub winners: u32,
    /// The number of different arms in a request.
    pub slots: u32,
    /// The number of requests between two changes, at which the rates are dealt to the arms anew. 0 = no change.
    pub change_every: u64,
    /// Requests in a day.
    pub daily: u64,
    /// The number of all requests.
    pub horizon: u64,
    /// The delay of each reward, in requests.
    pub delay: u64,
    /// Handles that share the requests and merge once a minute.
    pub processes: u32,
    /// The people whose requests these are, each as often as the others, if the library limits what it learns from each.
    /// 0 = it does not.
    pub people: u64,
    /// The number of requests between two beginnings of a period. 0 = one period.
    pub period: u64,
}

impl World {
    /// The mean of a reward above 0.
    fn mean_amount(&self) -> f64 {
        const STEPS: i32 = 1 << 12;
        match self.amount {
            None => self.most,
            Some(mean) if self.spread == 0.0 => -mean * (-self.most / mean).exp_m1(),
            Some(mean) => {
                let step = 16.0 / f64::from(STEPS);
                let normals = (0..STEPS).map(|i| step * (f64::from(i) + 0.5) - 8.0);
                let terms = normals.map(|n| (-0.5 * n * n).exp() * self.lognormal(mean, n));
                terms.sum::<f64>() * step / std::f64::consts::TAU.sqrt()
            }
        }
    }

    fn lognormal(&self, mean: f64, normal: f64) -> f64 {
        (mean * (self.spread * normal - 0.5 * self.spread * self.spread).exp()).min(self.most)
    }

    fn draw_amount(&self, coins: &mut Random) -> f64 {
        match self.amount {
            None => self.most,
            Some(mean) if self.spread == 0.0 => (-mean * (1.0 - coins.unit()).ln()).min(self.most),
            Some(mean) => self.lognormal(mean, normal(coins)),
        }
    }

    /// Whether arms differ by more than their rates.
    fn has_worths(&self) -> bool {
        self.payouts > 0.0 || self.costs > 0.0
    }

    /// The mean of what a request with the best arms wins, in value, and the mean loss of an even rotation. With payouts
    /// or costs both are means over some requests.
    pub fn best_and_rotation(&self) -> (f64, f64) {
        /// The number of draws of a payout.
        const DRAWS: usize = 1 << 20;
        let requests = if self.has_worths() { DRAWS.div_ceil(self.rates.len()).max(64) } else { 1 };
        let mut coins = Seed::new(Some([77; 32])).expect("a seed").stream();
        let (mut best, mut mean, mut worth) = (0.0, 0.0, vec![0.0; self.rates.len()]);
        for _ in 0..requests {
            for (worth, rate) in worth.iter_mut().zip(&self.rates) {
                let value = payout(payout(1.0, self.payouts, &mut coins), self.payouts, &mut coins).min(12.0);
                *worth = rate * value * self.mean_amount() - cost(self.price(&mut coins), &mut coins);
            }
            mean += worth.iter().sum::<f64>() / worth.len() as f64;
            best += self.largest(&mut worth);
        }
        let requests = requests as f64;
        (best / requests, (best - f64::from(self.slots) * mean) / requests)
    }

    /// What an arm costs in a usual request.
    fn price(&self, coins: &mut Random) -> f64 {
        if self.costs > 0.0 { self.costs * coins.unit() } else { 0.0 }
    }

    pub fn best(&self) -> f64 {
        self.best_and_rotation().0
    }

    pub fn rotation(&self) -> f64 {
        self.best_and_rotation().1
    }

    /// The sum of the largest of these numbers, one for each slot; at least 0 if a request may get no arm. Sorts them.
    fn largest(&self, worth: &mut [f64]) -> f64 {
        worth.sort_unstable_by(|a, b| b.total_cmp(a));
        let sum: f64 = worth[..self.slots as usize].iter().sum();
        if self.abstain { sum.max(0.0) } else { sum }
    }

    /// The number of requests between two merges: those of a minute, but at least a 2000th of all.
    fn merge_every(&self) -> u64 {
        (self.daily / 1440).max(self.horizon / 2000).max(1)
    }
}

/// A payout times exp(S N), where N is normal.
fn payout(before: f64, spread: f64, coins: &mut Random) -> f64 {
    if spread == 0.0 {
        return before;
    }
    before * (spread * normal(coins)).exp()
}

fn normal(coins: &mut Random) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - coins.unit()).ln()).sqrt(), std::f64::consts::TAU * coins.unit());
    radius * angle.cos()
}

/// What an arm of this price costs in a request.
fn cost(price: f64, coins: &mut Random) -> f64 {
    if price > 0.0 { payout(price, 0.5, coins) } else { 0.0 }
}

/// One policy at one epsilon.
#[derive(Clone)]
pub struct Player {
    pub algorithm: Algorithm,
    pub config: Config,
}

impl Player {
    /// The number of handles. A baseline cannot merge.
    fn processes(&self, world: &World) -> u32 {
        if super::is_baseline(self.algorithm) { 1 } else { world.processes }
    }

    /// The configuration of the handles.
    fn config(&self, world: &World) -> Config {
        let mut config = Config {
            horizon: world.horizon.saturating_mul(world.slots.into()),
            pending_capacity: (world.delay / u64::from(self.processes(world)) + 1) as u32 * world.slots,
            ..self.config.clone()
        };
        if super::is_baseline(self.algorithm) {
            (config.forget_after, config.expected_users) = (0, 0); // it cannot forget, and protects nobody
        }
        if world.delay > 0 || config.forget_after > 0 {
            config.clock = Clock::Caller; // the same for all processes: it counts requests
            config.reward_window = world.delay as u32;
        }
        config
    }

    /// Checks that the policy accepts the configuration, decides such requests, and can merge if it must.
    pub fn check(&self, world: &World) -> dpb::Result<()> {
        let mut run = Run::new(self, world, Trial { seed: 0, run: 0 })?;
        run.request()?;
        run.merge()
    }
}

/// Some numbers of requests, the same in all runs of a world, and the losses of a run up to there.
pub type Curve = Vec<(u64, f64)>;

/// One run of a player.
struct Run<'a> {
    world: &'a World,
    handles: Vec<Bandit>,
    by_time: bool,
    merge_every: u64,
    coins: Random,
    /// The random bits that deal the rates to the arms. They do not depend on what the policy chose before.
    deals: Random,
    /// The present rates of the arms, their payouts and prices, the values and costs of the request, and memory to sort in.
    rates: Vec<f64>,
    payouts: Vec<f64>,
    prices: Vec<f64>,
    values: Vec<f64>,
    costs: Vec<f64>,
    worth: Vec<f64>,
    /// The tickets and arms of the request.
    chosen: Vec<(u64, u32)>,
    /// The loss of a request is `best` minus what the chosen arms are worth: `mean_amount` times rate and value, minus cost.
    best: f64,
    mean_amount: f64,
    /// `World::people`, unless the policy protects nobody.
    people: u64,
    now: u64,
    lost: f64,
    curve: Curve,
}

impl<'a> Run<'a> {
    fn new(player: &Player, world: &'a World, trial: Trial) -> dpb::Result<Run<'a>> {
        let config = player.config(world);
        let handle = |process: u32| {
            let (process, test_seed) = (u64::from(process), Some(trial.key(16 + u64::from(process))));
            Bandit::new(player.algorithm, &Config { node: process + 1, test_seed, ..config.clone() })
        };
        let handles = (0..player.processes(world)).map(handle).collect::<dpb::Result<Vec<_>>>()?;
        let (mut deals, arms) = (Seed::new(Some(trial.key(3)))?.stream(), world.rates.len());
        let payouts: Vec<f64> = (0..arms).map(|_| payout(1.0, world.payouts, &mut deals)).collect();
        let prices: Vec<f64> = (0..arms).map(|_| world.price(&mut deals)).collect();
        Ok(Run {
            world,
            by_time: config.clock == Clock::Caller,
            merge_every: if handles.len() > 1 { world.merge_every() } else { u64::MAX },
            handles,
            coins: trial.coins(),
            deals,
            rates: world.rates.clone(),
            values: if world.payouts > 0.0 { payouts.clone() } else { Vec::new() },
            costs: if world.costs > 0.0 { prices.clone() } else { Vec::new() },
            worth: payouts.clone(),
            payouts,
            prices,
            chosen: Vec::new(),
            best: if world.has_worths() { 0.0 } else { world.best() },
            mean_amount: world.mean_amount(),
            people: config.expected_users,
            now: 0,
            lost: 0.0,
            curve: Vec::new(),
        })
    }

    fn request(&mut self) -> dpb::Result<()> {
        let (world, now) = (self.world, self.now);
        // Arms begin in a random order too, because policies try them by number.
        if now == 0 || now.checked_rem(world.change_every) == Some(0) {
            for arm in (1..self.rates.len()).rev() {
                self.rates.swap(arm, self.deals.below(arm as u64 + 1) as usize);
            }
        }
        let bandit = &self.handles[(now % self.handles.len() as u64) as usize];
        if self.by_time {
            bandit.advance(now)?;
        }
        if self.people > 0 && now > 0 && now.checked_rem(world.period) == Some(0) {
            bandit.next_period()?;
            // A simulation ends before it could continue from a file.
            if let Ok(snapshot) = bandit.snapshot() {
                bandit.stored(&snapshot)?;
            }
        }
        self.chosen.clear();
        if world.has_worths() {
            for (value, &own) in self.values.iter_mut().zip(&self.payouts) {
                *value = payout(own, world.payouts, &mut self.deals).min(12.0);
            }
            for (cost_now, &price) in self.costs.iter_mut().zip(&self.prices) {
                *cost_now = cost(price, &mut self.deals);
            }
            for arm in 0..self.rates.len() {
                self.worth[arm] = self.worth(arm);
            }
            self.best = world.largest(&mut self.worth);
        }
        if world.slots == 1 && !world.has_worths() && self.people == 0 {
            let decision = bandit.select()?;
            self.chosen.push((decision.ticket, decision.arm));
        } else {
            let values = (world.payouts > 0.0).then_some(&self.values[..]);
            let costs = (world.costs > 0.0).then_some(&self.costs[..]);
            let user = if self.people > 0 { self.deals.below(self.people) } else { 0 };
            let abstain = world.abstain;
            let request = Request { slots: world.slots, values, costs, abstain, user, ..Request::default() };
            bandit.select_slots(&request, |_, decision| self.chosen.push((decision.ticket, decision.arm)))?;
        }
        self.lost += self.best;
        for &(ticket, arm) in self.chosen.iter().filter(|&&(_, arm)| arm != NO_ARM) {
            let rate = self.rates[arm as usize];
            self.lost -= self.worth(arm as usize);
            let reward = if self.coins.unit() < rate { world.draw_amount(&mut self.coins) } else { 0.0 };
            bandit.update(ticket, reward)?;
        }
        self.now += 1;
        if self.now.is_multiple_of(self.merge_every) { self.merge() } else { Ok(()) }
    }

    /// What an arm is worth in this request.
    fn worth(&self, arm: usize) -> f64 {
        let value = self.values.get(arm).unwrap_or(&1.0);
        self.rates[arm] * self.mean_amount * value - self.costs.get(arm).unwrap_or(&0.0)
    }

    fn merge(&self) -> dpb::Result<()> {
        if self.handles.len() == 1 {
            return Ok(());
        }
        let snapshots = self.handles.iter().map(Bandit::snapshot).collect::<dpb::Result<Vec<_>>>()?;
        for (own, bandit) in self.handles.iter().enumerate() {
            let mut others = snapshots.iter().enumerate().filter(|&(other, _)| other != own);
            others.try_for_each(|(_, snapshot)| bandit.merge(snapshot))?;
        }
        Ok(())
    }

    /// Plays to the next point of the curve: a twentieth more requests, at least 1000, and so few that an interrupt is
    /// soon noticed.
    fn step(&mut self) -> dpb::Result<Step> {
        let start = Instant::now();
        let until = (self.now + (self.now / 20).clamp(1000, LOOK)).min(self.world.horizon);
        while self.now < until {
            self.request()?;
        }
        self.curve.push((self.now, self.lost));
        let complete = self.now == self.world.horizon;
        if complete {
            self.handles = Vec::new(); // other runs need the memory
        }
        Ok(Step { seconds: start.elapsed().as_secs_f64(), complete })
    }
}

/// The most requests between two questions whether the work goes on.
const LOOK: u64 = 1 << 18;

/// How a test ended: after so many requests, and whether with the best arms, or ones that are not worse by the tolerance.
/// `None`: not within the horizon.
pub type Ended = Option<(u64, bool)>;

impl Run<'_> {
    /// Plays until the first handle has decided, or `goes_on` returns false.
    fn decide(&mut self, goes_on: impl Fn() -> bool) -> dpb::Result<Ended> {
        while self.now < self.world.horizon && (!self.now.is_multiple_of(LOOK) || goes_on()) {
            self.request()?;
            let (handle, winners) = (&self.handles[0], self.world.winners);
            let has_ended = match handle.best_arm() {
                Ok(_) => true,
                Err(Error::NotReady) => winners > 1 && handle.report()?.arms_active <= winners,
                Err(error) => return Err(error),
            };
            if has_ended {
                let arms = handle.arm_reports()?;
                let rates = |active: bool| {
                    let these = self.rates.iter().zip(&arms).filter(move |(_, arm)| arm.active == active);
                    these.map(|(&rate, _)| rate)
                };
                let behind = rates(false).fold(0.0, f64::max) - rates(true).fold(f64::INFINITY, f64::min);
                let is_right = behind <= 0.0 || behind * self.world.mean_amount() < self.world.tolerance;
                return Ok(Some((self.now, is_right)));
            }
        }
        Ok(None)
    }
}

/// Runs tests of each player until they end, as many as the limits permit, and at least the first ones.
pub fn test(
    world: &World,
    players: &[Player],
    seed: u64,
    limits: Limits,
    progress: impl Fn(f64) -> bool + Sync,
) -> dpb::Result<Option<Vec<Vec<Ended>>>> {
    let stopped = AtomicBool::new(false);
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let all = limits.most_runs * players.len() as u64;
    let results: Mutex<Vec<Vec<(u64, Ended)>>> = Mutex::new(vec![Vec::new(); players.len()]);
    std::thread::scope(|scope| {
        let work = || -> dpb::Result<()> {
            loop {
                // The players take turns, so each has as many runs as the others, but for the last.
                let number = next.fetch_add(1, Relaxed);
                let (run, at) = (number / players.len() as u64, (number % players.len() as u64) as usize);
                let gone = start.elapsed().as_secs_f64() / limits.seconds;
                if number >= all || (run >= limits.first_runs && gone > 1.0) || stopped.load(Relaxed) {
                    return Ok(());
                }
                let goes_on = || {
                    if !progress((number as f64 / all as f64).max(gone)) {
                        stopped.store(true, Relaxed);
                    }
                    !stopped.load(Relaxed)
                };
                let ended = Run::new(&players[at], world, Trial { seed, run })?.decide(goes_on)?;
                results.lock().unwrap_or_else(PoisonError::into_inner)[at].push((run, ended));
                goes_on();
            }
        };
        let threads: Vec<_> = (0..limits.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no run panics"))
    })?;
    // In the order of the runs, so that the threads make no difference.
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.iter_mut().for_each(|runs| runs.sort_by_key(|&(run, _)| run));
    let ended = |runs: Vec<(u64, Ended)>| runs.into_iter().map(|(_, ended)| ended).collect();
    Ok((!stopped.into_inner()).then(|| results.into_iter().map(ended).collect()))
}

/// What a player loses.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    pub runs: u64,
    /// The number of simulated requests, of those of the horizon.
    pub simulated: u64,
    /// The mean loss in these, and its standard error.
    pub part: (f64, f64),
    /// The same for the whole horizon. If some of it was not simulated, this is an estimate: the rest loses as the last
    /// three quarters of the simulated requests. Losses decrease while a policy learns, so this is an upper estimate. A
    /// shorter part may be without loss, because batches are long. If rates change, the rest loses as all simulated
    /// requests. `None`: too few of them come after a change.
    pub whole: Option<(f64, f64)>,
}

impl Loss {
    pub fn new(world: &World, curves: &[&Curve]) -> Loss {
        let points = curves.iter().map(|curve| curve.len()).min().expect("a player has runs");
        let (simulated, _) = curves[0][points - 1];
        let since = if world.change_every > 0 { 0 } else { simulated / 4 };
        let since = curves[0].iter().rposition(|&(at, _)| at <= since);
        let mean =
            |loss: &dyn Fn(&Curve) -> f64| Sample(curves.iter().map(|curve| vec![loss(curve)]).collect()).last_mean();
        let part = |curve: &Curve| curve[points - 1].1;
        let whole = |curve: &Curve| {
            let (begin, before) = since.map_or((0, 0.0), |at| curve[at]);
            part(curve) + (world.horizon - simulated) as f64 * (part(curve) - before) / (simulated - begin) as f64
        };
        let known = simulated == world.horizon || simulated >= world.change_every.saturating_mul(2);
        Loss { runs: curves.len() as u64, simulated, part: mean(&part), whole: known.then(|| mean(&whole)) }
    }
}

/// Simulates all players. `None`: `progress` returned false. The limits must be those of [`schedule::play`].
pub fn simulate(
    world: &World,
    players: &[Player],
    seed: u64,
    limits: Limits,
    progress: impl Fn(f64) -> bool + Sync,
) -> dpb::Result<Option<Vec<Loss>>> {
    let start = |at: usize, run: u64| Run::new(&players[at], world, Trial { seed, run });
    let Some(runs) = schedule::play(players.len(), limits, start, Run::step, progress)? else { return Ok(None) };
    let loss = |runs: &Vec<Run>| Loss::new(world, &runs.iter().map(|run| &run.curve).collect::<Vec<_>>());
    Ok(Some(runs.iter().map(loss).collect()))
}
