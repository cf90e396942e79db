//! Non-interference: a reward shows where noise covers it, and nowhere else.
//!
//! The proof of every noisy policy moves noise. Two worlds of one seed and one history, in which the
//! rewards of one user differ, look the same to an outsider until a release holds such a reward.
//! There the noise of that draw is moved by exactly what the sums differ by, and the worlds look the
//! same again until the next release that holds it, if the mechanism has one, and so to the end. What
//! the moves cost, |d|/scale each, is the loss, and must be within the claim. This test does what the
//! proof does, for every policy in the list, in random histories. So it notices whatever is seen of a
//! sum that no noise covers, a reward that is released too often, and noise that is too small by any
//! amount, in one run and without statistics: that noise has its law is tests/noise.rs.
//!
//! A policy that draws no noise hides rewards in its choices: there nothing may differ before a choice
//! of a later phase, and no more is asked here. The local model's policies get bits that are private
//! already, and are left out.

use crate::audit::engine::{pattern, seed};
use crate::audit::sabotage::Sabotage;
use dpb::noise::hand::{Draw, Hand};
use dpb::privacy::composition::{group_delta, zcdp_to_approximate};
use dpb::{Algorithm, Bandit, Config, Decision, Error, Fault, Seed};
use std::fmt::{Display, Formatter};
use std::hash::Hash;
use std::ops::Range;
use std::panic::catch_unwind;

const WINDOW: u32 = 16;
/// One reward, in grid units.
const ONE: i64 = 1 << 24;

/// What happens to a handle: all of it public but the rewards.
struct History {
    config: Config,
    sabotage: Sabotage,
    steps: Vec<Step>,
    /// By decision; none is silence.
    rewards: Vec<Option<f64>>,
    /// Who makes a decision, where users are counted.
    who: Vec<u64>,
    /// A new period begins before this one.
    period: Option<usize>,
    /// The decisions of one user, and the reward of each of them in either world.
    changed: Vec<usize>,
    worlds: [Option<f64>; 2],
    /// Of a user's requests only the first answer has the one reward, and the second one the other.
    moved: bool,
}

/// One decision, and what is called after it.
struct Step {
    arms: Arms,
    /// Shows only so many of the live arms, from this one on.
    shows: Option<(usize, usize)>,
    /// It is of the same request as the one before.
    follows: bool,
    calls: Vec<Call>,
}

#[derive(Clone, Copy)]
enum Arms {
    Stay,
    Add,
    Retire(usize),
    /// The arm of this decision.
    RetireThat(usize),
}

/// By decision.
#[derive(Clone, Copy)]
enum Call {
    Answer(usize),
    Cancel(usize),
}

/// What is called for one decision.
type Fate = &'static [fn(usize) -> Call];

/// The likeliest first.
const FATES: [Fate; 6] = [
    &[Call::Answer],
    &[Call::Answer, Call::Answer],
    &[Call::Answer, Call::Cancel],
    &[Call::Cancel, Call::Answer],
    &[Call::Cancel],
    &[],
];

/// A snapshot without its handle's name, which is a random number, the arms' ids that are made of it, and the checksum
/// over them.
fn nameless(mut snapshot: Vec<u8>) -> Vec<u8> {
    const NAME: std::ops::Range<usize> = 141..149;
    let name = u64::from_le_bytes(snapshot[NAME].try_into().unwrap());
    snapshot[NAME].fill(0);
    for id in (0..8).map(|added| (name.wrapping_add(added) | 1 << 63).to_le_bytes()) {
        if let Some(place) = snapshot.windows(8).position(|window| window == id) {
            snapshot[place..place + 8].fill(0);
        }
    }
    snapshot.truncate(snapshot.len() - 4);
    snapshot
}

