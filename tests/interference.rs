//! Non-interference: outputs depend on a reward only where noise covers it.
//!
//! The proof of every policy with noise shifts noise. Two worlds have the same seed and the same history, and differ in
//! the rewards of one user. Their public outputs are equal until a release contains such a reward. There the proof
//! shifts the noise of that draw by the difference of the sums. The outputs are then equal again until the next release
//! that contains the reward, if the mechanism has one, and so on to the end. A shift by d costs |d|/scale. The sum of
//! these costs is the loss, and must be within epsilon.
//!
//! This test executes the proof, for every policy in the list and for segments, in random [histories](history) with
//! restarts: snapshots, restores of old snapshots, two handles that continue from one, merges in any order, priors, new
//! and retired arms. It detects an output that depends on a sum without noise, a reward that is released too often, and
//! noise that is too small by any amount, in one run and without statistics. tests/noise.rs tests the distribution of
//! the noise.
//!
//! An adversary who sees the whole transcript chooses the features of dp-linear.
//!
//! A policy that draws no noise hides rewards in its choices. For it, this test only requires that nothing differs
//! before a choice of a later phase. The policies of the local model are left out, because their inputs are private
//! already.

pub mod handle;
mod history;
mod record;
mod world;

use crate::audit::sabotage::Sabotage;
use dpb::noise::probe::Draw;
use dpb::privacy::composition::{group_delta, zcdp_to_approximate};
use dpb::{Algorithm, Bandit, Clock, Config, Error, Fault, Request};
use handle::{Features, Subject};
use history::{History, WINDOW};
use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::Mutex;
use world::{Run, Sight, run};

/// How the second world was made to look like the first one.
#[derive(Debug, PartialEq)]
enum Hidden {
    /// By moving this many draws of noise.
    Noise(usize),
    /// Not at all: the policy draws no noise, and a choice differs.
    Choice,
}

/// Moves noise until the worlds look the same, or describes the difference that cannot be hidden.
fn hide(subject: Subject, history: &History) -> Result<Hidden, String> {
    let plain = run(subject, history, 0, &[], &[]);
    if plain.nonce_repeats {
        return Err("two messages with one nonce".into());
    }
    if plain.noise_repeats {
        return Err("noise of the same random words".into());
    }
    let moved = |moves: &[(usize, i64)]| run(subject, history, 1, moves, &plain.transcript);
    let mut moves: Vec<(usize, i64)> = Vec::new();
    let mut changed = moved(&moves);
    loop {
        let Some(seen) = changed.difference else {
            return within_the_claim(history, &plain, &moves).map(|()| Hidden::Noise(moves.len()));
        };
        if plain.draws.is_empty() {
            let earliest = history.changed.iter().map(|&at| plain.phases[at]).min();
            let chosen = matches!(seen.sight, Sight::Arm(phase) if Some(phase) > earliest);
            return if chosen { Ok(Hidden::Choice) } else { Err(format!("seen where there is no noise: {seen}")) };
        }
        let draws = match seen.sight {
            Sight::Release(draw) => draw..draw + 1,
            _ => seen.draws.clone(),
        };
        if let (Sight::Release(draw), true) = (seen.sight, subject.transforms_rewards()) {
            // A reward changes a coordinate by the reward times a public number of any size, or by a function of the reward.
            // So the test moves the draw by the difference that it sees, and checks only the total cost.
            if moves.iter().any(|&(moved, _)| moved == draw) {
                return Err(format!("not covered by noise: {seen}"));
            }
            moves.push((draw, seen.by));
            changed = moved(&moves);
            continue;
        }
        let candidates = draws.filter(|&draw| moves.iter().all(|&(moved, _)| moved != draw));
        let mut candidates = candidates.flat_map(|draw| history.moves(changed.draws[draw]).map(move |by| (draw, by)));
        let covering = candidates.find_map(|one_more| {
            let moves = [&moves[..], &[one_more]].concat();
            let next = moved(&moves);
            next.difference.as_ref().is_none_or(|next| next.place > seen.place).then_some((moves, next))
        });
        (moves, changed) = covering.ok_or_else(|| format!("not covered by noise: {seen}"))?;
    }
}

/// Checks that the shifts cost no more than the loss that the handles report, and that this is within epsilon.
fn within_the_claim(history: &History, plain: &Run, moves: &[(usize, i64)]) -> Result<(), String> {
    let Config { epsilon, delta, contributions_per_user, .. } = history.config;
    let (mut pure, mut zcdp, mut bits) = (0.0, 0.0, 0);
    for &(draw, by) in moves {
        match plain.draws[draw] {
            Draw::Laplace(scale) => pure += by.abs() as f64 / scale as f64,
            Draw::Gaussian(sigma) => zcdp += (by as f64 / sigma as f64).powi(2) / 2.0,
            Draw::Coins(plan) => {
                bits += by.unsigned_abs();
                let each = plan.noise().delta(plan.epsilon(), plan.users());
                let group = group_delta(plan.epsilon(), each, contributions_per_user);
                if plan.epsilon() * f64::from(contributions_per_user) > epsilon || group > delta {
                    return Err(format!("{plan:?} loses delta {group}"));
                }
            }
        }
    }
    // A cancelled decision costs nothing, and each of m contributions may cost an m-th.
    let contributions = history.contributions(&plain.made);
    let most = contributions_per_user * plain.periods;
    let part = (contributions as f64 / f64::from(most)).min(1.0);
    let [at_zero, at_delta] = plain.reported;
    let within = pure <= (at_zero * part).max(0.0) * (1.0 + 1e-9)
        && (contributions > 0 || moves.is_empty())
        && zcdp_to_approximate(zcdp, delta) <= at_delta * (1.0 + 1e-9)
        && bits <= contributions_per_user.into()
        && (at_delta <= epsilon || plain.periods > 1);
    let losses = || {
        format!(
            "{contributions} contributions of {most} lose {pure} + {zcdp} concentrated + {bits} bits, \
             reported {at_zero} and {at_delta}"
        )
    };
    if within { Ok(()) } else { Err(losses()) }
}

