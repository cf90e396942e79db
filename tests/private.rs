//! Private features: the executed proof of Theorem J, and what its handles refuse and show.
//!
//! Two worlds have the same seed and the same history, and differ in all that is private of one request: its rows, eligible
//! arms, values and costs, whether it may get no arm, its reward and when that comes, and whether and when it is cancelled.
//! Everything that anybody sees but the decision of this request itself must be equal: all other decisions, statuses,
//! reports, arms, predictions, snapshots and the lengths of what is sealed. Where the worlds differ in a released number,
//! the test moves the noise of that draw by the difference, once, and the cost of all moves must be within epsilon. An
//! adversary who sees all of that chooses the rows of the other requests.

use crate::audit::engine::{Audit, Seen, pattern, seed};
use crate::support::coins::Coins;
use dpb::noise::probe::{Draw, NoiseProbe};
use dpb::{Algorithm, Bandit, Clock, Codebook, Config, Fault, Feature, Request, Rows};
use std::hash::Hash;

const WINDOW: u32 = 6;

/// What may be seen of the handles, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sight {
    /// A released number, and the draw that covers it.
    Release(usize, u64),
    /// A hash of anything else, and what it is.
    Rest(u64, &'static str),
}

/// What is private of a request.
#[derive(Clone, Debug)]
struct Visit {
    /// The rows, for each eligible arm or one.
    row: [f32; 2],
    eligible: Vec<u32>,
    values: bool,
    costs: bool,
    abstain: bool,
    is_sparse: bool,
    reward: Option<f64>,
    /// After this many further requests.
    arrives: usize,
    cancelled: Option<usize>,
}

impl Visit {
    fn any(coins: &mut Coins, arms: u64) -> Visit {
        let number = |coins: &mut Coins| (coins.below(200) as f32 - 100.0) / 60.0;
        let (row, late) = ([number(coins), number(coins)], u64::from(WINDOW) + 3);
        Visit {
            row,
            eligible: (0..1 + coins.below(5)).map(|_| coins.below(arms) as u32).collect(),
            values: coins.one_in(3),
            costs: coins.one_in(3),
            abstain: coins.one_in(3),
            is_sparse: coins.one_in(3),
            reward: (!coins.one_in(3)).then(|| coins.below(5) as f64 / 4.0),
            arrives: coins.below(late) as usize,
            cancelled: coins.one_in(4).then(|| coins.below(late) as usize),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Request,
    AddArm,
    RetireArm,
    Prior,
    CancelAll,
    Skip,
    Advance,
    Save,
    Restore,
    Merge,
    Move,
    Contribute,
    Alone,
}

/// A history, with the private part of one request in either world.
#[derive(Clone, Debug)]
struct History {
    number: u64,
    config: Config,
    steps: Vec<(Step, usize)>,
    changed: usize,
    visits: [Visit; 2],
    fault: Option<Fault>,
}

fn config(per_arm: bool, clock: Clock, more: Config) -> Config {
    Config {
        features: 2,
        model_per_arm: per_arm,
        private_features: true,
        codebook_len: 4,
        codebook: Some(Codebook::axes(2).unwrap()),
        reward_window: WINDOW,
        pending_capacity: 16,
        clock,
        fleet_key: Some([7; 32].into()),
        ..more
    }
}

impl History {
    fn new(config: &Config, number: u64, fault: Option<Fault>) -> History {
        let mut coins = Coins(number ^ 0x51);
        let length = 420;
        let rare = [
            Step::AddArm,
            Step::RetireArm,
            Step::Prior,
            Step::CancelAll,
            Step::Skip,
            Step::Save,
            Step::Restore,
            Step::Merge,
            Step::Move,
            Step::Contribute,
            Step::Contribute,
            Step::Contribute,
            Step::Alone,
        ];
        let mut steps = Vec::new();
        for _ in 0..length {
            let at = usize::from(coins.one_in(4));
            if number % 2 == 1 && coins.one_in(14) {
                steps.push((coins.of(&rare), at));
            }
            if config.clock == Clock::Caller {
                steps.push((Step::Advance, 0));
                steps.push((Step::Advance, 1));
            }
            steps.push((Step::Request, at));
        }
        let mut visits = [Visit::any(&mut coins, 3), Visit::any(&mut coins, 3)];
        if coins.one_in(2) {
            // The largest difference: a reward in a cell, and another one in another cell.
            let one = Visit { abstain: false, costs: false, cancelled: None, ..visits[0].clone() };
            visits[0] = Visit { reward: Some(1.0), arrives: 1, ..one };
            visits[1] = Visit { reward: None, cancelled: None, row: visits[0].row.map(|x| -x), ..visits[0].clone() };
        }
        let changed = 20 + coins.below(length - 60) as usize;
        History { number, config: config.clone(), steps, changed, visits, fault }
    }
}

/// What ran, until it differed from the other world.
struct Run {
    transcript: Vec<Sight>,
    draws: Vec<Draw>,
    /// The place of the first difference.
    differs: Option<usize>,
}

struct World<'a> {
    history: &'a History,
    world: usize,
    other: &'a [Sight],
    hand: NoiseProbe,
    bandits: [Bandit; 2],
    kept: [Vec<u8>; 2],
    transcript: Vec<Sight>,
    known: u64,
    now: u64,
    /// The tickets, with the calls that are to come: the number of the request, and after how many.
    due: Vec<(usize, usize, usize, u64, Option<f64>)>,
    asked: usize,
    arms_added: u64,
}

impl World<'_> {
    fn see(&mut self, sight: Sight) -> Result<(), usize> {
        let place = self.transcript.len();
        self.transcript.push(sight);
        let (Sight::Rest(hash, _) | Sight::Release(_, hash)) = sight;
        self.known = (self.known ^ hash).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        match self.other.get(place) {
            Some(other) if *other != sight => Err(place),
            _ => Ok(()),
        }
    }

