//! Audits a policy through the C interface: two reward tables (arm by pull index) that differ in a
//! few rewards of arm 0, and everything that an outsider sees of the handle that plays them.
//!
//! Several tables are tried, and several sights: released means, who is played, who is left, when a
//! phase ends. Pilots choose the table, the sight and the event that tell most, fresh runs give the
//! verdict: see the engine.

#[path = "engine.rs"]
pub mod engine;

use dpb::ffi::*;
use dpb::local::RandomizedResponse;
use dpb::{Algorithm, Fault, Seed};
use engine::{Audit, Verdict, pattern, seed};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::ops::Range;

/// What is audited, and how.
#[derive(Clone, Debug)]
pub struct Case {
    pub policy: Algorithm,
    pub epsilon: f64,
    /// The claim's; 0 where the policy is pure.
    pub delta: f64,
    pub arms: u32,
    /// Runs of each world that judge; a quarter as many pilots for each pair of tables.
    pub runs: u64,
    /// The fault that is built in.
    pub fault: Fault,
    pub delivery: Delivery,
}

/// How answers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each at once.
    Once,
    /// Late, and the changed ones four times.
    Repeated,
    /// In an answer window: clicks at once, silence otherwise.
    Window,
}

/// Times that a changed reward comes under [`Delivery::Repeated`].
const REPEATS: u64 = 4;
/// The answer window under [`Delivery::Window`], in decisions.
const WINDOW: u32 = 16;
/// No run is longer; one without a release is over after the horizon.
const LONGEST: u64 = 50_000;
/// The chance of an alarm against a true claim, and of a lower bound above the truth.
pub const FAILURE: f64 = 1e-6;
/// What an outsider looks at, for people.
pub const SIGHTS: [&str; 8] = [
    "the first released mean",
    "the last released mean",
    "the last plays",
    "how often the arm was played",
    "which arms are left",
    "when phases ended",
    "the second propensity",
    "when the first mean came",
];

/// One pair of tables. A reward is 1 for the first pulls of an arm and 0 from there on, but for the
/// changed ones, which are 0 in one world and 1 in the other.
#[derive(Clone, Debug)]
struct Tables {
    /// Ones of arm 0, of every other arm.
    ones: (u64, u64),
    /// Pulls of arm 0.
    changed: Range<u64>,
    /// The run ends with the first phase, or else some time after the first release of arm 0.
    one_phase: bool,
    /// Or here, in decisions.
    longest: u64,
}

impl Tables {
    fn reward(&self, arm: u32, pull: u64, neighbour: bool) -> f64 {
        let one = match arm {
            0 if self.changed.contains(&pull) => neighbour,
            0 => pull < self.ones.0,
            _ => pull < self.ones.1,
        };
        f64::from(u8::from(one))
    }
}

impl Case {
    /// The honest policy at this claim, five arms, 4000 runs; (eps, 1e-3) where it is not pure.
    ///
    /// # Errors
    /// The library's message where the policy refuses the configuration.
    pub fn new(policy: Algorithm, epsilon: f64) -> Result<Case, String> {
        let delivery = Delivery::Once;
        let mut case = Case { policy, epsilon, delta: 0.0, arms: 5, runs: 4000, fault: Fault::None, delivery };
        if case.open(0).is_err() {
            case.delta = 1e-3;
        }
        case.open(0).map(|_| case)
    }

    /// The same with a fault built in, and answers coming in the way that brings it out.
    pub fn with_fault(self, fault: Fault) -> Case {
        let delivery = match fault {
            Fault::DuplicateBelieved => Delivery::Repeated,
            Fault::ClosedByArrival => Delivery::Window,
            _ => self.delivery,
        };
        Case { fault, delivery, ..self }
    }

    /// Rewards that differ: 1/eps of them, because group privacy is exact where a policy is pure
    /// and one reward of a small loss takes very many runs to see.
    pub fn changed(&self) -> u64 {
        if self.delta > 0.0 { 1 } else { (1.0 / self.epsilon).ceil() as u64 }
    }

    /// Runs the audit.
    ///
    /// # Errors
    /// The library's message where it refuses the configuration.
    pub fn run(&self) -> Result<Verdict, String> {
        let tables = self.tables()?;
        let audit = Audit {
            epsilon: self.epsilon * self.changed() as f64,
            delta: self.delta,
            pilot: self.runs / 4,
            verdict: self.runs,
            failure: FAILURE,
        };
        Ok(audit.search(tables.len(), |candidate, seed, neighbour| self.play(&tables[candidate], seed, neighbour)))
    }