impl History {
    /// By the number: the user's decisions have one of the first four fates, and the arm of one of them is
    /// retired soon after, or not.
    fn new(config: &Config, sabotage: Sabotage, number: u64) -> History {
        let mut random = Seed::new(Some(seed(!number))).unwrap().stream();
        let mut draw = |n: usize| random.below(n as u64) as usize;
        let Config { answer_window, contributions_per_user, horizon, users, .. } = *config;
        let decisions = horizon as usize;
        let windowed = answer_window > 0;
        let (epsilon, batch) = ([1.0, 4.0][draw(2)], [0, 5][draw(2)]);
        let config =
            Config { epsilon, batch, test_seed: Some(seed(number)), fault: sabotage.fault(), ..config.clone() };
        let mut steps = Vec::with_capacity(decisions);
        for _ in 0..decisions {
            let arms = match draw(300) {
                0 => Arms::Add,
                1 => Arms::Retire(draw(64)),
                _ => Arms::Stay,
            };
            let shows = (draw(4) == 0).then(|| (draw(64), 1 + draw(3)));
            steps.push(Step { arms, shows, follows: false, calls: Vec::new() });
        }
        let first = draw(decisions / 3);
        // Where users are counted, one comes far too often.
        let often = contributions_per_user as usize * if users > 0 { 6 } else { 1 };
        let mut changed: Vec<_> = (0..often).map(|i| first + 20 * i + draw(20)).collect();
        let mut who = Vec::new();
        if users > 0 {
            // Some of the others come often too.
            let mut other = || 1 + if draw(5) == 0 { draw(8) } else { 8 + draw(1 << 20) } as u64;
            who.extend((0..decisions).map(|at| if changed.contains(&at) { 0 } else { other() }));
        }
        let period = (users > 0 && number & 1 == 1).then_some(changed[often / 2]);
        let slate = config.slate as usize;
        if slate > 0 {
            steps.iter_mut().skip(1).for_each(|step| step.follows = draw(2) == 0);
            // The user's requests have all their slots, and no other has more.
            changed = changed.into_iter().flat_map(|first| first..first + slate).collect();
            changed.iter().enumerate().for_each(|(i, &decision)| steps[decision].follows = i % slate > 0);
            steps[changed[changed.len() - 1] + 1].follows = false;
            for at in slate..decisions {
                let full = steps[at - slate + 1..at].iter().all(|step| step.follows);
                steps[at].follows &= !full;
            }
        }
        let moved = slate > 1 && draw(2) == 0;
        if number & 4 > 0 {
            steps[changed[0] + 1 + draw(40)].arms = Arms::RetireThat(changed[0]);
        }
        for decision in 0..decisions {
            let fate = if changed.contains(&decision) { number as usize & 3 } else { draw(16).saturating_sub(10) };
            let mut at = decision;
            for call in FATES[fate] {
                at += draw(12); // in a window some come too late
                if let Some(step) = steps.get_mut(at) {
                    step.calls.push(call(decision));
                }
            }
        }
        let rewards = (0..decisions).map(|_| (!windowed || draw(2) == 0).then(|| draw(9) as f64 / 8.0)).collect();
        let none = if windowed { None } else { Some(0.0) };
        let worlds = if draw(2) == 0 { [none, Some(1.0)] } else { [Some(1.0), none] };
        History { config, sabotage, steps, rewards, who, period, changed, worlds, moved }
    }

    fn reward(&self, decision: usize, world: usize) -> Option<f64> {
        let Some(place) = self.changed.iter().position(|&changed| changed == decision) else {
            return self.rewards[decision];
        };
        match place % self.config.slate.max(1) as usize {
            slot if self.moved && slot != world => (self.config.answer_window == 0).then_some(0.0),
            _ if self.moved => Some(1.0),
            _ => self.worlds[world],
        }
    }

    fn periods(&self) -> u32 {
        1 + u32::from(self.period.is_some())
    }

    /// How far a draw may have to be moved in the second world: by one reward of each of the user's contributions.
    fn moves(&self, draw: Draw) -> impl Iterator<Item = i64> {
        let one = if matches!(draw, Draw::Coins(_)) { 1 } else { ONE };
        let back = if self.worlds[0] == Some(1.0) { one } else { -one };
        let most = i64::from(self.config.contributions_per_user * self.periods());
        let forth = if self.moved { most } else { 0 };
        (1..=most).chain((1..=forth).map(|rewards| -rewards)).map(move |rewards| rewards * back)
    }
}

/// What in a transcript is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sight {
    /// A sum, covered by this draw.
    Release(usize),
    /// An arm's mean and width.
    Mean,
    /// The arm of a decision of this phase.
    Arm(u32),
    /// What else a call returned, and what else can be read after it.
    Rest,
}