    fn rest(&mut self, what: impl Hash, name: &'static str) -> Result<(), usize> {
        for (draw, sum) in self.hand.released() {
            self.see(Sight::Release(draw, sum as u64))?;
        }
        self.see(Sight::Rest(pattern(what), name))
    }

    /// Everything that may be read of both handles.
    fn look(&mut self) -> Result<(), usize> {
        for at in 0..2 {
            let bandit = &self.bandits[at];
            let report = format!("{:?}", bandit.report().unwrap());
            let arms: Vec<_> = bandit
                .arm_reports()
                .unwrap()
                .into_iter()
                .map(|arm| {
                    [arm.mean, arm.width, arm.pulls as f64, arm.effective_pulls, arm.active.into()].map(f64::to_bits)
                })
                .collect();
            let live: Vec<u32> = live(bandit);
            let rows = [0.3f32, -0.2].repeat(if self.history.config.model_per_arm { 1 } else { live.len() });
            let mut predicted = Vec::new();
            let request = Request { eligible: Some(&live), features: Some(Rows::Dense(&rows)), ..Request::default() };
            bandit.predict(&request, |mean, deviation| predicted.push((mean.to_bits(), deviation.to_bits()))).unwrap();
            let lift = format!("{:?}", bandit.lift(None, 0.9).is_err());
            let snapshot = bandit.snapshot().unwrap();
            let debug = (bandit.epsilon_spent(0.0).unwrap().to_bits(), bandit.ticks().unwrap());
            self.rest(report, "report")?;
            self.rest(arms, "arms")?;
            self.rest(predicted, "predictions")?;
            self.rest(lift, "lift")?;
            self.rest(snapshot, "snapshot")?;
            self.rest(debug, "rest")?;
        }
        Ok(())
    }

