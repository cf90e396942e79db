//! Handles of one kind that play a random history, and a model of it: whose releases each handle knows, and where each
//! reward is.

use crate::audit::engine::seed;
use crate::interference::handle::{Subject, live};
use crate::support::coins::Coins;
use crate::support::sealed::nonce;
use dpb::noise::probe::NoiseProbe;
use dpb::{Algorithm, ArmReport, Bandit, Clock, Config, Decision, Duty, Error, Fault, Request, Result, Rows};
use std::collections::{BTreeMap, BTreeSet};

/// A kind of handle: a policy, or one with segments or models, and what its configuration adds.
#[derive(Clone, Debug)]
pub struct Kind {
    pub subject: Subject,
    pub with: &'static str,
    pub config: Config,
    /// A fault that the tests must see.
    pub fault: Option<Fault>,
}

/// The kinds of handles for which this holds.
pub fn kinds(able: impl Fn(&Bandit) -> bool) -> Vec<Kind> {
    let plain = Config {
        fleet_key: Some([7; 32].into()),
        pending_capacity: 64,
        horizon: 50_000,
        beta: 0.5,
        base: Algorithm::NonprivateExp3 as u32,
        features: 1,
        ..Config::new(4, 4.0)
    };
    let mut kinds = Vec::new();
    for subject in Subject::all() {
        for (with, asked) in [
            ("nothing more", plain.clone()),
            ("delta", Config { delta: 1e-6, ..plain.clone() }),
            ("forget_after", Config { forget_after: 4096, ..plain.clone() }),
            ("a clock", Config { clock: Clock::Caller, forget_after: 4096, ..plain.clone() }),
            ("a window", Config { reward_window: 20, ..plain.clone() }),
        ] {
            let config = subject.with(&asked).1;
            let makes = config.delta == asked.delta && subject.make(&asked).is_ok_and(|bandit| able(&bandit));
            kinds.extend(makes.then_some(Kind { subject, with, config: asked, fault: None }));
        }
    }
    kinds
}

impl Kind {
    pub fn name(&self) -> String {
        format!("{} with {}", self.subject.name(), self.with)
    }

    pub fn seeded(&self, number: u64) -> Config {
        Config { test_seed: Some(seed(number)), ..self.config.clone() }
    }

    pub fn make(&self, number: u64) -> Bandit {
        self.subject.make(&self.seeded(number)).unwrap()
    }

    pub fn restore(&self, snapshot: &[u8]) -> Bandit {
        self.subject.restore(&self.config, snapshot).unwrap()
    }

    pub fn forgets(&self) -> bool {
        self.config.forget_after > 0
    }

    /// Whether it tests its arms.
    pub fn is_test(&self) -> bool {
        self.subject == Subject::Policy(Algorithm::TopTwo)
    }

    pub fn is_linear(&self) -> bool {
        self.subject.has_features()
    }

    /// The row of every request, of the largest size: so a released vector of dp-linear with one feature has the sum of
    /// rewards as the sum of its coordinates.
    fn row(&self) -> Vec<f32> {
        vec![1.0; self.config.features as usize]
    }

    pub fn ask(&self, bandit: &Bandit, key: u64, eligible: Option<&[u32]>) -> Result<Decision> {
        self.subject.ask(bandit, key, eligible, &self.row())
    }

    /// A snapshot of a handle that has learned enough for the pilots of others to end.
    pub fn teacher(&self) -> Vec<u8> {
        let teacher = self.make(99);
        self.play(&teacher, 400, &mut Coins(5));
        teacher.snapshot().unwrap()
    }

    /// Makes decisions in two segments, and reports rewards at once. Returns the arms.
    pub fn play(&self, bandit: &Bandit, decisions: u64, coins: &mut Coins) -> Vec<u32> {
        let each = (0..decisions).map(|_| {
            let decision = self.ask(bandit, KEYS[coins.below(2) as usize], None).unwrap();
            let reward = coins.toss([0.75, 0.5, 0.625, 0.25][decision.arm as usize % 4]);
            bandit.update(decision.ticket, reward).unwrap();
            decision.arm
        });
        each.collect()
    }
}

/// The keys of segments.
pub const KEYS: [u64; 3] = [100, 7, 101];

/// What is reported of each arm, by its segment and its id: mean, width, rewards, and what is predicted.
pub type Known = BTreeMap<(u64, u64), Vec<f64>>;