/// The common configuration, with a delta if the policy needs one.
fn plain(reward_window: u32, contributions_per_user: u32, delta: f64, horizon: u64) -> Config {
    Config {
        delta,
        horizon,
        beta: 0.9, // short epochs
        base: Algorithm::NonprivateExp3 as u32,
        contributions_per_user,
        pending_capacity: 32,
        reward_window,
        ..Config::new(3, 1.0)
    }
}

/// The configurations worth trying: with a delta if the policy needs it, or if it then draws other noise; and with a
/// short horizon if it draws noise then. Many tests need them, and the first one finds them.
fn configs(subject: Subject, reward_window: u32) -> Vec<Config> {
    static FOUND: Mutex<Vec<(Subject, u32, Vec<Config>)>> = Mutex::new(Vec::new());
    let of = |found: &[(Subject, u32, Vec<Config>)]| {
        let mut same = found.iter().filter(|&&(which, window, _)| which == subject && window == reward_window);
        same.next().map(|(_, _, configs)| configs.clone())
    };
    let known = of(&FOUND.lock().unwrap());
    known.unwrap_or_else(|| {
        let found = find_configs(subject, reward_window);
        FOUND.lock().unwrap().push((subject, reward_window, found.clone()));
        found
    })
}

fn find_configs(subject: Subject, reward_window: u32) -> Vec<Config> {
    let able = |config: &Config| subject.make(config).is_ok();
    let mut worth = Vec::new();
    for contributions_per_user in [1, 3] {
        let mut known = Vec::new();
        for delta in [0.0, 1e-3] {
            let tried = |horizon| {
                let config = plain(reward_window, contributions_per_user, delta, horizon);
                let history = History::new(&config, Sabotage::Nothing, 0, false);
                able(&history.config).then(|| (config, run(subject, &history, 0, &[], &[]).draws))
            };
            let few = tried(400).filter(|(_, draws)| !draws.is_empty());
            let Some((config, draws)) = few.or_else(|| tried(1600)) else { continue };
            if !known.contains(&draws) {
                worth.push(config);
                known.push(draws);
            }
        }
    }
    // Configurations that forget within the history, and configurations that explore.
    let of = |(memory, exploration)| Config { forget_after: memory, exploration, horizon: 1600, ..worth[0].clone() };
    let more = [(1 << 10, 0.2), (0, 0.2), (1 << 10, 0.0)].into_iter().map(of).find(able);
    // Configurations with several slots, where a request may cost epsilon.
    let clicks = u32::from(reward_window > 0);
    let slates = [(clicks, 2, 0.0), (clicks, 1, 0.0), (0, 1, 1e-3)];
    let slates = slates.map(|(max_clicks, contributions_per_user, delta)| Config {
        arms: 7,
        max_slots: 3,
        max_clicks,
        contributions_per_user,
        delta,
        ..worth[0].clone()
    });
    worth.extend(more);
    worth.extend(slates.into_iter().filter(able));
    worth
}

/// A handle with the simplest configuration that the policy accepts, and its delta.
fn any(subject: Subject) -> (Bandit, f64) {
    let made = |delta| Some((subject.make(&plain(0, 1, delta, 1600)).ok()?, delta));
    [0.0, 1e-3].into_iter().find_map(made).expect("a configuration for all")
}

/// Segments, and all policies except those that refuse raw rewards, because their devices hide the rewards.
fn subjects(private: bool) -> Vec<Subject> {
    let belongs = |&subject: &Subject| {
        let (bandit, delta) = any(subject);
        let features = subject.has_features().then(|| Features::new(if subject == Subject::Models { 1 } else { 3 }, 1));
        let features = features.as_ref().map(Features::rows);
        let decision = bandit.select_for(&Request { features, ..subject.request(Subject::KEYS[0]) }).unwrap();
        let raw = bandit.update(decision.ticket, 0.5) != Err(Error::InvalidReward);
        raw && bandit.epsilon_spent(delta).unwrap().is_finite() == private
    };
    let policies = Algorithm::ALL.iter().copied().map(Subject::Policy);
    policies.chain([Subject::Segments, Subject::Models, Subject::Clipped]).filter(belongs).collect()
}

