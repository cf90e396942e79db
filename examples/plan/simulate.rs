//! Estimates what policies lose, by simulation.

use super::Options;
use super::runner::{Cell, Curve, Sample, Trial, run};
use dpb::{Algorithm, Bandit, Clock, Config};
use std::time::Instant;

/// The simulated service.
pub struct World {
    /// The mean reward of each arm.
    pub means: Vec<f64>,
    /// Decisions in a day.
    pub daily: u64,
    /// The number of all decisions.
    pub horizon: u64,
    /// The delay of each reward, in decisions.
    pub delay: u64,
    /// Handles that share the decisions and merge once a minute.
    pub processes: u32,
}

impl World {
    /// The largest mean reward.
    pub fn best(&self) -> f64 {
        self.means.iter().copied().fold(0.0, f64::max)
    }

    /// The mean loss of an even rotation in one decision.
    pub fn rotation(&self) -> f64 {
        self.best() - self.means.iter().sum::<f64>() / self.means.len() as f64
    }

    /// The number of decisions between two merges: those of a minute, but at least a 2000th of all.
    fn merge_every(&self) -> u64 {
        (self.daily / 1440).max(self.horizon / 2000).max(1)
    }
}

/// One policy at one epsilon.
#[derive(Clone)]
pub struct Player {
    pub algorithm: Algorithm,
    pub config: Config,
}

impl Player {
    fn is_baseline(&self) -> bool {
        super::is_baseline(self.algorithm)
    }

    /// Makes the handles of a trial. A baseline has one handle, because it cannot merge.
    fn handles(&self, world: &World, trial: Trial) -> dpb::Result<Vec<Bandit>> {
        let processes = if self.is_baseline() { 1 } else { world.processes };
        let handle = |process: u32| {
            let mut config = Config {
                horizon: world.horizon,
                node: u64::from(process) + 1,
                test_seed: Some(trial.key(16 + u64::from(process))),
                ..self.config.clone()
            };
            if world.delay > 0 {
                config.clock = Clock::Caller;
                config.reward_window = world.delay as u32;
                config.pending_capacity = (world.delay / u64::from(processes) + 1) as u32;
            }
            Bandit::new(self.algorithm, &config)
        };
        (0..processes).map(handle).collect()
    }

    /// Checks that the policy accepts the configuration, and that it can merge if there are several processes.
    pub fn check(&self, world: &World) -> dpb::Result<()> {
        let handles = self.handles(world, Trial { seed: 0, run: 0 })?;
        if let [first, second, ..] = &handles[..] {
            first.merge(&second.snapshot()?)?;
        }
        Ok(())
    }

    /// The sum of the gaps of the chosen arms, after three quarters of this number of decisions, and at the end.
    fn play(&self, world: &World, decisions: u64, trial: Trial) -> dpb::Result<Curve> {
        let handles = self.handles(world, trial)?;
        let (best, mut coins) = (world.best(), trial.coins());
        let (mut lost, mut early) = (0.0, 0.0);
        let merge_every = if handles.len() > 1 { world.merge_every() } else { u64::MAX };
        for now in 0..decisions {
            let bandit = &handles[(now % handles.len() as u64) as usize];
            if world.delay > 0 {
                bandit.advance(now)?;
            }
            let decision = bandit.select()?;
            let mean = world.means[decision.arm as usize];
            lost += best - mean;
            bandit.update(decision.ticket, f64::from(u8::from(coins.unit() < mean)))?;
            if now == decisions * 3 / 4 {
                early = lost;
            }
            if now % merge_every == merge_every - 1 {
                let snapshots = handles.iter().map(Bandit::snapshot).collect::<dpb::Result<Vec<_>>>()?;
                for (own, bandit) in handles.iter().enumerate() {
                    let mut others = snapshots.iter().enumerate().filter(|&(other, _)| other != own);
                    others.try_for_each(|(_, snapshot)| bandit.merge(snapshot))?;
                }
            }
        }
        Ok(vec![early, lost])
    }
}

/// The result of a simulation.
pub struct Losses {
    /// The number of simulated decisions, of those of the horizon.
    pub decisions: u64,
    pub runs: u64,
    /// For each policy, the estimated mean loss over the whole horizon, and its standard error.
    pub losses: Vec<(f64, f64)>,
}

/// Simulates `options.runs` runs of the whole horizon. Without this option, the time limits the runs and their
/// decisions.
pub fn simulate(world: &World, players: &[Player], options: &Options) -> dpb::Result<Losses> {
    let (decisions, runs) = match options.runs {
        Some(runs) => (world.horizon, runs),
        None => affordable(world, players, options)?,
    };
    let play = |player: &Player, trial| player.play(world, decisions, trial).expect("checked before");
    let cells: Vec<Cell> = players.iter().map(|player| Cell::new(runs, move |trial| play(player, trial))).collect();
    let whole = |sample: Sample| {
        // The loss for each decision decreases, so its mean in the last quarter is an upper bound for the rest.
        let rest = (world.horizon - decisions) as f64 / (decisions as f64 / 4.0);
        Sample(sample.0.iter().map(|run| vec![run[1] + rest * (run[1] - run[0])]).collect()).last_mean()
    };
    let losses = run("simulating", &cells, options).into_iter().map(whole).collect();
    Ok(Losses { decisions, runs, losses })
}

/// The maximum number of runs. More would reduce the error too little for their time.
const MOST_RUNS: u64 = 24;
/// The minimum number of runs, for a useful standard error.
const LEAST_RUNS: u64 = 4;

/// The numbers of decisions and runs that the time allows. Runs a short trial of each policy to measure its speed.
fn affordable(world: &World, players: &[Player], options: &Options) -> dpb::Result<(u64, u64)> {
    let pilot = world.horizon.min(50_000);
    let start = Instant::now();
    for player in players {
        player.play(world, pilot, Trial { seed: options.seed, run: 0 })?;
    }
    let each = start.elapsed().as_secs_f64() / pilot as f64;
    // Threads share caches and cores, so their speed is estimated at two thirds.
    let all = options.seconds * (options.threads as f64 / 1.5).max(1.0) / each;
    let runs = ((all / world.horizon as f64) as u64).clamp(LEAST_RUNS, MOST_RUNS);
    Ok((((all / runs as f64) as u64).clamp(pilot, world.horizon), runs))
}