type Rewards = BTreeMap<(u64, u64), f64>;

/// What can happen to a handle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Decide,
    Cancel,
    AddArm,
    RetireArm,
    Advance,
    Prior,
    Snapshot,
    Merge,
    /// Continues from its own last snapshot.
    Restore,
    Move,
    Lead,
    Alone,
    Contribute,
    Combine,
}

/// Where a marked reward is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    Unpaid,
    /// In the open sums of this handle.
    Open(usize),
    /// In this message.
    Sent(usize),
    Released,
    Lost,
}

/// A reward of 4^-(number + 1), among rewards of 0.
pub struct Mark {
    pub place: Place,
    pub arm: u64,
}

pub struct Node {
    pub bandit: Bandit,
    /// The ids of its arms, and its segments.
    pub ids: Vec<u64>,
    pub keys: BTreeSet<u64>,
    /// Open decisions, each with the arm and the mark that it will get.
    pub open: Vec<(u64, u32, Option<usize>)>,
    generation: u32,
    /// The newest merged snapshot of each other handle.
    merged: BTreeMap<usize, usize>,
    duty: Duty,
    /// Itself as a contributor, and the number of its last contribution.
    sender: (usize, u64),
    /// The last contribution of each sender, as a leader.
    accepted: BTreeMap<usize, u64>,
    pub combined: u64,
    pub missed: u64,
}

impl Node {
    /// Begins all segments, and adds all arms.
    pub fn begin_all(&mut self, kind: &Kind) {
        for id in (1000..1003).filter(|id| !self.ids.contains(id)).collect::<Vec<_>>() {
            self.bandit.add_arm_as(id).unwrap();
            self.ids.push(id);
        }
        for key in KEYS {
            self.keys.insert(key);
            let decision = kind.ask(&self.bandit, key, None).unwrap();
            self.bandit.cancel(decision.ticket).unwrap();
        }
    }
}

/// A snapshot, and what the model says about it.
pub struct Shot {
    of: usize,
    generation: u32,
    pub bytes: Vec<u8>,
    /// The rewards in its handle's own releases.
    own: Rewards,
    ids: Vec<u64>,
    keys: BTreeSet<u64>,
}

struct Message {
    bytes: Vec<u8>,
    to: u64,
    sender: (usize, u64),
}

pub struct Fleet<'a> {
    pub kind: &'a Kind,
    pub coins: Coins,
    pub nodes: Vec<Node>,
    pub shots: Vec<Shot>,
    messages: Vec<Message>,
    /// The number of messages that were combined.
    pub combined: u64,
    nonces: BTreeSet<Vec<u8>>,
    leaders: Vec<u64>,
    senders: usize,
    now: u64,
    probe: NoiseProbe,
    /// A snapshot that every handle merges when it begins, and the rewards in it.
    teacher: Option<&'a [u8]>,
    taught: Known,
    /// The marked rewards, or none: then rewards are random.
    pub marks: Vec<Mark>,
}

/// The number of marks, whose sums have no carry.
pub const MARKS: usize = 8;