/// Runs this many histories of each configuration, and more until the rewards matter in one.
fn noise_hides_rewards(subjects: Vec<Subject>, reward_window: u32, restarts: bool, histories: u64) {
    hidden_on(Clock::Decisions, subjects, reward_window, restarts, histories);
}

fn hidden_on(clock: Clock, subjects: Vec<Subject>, reward_window: u32, restarts: bool, histories: u64) {
    for subject in subjects {
        hidden_in(subject, &on(clock, configs(subject, reward_window)).collect::<Vec<_>>(), restarts, histories);
    }
}

fn hidden_in_a_fleet(part: Part, histories: u64) {
    for subject in with_lives() {
        let configs: Vec<_> = [0, WINDOW].into_iter().flat_map(|window| in_a_fleet(subject, window)).collect();
        if !configs.is_empty() {
            hidden_in(subject, &part.of(configs), true, histories);
        }
    }
}

/// How many of the configurations with and without a window a test tries.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    All,
    /// Each kind of configuration either with a window or without.
    Half,
}

impl Part {
    fn of(self, configs: Vec<Config>) -> Vec<Config> {
        let [mut without, mut with] = [0, 0];
        let mut belongs = |config: &Config| {
            let (count, odd) = if config.reward_window > 0 { (&mut with, 1) } else { (&mut without, 0) };
            *count += 1;
            self == Part::All || *count % 2 == odd || config.test_seed.is_some()
        };
        configs.into_iter().filter(|config| belongs(config)).collect()
    }
}

fn hidden_in(subject: Subject, configs: &[Config], restarts: bool, histories: u64) {
    let (mut same, mut covered, mut chosen) = (0, 0, 0);
    for number in 0..64 {
        if number >= histories && covered + chosen > 0 {
            break;
        }
        for config in configs {
            match hide(subject, &History::new(config, Sabotage::Nothing, number, restarts)) {
                Ok(Hidden::Noise(0)) => same += 1,
                Ok(Hidden::Noise(_)) => covered += 1,
                Ok(Hidden::Choice) => chosen += 1,
                Err(seen) => panic!("{}, history {number} of {config:?}: {seen}", subject.name()),
            }
        }
    }
    println!("{}: covered {covered} times, chosen {chosen}, the same {same}", subject.name());
    assert!(covered + chosen > 0, "{}: no history tells anything", subject.name());
}

/// Rewards in parts: the user's two parts add up to more than the largest reward. One is refused before it counts, or
/// comes too late, in some histories.
fn in_parts(subject: Subject) -> impl Iterator<Item = Config> {
    let parts =
        |config: Config| Config { parts: 2, part_weights: [1.5, -0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], ..config };
    [Clock::Decisions, Clock::Caller].into_iter().flat_map(move |clock| on(clock, configs(subject, WINDOW)).map(parts))
}

#[test]
fn noise_hides_parts() {
    for subject in [Subject::Policy(Algorithm::Imed), Subject::Segments] {
        let configs: Vec<_> = in_parts(subject).collect();
        hidden_in(subject, &configs, true, 1);
        let keyed = |config| Config { fleet_key: Some([7; 32].into()), ..config };
        hidden_in(subject, &configs.into_iter().map(keyed).collect::<Vec<_>>(), false, 1);
    }
}

/// A report of a part ends its decision; the sum of parts is more than one reward.
#[test]
fn leaks_of_parts_are_seen() {
    let subject = Subject::Policy(Algorithm::Imed);
    let configs = in_parts(subject).map(|config| (config, false)).collect();
    are_seen_in(&[Fault::PartTells, Fault::PartUnclamped].map(Sabotage::Built), vec![Kinds { subject, configs }]);
}

/// Policies whose batches depend on all that was released. They take long to plan by it. A learned clip takes long too.
const PLANNERS: [Subject; 4] =
    [Subject::Policy(Algorithm::TopTwo), Subject::Policy(Algorithm::Linear), Subject::Models, Subject::Clipped];

/// Longer histories, in which the user comes when the policy has released much.
fn late(subject: Subject) -> impl Iterator<Item = Config> {
    let long = |config: Config| Config { horizon: 2400, ..config };
    let plain = [0, WINDOW].into_iter().map(move |window| long(configs(subject, window)[0].clone()));
    // A test with all of its ends, and shares of a control.
    let is_test = subject == Subject::Policy(Algorithm::TopTwo);
    let with_control = move |window| Config {
        tolerance: 0.3,
        planned_end: 1500,
        control_share: 0.4,
        ..long(configs(subject, window)[0].clone())
    };
    // Samples for a lift.
    let exploring = move |window| Config { exploration: 0.2, ..long(configs(subject, window)[0].clone()) };
    let explored = [0, WINDOW].into_iter().filter(move |_| subject.has_features()).map(exploring);
    plain.chain([0, WINDOW].into_iter().filter(move |_| is_test).map(with_control)).chain(explored)
}

/// While the unit is open, other batches are planned and released.
#[test]
fn noise_hides_rewards_while_policies_plan() {
    hidden_late(2);
}

/// Handles of a fleet have learned clips by the time that the user comes, together or apart.
#[test]
fn noise_hides_rewards_behind_clips_of_a_fleet() {
    hidden_behind_clips(Part::Half, 4);
}