    fn config(&self, seed: &[u8; 32]) -> dpb_config {
        let mut config = std::mem::MaybeUninit::uninit();
        // SAFETY: room for one configuration, which init fills.
        let mut config: dpb_config = unsafe {
            dpb_config_init(config.as_mut_ptr(), self.arms, self.epsilon);
            config.assume_init()
        };
        config.delta = self.delta;
        config.beta = 0.9; // short epochs: privacy does not depend on it
        config.horizon = self.horizon();
        config.base = Algorithm::NonprivateExp3 as u32;
        if self.policy.name() == "sdp-ae" {
            // large enough a batch for an arm to be dropped after the first
            config.batch = 50 * (1.0 / self.epsilon).powi(2).ceil() as u32;
        }
        config.pending_capacity = 2 * self.lag() as u32 + 1;
        config.answer_window = if self.delivery == Delivery::Window { WINDOW } else { 0 };
        config.test_seed = seed.as_ptr();
        config
    }

    fn open(&self, number: u64) -> Result<Handle, String> {
        let seed = seed(number);
        Handle::new(self.policy, self.fault, &self.config(&seed))
    }

    /// Decisions before an answer comes: so many that believed duplicates leave pulls in flight.
    fn lag(&self) -> u64 {
        let repeated = self.delivery == Delivery::Repeated;
        if repeated { u64::from(self.arms) * (REPEATS * self.changed() + 2) } else { 0 }
    }

    /// The pairs of tables worth trying.
    fn tables(&self) -> Result<Vec<Tables>, String> {
        let m = self.changed();
        if let Some((pulls, edge)) = self.first_elimination()? {
            // Beyond this the phase is over, though where one arm is left no other begins.
            let longest = u64::from(self.arms) * pulls + self.lag() + u64::from(WINDOW) + 1;
            let of = |ones: (u64, u64)| Tables { ones, changed: ones.0..ones.0 + m, one_phase: true, longest };
            if self.delivery == Delivery::Window {
                return Ok(vec![of((pulls - m, pulls))]);
            }
            // Arm 0 on the edge of being dropped, or so far ahead that all others are; give or take m.
            let (many, few) = (pulls - 2 * m, 2 * m);
            return Ok((0..3)
                .flat_map(|i| [of((many - edge + i * m - m, many)), of((few + edge + i * m - m, few))])
                .collect());
        }
        let longest = if self.releases()? { LONGEST } else { self.horizon() };
        let of = |ones: (u64, u64)| Tables { ones, changed: 0..m, one_phase: false, longest };
        if self.delivery == Delivery::Window {
            return Ok(vec![of((u64::MAX, u64::MAX))]);
        }
        Ok([(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)].map(of).into())
    }

    /// Does arm 0 ever get a readable mean?
    fn releases(&self) -> Result<bool, String> {
        let handle = self.honest().open(0)?;
        Ok((0..LONGEST).any(|_| {
            handle.update(handle.select().ticket, 1.0);
            !handle.arms(self.arms)[0].mean.is_nan()
        }))
    }

    fn honest(&self) -> Case {
        Case { fault: Fault::None, delivery: Delivery::Once, ..self.clone() }
    }

    fn horizon(&self) -> u64 {
        64 * self.changed()
    }

    /// For a policy that drops arms at the end of its first phase: pulls of an arm in it, and how far
    /// behind the best an arm must be. All of it public, and learnt from one honest run.
    fn first_elimination(&self) -> Result<Option<(u64, u64)>, String> {
        if !matches!(self.policy.name(), "dp-se" | "sdp-ae") {
            return Ok(None);
        }
        let handle = self.honest().open(0)?;
        let mut pulls = 0;
        for _ in 0..LONGEST {
            let decision = handle.select();
            if decision.phase > 1 {
                let edge = (2.0 * handle.arms(self.arms)[0].width * pulls as f64).round() as u64;
                return Ok((edge + 5 * self.changed() <= pulls).then_some((pulls, edge)));
            }
            pulls += u64::from(decision.arm == 0);
            handle.update(decision.ticket, 1.0);
        }
        Ok(None)
    }

    /// The local model: what the user's device does to a reward, as `dpb_ldp_encode` but for its coins,
    /// which are fixed here.
    fn response(&self) -> Option<RandomizedResponse> {
        let epsilon = match self.fault {
            Fault::NoNoise => 40.0,
            Fault::HalfNoise => 2.0 * self.epsilon,
            Fault::TenPercentLess => self.epsilon / 0.9,
            _ => self.epsilon,
        };
        self.policy.name().starts_with("ldp-").then(|| RandomizedResponse::new(epsilon).expect("a claim in its range"))
    }

