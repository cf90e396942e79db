//! Decisions made elsewhere: the weights of a table, and versions whose decisions are recorded once. The executed proof of
//! docs/theory/versions.md: any order of records, repeats, rewards, cancellations, moves and kills against a simple model.

use crate::audit::engine::seed;
use crate::audit::sabotage::with_fault;
use crate::support::coins::Coins;
use crate::support::requests::{among, fitted};
use crate::support::{Link, build, empty_directory, have, library_dir, root, run, snippets};
use dpb::{Algorithm, Bandit, Clock, Config, Error, Fault, Request, Result, Rows, decide};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::process::Command;

const ALL: u64 = 1 << 32;

/// What the handle should do, written with maps, without a ring and an index.
struct Model {
    config: Config,
    /// Decisions so far, and the time on the handle's clock.
    decisions: u64,
    now: u64,
    /// The open decisions: when each was made, and whether it has a reward.
    open: HashMap<u64, (u64, bool)>,
    /// The versions of this life, each with the tick at which it closes.
    versions: Vec<(u64, u64)>,
    /// The ids that are kept, in the order of their records, and their decisions.
    order: VecDeque<(u64, u64)>,
    ids: HashMap<(u64, u64), u64>,
    /// The tickets of decisions that an id has opened, in all lives, and how often each reward was taken.
    opened: HashMap<(u64, u64), u64>,
    rewarded: HashMap<(u64, u64), u32>,
}

impl Model {
    fn ends(&mut self) {
        let Model { config, decisions, now, open, .. } = self;
        let ring = u64::from(config.pending_capacity.max(if config.clock == Clock::Decisions {
            config.reward_window
        } else {
            0
        }));
        let window = u64::from(config.reward_window);
        let reach = if window > 0 && config.clock == Clock::Decisions { window } else { ring.next_power_of_two() };
        open.retain(|&sequence, &mut (stamp, _)| {
            let in_time = window == 0 || config.clock == Clock::Decisions || *now - stamp < window;
            *decisions - sequence <= reach && in_time
        });
    }

    fn decide(&mut self) -> u64 {
        let sequence = self.decisions;
        self.decisions += 1;
        if self.config.clock == Clock::Decisions {
            self.now = self.decisions;
        }
        self.open.insert(sequence, (self.now, false));
        self.ends();
        sequence
    }

    fn is_open(&self, version: u64) -> bool {
        self.versions.iter().any(|&(number, closes)| number == version && self.now < closes)
    }

    fn begin(&mut self, version: u64, grace: u64) {
        let last = self.versions.len();
        self.versions.iter_mut().rev().skip(1).for_each(|(_, closes)| *closes = 0);
        if last > 0 {
            self.versions[last - 1].1 = self.now + grace;
        }
        self.versions.push((version, u64::MAX));
    }

    /// What a record of an id should give: a new decision is `None`.
    fn record(&mut self, version: u64, id: u64) -> Result<Option<u64>> {
        if !self.is_open(version) {
            return Err(Error::Expired);
        }
        if let Some(&sequence) = self.ids.get(&(version, id)) {
            return if self.open.contains_key(&sequence) { Ok(Some(sequence)) } else { Err(Error::Duplicate) };
        }
        if self.order.len() == self.config.table_capacity as usize {
            let oldest = self.order[0];
            if self.is_open(oldest.0) || self.open.contains_key(&self.ids[&oldest]) {
                return Err(Error::Full { what: "", number: 0, limit: "", most: 0 });
            }
            self.order.pop_front();
            self.ids.remove(&oldest);
        }
        Ok(None)
    }

    fn find(&self, version: u64, id: u64) -> Result<u64> {
        match self.ids.get(&(version, id)) {
            Some(sequence) if self.open.contains_key(sequence) => Ok(*sequence),
            Some(_) => Err(Error::Duplicate),
            None if self.is_open(version) => Err(Error::UnknownTicket),
            None => Err(Error::Expired),
        }
    }

    /// The next life: of what was open, nothing is.
    fn die(&mut self) {
        (self.open, self.ids) = Default::default();
        self.versions.clear();
        self.order.clear();
    }
}

/// The kind of an error.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Expired => "expired",
        Error::Duplicate => "duplicate",
        Error::UnknownTicket => "unknown",
        Error::Full { .. } => "full",
        _ => "other",
    }
}