fn hidden_behind_clips(part: Part, histories: u64) {
    let fleets: Vec<_> = [0, WINDOW].into_iter().flat_map(|window| in_a_fleet(Subject::Clipped, window)).collect();
    let fleets = part.of(fleets);
    let (mut covered, mut clips, mut apart) = ([0; 2], 0, 0);
    for (number, config) in (0..histories).flat_map(|number| fleets.iter().map(move |config| (number, config))) {
        // Rewards are at most 1, so clips are far below the largest reward.
        let config = Config { horizon: 1600, reward_max: 64.0, ..config.clone() };
        let make = if number % 2 == 0 { History::late } else { History::new };
        let history = make(&config, Sabotage::Nothing, number, true);
        match hide(Subject::Clipped, &history) {
            Ok(Hidden::Noise(moves)) => covered[number as usize % 2] += usize::from(moves > 0),
            Ok(Hidden::Choice) => {}
            Err(seen) => panic!("history {number} of {:?}: {seen}", history.config),
        }
        let found = run(Subject::Clipped, &history, 0, &[], &[]).clips;
        let learned = found.iter().filter(|clip| clip.is_some_and(|clip| clip < 64.0)).count();
        clips += learned;
        apart += usize::from(learned > 1 && found.windows(2).any(|pair| pair[0] != pair[1]));
    }
    println!("covered {covered:?}, with {clips} clips, {apart} times different ones");
    assert!(covered.iter().all(|&times| times > 0) && clips > 10, "{covered:?} {clips}");
    assert!(apart > 0 || part == Part::Half, "no two clips");
}

fn hidden_late(histories: u64) {
    for subject in PLANNERS {
        let mut covered = 0;
        for (number, config) in (0..histories).flat_map(|number| late(subject).map(move |config| (number, config))) {
            let restarts = number % 2 == 1;
            let history = History::late(&config, Sabotage::Nothing, number, restarts);
            match hide(subject, &history) {
                Ok(Hidden::Noise(moves)) => covered += usize::from(moves > 0),
                Ok(Hidden::Choice) => {}
                Err(seen) => panic!("{}, history {number} of {config:?}: {seen}", subject.name()),
            }
        }
        println!("{}: covered {covered}", subject.name());
        assert!(covered > 0, "{}", subject.name());
    }
}

/// These configurations, on this clock.
fn on(clock: Clock, configs: Vec<Config>) -> impl Iterator<Item = Config> {
    configs.into_iter().map(move |config| Config { clock, ..config })
}

/// Whether it has snapshots.
fn has_restarts(subject: &Subject) -> bool {
    any(*subject).0.snapshot().is_ok()
}

fn with_lives() -> Vec<Subject> {
    subjects(true).into_iter().filter(has_restarts).collect()
}

#[test]
fn noise_hides_explicit_rewards() {
    noise_hides_rewards(subjects(true), 0, false, 1);
}

#[test]
fn noise_hides_clicks_in_windows() {
    noise_hides_rewards(subjects(true), WINDOW, false, 1);
}

#[test]
fn noise_hides_rewards_over_restarts() {
    for window in [0, WINDOW] {
        noise_hides_rewards(with_lives(), window, true, 1);
    }
}

/// Time moves in steps, bursts, long pauses and backwards, in both worlds alike.
#[test]
fn noise_hides_rewards_on_the_callers_clock() {
    let without_lives = subjects(true).into_iter().filter(|subject| !has_restarts(subject));
    hidden_on(Clock::Caller, without_lives.collect(), WINDOW, false, 1);
    hidden_on(Clock::Caller, with_lives(), WINDOW, true, 1);
}

/// Configurations of handles whose states move.
fn moving(subject: Subject) -> Vec<Config> {
    let windows = [0, WINDOW].into_iter().flat_map(|window| configs(subject, window));
    let with_key = |config: Config| Config { fleet_key: Some([7; 32].into()), ..config };
    let mut moving: Vec<_> = windows.map(with_key).collect();
    moving.push(Config { test_seed: Some([5; 32]), ..moving[0].clone() });
    moving
}

/// The same with users who come more often than the limit.
fn moving_users(subject: Subject) -> Vec<Config> {
    let windows = [0, WINDOW].into_iter().flat_map(|window| with_users(subject, window));
    windows.map(|config| Config { fleet_key: Some([7; 32].into()), ..config }).collect()
}

/// Theorem M: states are suspended and resumed, in every policy, with and without a reward window. A period goes on.
#[test]
fn noise_hides_rewards_in_states_that_move() {
    subjects(true).into_iter().for_each(|subject| hidden_in(subject, &Part::Half.of(moving(subject)), false, 1));
    for subject in [Subject::Policy(Algorithm::Imed), Subject::Segments] {
        hidden_in(subject, &moving_users(subject), false, 1);
    }
}