    /// One run: what an outsider sees, reduced to few patterns for each of the [`SIGHTS`].
    fn play(&self, tables: &Tables, number: u64, neighbour: bool) -> Vec<u64> {
        let handle = self.open(number).expect("a configuration that was accepted before");
        let (lag, m) = (self.lag() as usize, self.changed());
        let mut device = self.response().zip(Seed::new(Some(seed(!number))).ok().map(|mut seed| seed.stream()));
        let mut pulls = vec![0; self.arms as usize];
        let mut in_flight = VecDeque::with_capacity(lag + 1);
        let (mut first, mut end) = ((f64::NAN, 0, 0), tables.longest);
        let (mut steps, mut ends, mut phase) = (Vec::new(), Vec::new(), None);
        let (mut decisions, mut propensity) = (0, f64::NAN);
        while decisions < end {
            let decision = handle.select();
            // A step is a new phase, or a decision where there are no phases.
            if decision.phase == 0 || phase != Some(decision.phase) {
                steps.push(decision.arm == 0);
            }
            if phase.is_some_and(|phase| phase != decision.phase) {
                ends.push(decisions);
            }
            if tables.one_phase && decision.phase > 1 {
                break;
            }
            phase = Some(decision.phase);
            if decisions == 1 {
                propensity = decision.propensity;
            }
            decisions += 1;
            let pull = &mut pulls[decision.arm as usize];
            let canary = decision.arm == 0 && tables.changed.contains(pull);
            let mut reward = tables.reward(decision.arm, *pull, neighbour);
            if let Some((response, coins)) = &mut device {
                reward = f64::from(u8::from(response.encode(reward, coins).expect("a reward")));
            }
            in_flight.push_back((decision.ticket, reward, canary));
            *pull += 1;
            if in_flight.len() > lag
                && let Some((ticket, reward, canary)) = in_flight.pop_front()
                && (self.delivery != Delivery::Window || reward > 0.0)
            {
                handle.update(ticket, reward);
                if canary && self.delivery == Delivery::Repeated {
                    (1..REPEATS).for_each(|_| handle.update(ticket, reward));
                }
            }
            if !tables.one_phase && first.0.is_nan() {
                first = (handle.arms(self.arms)[0].mean, pulls[0], decisions);
                if !first.0.is_nan() {
                    end = tables.longest.min(decisions + 2 * lag as u64 + 40 * m);
                }
            }
        }
        let arms = handle.arms(self.arms);
        // How far beyond the rewards that are the same: in halves of what the change amounts to.
        let bin = |mean: f64, pulls: u64| {
            let beyond = mean * pulls as f64 - tables.ones.0.min(pulls) as f64;
            (2.0 * beyond / m.min(pulls.max(1)) as f64).floor().clamp(-24.0, 24.0) as i64
        };
        let active = arms.iter().filter(|arm| arm.active == 1).count();
        vec![
            pattern(bin(first.0, first.1)),
            pattern(bin(arms[0].mean, pulls[0])),
            pattern(&steps[steps.len().saturating_sub(6)..]),
            pattern(steps.iter().filter(|&&canary| canary).count()),
            pattern((active, arms[0].active)),
            pattern(&ends[..ends.len().min(6)]),
            pattern((propensity * 256.0).floor() as i64),
            pattern(first.2),
        ]
    }
}

/// A bandit behind the C interface.
struct Handle(*mut dpb_bandit);

impl Handle {
    fn new(policy: Algorithm, fault: Fault, config: &dpb_config) -> Result<Handle, String> {
        let mut bandit = std::ptr::null_mut();
        let mut error = dpb_error { status: DPB_OK, message: [0; 252] };
        // SAFETY: all pointers are valid, and the configuration's seed outlives the call.
        let status = unsafe { dpb_test_new(policy as u32, fault as u32, config, &mut bandit, &mut error) };
        if status != DPB_OK {
            // SAFETY: always NUL-terminated.
            return Err(unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned());
        }
        Ok(Handle(bandit))
    }

    fn select(&self) -> dpb_decision {
        let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
        // SAFETY: a live handle and a valid place.
        let status = unsafe { dpb_select(self.0, &mut decision) };
        assert_eq!(status, DPB_OK, "dpb_select");
        decision
    }

    /// Refused where the ticket's time is over, and where it was answered before.
    fn update(&self, ticket: u64, reward: f64) {
        // SAFETY: a live handle.
        let status = unsafe { dpb_update(self.0, ticket, reward) };
        assert!(matches!(status, DPB_OK | DPB_DUPLICATE | DPB_EXPIRED), "dpb_update: {status}");
    }

    fn arms(&self, arms: u32) -> Vec<dpb_arm> {
        let mut all = vec![dpb_arm { mean: 0.0, width: 0.0, pulls: 0, active: 0, reserved: 0 }; arms as usize];
        let mut n = 0;
        // SAFETY: a live handle, room for all.len() arms.
        let status = unsafe { dpb_arms_read(self.0, all.as_mut_ptr(), all.len(), &mut n) };
        assert_eq!(status, DPB_OK, "dpb_arms_read");
        all
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by a constructor, freed once.
        unsafe { dpb_free(self.0) };
    }
}