fn same<T>(what: &str, given: &Result<T>, meant: &Result<()>) -> std::result::Result<(), String> {
    let kind = |result: std::result::Result<(), &Error>| result.map_err(kind);
    let (given, meant) = (kind(given.as_ref().map(drop)), kind(meant.as_ref().map(drop)));
    if given == meant { Ok(()) } else { Err(format!("{what}: {given:?}, and it should be {meant:?}")) }
}

/// Plays a random history. Returns where the handle differs from the model, or counts a reward twice.
fn play(config: &Config, number: u64, steps: u32) -> std::result::Result<(), String> {
    let mut coins = Coins(number);
    let mut bandit = Bandit::new(Algorithm::Med, config).unwrap();
    let mut model = Model {
        config: config.clone(),
        decisions: 0,
        now: 0,
        open: HashMap::new(),
        versions: Vec::new(),
        order: VecDeque::new(),
        ids: HashMap::new(),
        opened: HashMap::new(),
        rewarded: HashMap::new(),
    };
    if config.clock == Clock::Caller {
        bandit.advance(1_000_000).unwrap();
    }
    let (mut clock, mut known, mut tickets) = (1_000_000, vec![7], HashMap::<u64, (u64, u64)>::new());
    for _ in 0..steps {
        let version = known[known.len() - 1 - coins.below(known.len().min(4) as u64) as usize];
        let id = coins.below(9);
        let name = (version, id);
        match coins.below(40) {
            0..14 => {
                let (meant, arm) = (model.record(version, id), coins.below(4) as u32);
                let user = if config.expected_users > 0 { 1 + id % 3 } else { 0 };
                let given = bandit.record(version, id, &Request { user, ..among(&[arm]) });
                same("record", &given, &meant.as_ref().map(drop).map_err(Error::clone))?;
                if let (Ok(decision), Ok(meant)) = (given, meant) {
                    let sequence = meant.unwrap_or_else(|| {
                        let sequence = model.decide();
                        model.order.push_back(name);
                        model.ids.insert(name, sequence);
                        sequence
                    });
                    let ticket = *model.opened.entry(name).or_insert(decision.ticket);
                    if ticket != decision.ticket {
                        return Err(format!("{name:?} has opened two decisions"));
                    }
                    tickets.insert(ticket, (sequence, id));
                }
            }
            14..18 => {
                let (given, meant) = (bandit.find(version, id), model.find(version, id));
                same("find", &given, &meant.as_ref().map(drop).map_err(Error::clone))?;
                if given.is_ok_and(|found| found.ticket != model.opened[&name]) {
                    return Err(format!("{name:?} finds another decision"));
                }
            }
            18..26 => {
                // A reward that names an id, perhaps repeated and perhaps late.
                if let Some(&ticket) = model.opened.get(&name) {
                    let open = model.ids.get(&name).and_then(|sequence| model.open.get_mut(sequence));
                    let meant = open.is_some_and(|(_, rewarded)| !*rewarded);
                    let given = bandit.update(ticket, coins.toss(0.5));
                    if given.is_ok() != meant {
                        return Err(format!("update of {name:?}: {given:?}"));
                    }
                    if meant {
                        let sequence = model.ids[&name];
                        *model.rewarded.entry(name).or_default() += 1;
                        match config.reward_window {
                            0 => _ = model.open.remove(&sequence),
                            _ => model.open.get_mut(&sequence).unwrap().1 = true,
                        }
                    }
                }
            }
            26..28 => {
                if let Some(&ticket) = model.opened.get(&name) {
                    let open = model.ids.get(&name).and_then(|sequence| model.open.remove(sequence)).is_some();
                    if bandit.cancel(ticket).is_ok() != open {
                        return Err(format!("cancel of {name:?}"));
                    }
                }
            }
            28..33 => {
                bandit
                    .select_for(&Request { user: u64::from(config.expected_users > 0), ..Request::default() })
                    .unwrap();
                model.decide();
            }
            33..35 => {
                let grace = coins.below(12);
                let version = bandit.table_begin(grace).unwrap();
                if known.contains(&version) {
                    return Err(format!("version {version} begins twice"));
                }
                known.push(version);
                model.begin(version, grace);
            }
            35..37 if config.clock == Clock::Caller => {
                let ticks = coins.below(9);
                clock += ticks;
                bandit.advance(clock).unwrap();
                model.now += ticks;
                model.ends();
            }
            37 => {
                let state = bandit.suspend(0).unwrap();
                let before = bandit.record(version, id, &among(&[0]));
                same("a suspended handle", &before, &Err(Error::Halted))?;
                bandit = Bandit::resume(None, config, &state).unwrap();
                bandit.claimed().unwrap();
            }
            38 if coins.one_in(4) => {
                // Killed: the next life continues from a snapshot. Nothing of the old tables is known.
                let snapshot = bandit.snapshot().unwrap();
                bandit = Bandit::restore_as(Algorithm::Med, config, &snapshot).unwrap();
                bandit.stored(&bandit.snapshot().unwrap()).unwrap();
                if config.clock == Clock::Caller {
                    bandit.advance(clock).unwrap();
                    model.now = bandit.ticks().unwrap();
                }
                model.die();
                for &(version, id) in model.opened.keys() {
                    for given in [bandit.record(version, id, &among(&[0])), bandit.find(version, id)] {
                        same("an id of another life", &given, &Err(Error::Expired))?;
                    }
                }
                if config.clock == Clock::Decisions {
                    model.now = model.decisions;
                }
            }
            _ => {
                // A bad request is refused, and changes nothing.
                let fresh = 100 + id;
                for request in [Request::default(), among(&[0, 1]), among(&[9]), Request { slots: 2, ..among(&[0]) }] {
                    let expected = if model.is_open(version) { "other" } else { "expired" };
                    let given = bandit.record(version, fresh, &request).map_err(|error| kind(&error));
                    if given.err() != Some(expected) && given.err() != Some("full") {
                        return Err(format!("a bad request: {given:?}"));
                    }
                }
            }
        }
        let counts = bandit.report().unwrap().counts;
        if counts.decisions != model.decisions {
            return Err(format!("{} decisions, and there should be {}", counts.decisions, model.decisions));
        }
        if config.clock == Clock::Caller && counts.pending() != model.open.len() as u64 {
            return Err(format!("{} open, and there should be {}", counts.pending(), model.open.len()));
        }
    }
    match model.rewarded.iter().find(|&(_, &many)| many > 1) {
        Some((name, _)) => Err(format!("the reward of {name:?} counts twice")),
        None => Ok(()),
    }
}