/// Faults of states that move: a state has two successors, or a successor is not what ended.
#[test]
#[ignore = "two minutes"]
fn leaks_of_moves_are_seen() {
    let once = [Subject::Policy(Algorithm::Imed), Subject::Policy(Algorithm::Se), Subject::Segments, Subject::Models];
    let all: Vec<_> = OF_MOVES.into_iter().chain(OF_SUCCESSORS).map(Sabotage::Built).collect();
    are_seen_in(&all, once.into_iter().map(Kinds::of_moves).collect());
    // The trees keep noise. (With two successors they lose no more than they claim for longer histories.)
    let trees = [Algorithm::UcbBound, Algorithm::PrivateUcb].map(Subject::Policy);
    are_seen_in(&[Sabotage::Built(Fault::NoiseLost)], trees.into_iter().map(Kinds::of_moves).collect());
}

/// The fastest kind of handle shows that a successor is not what ended.
#[test]
fn wrong_successors_are_seen() {
    let mut kinds = Kinds::of_moves(Subject::Policy(Algorithm::Imed));
    let several = |config: &Config| config.reward_window > 0 && config.max_clicks.max(config.expected_users as u32) > 0;
    kinds.configs.retain(|(config, _)| config.test_seed.is_some() || several(config));
    are_seen_in(&OF_SUCCESSORS.map(Sabotage::Built), vec![kinds]);
}

/// A successor that may not begin, or lacks something.
const OF_SUCCESSORS: [Fault; 8] = [
    Fault::OldStateResumed,
    Fault::SeedResumed,
    Fault::SeedForgotten,
    Fault::PeriodsUnchecked,
    Fault::ChargedAgain,
    Fault::OriginUncharged,
    Fault::FollowsLost,
    Fault::SecondReward,
];

const OF_MOVES: [Fault; 8] = [
    Fault::SuspendedLives,
    Fault::ReceiverKept,
    Fault::HeldActs,
    Fault::AnsweredReopened,
    Fault::WaitingEnded,
    Fault::CountersReset,
    Fault::WaitingTells,
    Fault::EntropyRepeats, // words of noise are used again
];

/// Configurations of fleets whose handles contribute to each other: leaders come, go and are restored, several lead at
/// once, and contributions are lost, repeated, reordered and sent to the wrong leader.
fn in_a_fleet(subject: Subject, reward_window: u32) -> impl Iterator<Item = Config> {
    let with_key = |config: Config| Config { fleet_key: Some([7; 32].into()), ..config };
    let able = move |config: &Config| subject.make(config).is_ok_and(|bandit| bandit.lead().is_ok());
    configs(subject, reward_window).into_iter().map(with_key).filter(able)
}

#[test]
fn noise_hides_rewards_in_a_fleet_with_one_noise() {
    hidden_in_a_fleet(Part::Half, 1);
}

/// Faults of fleets with one noise, in each policy that can contribute: a reward would be released by two leaders, or
/// twice by one; or the size of a batch or of a message would depend on it; or two messages would have one nonce.
#[test]
#[ignore = "two minutes"]
fn leaks_of_contributions_are_seen() {
    let fleets = |subject: Subject| Kinds {
        subject,
        configs: [0, WINDOW].into_iter().flat_map(|window| in_a_fleet(subject, window)).map(|c| (c, true)).collect(),
    };
    let kinds: Vec<_> = with_lives().into_iter().map(fleets).filter(|kinds| !kinds.configs.is_empty()).collect();
    assert_eq!(kinds.len(), Subject::FLEETS.len());
    are_seen_in(&OF_FLEETS.map(Sabotage::Built), kinds);
}

const OF_FLEETS: [Fault; 9] = [
    Fault::AloneForgets,
    Fault::CombinedTwice,
    Fault::CombinedByOthers,
    Fault::ContributedKept,
    Fault::RetiredKept,
    Fault::SendersForgotten,
    Fault::RawLeast,
    Fault::ZerosUnsent,
    Fault::EntropyRepeats,
];

#[test]
#[ignore = "two minutes"]
fn noise_hides_rewards_in_many_histories() {
    hidden_in_a_fleet(Part::All, 16);
    hidden_late(24);
    hidden_behind_clips(Part::All, 24);
    for window in [0, WINDOW] {
        noise_hides_rewards(subjects(true), window, false, 16);
        noise_hides_rewards(with_lives(), window, true, 32);
        hidden_on(Clock::Caller, with_lives(), window, true, 16);
    }
    hidden_on(Clock::Caller, subjects(true), WINDOW, false, 8);
    for subject in subjects(true) {
        hidden_in(subject, &moving(subject), false, 2);
    }
}

/// Configurations with users: two with one slot for each request, and one with several.
fn with_users(subject: Subject, reward_window: u32) -> impl Iterator<Item = Config> {
    let twice = |config: &Config| 2 * config.horizon; // because some rewards are not learned from
    let counted = move |config: Config| Config {
        expected_users: 10_000,
        contributions_per_user: 2,
        horizon: twice(&config),
        ..config
    };
    let able = move |config: &Config| subject.make(config).is_ok();
    let configs = configs(subject, reward_window).into_iter().map(counted).filter(able);
    let (one, several): (Vec<_>, Vec<_>) = configs.partition(|config| config.max_slots == 0);
    one.into_iter().take(2).chain(several.into_iter().take(1))
}