    /// Decides a request. Only its own visitor sees the decision, if it is the one that differs.
    fn request(&mut self, at: usize) -> Result<(), usize> {
        let number = self.asked;
        self.asked += 1;
        let is_changed = number == self.history.changed;
        let visit = match is_changed {
            true => self.history.visits[self.world].clone(),
            false => Visit::any(&mut Coins(self.known), 3),
        };
        let bandit = &self.bandits[at];
        let live = live(bandit);
        let mut eligible: Vec<u32> = visit.eligible.iter().map(|&arm| live[arm as usize % live.len()]).collect();
        if visit.values || visit.costs || visit.abstain {
            eligible.sort_unstable();
            eligible.dedup();
        }
        let rows = if self.history.config.model_per_arm { 1 } else { eligible.len() };
        let dense: Vec<f32> = (0..rows).flat_map(|row| visit.row.map(|x| x + row as f32 / 8.0)).collect();
        let sparse: Vec<Feature> =
            dense.iter().enumerate().map(|(i, &value)| Feature { index: i as u32 % 2, value }).collect();
        let ends: Vec<u32> = (1..=rows as u32).map(|row| 2 * row).collect();
        let values: Vec<f64> = eligible.iter().map(|&arm| 1.0 + f64::from(arm)).collect();
        let costs: Vec<f64> = eligible.iter().map(|&arm| 0.5 + 0.4 * f64::from(arm)).collect();
        let request = Request {
            eligible: Some(&eligible),
            features: Some(if visit.is_sparse { Rows::Sparse(&sparse, &ends) } else { Rows::Dense(&dense) }),
            values: visit.values.then_some(&values),
            costs: visit.costs.then_some(&costs),
            abstain: visit.abstain,
            ..Request::default()
        };
        let decision = bandit.select_for(&request).unwrap();
        assert!(decision.propensity.is_nan());
        if !is_changed {
            self.rest((decision.arm, decision.ticket, decision.phase), "decision")?;
        }
        if decision.ticket != 0 {
            if let Some(after) = visit.cancelled {
                self.due.push((number, after, at, decision.ticket, None));
            }
            if visit.reward.is_some() {
                self.due.push((number, visit.arrives, at, decision.ticket, visit.reward));
            }
        }
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.due).into_iter().partition(|call| call.1 == 0);
        self.due = later.into_iter().map(|(n, after, at, ticket, reward)| (n, after - 1, at, ticket, reward)).collect();
        for (number, _, at, ticket, reward) in now {
            let status = match reward {
                Some(reward) => self.bandits[at].update(ticket, reward),
                None => self.bandits[at].cancel(ticket),
            };
            if number != self.history.changed {
                self.rest(status.err().map(|error| error.to_string()), "status")?;
            }
        }
        Ok(())
    }

    fn step(&mut self, step: Step, at: usize) -> Result<(), usize> {
        let bandit = &self.bandits[at];
        let config = &Config { node: 1 + at as u64, ..self.history.config.clone() };
        let live = live(bandit);
        let any = live[self.known as usize % live.len()];
        match step {
            Step::Request => return self.request(at),
            Step::AddArm => {
                let id = 100 + self.arms_added;
                self.arms_added += 1;
                let added: Vec<_> = self.bandits.iter().map(|bandit| bandit.add_arm_as(id).ok()).collect();
                return self.rest(added, "arm");
            }
            Step::RetireArm if live.len() > 3 => {
                let retired = bandit.retire_arm(any).is_ok();
                return self.rest(retired, "arm");
            }
            Step::Prior => {
                let set = bandit.set_prior(any, 0.4, 20.0).is_ok();
                return self.rest(set, "prior");
            }
            Step::CancelAll => bandit.cancel_all().unwrap(),
            Step::Skip => bandit.skip(3).unwrap(),
            Step::Advance => {
                self.now += 1;
                let now = self.now;
                return if config.clock == Clock::Caller {
                    self.bandits[at].advance(now / 2).unwrap();
                    Ok(())
                } else {
                    Ok(())
                };
            }
            Step::Save => self.kept[at] = bandit.snapshot().unwrap(),
            Step::Restore if !self.kept[at].is_empty() => {
                let plain = Config { codebook: None, ..config.clone() };
                self.bandits[at] = Bandit::restore_as(Algorithm::Linear, &plain, &self.kept[at]).unwrap();
                self.due.retain(|call| call.2 != at);
            }
            Step::Merge => {
                let snapshot = self.bandits[1 - at].snapshot().unwrap();
                let merged = self.bandits[at].merge(&snapshot).err().map(|error| error.to_string());
                return self.rest(merged, "merge");
            }
            Step::Move => {
                let state = bandit.suspend(0).unwrap();
                let length = state.len();
                self.bandits[at] = Bandit::resume(Some(Algorithm::Linear), config, &state).unwrap();
                self.bandits[at].claimed().unwrap();
                return self.rest(length, "state");
            }
            Step::Contribute => {
                let generation = self.bandits[1 - at].lead().unwrap();
                let sealed = self.bandits[at].contribution(generation).unwrap();
                let length = sealed.len();
                let combined = (!sealed.is_empty()).then(|| self.bandits[1 - at].combine(&sealed).err());
                self.rest((length, format!("{combined:?}")), "contribution")?;
                let snapshot = self.bandits[1 - at].snapshot().unwrap();
                self.bandits[at].merge(&snapshot).unwrap();
            }
            Step::Alone => bandit.alone().unwrap(),
            _ => (),
        }
        Ok(())
    }
}