fn worlds() -> [Config; 4] {
    let config = Config {
        table_capacity: 6,
        pending_capacity: 8,
        node: 77,
        fleet_key: Some([5; 32].into()),
        ..Config::new(4, 1.0)
    };
    [
        config.clone(),
        Config { reward_window: 6, ..config.clone() },
        Config { reward_window: 20, clock: Clock::Caller, ..config.clone() },
        Config { reward_window: 6, table_capacity: 40, expected_users: 10, contributions_per_user: 2, ..config },
    ]
}

/// No order of records, repeats, rewards, cancellations, moves and kills opens an id twice.
#[test]
fn each_id_opens_one_decision() {
    for config in worlds() {
        for number in 0..150 {
            let played = play(&config, number, 400);
            assert_eq!(played, Ok(()), "{number}: {config:?}");
        }
    }
}

/// Faults of the list in docs/theory/versions.md.
#[test]
fn faults_of_versions_are_seen() {
    const FAULTS: [Fault; 7] = [
        Fault::ReopensEnded,
        Fault::HeldIsNew,
        Fault::HeldTells,
        Fault::FoundInReused,
        Fault::VersionSurvives,
        Fault::ClosedOpens,
        Fault::OpenForgotten,
    ];
    for fault in FAULTS {
        let first = with_fault(fault, || {
            let runs = (0..150).flat_map(|number| worlds().map(|config| play(&config, number, 400)));
            runs.into_iter().find_map(std::result::Result::err)
        });
        println!("{fault:?}: {first:?}");
        assert!(first.is_some(), "{fault:?}");
    }
}