/// Two worlds differ in all rewards of a user who comes six times as often as the limit. Their public outputs are equal
/// except for as many rewards as the limit (or requests, with several slots) in each period; each restart begins one. In
/// some histories a period is lost, and in some the user comes in it only.
/// If the library learned from all rewards, the outputs would differ.
fn noise_hides_a_user(subjects: impl IntoIterator<Item = Subject>) {
    for subject in subjects {
        // Counts: first for requests with one slot, then for requests with several.
        let [mut covered, mut seen, mut tried] = [[0; 2]; 3];
        for (number, window) in [(0, 0), (1, WINDOW), (5, 0)] {
            for config in with_users(subject, window) {
                let kind = usize::from(config.max_slots > 0);
                for restarts in [false, true].into_iter().filter(|restarts| !restarts || has_restarts(&subject)) {
                    tried[kind] += 1;
                    match hide(subject, &History::new(&config, Sabotage::Nothing, number, restarts)) {
                        Ok(Hidden::Noise(moves)) => covered[kind] += usize::from(moves > 0),
                        Ok(Hidden::Choice) => {}
                        Err(seen) => panic!("{}, history {number} of {config:?}: {seen}", subject.name()),
                    }
                    let all = Sabotage::Built(Fault::UserUnbounded);
                    seen[kind] += usize::from(hide(subject, &History::new(&config, all, number, restarts)).is_err());
                }
            }
        }
        println!("{}: {tried:?} tried, covered {covered:?}, sabotage seen {seen:?}", subject.name());
        assert!(tried[0] > 0, "{}", subject.name());
        for kind in (0..2).filter(|&kind| tried[kind] > 0) {
            assert!(covered[kind] > 0 && seen[kind] > 0, "{}", subject.name());
        }
    }
}

#[test]
fn noise_hides_all_rewards_of_a_user() {
    noise_hides_a_user([Subject::Segments, Subject::Policy(Algorithm::Imed)]);
}

/// Faults of the periods over restarts: a snapshot whose write failed opens one, or a snapshot that is not of this handle
/// and period.
#[test]
#[ignore = "ten seconds"]
fn leaks_of_periods_are_seen() {
    let kinds = |subject| Kinds {
        subject,
        configs: [0, WINDOW].into_iter().flat_map(|window| with_users(subject, window)).map(|c| (c, true)).collect(),
    };
    let subjects = [Subject::Segments, Subject::Policy(Algorithm::Imed), Subject::Policy(Algorithm::Med)];
    are_seen_in(&OF_PERIODS.map(Sabotage::Built), subjects.into_iter().map(kinds).collect());
}

const OF_PERIODS: [Fault; 2] = [Fault::SnapshotOpens, Fault::AnyStoredOpens];

/// All policies that support users, except the one without noise, which the test above tries as far as it can.
#[test]
#[ignore = "ten seconds"]
fn noise_hides_all_rewards_of_a_user_in_every_policy() {
    let counts = |subject: &Subject| with_users(*subject, 0).next().is_some();
    let without_noise = Subject::Policy(Algorithm::Exp3Tau);
    noise_hides_a_user(subjects(true).into_iter().filter(|&subject| subject != without_noise).filter(counts));
}

/// Histories of all kinds for one subject.
struct Kinds {
    subject: Subject,
    configs: Vec<(Config, bool)>,
}

impl Kinds {
    /// Without and with a reward window, and for policies with snapshots also over restarts.
    fn of(subject: Subject) -> Kinds {
        let restarts = [false, true].into_iter().filter(|restarts| !restarts || has_restarts(&subject));
        let both = |config: Config| restarts.clone().map(move |restarts| (config.clone(), restarts));
        let configs = [0, WINDOW].into_iter().flat_map(|window| configs(subject, window)).flat_map(both).collect();
        Kinds { subject, configs }
    }

    /// Whose states move.
    fn of_moves(subject: Subject) -> Kinds {
        let configs = moving(subject).into_iter().chain(moving_users(subject));
        Kinds { subject, configs: configs.map(|config| (config, false)).collect() }
    }

    /// With a reward window on the caller's clock.
    fn of_time(subject: Subject) -> Kinds {
        let configs =
            on(Clock::Caller, configs(subject, WINDOW)).map(|config| (config, has_restarts(&subject))).collect();
        Kinds { subject, configs }
    }

    fn histories(&self, sabotage: Sabotage, number: u64) -> impl Iterator<Item = History> {
        self.configs.iter().map(move |(config, restarts)| History::new(config, sabotage, number, *restarts))
    }

    /// Whether the sabotage changes anything in a history.
    fn is_touched(&self, sabotage: Sabotage) -> bool {
        Fault::was_done();
        self.histories(sabotage, 0).any(|history| {
            let ran = catch_unwind(|| run(self.subject, &history, 0, &[], &[]));
            Fault::was_done() || ran.is_err()
        })
    }

    /// Whether one of these histories shows a difference between the worlds, or panics.
    fn is_seen(&self, sabotage: Sabotage, mut numbers: Range<u64>) -> bool {
        let tells = |history: History| !matches!(catch_unwind(|| hide(self.subject, &history)), Ok(Ok(_)));
        numbers.any(|number| self.histories(sabotage, number).any(tells))
    }
}

