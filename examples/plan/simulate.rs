//! What policies would lose, by simulation.

use super::Options;
use super::runner::{Cell, Curve, Sample, Trial, run};
use dpb::{Algorithm, Bandit, Clock, Config};
use std::time::Instant;

/// A service whose rewards are known.
pub struct World {
    /// The mean reward of each arm.
    pub means: Vec<f64>,
    /// Decisions in a day.
    pub daily: u64,
    /// All decisions.
    pub horizon: u64,
    /// A reward takes effect so many decisions later.
    pub delay: u64,
    /// Handles that share the decisions and merge once a minute.
    pub processes: u32,
}

impl World {
    pub fn best(&self) -> f64 {
        self.means.iter().copied().fold(0.0, f64::max)
    }

    /// What an even rotation loses in one decision.
    pub fn rotation(&self) -> f64 {
        self.best() - self.means.iter().sum::<f64>() / self.means.len() as f64
    }

    /// Decisions between two merges: a minute's, and no less than a 2000th of all.
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

    /// The handles of a trial. A baseline cannot merge: it has one.
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

    /// Can it do this at all? Merging too, where there are several processes.
    pub fn check(&self, world: &World) -> dpb::Result<()> {
        let handles = self.handles(world, Trial { seed: 0, run: 0 })?;
        if let [first, second, ..] = &handles[..] {
            first.merge(&second.snapshot()?)?;
        }
        Ok(())
    }

    /// What so many decisions lose in expectation, given the arms that were chosen: at three quarters, and at the end.
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

/// What was simulated.
pub struct Losses {
    /// Of the horizon.
    pub decisions: u64,
    pub runs: u64,
    /// For each player the mean loss over the whole horizon, and its standard error.
    pub losses: Vec<(f64, f64)>,
}

/// Simulates as many runs as the time allows, of as many decisions; or `options.runs` of the whole horizon.
pub fn simulate(world: &World, players: &[Player], options: &Options) -> dpb::Result<Losses> {
    let (decisions, runs) = match options.runs {
        Some(runs) => (world.horizon, runs),
        None => affordable(world, players, options)?,
    };
    let play = |player: &Player, trial| player.play(world, decisions, trial).expect("checked before");
    let cells: Vec<Cell> = players.iter().map(|player| Cell::new(runs, move |trial| play(player, trial))).collect();
    let whole = |sample: Sample| {
        // The loss of a decision falls, so what the last quarter lost for each bounds the rest from above.
        let rest = (world.horizon - decisions) as f64 / (decisions as f64 / 4.0);
        Sample(sample.0.iter().map(|run| vec![run[1] + rest * (run[1] - run[0])]).collect()).last_mean()
    };
    let losses = run("simulating", &cells, options).into_iter().map(whole).collect();
    Ok(Losses { decisions, runs, losses })
}

/// Runs that are worth waiting for, at most.
const MOST_RUNS: u64 = 24;
const LEAST_RUNS: u64 = 4;

/// How many decisions, and how often, after a trial of each player.
fn affordable(world: &World, players: &[Player], options: &Options) -> dpb::Result<(u64, u64)> {
    let pilot = world.horizon.min(50_000);
    let start = Instant::now();
    for player in players {
        player.play(world, pilot, Trial { seed: options.seed, run: 0 })?;
    }
    let each = start.elapsed().as_secs_f64() / pilot as f64;
    // Threads share caches and cores: count on two thirds of them.
    let all = options.seconds * (options.threads as f64 / 1.5).max(1.0) / each;
    let runs = ((all / world.horizon as f64) as u64).clamp(LEAST_RUNS, MOST_RUNS);
    Ok((((all / runs as f64) as u64).clamp(pilot, world.horizon), runs))
}