/// A repeat counts for nobody: the handle learns from the first 40 decisions of a user that are recorded, whatever repeats.
#[test]
fn a_repeat_counts_for_no_user() {
    let learned = || {
        let (expected_users, contributions_per_user) = (10, 40);
        let config = Config { expected_users, contributions_per_user, table_capacity: 64, ..Config::new(2, 4e4) };
        let bandit = Bandit::new(Algorithm::Med, &config).unwrap();
        let version = bandit.table_begin(0).unwrap();
        for id in 0..64 {
            let decisions = [(); 2].map(|()| bandit.record(version, id, &Request { user: 7, ..among(&[1]) }).unwrap());
            bandit.update(decisions[0].ticket, 1.0).unwrap();
        }
        bandit.arm_reports().unwrap()[1].effective_pulls
    };
    let (honest, repeated) = (learned(), with_fault(Fault::RepeatCounts, learned));
    println!("{honest} {repeated}");
    assert!(honest > 20.0 && honest <= 40.0 && repeated <= 20.0, "{honest} {repeated}");
}

/// Handles with weights, after some learning, and requests that they take: plain, with eligible arms, values and costs, in an
/// outage; with features in the pilot and after it, with exploration and without.
fn weighed(each: &mut dyn FnMut(&str, &Bandit, &Request)) {
    let rates = [0.3, 0.25, 0.2, 0.1, 0.05];
    for (exploration, learned, outage) in [(0.0, 0, false), (0.0, 9000, false), (0.1, 9000, false), (0.1, 9000, true)] {
        let config = Config { exploration, test_seed: Some(seed(4)), ..Config::new(5, 1.0) };
        let bandit = Bandit::new(Algorithm::Med, &config).unwrap();
        let mut coins = Coins(9);
        for _ in 0..learned {
            let decision = bandit.select().unwrap();
            bandit.update(decision.ticket, coins.toss(rates[decision.arm as usize])).unwrap();
        }
        bandit.add_arm().unwrap();
        bandit.retire_arm(4).unwrap();
        for _ in 0..if outage { 300 } else { 0 } {
            bandit.cancel(bandit.select().unwrap().ticket).unwrap();
        }
        let name = format!("dp-med, exploration {exploration}, {learned} rewards, outage {outage}");
        let some = among(&[3, 0, 5, 1]);
        each(&name, &bandit, &Request::default());
        each(&format!("{name}, eligible"), &bandit, &some);
        each(&format!("{name}, values"), &bandit, &Request { values: Some(&[2.0, 1.0, 1.5, 0.4]), ..some });
        each(&format!("{name}, costs"), &bandit, &Request { costs: Some(&[0.0, 0.1, 0.05, 0.2]), ..some });
        each(
            &format!("{name}, sure"),
            &bandit,
            &Request { values: Some(&[1.0, 1.0, 0.0, 1.0]), costs: Some(&[0.5, 0.6, 0.01, 0.4]), ..some },
        );
    }
    for (model_per_arm, exploration, learned) in
        [(false, 0.1, 0), (true, 0.1, 4000), (false, 0.1, 4000), (false, 1.0, 4000)]
    {
        let config =
            Config { features: 2, model_per_arm, exploration, test_seed: Some(seed(6)), ..Config::new(4, 4.0) };
        let bandit = Bandit::new(Algorithm::Linear, &config).unwrap();
        let rows: Vec<f32> = (0..if model_per_arm { 2 } else { 8 }).map(|place| (place * 7 % 5) as f32 / 5.0).collect();
        let request = Request { features: Some(Rows::Dense(&rows)), ..Request::default() };
        let mut coins = Coins(3);
        for _ in 0..learned {
            let decision = bandit.select_for(&request).unwrap();
            bandit.update(decision.ticket, coins.toss(rates[decision.arm as usize])).unwrap();
        }
        each(&format!("dp-linear, a model for each arm {model_per_arm}, {learned} rewards"), &bandit, &request);
    }
}