#[test]
fn rewards_are_seen_in_baselines() {
    for subject in subjects(false) {
        assert!(Kinds::of(subject).is_seen(Sabotage::Nothing, 0..8), "{}", subject.name());
    }
}

/// Each sabotage is detected in every subject that it changes.
fn are_seen(sabotages: &[Sabotage], subjects: impl IntoIterator<Item = Subject>) {
    are_seen_in(sabotages, subjects.into_iter().map(Kinds::of).collect());
}

fn are_seen_in(sabotages: &[Sabotage], kinds: Vec<Kinds>) {
    use Algorithm::{Imed, PrivateUcb, TopTwo, Ucb, UcbBound, UcbInt};
    for &sabotage in sabotages {
        let mut touched = Vec::new();
        for kinds in &kinds {
            // These histories cannot show some faults. They do not reach the threshold that an un-noised maximum moves.
            // Counters and intervals keep the last tenth of their budget for more rewards than the histories contain.
            // A model for each arm learns by the signs of features, not by their sizes. A slightly wrong prior shows only in propensities; in a policy without
            // any, it changes no choice. Held rewards show only in snapshots, which some policies refuse. DP-TT's first
            // batches are longer than the least of these histories. With a learned clip no request may get no arm, and the
            // pilot leaves the arms few batches.
            let beyond = match (sabotage, kinds.subject) {
                (Sabotage::Built(Fault::UnnoisedMaximum), _) => true,
                (Sabotage::Built(Fault::HeldCounted), subject) => !has_restarts(&subject),
                (Sabotage::TenPercentLess, Subject::Policy(policy)) => {
                    matches!(policy, UcbBound | Ucb | PrivateUcb | UcbInt)
                }
                (Sabotage::Built(Fault::NormNotEnforced), subject) => subject == Subject::Models,
                (Sabotage::Built(Fault::AbstainsByRaw), subject) => subject == Subject::Clipped,
                (Sabotage::Built(Fault::RawLeast), Subject::Policy(policy)) => policy == TopTwo,
                (Sabotage::Built(Fault::RawLeast), subject) => subject == Subject::Clipped,
                (Sabotage::Built(Fault::RawPriorSlightly), Subject::Policy(policy)) => policy == Imed,
                _ => false,
            };
            if kinds.is_touched(sabotage) {
                touched.push(kinds.subject.name());
                assert!(beyond || kinds.is_seen(sabotage, 0..400), "{sabotage:?} of {}", kinds.subject.name());
            }
        }
        println!("{sabotage:?}: {}", touched.join(" "));
        assert!(!touched.is_empty(), "{sabotage:?} touches nothing");
    }
}

/// Faults that affect only segments, restored handles, merges, retired arms or priors.
#[test]
#[ignore = "ten seconds"]
fn leaks_of_segments_and_restarts_are_seen() {
    use Fault::{
        CollectedTwice, HeldCounted, OpenKept, RawMerge, RawPrior, RawPriorSlightly, RawRetired, RawSize, RawSnapshot,
    };
    let faults = [RawSnapshot, HeldCounted, OpenKept, RawMerge, CollectedTwice, RawSize, RawPrior, RawPriorSlightly];
    are_seen(&faults.map(Sabotage::Built), [Subject::Segments]);
    are_seen(&[Sabotage::Built(RawRetired)], [Subject::Segments]);
    are_seen(&[Sabotage::Built(Fault::CancelledDrawn)], [Subject::Policy(Algorithm::Imed)]);
}

/// Faults of requests with costs, or that may get no arm.
#[test]
#[ignore = "seconds"]
fn leaks_of_worths_are_seen() {
    are_seen(&[Fault::AbstainsByRaw, Fault::RawLeader].map(Sabotage::Built), [Subject::Policy(Algorithm::Imed)]);
}

/// Faults of a pilot that learns a clip, and those of batches and snapshots.
#[test]
fn leaks_of_a_clip_are_seen() {
    let faults = [Fault::PilotKept, Fault::TernaryWide, Fault::ClipOfRaw, Fault::CollectedTwice];
    are_seen(&faults.map(Sabotage::Built), [Subject::Clipped]);
    are_seen(&[Sabotage::HalfNoise, Sabotage::TenPercentLess, Sabotage::ReleasedTwice], [Subject::Clipped]);
}

/// Faults that affect only dp-linear, and its noise.
#[test]
#[ignore = "ten seconds"]
fn leaks_of_features_are_seen() {
    use Fault::{
        CollectedTwice, LateInstrument, NormNotEnforced, RawPrediction, RawRetired, RawSize, RawSnapshot, RawWeight,
        RewardedCells,
    };
    let subjects = [Subject::Policy(Algorithm::Linear), Subject::Models];
    are_seen(&[RawSnapshot, RawSize, CollectedTwice, RawRetired].map(Sabotage::Built), subjects);
    let of_rows = [LateInstrument, RawPrediction, RawWeight, NormNotEnforced, RewardedCells];
    are_seen(&of_rows.map(Sabotage::Built), subjects);
    are_seen(&[Sabotage::HalfNoise, Sabotage::TenPercentLess, Sabotage::ReleasedTwice], subjects);
}