/// Where a transcript first differs from the other world's.
struct Difference {
    place: usize,
    sight: Sight,
    /// Decisions so far.
    decisions: usize,
    /// Drawn during the call.
    draws: Range<usize>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "{:?} after {} decisions, draws {:?}", self.sight, self.decisions, self.draws)
    }
}

/// One world.
struct World<'a> {
    bandit: Bandit,
    hand: Hand,
    /// The other one's transcript, if it was there.
    other: &'a [u64],
    transcript: Vec<u64>,
    decisions: Vec<Decision>,
    /// Draws before the present call.
    drawn: usize,
}

type Look = Result<(), Difference>;

impl World<'_> {
    fn see(&mut self, value: u64, sight: Sight) -> Look {
        let place = self.transcript.len();
        self.transcript.push(value);
        if self.other.get(place).is_none_or(|&other| other == value) {
            return Ok(());
        }
        Err(Difference { place, sight, decisions: self.decisions.len(), draws: self.drawn..self.hand.draws() })
    }

    /// After a call that returned this, perhaps a decision: first what was released, then what came of it.
    fn look(&mut self, returned: impl Hash, decision: Option<Decision>) -> Look {
        for (draw, sum) in self.hand.released() {
            self.see(sum as u64, Sight::Release(draw))?;
        }
        let arms = self.bandit.arm_reports().unwrap();
        for arm in &arms {
            self.see(pattern((arm.mean.to_bits(), arm.width.to_bits())), Sight::Mean)?;
        }
        if let Some(decision) = decision {
            self.see(decision.arm.into(), Sight::Arm(decision.phase))?;
        }
        let decision = decision.map(|decision| (decision.phase, decision.propensity.to_bits()));
        let counts: Vec<_> = arms.iter().map(|arm| (arm.pulls, arm.active, arm.effective_pulls.to_bits())).collect();
        // Dearer, and what has changed stays: seldom.
        let compared = || (self.bandit.report(), self.bandit.compare(0, 1, 0.9));
        let seldom = || (format!("{:?}", compared()), self.bandit.snapshot().ok().map(nameless));
        let report = self.transcript.len().is_multiple_of(64).then(seldom);
        self.see(pattern((returned, decision, counts, self.bandit.best_arm().ok(), report)), Sight::Rest)?;
        self.drawn = self.hand.draws();
        Ok(())
    }

    /// Where slates are shown there are arms for one.
    fn retire(&mut self, arm: u32, live: &mut Vec<u32>, slate: u32) -> Look {
        let retired = live.len() > slate as usize && self.bandit.retire_arm(arm).is_ok();
        live.retain(|&other| !retired || other != arm);
        self.look(retired, None)
    }

    /// For the request that begins here, if one does.
    fn choose_slate(&mut self, steps: &[Step], set: Option<Vec<u32>>) -> Look {
        if steps[0].follows {
            return Ok(());
        }
        let slots = 1 + steps[1..].iter().take_while(|step| step.follows).count();
        let mut slate = Vec::new();
        let some = self.bandit.select_slate(set.as_deref(), slots, |_, decision| slate.push(decision));
        if some.is_err() {
            self.bandit.select_slate(None, slots, |_, decision| slate.push(decision)).unwrap();
        }
        for decision in slate {
            self.decisions.push(decision);
            self.look(some.is_ok(), Some(decision))?;
        }
        Ok(())
    }

    fn play(&mut self, history: &History, world: usize) -> Look {
        let mut live: Vec<u32> = (0..history.config.arms).collect();
        for (at, step) in history.steps.iter().enumerate() {
            match step.arms {
                Arms::Stay => {}
                Arms::Add => {
                    let added = self.bandit.add_arm();
                    live.extend(added.iter());
                    self.look(added.ok(), None)?;
                }
                Arms::Retire(any) => self.retire(live[any % live.len()], &mut live, history.config.slate)?,
                Arms::RetireThat(decision) => {
                    self.retire(self.decisions[decision].arm, &mut live, history.config.slate)?
                }
            }
            if history.period == Some(at) {
                self.bandit.next_period().unwrap();
                self.look((), None)?;
            }
            let user = history.who.get(at);
            let set =
                step.shows.map(|(from, many)| (from..from + many).map(|i| live[i % live.len()]).collect::<Vec<_>>());
            if history.config.slate > 0 {
                self.choose_slate(&history.steps[at..], set)?;
            } else {
                let among = |set: Vec<u32>| match user {
                    None => self.bandit.select_among(&set),
                    Some(&user) => self.bandit.select_among_for(user, &set),
                };
                let some = set.and_then(|set| among(set).ok());
                let any = || user.map_or_else(|| self.bandit.select(), |&user| self.bandit.select_for(user)).unwrap();
                let decision = some.unwrap_or_else(any);
                self.decisions.push(decision);
                self.look(some.is_some(), Some(decision))?;
            }
            for &call in &step.calls {
                match call {
                    Call::Cancel(at) => {
                        let cancelled = self.bandit.cancel(self.decisions[at].ticket);
                        self.look(cancelled.err().map(|error| error.to_string()), None)?;
                    }
                    Call::Answer(at) => {
                        let Some(reward) = history.reward(at, world) else { continue };
                        let answered = self.bandit.update(self.decisions[at].ticket, reward);
                        // In a window that there was this call is the user's secret.
                        if history.config.answer_window == 0 || !history.changed.contains(&at) {
                            self.look(answered.err().map(|error| error.to_string()), None)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// What became of a world.
struct Run {
    transcript: Vec<u64>,
    draws: Vec<Draw>,
    phases: Vec<u32>,
    difference: Option<Difference>,
    /// The loss that the handle reports at delta = 0, and at the configured one.
    reported: [f64; 2],
}

/// Runs a world with some noise moved, until it differs from the other one.
fn run(algorithm: Algorithm, history: &History, world: usize, moves: &[(usize, i64)], other: &[u64]) -> Run {
    let hand = history.sabotage.hand(history.config.arms).moving(moves);
    let bandit = Bandit::new(algorithm, &history.config).unwrap();
    let drawn = hand.draws();
    let mut it = World { bandit, hand, other, transcript: Vec::new(), decisions: Vec::new(), drawn };
    let difference = it.play(history, world).err();
    assert!(difference.is_some() || other.is_empty() || other.len() == it.transcript.len());
    let reported = [0.0, history.config.delta].map(|delta| it.bandit.epsilon_spent(delta).unwrap());
    let phases = it.decisions.iter().map(|decision| decision.phase).collect();
    Run { transcript: it.transcript, draws: it.hand.lift(), phases, difference, reported }
}

/// How the second world was made to look like the first.
#[derive(Debug, PartialEq)]
enum Hidden {
    /// By so many moves.
    Noise(usize),
    /// There is no noise to be moved, and a choice differs.
    Choice,
}

/// Moves noise until the worlds look the same, or says what an outsider sees of the difference.
fn hide(algorithm: Algorithm, history: &History) -> Result<Hidden, String> {
    let plain = run(algorithm, history, 0, &[], &[]);
    let mut moves: Vec<(usize, i64)> = Vec::new();
    loop {
        let changed = run(algorithm, history, 1, &moves, &plain.transcript);
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
        let candidates = draws.filter(|&draw| moves.iter().all(|&(moved, _)| moved != draw));
        let mut candidates = candidates.flat_map(|draw| history.moves(changed.draws[draw]).map(move |by| (draw, by)));
        let covers = |&one_more: &(usize, i64)| {
            let moves = [&moves[..], &[one_more]].concat();
            let next = run(algorithm, history, 1, &moves, &plain.transcript).difference;
            next.is_none_or(|next| next.place > seen.place)
        };
        match candidates.find(covers) {
            Some(one_more) => moves.push(one_more),
            None => return Err(format!("not covered by noise: {seen}")),
        }
    }
}

/// The loss of these moves against what the handle reports, and that against what it was told to keep.
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
    let [at_zero, at_delta] = plain.reported;
    let within = pure <= at_zero * (1.0 + 1e-9)
        && zcdp_to_approximate(zcdp, delta) <= at_delta * (1.0 + 1e-9)
        && bits <= contributions_per_user.into()
        && (at_delta <= epsilon || history.periods() > 1);
    let losses = || format!("loses {pure} + {zcdp} concentrated + {bits} bits, reported {at_zero} and {at_delta}");
    if within { Ok(()) } else { Err(losses()) }
}

/// The configurations worth trying: with delta where a policy needs it, or draws other noise then; and
/// of few decisions where noise is drawn in them.
fn configs(algorithm: Algorithm, answer_window: u32) -> Vec<Config> {
    let mut worth = Vec::new();
    for contributions_per_user in [1, 3] {
        let mut known = Vec::new();
        for delta in [0.0, 1e-3] {
            let tried = [400, 1600].map(|horizon| {
                let config = Config {
                    delta,
                    horizon,
                    beta: 0.9, // short epochs
                    base: Algorithm::NonprivateExp3 as u32,
                    contributions_per_user,
                    pending_capacity: 32,
                    answer_window,
                    ..Config::new(3, 1.0)
                };
                let history = History::new(&config, Sabotage::Nothing, 0);
                Bandit::new(algorithm, &history.config).ok()?;
                Some((config, run(algorithm, &history, 0, &[], &[]).draws))
            });
            let [Some(few), Some(many)] = tried else { continue };
            let (config, draws) = if few.1.is_empty() { many } else { few };
            if !known.contains(&draws) {
                worth.push(config);
                known.push(draws);
            }
        }
    }
    // Those that can forget, within the history, and those that can explore.
    for (memory, min_propensity) in [(1 << 10, 0.2), (0, 0.2)] {
        let able = worth[0].clone();
        let able = Config { memory, min_propensity, horizon: 1600, ..able };
        if Bandit::new(algorithm, &able).is_ok() {
            worth.push(able);
            break;
        }
    }
    // Those that show slates: a request is what may cost epsilon.
    let clicks = u32::from(answer_window > 0);
    for (slate_clicks, contributions_per_user, delta) in [(clicks, 2, 0.0), (0, 1, 1e-3)] {
        let able = Config { arms: 7, slate: 3, slate_clicks, contributions_per_user, delta, ..worth[0].clone() };
        if Bandit::new(algorithm, &able).is_ok() {
            worth.push(able);
        }
    }
    worth
}

/// All policies but those that refuse raw rewards: their devices hide them.
fn algorithms(private: bool) -> Vec<Algorithm> {
    let belongs = |algorithm: &Algorithm| {
        let config = configs(*algorithm, 0).pop().expect("a configuration for every policy");
        let bandit = Bandit::new(*algorithm, &config).unwrap();
        let raw = bandit.update(bandit.select().unwrap().ticket, 0.5) != Err(Error::InvalidReward);
        raw && bandit.epsilon_spent(config.delta).unwrap().is_finite() == private
    };
    Algorithm::ALL.iter().copied().filter(belongs).collect()
}

/// In so many histories of each configuration, and in more until one tells the worlds apart.
fn rewards_show_through_noise_only(answer_window: u32, histories: u64) {
    for algorithm in algorithms(true) {
        let (mut same, mut covered, mut chosen) = (0, 0, 0);
        for number in 0..64 {
            if number >= histories && covered + chosen > 0 {
                break;
            }
            for config in configs(algorithm, answer_window) {
                match hide(algorithm, &History::new(&config, Sabotage::Nothing, number)) {
                    Ok(Hidden::Noise(0)) => same += 1,
                    Ok(Hidden::Noise(_)) => covered += 1,
                    Ok(Hidden::Choice) => chosen += 1,
                    Err(seen) => panic!("{}, history {number} of {config:?}: {seen}", algorithm.name()),
                }
            }
        }
        println!("{}: covered {covered} times, chosen {chosen}, the same {same}", algorithm.name());
        assert!(covered + chosen > 0, "{}: no history tells anything", algorithm.name());
    }
}

#[test]
fn answers_show_through_noise_only() {
    rewards_show_through_noise_only(0, 3);
}

#[test]
fn clicks_show_through_noise_only() {
    rewards_show_through_noise_only(WINDOW, 3);
}

#[test]
#[ignore = "a minute"]
fn in_many_histories() {
    rewards_show_through_noise_only(0, 16);
    rewards_show_through_noise_only(WINDOW, 16);
}

/// What makes every decision of these somebody's.
fn with_users(algorithm: Algorithm, answer_window: u32) -> impl Iterator<Item = Config> {
    let twice = |config: &Config| 2 * config.horizon; // for what is not learned from
    let counted =
        move |config: Config| Config { users: 10_000, contributions_per_user: 2, horizon: twice(&config), ..config };
    let able = move |config: &Config| Bandit::new(algorithm, config).is_ok();
    configs(algorithm, answer_window).into_iter().filter(|config| config.slate == 0).map(counted).filter(able).take(2)
}

/// Two worlds that differ in all rewards of a user who comes six times as often as is learned from look the same but
/// for as many rewards as that, in each of two periods; and where all were learned from they do not.
fn no_more_of_a_user_shows(algorithms: impl IntoIterator<Item = Algorithm>) {
    for algorithm in algorithms {
        let (mut covered, mut seen, mut tried) = (0, 0, 0);
        for (number, window) in [(0, 0), (1, WINDOW)] {
            for config in with_users(algorithm, window) {
                tried += 1;
                match hide(algorithm, &History::new(&config, Sabotage::Nothing, number)) {
                    Ok(Hidden::Noise(moves)) => covered += usize::from(moves > 0),
                    Ok(Hidden::Choice) => {}
                    Err(seen) => panic!("{}, history {number} of {config:?}: {seen}", algorithm.name()),
                }
                let all = Sabotage::Built(Fault::UserUnbounded);
                seen += usize::from(hide(algorithm, &History::new(&config, all, number)).is_err());
            }
        }
        println!("{}: {tried} tried, covered {covered}, sabotage seen {seen}", algorithm.name());
        assert!(tried > 0 && covered > 0 && seen > 0, "{}", algorithm.name());
    }
}

#[test]
fn no_more_of_a_user_shows_than_was_promised() {
    no_more_of_a_user_shows([Algorithm::Imed]);
}

/// All that count users, but for the one without noise: of it no more is asked than above.
#[test]
#[ignore = "ten seconds"]
fn nor_with_any_policy() {
    use Algorithm::{Exp3Tau, SdpAe, VbSdpAe};
    let counts = |algorithm: &Algorithm| !matches!(algorithm, Exp3Tau | SdpAe | VbSdpAe);
    no_more_of_a_user_shows(algorithms(true).into_iter().filter(counts));
}

/// Is a difference seen in any history? Or does the policy break, as a handle then shows.
fn is_seen(algorithm: Algorithm, sabotage: Sabotage, numbers: Range<u64>) -> bool {
    let configs: Vec<_> = [0, WINDOW].into_iter().flat_map(|window| configs(algorithm, window)).collect();
    let histories = |number| configs.iter().map(move |config| History::new(config, sabotage, number));
    numbers.flat_map(histories).any(|history| !matches!(catch_unwind(|| hide(algorithm, &history)), Ok(Ok(_))))
}

#[test]
fn baselines_are_seen_through() {
    for algorithm in algorithms(false) {
        assert!(is_seen(algorithm, Sabotage::Nothing, 0..8), "{}", algorithm.name());
    }
}

/// Every sabotage of every policy that it touches, but for some that these histories cannot show: an
/// un-noised maximum moves an edge that they do not meet, counters and intervals spend their last tenth on
/// more answers than they have, and DP-KLUCB asks for no leader.
#[test]
#[ignore = "a minute"]
fn sabotage_is_seen() {
    use Algorithm::{KlUcb, PrivateUcb, Ucb, UcbBound, UcbInt};
    let policies = algorithms(true);
    let elsewhere = Sabotage::Built(Fault::UserUnbounded); // above
    for sabotage in Sabotage::all().into_iter().filter(|&sabotage| sabotage != elsewhere) {
        let mut touched = 0;
        for &algorithm in &policies {
            Fault::was_done();
            let seen = is_seen(algorithm, sabotage, 0..1);
            if !Fault::was_done() {
                assert!(!seen, "{sabotage:?} does not touch {}, but is seen", algorithm.name());
                continue;
            }
            touched += 1;
            let beyond = match sabotage {
                Sabotage::Built(Fault::UnnoisedMaximum) => true,
                Sabotage::TenPercentLess => matches!(algorithm, UcbBound | Ucb | PrivateUcb | UcbInt),
                Sabotage::Built(Fault::RawLeader) => algorithm == KlUcb,
                _ => false,
            };
            assert!(beyond || seen || is_seen(algorithm, sabotage, 1..8), "{sabotage:?} of {}", algorithm.name());
        }
        assert!(touched > 0, "{sabotage:?} touches nothing");
    }
}
