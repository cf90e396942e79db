//! Divides the time of a simulation between players.

use std::collections::VecDeque;
use std::sync::Mutex;

/// How much is simulated.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The runs that each player begins with. All of them get time, in turn.
    pub first_runs: u64,
    /// A player whose first runs are complete gets more of them, up to this number, from the time that is left.
    pub most_runs: u64,
    /// The time of each thread in seconds. It may be infinite.
    pub seconds: f64,
    pub threads: usize,
}

/// A step of a run: the time that it took in seconds, and whether the run is complete.
pub struct Step {
    pub seconds: f64,
    pub complete: bool,
}

struct Player<R> {
    started: u64,
    seconds: f64,
    /// The runs that no thread plays at the moment, by number.
    waiting: VecDeque<(u64, R)>,
    complete: Vec<(u64, R)>,
}

struct State<R, E> {
    limits: Limits,
    players: Vec<Player<R>>,
    failed: Option<E>,
    stopped: bool,
}

impl<R, E> State<R, E> {
    /// The next player for a thread with this time left, and the player's next run, which is new if it is `None`. The
    /// player is the one that has used the least time. So a fast policy completes its runs, however slow the others
    /// are, and they get the time that it does not need.
    fn take(&mut self, left: f64) -> Option<(usize, u64, Option<R>)> {
        let Limits { first_runs, most_runs, .. } = self.limits;
        let begun = self.players.iter().all(|player| player.started >= first_runs);
        if self.stopped || self.failed.is_some() || (begun && left <= 0.0) {
            return None;
        }
        let first = |player: &Player<R>| player.started < first_runs || !player.waiting.is_empty();
        // Another run is worth its time only if the time suffices for all of it.
        let more = |player: &Player<R>| {
            let complete = player.complete.len() as f64;
            complete > 0.0 && player.started < most_runs && player.seconds / complete <= left
        };
        let least_of = |wanted: &dyn Fn(&Player<R>) -> bool| {
            let players = self.players.iter().enumerate().filter(|(_, player)| wanted(player));
            players.min_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds)).map(|(at, _)| at)
        };
        let at = least_of(&first).or_else(|| least_of(&more))?;
        let player = &mut self.players[at];
        if player.started >= first_runs
            && let Some((number, run)) = player.waiting.pop_front()
        {
            return Some((at, number, Some(run)));
        }
        player.started += 1;
        Some((at, player.started - 1, None))
    }
}

/// Plays runs of all players until they are complete or the time is over. Returns the runs of each player by number:
/// its first ones, complete or not, and more that are complete. Each run has made a step at least. Calls `progress` with
/// the share of the work that is done; if that returns false, there are no results.
///
/// # Errors
/// The first error of `start` or `step`.
pub fn play<R: Send, E: Send>(
    players: usize,
    limits: Limits,
    start: impl Fn(usize, u64) -> Result<R, E> + Sync,
    step: impl Fn(&mut R) -> Result<Step, E> + Sync,
    progress: impl Fn(f64) -> bool + Sync,
) -> Result<Option<Vec<Vec<R>>>, E> {
    let whole = limits.seconds * limits.threads as f64;
    // A run waits for others after this time. With infinite time it does not wait, so that few are in memory.
    let turn = whole / (16 * limits.first_runs * players.max(1) as u64) as f64;
    let new = || Player { started: 0, seconds: 0.0, waiting: VecDeque::new(), complete: Vec::new() };
    let state =
        Mutex::new(State { limits, players: (0..players).map(|_| new()).collect(), failed: None, stopped: false });
    let lock = || state.lock().expect("no run panics");
    let report = |state: &mut State<R, E>| {
        let sum = |of: fn(&Player<R>) -> f64| state.players.iter().map(of).sum::<f64>();
        let runs = sum(|player| player.complete.len() as f64) / (limits.most_runs * players as u64) as f64;
        state.stopped |= !progress(runs.max(sum(|player| player.seconds) / whole));
    };
    let play_turn = |at, number, run: Option<R>, seconds: &mut f64| {
        let mut run = run.map_or_else(|| start(at, number), Ok)?;
        loop {
            let step = step(&mut run)?;
            *seconds += step.seconds;
            let state = &mut *lock();
            state.players[at].seconds += step.seconds;
            report(state); // a turn may be long
            if step.complete || *seconds >= turn || state.stopped {
                return Ok((run, step.complete));
            }
        }
    };
    let work = || {
        let mut left = limits.seconds;
        loop {
            let Some((at, number, run)) = lock().take(left) else { break };
            let mut seconds = 0.0;
            let played = play_turn(at, number, run, &mut seconds);
            left -= seconds;
            let state = &mut *lock();
            let player = &mut state.players[at];
            match played {
                Ok((run, true)) => player.complete.push((number, run)),
                Ok((run, false)) => player.waiting.push_back((number, run)),
                Err(error) => state.failed = state.failed.take().or(Some(error)),
            }
            report(state);
        }
    };
    std::thread::scope(|scope| (0..limits.threads).for_each(|_| drop(scope.spawn(work))));
    let State { players, failed, stopped, .. } = state.into_inner().expect("no run panics");
    failed.map_or(Ok(()), Err)?;
    if stopped {
        return Ok(None);
    }
    let runs = |player: Player<R>| {
        let mut runs = player.complete;
        runs.extend(player.waiting.into_iter().filter(|&(number, _)| number < limits.first_runs));
        runs.sort_by_key(|&(number, _)| number);
        runs.into_iter().map(|(_, run)| run).collect()
    };
    Ok(Some(players.into_iter().map(runs).collect()))
}