fn live(bandit: &Bandit) -> Vec<u32> {
    let mut live = Vec::new();
    bandit.for_each_arm(|arm, report| live.extend(report.active.then_some(arm))).unwrap();
    live
}

fn run(history: &History, world: usize, moves: &[(usize, i64)], other: &[Sight]) -> Run {
    let mut hand = NoiseProbe::new().seeding(seed(history.number)).moving(moves);
    if let Some(fault) = history.fault {
        hand = hand.breaking(fault);
    }
    let bandits = [1, 2].map(|node| {
        let config = Config { node, ..history.config.clone() };
        Bandit::new(Algorithm::Linear, &config).unwrap()
    });
    let mut it = World {
        history,
        world,
        other,
        hand,
        bandits,
        kept: [Vec::new(), Vec::new()],
        transcript: Vec::new(),
        known: 1,
        now: 0,
        due: Vec::new(),
        asked: 0,
        arms_added: 0,
    };
    let differs = history
        .steps
        .iter()
        .enumerate()
        .try_for_each(|(number, &(step, at))| {
            it.step(step, at)?;
            // Reading everything is slow, and a difference persists.
            if number % 5 == 0 || step != Step::Request { it.look() } else { Ok(()) }
        })
        .err();
    Run { transcript: it.transcript, draws: it.hand.lift(), differs }
}

/// Moves noise until the worlds look the same. Returns what that costs, or the difference that cannot be hidden.
fn hide(history: &History) -> Result<f64, String> {
    let plain = run(history, 0, &[], &[]);
    let mut moves: Vec<(usize, i64)> = Vec::new();
    loop {
        let changed = run(history, 1, &moves, &plain.transcript);
        let Some(place) = changed.differs else { break };
        let (ours, theirs) = (plain.transcript[place], changed.transcript[place]);
        match (ours, theirs) {
            (Sight::Release(draw, sum), Sight::Release(same, other))
                if draw == same && moves.iter().all(|&(moved, _)| moved != draw) =>
            {
                moves.push((draw, sum.wrapping_sub(other) as i64));
            }
            _ => return Err(format!("not covered by noise: {ours:?} and {theirs:?}, place {place}")),
        }
        if moves.len() > 8 {
            return Err("too many releases".into());
        }
    }
    let cost = moves.iter().map(|&(draw, by)| match plain.draws[draw] {
        Draw::Laplace(scale) => by.abs() as f64 / scale as f64,
        _ => f64::INFINITY,
    });
    let (cost, config) = (cost.sum::<f64>(), &history.config);
    let most = config.epsilon / f64::from(config.contributions_per_user);
    if cost <= most * (1.0 + 1e-9) { Ok(cost) } else { Err(format!("costs {cost} of {most}")) }
}

fn configs() -> Vec<Config> {
    let base = Config { exploration: 0.1, ..Config::new(3, 4.0) };
    vec![
        config(true, Clock::Decisions, base.clone()),
        config(false, Clock::Decisions, base.clone()),
        config(true, Clock::Caller, Config { forget_after: 1024, ..base.clone() }),
        config(false, Clock::Caller, Config { pending_capacity: 4, contributions_per_user: 2, epsilon: 8.0, ..base }),
    ]
}