/// Weights sum to 2^32, change nothing, and are the propensities with which the next decision reports its arm: to 2^-32 and
/// the rounding of 64-bit numbers.
#[test]
fn weights_are_the_propensities_of_decisions() {
    let mut seen = 0;
    weighed(&mut |name, bandit, request| {
        let before = bandit.snapshot().unwrap();
        let weights = bandit.weights(request).unwrap();
        assert_eq!(bandit.snapshot().unwrap(), before, "{name}");
        assert_eq!(weights.iter().sum::<u64>(), ALL, "{name}: {weights:?}");
        for _ in 0..40 {
            let weights = bandit.weights(request).unwrap(); // dp-linear redraws
            let decision = bandit.select_for(request).unwrap();
            let weight = weights[decision.arm as usize] as f64 / ALL as f64;
            assert!((weight - decision.propensity).abs() < 1e-9, "{name}: {weight} {}", decision.propensity);
            // Cancelled in turn, so that an outage stays one; and the added arm's share does not change.
            bandit.cancel(decision.ticket).unwrap();
            seen += 1;
        }
    });
    assert_eq!(seen, 24 * 40);
}

/// 10^6 decisions by a table fit its weights, for whatever salt. Chi-square with K - 1 degrees of freedom at a failure
/// probability of 1e-6: by Laurent and Massart (2000) it exceeds d + 2 sqrt(d x) + 2 x with probability e^-x at most.
#[test]
fn a_million_decisions_fit_the_weights() {
    const DECISIONS: u64 = 1_000_000;
    let most = |d: f64| d + 2.0 * (d * 6.0 * 10f64.ln()).sqrt() + 12.0 * 10f64.ln();
    let config = Config { exploration: 0.05, test_seed: Some(seed(4)), ..Config::new(10, 1.0) };
    let bandit = Bandit::new(Algorithm::Med, &config).unwrap();
    let mut coins = Coins(9);
    for _ in 0..20_000 {
        let decision = bandit.select().unwrap();
        bandit.update(decision.ticket, coins.toss(0.2 - 0.01 * f64::from(decision.arm))).unwrap();
    }
    let weights = bandit.weights(&among(&[0, 1, 2, 4, 5, 6, 7, 8, 9])).unwrap();
    let misfit = |weights: &[u64], shown: &[u64]| -> f64 {
        let each = weights.iter().zip(shown).filter(|(weight, _)| **weight > 0).map(|(&weight, &n)| {
            let meant = DECISIONS as f64 * weight as f64 / ALL as f64;
            (n as f64 - meant).powi(2) / meant
        });
        each.sum()
    };
    let mut elsewhere = vec![0; 10];
    for unit in 0..DECISIONS {
        let decision = decide(&weights, b"5eed", b"phone", unit.to_string().as_bytes()).unwrap();
        assert_eq!(decision.propensity, weights[decision.arm as usize] as f64 / ALL as f64);
        elsewhere[decision.arm as usize] += 1;
    }
    // The handle's own decisions are of the same distribution. Nobody answers them, so nothing changes.
    let mut here = vec![0; 10];
    for _ in 0..DECISIONS {
        let decision = bandit.select_for(&among(&[0, 1, 2, 4, 5, 6, 7, 8, 9])).unwrap();
        here[decision.arm as usize] += 1;
    }
    let [elsewhere, here] = [elsewhere, here].map(|shown| {
        assert_eq!(shown[3], 0);
        misfit(&weights, &shown)
    });
    println!("{elsewhere} {here}, and the most is {}", most(8.0));
    assert!(elsewhere < most(8.0) && here < most(8.0));
    // Another context, or the weights in another order, would be seen.
    let mut others = weights.clone();
    others.rotate_left(1);
    assert!(others != weights);
    let mut shown = vec![0; 10];
    for unit in 0..DECISIONS / 100 {
        shown[decide(&others, b"5eed", b"phone", unit.to_string().as_bytes()).unwrap().arm as usize] += 100;
    }
    assert!(misfit(&weights, &shown) > most(8.0));
}