impl<'a> Fleet<'a> {
    /// With marks, noise is less than half of the smallest mark.
    pub fn new(kind: &'a Kind, handles: usize, number: u64, marks: usize, teacher: Option<&'a [u8]>) -> Fleet<'a> {
        let mut probe = NoiseProbe::new().seeding(seed(number));
        if marks > 0 {
            probe = probe.weakening(|_, _| 0.0);
        }
        if let Some(fault) = kind.fault {
            probe = probe.breaking(fault);
        }
        let mut fleet = Fleet {
            kind,
            coins: Coins(number),
            nodes: Vec::new(),
            shots: Vec::new(),
            messages: Vec::new(),
            combined: 0,
            nonces: BTreeSet::new(),
            leaders: vec![1],
            senders: handles,
            now: 1000,
            probe,
            teacher,
            taught: Known::new(),
            marks: (0..marks).map(|_| Mark { place: Place::Unpaid, arm: 0 }).collect(),
        };
        fleet.nodes = (0..handles).map(|at| fleet.node(kind.make(100 * number + at as u64))).collect();
        if teacher.is_some() {
            let mut pupil = fleet.node(kind.make(99_999));
            pupil.begin_all(kind);
            fleet.taught = fleet.knows(&pupil);
        }
        fleet
    }

    /// A new handle, as the model knows it.
    pub fn node(&self, bandit: Bandit) -> Node {
        self.teacher.into_iter().for_each(|teacher| bandit.merge(teacher).unwrap());
        Node {
            bandit,
            ids: (0..self.kind.config.arms.into()).collect(),
            keys: BTreeSet::new(),
            open: Vec::new(),
            generation: 0,
            merged: BTreeMap::new(),
            duty: Duty::Alone,
            sender: (0, 0),
            accepted: BTreeMap::new(),
            combined: 0,
            missed: 0,
        }
    }

    /// A handle with the arms and segments of another one.
    pub fn continued(&self, bandit: Bandit, other: &Node) -> Node {
        Node { ids: other.ids.clone(), keys: other.keys.clone(), ..self.node(bandit) }
    }

    fn below(&mut self, n: usize) -> usize {
        self.coins.below(n as u64) as usize
    }

    /// Mostly the last of so many, or one before it.
    fn late(&mut self, many: usize) -> usize {
        many - 1 - self.below(16).saturating_sub(9).min(many - 1)
    }

    /// So many events, of which each is as likely as its number says, at random handles.
    pub fn play(&mut self, events: u32, likely: &[(Event, u64)], check: impl Fn(&Fleet, usize, Event)) {
        let all = likely.iter().map(|event| event.1).sum();
        for _ in 0..events {
            let mut pick = self.coins.below(all);
            let chosen = likely.iter().find(|event| {
                let found = pick < event.1;
                pick = pick.saturating_sub(event.1);
                found
            });
            let at = self.below(self.nodes.len());
            let event = chosen.unwrap().0;
            self.happen(at, event);
            self.hear(at);
            check(self, at, event);
        }
    }

    pub fn happen(&mut self, at: usize, event: Event) {
        if event == Event::Decide {
            return self.decide(at);
        }
        let arms = live(&self.nodes[at].bandit);
        let arm = arms[self.below(arms.len())];
        match event {
            Event::Decide => (),
            Event::Cancel => {
                if let Some((ticket, ..)) = self.nodes[at].open.pop() {
                    let cancelled = self.nodes[at].bandit.cancel(ticket);
                    assert!(cancelled.is_ok() || self.kind.config.reward_window > 0, "{cancelled:?}");
                }
            }
            Event::AddArm => {
                let id = 1000 + self.coins.below(3);
                let node = &mut self.nodes[at];
                // (Not if it was retired.)
                let added = node.bandit.add_arm_as(id).ok().filter(|&arm| arm as usize == node.ids.len());
                node.ids.extend(added.map(|_| id));
            }
            Event::RetireArm if arms.len() > 3 => _ = self.nodes[at].bandit.retire_arm(arm),
            Event::RetireArm => (),
            Event::Advance => {
                self.now += self.coins.below(30);
                let advanced = self.nodes[at].bandit.advance(self.now);
                assert!(advanced.is_ok() == (self.kind.config.clock == Clock::Caller), "{advanced:?}");
            }
            Event::Prior => _ = self.nodes[at].bandit.set_prior(arm, 0.3, 20.0),
            Event::Snapshot => {
                let shot = self.shot(at);
                self.shots.push(shot);
            }
            Event::Merge if !self.shots.is_empty() => {
                let shot = self.late(self.shots.len());
                self.merge(at, shot);
            }
            Event::Restore => self.restore(at),
            Event::Move => {
                let addressed = self.below(2) == 0;
                self.moved(at, addressed);
            }
            Event::Lead => {
                let node = &mut self.nodes[at];
                let generation = node.bandit.lead().unwrap();
                if node.duty != Duty::Leads(generation) {
                    assert!(!self.leaders.contains(&generation));
                    self.leaders.push(generation);
                    (node.duty, node.accepted) = (Duty::Leads(generation), BTreeMap::new());
                }
            }
            Event::Alone => {
                self.nodes[at].bandit.alone().unwrap();
                self.nodes[at].duty = Duty::Alone;
            }
            Event::Contribute if matches!(self.nodes[at].duty, Duty::Leads(_)) && self.below(20) > 0 => (),
            Event::Contribute => {
                let leader = self.late(self.leaders.len());
                self.contribute(at, self.leaders[leader]);
            }
            Event::Combine if !self.messages.is_empty() => {
                let number = self.late(self.messages.len());
                let leads = |node: &Node| node.duty == Duty::Leads(self.messages[number].to);
                let at = self.nodes.iter().position(leads).filter(|_| at != 0).unwrap_or(at);
                self.combine(at, number);
                self.hear(at);
            }
            Event::Merge | Event::Combine => (),
        }
        if self.kind.config.fleet_key.is_some() {
            assert_eq!(self.nodes[at].bandit.report().unwrap().duty, self.nodes[at].duty, "{event:?}");
        }
    }

    /// A decision, and mostly a reward for it or for an earlier one.
    pub fn decide(&mut self, at: usize) {
        let key = KEYS[self.below(KEYS.len() - 1)];
        let some = (self.below(4) == 0).then(|| {
            let arms = live(&self.nodes[at].bandit);
            [arms[self.below(arms.len())], arms[self.below(arms.len())]]
        });
        let decision = self.kind.ask(&self.nodes[at].bandit, key, some.as_ref().map(|arms| &arms[..]));
        // (Not every policy can choose among some.)
        let decision = decision.or_else(|_| self.kind.ask(&self.nodes[at].bandit, key, None)).unwrap();
        let mark = self.marks.iter().position(|mark| mark.place == Place::Unpaid).filter(|_| self.below(20) == 0);
        if let Some(mark) = mark {
            self.marks[mark].place = Place::Lost; // until its reward comes
        }
        self.nodes[at].keys.insert(key);
        self.nodes[at].open.push((decision.ticket, decision.arm, mark));
        if self.nodes[at].open.len() > 4 || self.below(2) == 0 {
            let open = self.below(self.nodes[at].open.len());
            self.reward(at, open);
        }
    }

    pub fn reward(&mut self, at: usize, open: usize) {
        let (ticket, arm, mark) = self.nodes[at].open.swap_remove(open);
        let reward = match mark {
            Some(mark) => 0.25f64.powi(mark as i32 + 1),
            None if self.marks.is_empty() => self.coins.toss([0.75, 0.5, 0.625, 0.25][arm as usize % 4]),
            None => 0.0,
        };
        if let Some(mark) = mark {
            self.marks[mark] = Mark { place: Place::Open(at), arm: self.nodes[at].ids[arm as usize] };
        }
        let Config { reward_min, reward_max, .. } = self.kind.config;
        let reward = reward_min + reward * (reward_max - reward_min);
        let updated = self.nodes[at].bandit.update(ticket, reward);
        // (Windows end.)
        assert!(updated.is_ok() || self.kind.config.reward_window > 0, "{updated:?}");
        assert!(self.nodes[at].bandit.update(ticket, reward).is_err());
    }

    /// Reads what this handle has released since the last call: each mark at most once, and from its open sums.
    pub fn hear(&mut self, at: usize) {
        let released = self.probe.released();
        let contributes = matches!(self.nodes[at].duty, Duty::Contributes(_));
        assert!(released.is_empty() || !contributes, "{}: a contributor releases", self.kind.name());
        let sum: i64 = released.iter().map(|(_, sum)| sum).sum();
        if self.marks.is_empty() {
            return;
        }
        let unit = if self.kind.is_linear() { 1 << 16 } else { 1 };
        let sum = (sum + unit * 128).div_euclid(unit * 256);
        assert!((0..1 << 16).contains(&sum), "{}: {sum:x}", self.kind.name());
        for (number, mark) in self.marks.iter_mut().enumerate() {
            let times = sum >> (14 - 2 * number) & 3;
            if times > 0 {
                assert_eq!((times, mark.place), (1, Place::Open(at)), "{}, mark {number}", self.kind.name());
                mark.place = Place::Released;
            }
        }
    }

    /// Moves the marks that are in one place to another.
    fn put(&mut self, from: Place, to: Place) {
        self.marks.iter_mut().filter(|mark| mark.place == from).for_each(|mark| mark.place = to);
    }

    pub fn shot(&self, at: usize) -> Shot {
        let node = &self.nodes[at];
        let bytes = node.bandit.snapshot().unwrap();
        let restored = self.continued(self.kind.restore(&bytes), node);
        let own = self.knows(&restored).into_iter().map(|(key, known)| (key, known[2] - self.taught(key))).collect();
        Shot { of: at, generation: node.generation, bytes, own, ids: node.ids.clone(), keys: node.keys.clone() }
    }

    /// Merges a snapshot. The model keeps the newest one of each handle.
    pub fn merge(&mut self, at: usize, number: usize) {
        let (shot, node) = (&self.shots[number], &mut self.nodes[at]);
        node.bandit.merge(&shot.bytes).unwrap();
        if shot.of != at {
            let newest = node.merged.entry(shot.of).or_insert(number);
            let version = |number: usize| (self.shots[number].generation, number);
            *newest = if version(number) > version(*newest) { number } else { *newest };
        }
    }

    fn restore(&mut self, at: usize) {
        let Some(shot) = self.shots.iter().rfind(|shot| shot.of == at) else { return };
        let node = Node {
            generation: shot.generation + 1,
            ids: shot.ids.clone(),
            keys: shot.keys.clone(),
            ..self.node(self.kind.restore(&shot.bytes))
        };
        let ended = std::mem::replace(&mut self.nodes[at], node);
        for (ticket, ..) in ended.open {
            assert_eq!(self.nodes[at].bandit.update(ticket, 1.0), Err(Error::UnknownTicket));
        }
        self.put(Place::Open(at), Place::Lost);
    }

    /// Suspends the handle, and resumes its state once, and not twice.
    pub fn moved(&mut self, at: usize, addressed: bool) {
        let (subject, config) = (self.kind.subject, &self.kind.config);
        let other = (at + 1) % self.nodes.len();
        let receiver = if addressed { self.nodes[other].bandit.receiver().unwrap() } else { 0 };
        let state = self.nodes[at].bandit.suspend(receiver).unwrap();
        self.is_sealed(&state);
        let ended = self.nodes[at].bandit.cancel_all();
        assert_eq!(ended, Err(Error::Halted));
        let next = subject.resume(config, &state).unwrap();
        if receiver == 0 {
            assert_eq!(next.cancel_all(), Err(Error::NotReady));
            next.claimed().unwrap();
        } else {
            assert!(matches!(subject.resume(config, &state).err(), Some(Error::ExpiredState(_))));
        }
        self.senders += 1;
        let node = &mut self.nodes[at];
        self.teacher.into_iter().for_each(|teacher| next.merge(teacher).unwrap());
        (node.bandit, node.merged, node.generation) = (next, BTreeMap::new(), node.generation + 1);
        (node.sender, node.combined, node.missed) = ((self.senders, 0), 0, 0);
        node.duty = if matches!(node.duty, Duty::Leads(_)) { Duty::Alone } else { node.duty };
    }

    /// No two messages may have one nonce.
    fn is_sealed(&mut self, bytes: &[u8]) {
        assert!(self.nonces.insert(nonce(bytes).to_vec()));
    }

    fn contribute(&mut self, at: usize, to: u64) {
        let node = &mut self.nodes[at];
        let short = node.bandit.contribution_within(to, 1); // takes nothing out
        let bytes = match node.bandit.contribution(to) {
            Ok(bytes) => bytes,
            Err(error) => {
                assert!(matches!(error, Error::InvalidConfig { field: "generation", .. }), "{error}");
                return assert_eq!(node.duty, Duty::Leads(to));
            }
        };
        if node.duty != Duty::Contributes(to) {
            self.senders += 1;
            (node.duty, node.sender) = (Duty::Contributes(to), (self.senders, 0));
        }
        if bytes.is_empty() {
            // (dp-linear drops an open vector that no leader could use, and a test what is more than a round.)
            assert!(
                self.kind.is_linear()
                    || self.kind.is_test()
                    || self.marks.iter().all(|mark| mark.place != Place::Open(at))
            );
            return self.put(Place::Open(at), Place::Lost);
        }
        assert_eq!(short, Err(Error::BufferTooSmall { needed: bytes.len() }));
        node.sender.1 += 1;
        let sender = node.sender;
        self.is_sealed(&bytes);
        self.put(Place::Open(at), Place::Sent(self.messages.len()));
        self.messages.push(Message { bytes, to, sender });
    }

    /// Brings a message to a handle, which combines it once, if it leads that generation, and in order.
    fn combine(&mut self, at: usize, number: usize) {
        let (message, node) = (&self.messages[number], &mut self.nodes[at]);
        let last = node.accepted.get(&message.sender.0).copied().unwrap_or_default();
        let expected = match node.duty {
            Duty::Leads(generation) if generation == message.to && message.sender.1 > last => Ok(()),
            Duty::Leads(generation) if generation == message.to => Err(Error::Duplicate),
            _ => Err(Error::Expired),
        };
        let before = (expected != Ok(())).then(|| node.bandit.snapshot().unwrap());
        let mut altered = message.bytes.clone();
        altered[number % message.bytes.len()] ^= 1;
        let refused = [node.bandit.combine(&altered), node.bandit.combine(&altered[1..])];
        assert!(refused.iter().all(|r| matches!(r, Err(Error::Corrupt | Error::NewerVersion | Error::Expired))));
        assert_eq!(node.bandit.combine(&message.bytes), expected, "{}", self.kind.name());
        if let Some(before) = before {
            return assert!(node.bandit.snapshot().unwrap() == before, "a refused message changed something");
        }
        node.accepted.insert(message.sender.0, message.sender.1);
        node.combined += 1;
        node.missed += message.sender.1 - last - 1;
        for mark in self.marks.iter_mut().filter(|mark| mark.place == Place::Sent(number)) {
            let has_its_arm = self.kind.is_linear() || node.ids.contains(&mark.arm);
            mark.place = if has_its_arm { Place::Open(at) } else { Place::Lost };
        }
        self.combined += 1;
    }

    /// Ends all duties, and fills every batch with rewards of 0: all marks are released or lost, except those of arms
    /// that their handle has retired. (Trials of all segments may end with open sums, and dp-linear drops some.)
    pub fn release_all(&mut self) {
        for at in 0..self.nodes.len() {
            (0..self.nodes[at].open.len()).for_each(|_| self.reward(at, 0));
            self.hear(at);
            self.happen(at, Event::Alone);
            self.hear(at);
            let arms = live(&self.nodes[at].bandit);
            let ids: Vec<u64> = arms.iter().map(|&arm| self.nodes[at].ids[arm as usize]).collect();
            let is_open = |mark: &Mark| mark.place == Place::Open(at) && ids.contains(&mark.arm);
            for _ in 0..1000 {
                if !self.marks.iter().any(is_open) {
                    break;
                }
                for &arm in &arms {
                    for key in self.nodes[at].keys.clone() {
                        let decision = self.kind.ask(&self.nodes[at].bandit, key, Some(&[arm])).unwrap();
                        self.nodes[at].bandit.update(decision.ticket, 0.0).unwrap();
                        self.hear(at);
                    }
                }
            }
            let left = self.marks.iter().find(|mark| is_open(mark)).map(|mark| mark.place);
            // (A test has dropped what came to an arm whose batch waited for the others.)
            let may_stay = self.kind.is_linear() || self.kind.is_test() || self.kind.subject == Subject::Segments;
            assert!(left.is_none() || may_stay, "{}: {left:?}", self.kind.name());
        }
    }

    pub fn knows(&self, node: &Node) -> Known {
        let mut known = Known::new();
        let mut each = |key, arm: u32, read: ArmReport| {
            known.insert((key, node.ids[arm as usize]), vec![read.mean, read.width, read.effective_pulls]);
        };
        if self.kind.subject == Subject::Segments {
            for &key in &node.keys {
                node.bandit.for_each_arm_in(key, |arm, read| each(key, arm, read)).unwrap();
            }
        } else {
            node.bandit.for_each_arm(|arm, read| each(0, arm, read)).unwrap();
        }
        if self.kind.is_linear() {
            let rows = self.kind.row().repeat(self.kind.subject.rows(&node.bandit, None));
            let request = Request { features: Some(Rows::Dense(&rows)), ..Request::default() };
            let mut ids = node.ids.iter();
            let each = |mean, deviation| known.get_mut(&(0, *ids.next().unwrap())).unwrap().extend([mean, deviation]);
            node.bandit.predict(&request, each).unwrap();
        }
        known
    }

    fn taught(&self, key: (u64, u64)) -> f64 {
        self.taught.get(&key).map_or(0.0, |known| known[2])
    }

    /// The rewards that a handle should know: of its own releases, and of those in the newest merged snapshots.
    pub fn should_know(&self, at: usize) -> Rewards {
        // (All arms may share a model.)
        let shared = self.kind.subject == Subject::Policy(Algorithm::Linear);
        let of = |shot: &Shot, key: &(u64, u64)| {
            let any = shot.own.values().next().filter(|_| shared);
            any.or_else(|| shot.own.get(key)).copied().unwrap_or_default()
        };
        let merged =
            |key: &(u64, u64)| self.nodes[at].merged.values().map(|&shot| of(&self.shots[shot], key)).sum::<f64>();
        self.shot(at).own.into_iter().map(|(key, own)| (key, self.taught(key) + own + merged(&key))).collect()
    }
}