/// In most histories the request is in a released table, in some of them with the largest difference that there is.
#[test]
fn noise_hides_a_request() {
    let (mut covered, mut largest) = (0, 0.0f64);
    for number in 0..16 {
        for config in configs() {
            let cost = hide(&History::new(&config, number, None))
                .unwrap_or_else(|seen| panic!("history {number} of {config:?}: {seen}"));
            covered += u32::from(cost > 0.0);
            largest = largest.max(cost * f64::from(config.contributions_per_user) / config.epsilon);
        }
    }
    println!("covered {covered} of 64, the largest cost is {largest} epsilon");
    assert!(covered >= 16 && largest > 0.999, "{covered} {largest}");
}

/// Each fault is seen in one of some histories.
#[test]
fn leaks_are_seen() {
    for fault in [
        Fault::TableHalved,
        Fault::CancelsUncounted,
        Fault::CancelsEarly,
        Fault::AbstentionsShown,
        Fault::PullsShown,
        Fault::CoinsByRequest,
        Fault::RedrawByRow,
        Fault::CodewordsMove,
        Fault::PriorOfRows,
        Fault::CellsLeftOut,
        Fault::FullByCell,
    ] {
        let histories = (0..32)
            .flat_map(|number| configs().into_iter().map(move |config| History::new(&config, number, Some(fault))));
        let mut applied = false;
        let seen = histories.enumerate().find_map(|(number, history)| {
            let seen = hide(&history).err();
            applied |= Fault::was_done();
            seen.map(|seen| (number, seen))
        });
        println!("{fault:?}: {seen:?}");
        assert!(seen.is_some(), "{fault:?} is not seen, applied {applied}");
    }
}

/// The first table of two arms in one cell, after a pilot; all requests are for arm 0 and have the reward 1. Returns the
/// number of the request in whose call it is released, and whether the released sums of rewards are at least those of
/// n requests for arm 0, and at most those of none for arm 1: this pattern tells the worlds apart as well as any can. A
/// request with the number `for_other` is for arm 1.
fn first_table(number: u64, for_other: Option<usize>, fault: Option<Fault>) -> (usize, u64) {
    let hand = fault.map_or_else(NoiseProbe::new, |fault| NoiseProbe::new().breaking(fault));
    let config = Config {
        codebook_len: 1,
        codebook: Some(Codebook::new(&[1.0, 0.0], 2).unwrap()),
        test_seed: Some(seed(number)),
        reward_window: 1,
        fleet_key: None,
        ..config(true, Clock::Decisions, Config::new(2, 1.0))
    };
    let (bandit, mut pilot_end) = (Bandit::new(Algorithm::Linear, &config).unwrap(), 0);
    for at in 0..1000 {
        let arm = [u32::from(for_other == Some(at))];
        let row = Rows::Dense(&[0.7, 0.1]);
        let request = Request { eligible: Some(&arm), features: Some(row), ..Request::default() };
        let decision = bandit.select_for(&request).unwrap();
        bandit.update(decision.ticket, 1.0).unwrap();
        let released = hand.released();
        if released.len() == 4 {
            let (first, second) = (released[0].1, released[2].1);
            let n = (at - pilot_end) as i64;
            return (at, 2 * u64::from(first >= n << 24) + u64::from(second <= 0));
        }
        if !released.is_empty() {
            pilot_end = at;
        }
    }
    panic!("no table");
}

/// Two worlds in which a request is for one arm or for the other. The noise of half a request is too little, and the audit
/// sees it. (A false alarm has a probability of at most 1e-6.)
#[test]
fn an_audit_of_a_table() {
    let audit = |fault: Option<Fault>| {
        Audit::pure(1.0, 12_000).search(1, |_, number, neighbour| {
            let (at, seen) = first_table(number, None, fault);
            let seen = if neighbour { first_table(number, Some(at - 1), fault).1 } else { seen };
            vec![Seen::Pattern(seen)]
        })
    };
    let sound = audit(None);
    println!("{sound:?}");
    assert!(!sound.alarm && sound.epsilon > 0.6, "{sound:?}");
    let halved = audit(Some(Fault::TableHalved));
    println!("{halved:?}");
    assert!(halved.alarm, "{halved:?}");
}

fn ask(bandit: &Bandit, row: [f32; 2]) -> dpb::Decision {
    bandit.select_for(&Request { features: Some(Rows::Dense(&row)), ..Request::default() }).unwrap()
}