/// What cannot be decided elsewhere is refused, and the reason says which policy can.
#[test]
fn what_has_no_weights_is_refused() {
    let config = Config { horizon: 10_000, delta: 1e-6, table_capacity: 4, ..Config::new(4, 1.0) };
    for &algorithm in Algorithm::ALL {
        let config = fitted(algorithm, config.clone());
        let Ok(bandit) = Bandit::new(algorithm, &config) else { continue };
        let rows = vec![0.5; config.features as usize];
        let features = (config.features > 0).then_some(Rows::Dense(&rows));
        let request = Request { features, ..Request::default() };
        let weights = bandit.weights(&request);
        match algorithm {
            Algorithm::Med | Algorithm::Linear => assert_eq!(weights.unwrap(), [1 << 30; 4]),
            _ => assert!(weights.unwrap_err().to_string().contains("dp-med"), "{algorithm:?}"),
        }
        let begun = bandit.table_begin(3);
        let takes_eligible = bandit.check_request(&Request { eligible: Some(&[1]), ..request }).is_ok();
        assert_eq!(begun.is_ok(), takes_eligible, "{algorithm:?}");
        if let Ok(version) = begun {
            let recorded = bandit.record(version, 1, &Request { eligible: Some(&[1]), ..request }).unwrap();
            assert_eq!((recorded.arm, recorded.phase, recorded.propensity.is_nan()), (1, 0, true));
            assert_eq!(bandit.find(version, 1).unwrap().ticket, recorded.ticket);
            bandit.update(recorded.ticket, 1.0).unwrap();
        }
    }
    let med = Bandit::new(Algorithm::Med, &Config::new(4, 1.0)).unwrap();
    for request in
        [Request { slots: 2, ..Request::default() }, Request { abstain: true, ..Request::default() }, among(&[4])]
    {
        assert!(matches!(med.weights(&request), Err(Error::InvalidRequest { .. })));
    }
    assert!(matches!(med.table_begin(1), Err(Error::Unsupported(_))));
    assert!(matches!(med.record(1, 1, &among(&[0])), Err(Error::Unsupported(_))));
    assert!(matches!(med.find(1, 1), Err(Error::Unsupported(_))));
    let refused =
        |weights: &[u64], unit: &str| decide(weights, b"salt", b"", unit.as_bytes()).map_err(|error| error.to_string());
    assert_eq!(refused(&[1, 2], "a"), Err("weights must sum to 2^32, got 3".into()));
    assert!(refused(&[], "a").is_err() && refused(&[u64::MAX, ALL + 1], "a").is_err());
    assert_eq!(refused(&[ALL], ""), Err("unit must not be empty, got 0".into()));
    assert_eq!(refused(&[ALL], "a\nb"), Err("unit must have no newline, got 10".into()));
}

/// The decisions of tests/data/decide.json as lines of a file: salt, context, unit, arm, id and weights. An unknown context
/// is the default.
fn vectors(place: &str) -> PathBuf {
    let tables: Vec<Value> =
        serde_json::from_slice(&std::fs::read(root().join("tests/data/decide.json")).unwrap()).unwrap();
    let (mut lines, mut many) = (String::new(), 0);
    for table in &tables {
        let (contexts, salt) =
            (table["table"]["contexts"].as_object().unwrap(), table["table"]["salt"].as_str().unwrap());
        for decision in table["decisions"].as_array().unwrap() {
            let [context, unit, id] = ["context", "unit", "id"].map(|name| decision[name].as_str().unwrap());
            let context = if contexts.contains_key(context) { context } else { "" };
            let weights: Vec<u64> = contexts[context].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).collect();
            let made = decide(&weights, salt.as_bytes(), context.as_bytes(), unit.as_bytes()).unwrap();
            let arm = u64::from(made.arm);
            assert_eq!(
                (Some(arm), format!("{:016x}", made.id)),
                (decision["arm"].as_u64(), id.to_owned()),
                "{decision}"
            );
            let weights: Vec<String> = weights.iter().map(u64::to_string).collect();
            lines += &format!("{salt}\t{context}\t{unit}\t{arm}\t{id}\t{}\n", weights.join(","));
            many += 1;
        }
    }
    assert_eq!(many, 200);
    let path = empty_directory("tables", place).join("vectors");
    std::fs::write(&path, lines).unwrap();
    path
}

const PAGE: &str = "docs/tables.md";

#[test]
fn c_and_cpp_decide_alike() {
    let vectors = vectors("cpp");
    if have("c++") {
        run(Command::new(build("c++", "tests/cpp/decide.cpp", &["-std=c++17"], Link::Static)).arg(&vectors));
    }
}