/// Faults of a test that stops. Its histories are so long that arms are judged, and batches planned, while the unit is
/// open.
#[test]
#[ignore = "ten seconds"]
fn leaks_of_a_test_are_seen() {
    let subject = Subject::Policy(Algorithm::TopTwo);
    let with_control = |config| Config { tolerance: 0.05, planned_end: 1500, control_share: 0.4, ..config };
    for change in [|config| config, with_control] {
        let configs = [0, WINDOW].map(|window| (change(plain(window, 1, 0.0, 1600)), false));
        are_seen_in(&OF_TESTS.map(Sabotage::Built), vec![Kinds { subject, configs: configs.into() }]);
    }
}

const OF_TESTS: [Fault; 2] = [Fault::RawVerdict, Fault::RawPlan];

/// Faults by which the time at which a reward takes effect would reveal it.
#[test]
#[ignore = "ten seconds"]
fn leaks_of_the_clock_are_seen() {
    let subjects = [Subject::Policy(Algorithm::Imed), Subject::Policy(Algorithm::Se), Subject::Segments];
    let faults = [Fault::PushedOutTells, Fault::ClosedByArrival].map(Sabotage::Built);
    are_seen_in(&faults, subjects.map(Kinds::of_time).into());
}

/// Faults that show only while a policy plans.
const OF_LATE_UNITS: [Fault; 3] = [Fault::LinearSize, Fault::LinearPoint, Fault::SampledTwice];

#[test]
fn leaks_of_late_units_are_seen() {
    for fault in OF_LATE_UNITS {
        let mut touched = false;
        for subject in [Subject::Policy(Algorithm::Linear), Subject::Models] {
            let configs: Vec<_> = late(subject).collect();
            let histories = |number: u64| {
                configs.iter().map(move |config| History::late(config, Sabotage::Built(fault), number, false))
            };
            Fault::was_done();
            histories(0).for_each(|history| _ = run(subject, &history, 0, &[], &[]));
            if Fault::was_done() {
                touched = true;
                let first = (0..100).find(|&number| histories(number).any(|history| hide(subject, &history).is_err()));
                println!("{fault:?} in {}: {first:?}", subject.name());
                assert!(first.is_some(), "{fault:?} of {}", subject.name());
            }
        }
        assert!(touched, "{fault:?} touches nothing");
    }
}

/// Faults that other tests see: of reports, of fleets, of memory, of nodes.
const IN_OTHER_TESTS: [Fault; 61] = [
    Fault::TiedByChain,
    Fault::OneRefutes,
    Fault::LiftByPoint,
    Fault::ChosenAsEven,
    Fault::ControlOut,
    Fault::SharesDrift,
    Fault::TrialBeneathSure,
    Fault::MixedClips,
    Fault::ClipKept,
    Fault::ReleasesMixed,
    Fault::PartTwice,
    Fault::PartClampedEarly,
    Fault::SilenceIsMin,
    Fault::PartTells,
    Fault::PartUnclamped,
    Fault::CostUnscaled,
    Fault::WarningOfClicks,
    Fault::WarningOfSilence,
    Fault::ExpiringEarly,
    Fault::UnlearnedEarly,
    Fault::StoppedEarly,
    Fault::UnmergedEarly,
    Fault::SmallestEarly,
    Fault::LargestEarly,
    Fault::DebugTells,
    Fault::TimeZeroCounts,
    Fault::SendersKept,
    Fault::SenderKept,
    Fault::SequenceKept,
    Fault::LengthUnchecked,
    Fault::SumUnchecked,
    Fault::StateLengthUnchecked,
    Fault::WordsKept,
    Fault::UnusedWordsKept,
    Fault::LinearUnlimited,
    Fault::CancelsTooLate,
    Fault::LateIgnored,
    Fault::UnknownDropped,
    Fault::SilenceBeforeRewards,
    Fault::UsedOffered,
    Fault::SettledUnshown,
    Fault::ReplacedGoesOn,
    Fault::ReopensEnded,
    Fault::HeldIsNew,
    Fault::HeldTells,
    Fault::FoundInReused,
    Fault::VersionSurvives,
    Fault::ClosedOpens,
    Fault::OpenForgotten,
    Fault::RepeatCounts,
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
];

#[test]
#[ignore = "a minute"]
fn all_sabotage_is_seen() {
    // The tests above detect these.
    let elsewhere: Vec<_> = OF_FLEETS
        .into_iter()
        .chain(OF_MOVES)
        .chain(OF_SUCCESSORS)
        .chain(OF_LATE_UNITS)
        .chain(IN_OTHER_TESTS)
        .chain(OF_TESTS)
        .chain(OF_PERIODS)
        .chain([Fault::NoiseLost, Fault::UserUnbounded, Fault::PushedOutTells])
        .map(Sabotage::Built)
        .collect();
    let sabotages: Vec<_> = Sabotage::all().into_iter().filter(|sabotage| !elsewhere.contains(sabotage)).collect();
    are_seen(&sabotages, subjects(true));
}