fn believed(bandit: &Bandit, row: [f32; 2]) -> Vec<f64> {
    let mut means = Vec::new();
    let request = Request { features: Some(Rows::Dense(&row)), ..Request::default() };
    bandit.predict(&request, |mean, _| means.push(mean)).unwrap();
    means
}

/// Plays a service in which arm 1 is liked where the first feature is positive, and arm 0 where it is not. Four in five
/// decisions are cancelled.
fn serve(bandit: &Bandit, requests: u64, coins: &mut Coins) {
    for _ in 0..requests {
        let x = if coins.one_in(2) { 1.0 } else { -1.0 };
        let decision = ask(bandit, [x, 0.0]);
        let rate = if (decision.arm == 1) == (x > 0.0) { 0.4 } else { 0.1 };
        match coins.one_in(5) {
            true => bandit.update(decision.ticket, coins.toss(rate)).unwrap(),
            false => bandit.cancel(decision.ticket).unwrap(),
        }
    }
}

/// What is learned is right although most decisions are cancelled, survives restarts, and is given to others, also to
/// handles with another codebook.
#[test]
fn handles_learn_and_continue() {
    let plain = Config { reward_window: 5, ..config(true, Clock::Decisions, Config::new(2, 4.0)) };
    let mut coins = Coins(5);
    let bandit = Bandit::new(Algorithm::Linear, &Config { node: 1, ..plain.clone() }).unwrap();
    serve(&bandit, 40_000, &mut coins);
    let means = [believed(&bandit, [1.0, 0.0]), believed(&bandit, [-1.0, 0.0])];
    let near = |mean: f64, rate: f64| (mean - rate).abs() < 0.08;
    assert!(near(means[0][1], 0.4) && near(means[1][0], 0.4), "{means:?}");
    assert!(means[0][0] < 0.25 && means[1][1] < 0.25, "{means:?}");
    let report = bandit.report().unwrap();
    assert_eq!((report.counts.answered, report.counts.cancelled, report.counts.expired), (39_995, 0, 0));
    let shown: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
    assert!(shown > 2_000.0 && shown < 9_000.0, "{shown} of some 8,000 were not cancelled");
    assert!(bandit.lift(None, 0.9).unwrap_err().to_string().contains("private_features"));

    let snapshot = bandit.snapshot().unwrap();
    let other = Codebook::new(&[1.0, 0.2, -1.0, 0.2, 0.2, 1.0, 0.0, -1.0], 2).unwrap();
    let refused = |config: &Config| Bandit::restore_as(Algorithm::Linear, config, &snapshot).err().unwrap().to_string();
    assert!(
        refused(&Config { codebook: Some(other.clone()), ..plain.clone() }).starts_with("codebook must be as in the")
    );
    let without = Config { codebook: None, ..plain.clone() };
    assert!(Bandit::new(Algorithm::Linear, &without).err().unwrap().to_string().starts_with("codebook must be set"));
    for restored in [Bandit::restore(&snapshot), Bandit::restore_as(Algorithm::Linear, &without, &snapshot)] {
        let restored = restored.unwrap();
        let again = believed(&restored, [1.0, 0.0]);
        assert!(again.iter().zip(&means[0]).all(|(a, b)| (a - b).abs() < 1e-9), "{again:?}");
        let counts = restored.report().unwrap().counts;
        assert_eq!((counts.expired, counts.pending()), (5, 0));
        serve(&restored, 3_000, &mut coins);
        let counts = restored.report().unwrap().counts;
        assert_eq!((counts.expired, counts.pending(), counts.answered), (5, 5, 39_995 + 2_995));
    }

    let peer = Bandit::new(Algorithm::Linear, &Config { node: 2, codebook: Some(other), ..plain }).unwrap();
    peer.merge(&snapshot).unwrap();
    let told = believed(&peer, [1.0, 0.0]);
    assert!(told[1] > 0.3 && told[0] < 0.25, "{told:?}");
    let generation = bandit.lead().unwrap();
    serve(&peer, 30, &mut coins);
    bandit.combine(&peer.contribution(generation).unwrap()).unwrap();
    assert_eq!(bandit.report().unwrap().contributions_lost, 1, "the sum of another codebook is lost");
}