/// By the C function: Lua has no hash of its own.
#[test]
fn luajit_decides_alike() {
    let vectors = vectors("lua");
    let found = ["luajit", "luajit2"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
    let Some(luajit) = found else { return crate::support::skip("luajit not found (apt-get install luajit2)") };
    let program = "local dpb, many = require('dpb').load(arg[1]), 0
        for line in io.lines(arg[2]) do
          local salt, context, unit, arm, id, list = line:match '^(.-)\t(.-)\t(.-)\t(.-)\t(.-)\t(.-)$'
          local weights = {}
          for weight in list:gmatch '%d+' do weights[#weights + 1] = tonumber(weight) end
          local made, named, propensity = dpb.decide(salt, weights, unit, context)
          assert(made == tonumber(arm) and named == id and propensity == weights[made + 1] / 2 ^ 32, line)
          many = many + 1
        end
        for _, wrong in ipairs { { '' }, { 'a\\nb' }, { 'a\\0b' }, { 'unit', 'a\\nb' }, { 'unit', 'a\\0b' } } do
          assert(not dpb.decide('salt', { 2 ^ 32 }, wrong[1], wrong[2]))
        end
        local _, why, status = dpb.decide('salt', { 1, 2 }, 'unit')
        assert(status == dpb.C.DPB_INVALID_CONFIG, why)
        print(many)";
    let path = empty_directory("tables", "lua-program").join("decide.lua");
    std::fs::write(&path, program).unwrap();
    let library = library_dir().join("libdpb.so");
    let mut luajit = Command::new(luajit);
    luajit.current_dir(root().join("bindings/lua")).arg(path).arg(library).arg(vectors);
    assert_eq!(run(&mut luajit), "200\n");
}

#[test]
fn the_pages_python_decides_alike() {
    if !have("python3") {
        return;
    }
    let program = format!(
        "import json, sys\nfrom hashlib import sha256\n{}
many = 0
for vector in json.load(open(sys.argv[1], encoding='utf-8')):
    for d in vector['decisions']:
        made = decide(vector['table'], d['unit'], d['context'])
        assert (made[0], made[2]) == (d['arm'], d['id']), d
        many += 1
print(many)",
        snippets(PAGE, "python")[0]
    );
    let mut python = Command::new("python3");
    python.args(["-c", &program]).arg(root().join("tests/data/decide.json"));
    assert_eq!(run(&mut python), "200\n");
}

#[test]
fn the_pages_javascript_decides_alike() {
    if !have("node") {
        return;
    }
    let program = format!(
        "{}
(async () => {{
  let many = 0;
  for (const {{table, decisions}} of JSON.parse(require('fs').readFileSync(process.argv[1])))
    for (const d of decisions) {{
      const made = await decide(table, d.unit, d.context);
      if (made.arm !== d.arm || made.id !== d.id) throw new Error(JSON.stringify([made, d]));
      many++;
    }}
  console.log(many);
}})();",
        snippets(PAGE, "js")[0]
    );
    let mut node = Command::new("node");
    node.args(["--unhandled-rejections=strict", "-e", &program]).arg(root().join("tests/data/decide.json"));
    assert_eq!(run(&mut node), "200\n");
}

#[test]
fn the_pages_java_decides_alike() {
    let vectors = vectors("java");
    if !have("java") || !have("javac") {
        return;
    }
    let program = format!(
        "import java.nio.ByteBuffer;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;

class Decide {{
{}
    public static void main(String[] arguments) throws Exception {{
        var meant = new StringBuilder();
        for (String line : Files.readString(Path.of(arguments[0])).split(\"\\n\")) {{
            String[] parts = line.split(\"\\t\", -1);
            long[] weights = Arrays.stream(parts[5].split(\",\")).mapToLong(Long::parseLong).toArray();
            if (decide(parts[0], weights, parts[1], parts[2]) != Integer.parseInt(parts[3])) {{
                throw new AssertionError(line);
            }}
        }}
    }}
}}
",
        snippets(PAGE, "java")[0]
    );
    let path = empty_directory("tables", "java-program").join("Decide.java");
    std::fs::write(&path, program).unwrap();
    let said = run(Command::new("java").arg("-Dfile.encoding=UTF-8").arg(path).arg(&vectors));
    let lines = std::fs::read_to_string(vectors).unwrap();
    let meant: Vec<String> = lines
        .split_terminator('\n')
        .map(|line| {
            let parts: Vec<&str> = line.split('\t').collect();
            format!("{} {}", parts[3], parts[4])
        })
        .collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), meant);
}
