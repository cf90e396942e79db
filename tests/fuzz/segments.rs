//! The fuzz target for handles with segments: the model of an arm applies to an arm in a segment.

use super::*;

/// The keys that requests use.
const KEYS: [u64; 9] = [0, 1, 2, 3, 4, 5, 6, 1 << 40, u64::MAX];

/// All readable state of a handle, comparable.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    report: [u64; 12],
    /// Mean, pulls and effective pulls of each arm, segment by segment.
    cells: Vec<[u64; 3]>,
    overall: Vec<[u64; 3]>,
    refusals: [u64; 4],
}

pub struct Player {
    handle: *mut dpb_bandit,
    config: dpb_config,
    /// The keys of the segments, in the order in which they were created.
    keys: Vec<u64>,
    /// None for a handle from an altered snapshot.
    model: Option<Model>,
    seen: Seen,
    tickets: Vec<u64>,
    /// Whether it has merged releases of other handles.
    merged: bool,
}

impl Drop for Player {
    fn drop(&mut self) {
        // SAFETY: freed once.
        unsafe { dpb_free(self.handle) };
    }
}

/// Whether no arm is retired, as an altered snapshot may say.
unsafe fn has_all_arms(handle: *const dpb_bandit) -> bool {
    let mut n = 0;
    assert_eq!(dpb_arms_read(handle, null_mut(), 0, &raw mut n), DPB_BUFFER_TOO_SMALL);
    n == report(handle).arms_active as usize
}

/// The arms of a segment, or of all segments together; None if the segment does not exist.
unsafe fn cells(handle: *const dpb_bandit, segment: Option<u64>, arms: u32) -> Option<Vec<[u64; 3]>> {
    let read = |room: *mut dpb_arm, cap, n| match segment {
        Some(key) => dpb_segment_read(handle, key, room, cap, n),
        None => dpb_arms_read(handle, room, cap, n),
    };
    let mut n = 77;
    if one_of(read(null_mut(), 0, &raw mut n), &[DPB_BUFFER_TOO_SMALL, DPB_INVALID_REQUEST]) == DPB_INVALID_REQUEST {
        assert!(n == 77 && segment.is_some());
        return None;
    }
    assert_eq!(n, arms as usize);
    let mut room = vec![dpb_arm::default(); n];
    assert_eq!(read(room.as_mut_ptr(), n, &raw mut n), DPB_OK);
    let cell = |arm: dpb_arm| {
        assert!(arm.mean.is_finite() && arm.width.is_nan(), "{} {}", arm.mean, arm.width);
        assert!(arm.effective_pulls >= 0.0 && arm.active == 1 && arm.reserved == 0 && arm.spare == [0.0; 3]);
        [arm.mean.to_bits(), arm.pulls, arm.effective_pulls.to_bits()]
    };
    Some(room.into_iter().map(cell).collect())
}

impl Seen {
    unsafe fn of(handle: *const dpb_bandit, keys: &[u64]) -> Seen {
        let r = report(handle);
        assert_eq!(r.decisions - r.answered - r.cancelled - r.expired, u64::from(r.pending));
        assert!(r.epsilon_spent >= 0.0 && r.delta_spent >= 0.0 && r.is_private < 2 && r.changes_detected == 0);
        assert!(keys.len() <= r.segments as usize && r.segments <= r.max_segments);
        assert_eq!(
            (r.policy, dpb_policy_number(dpb_policy_name(handle))),
            (dpb::Algorithm::Imed as u32, dpb::Algorithm::Imed as u32)
        );
        let named: Vec<_> = keys.iter().flat_map(|&key| cells(handle, Some(key), r.arms_active).unwrap()).collect();
        for key in KEYS.iter().filter(|key| !keys.contains(key)) {
            assert_eq!(cells(handle, Some(*key), r.arms_active), None);
        }
        let (mut best, mut refused): (_, dpb_diagnostics) = (77, zeroed());
        assert_eq!((dpb_best_arm(handle, &raw mut best), best), (DPB_UNSUPPORTED, 77));
        refused.struct_size = size_of::<dpb_diagnostics>() as u32;
        assert_eq!(dpb_diagnostics_read(handle, &raw mut refused), DPB_OK);
        let report = [
            r.decisions,
            r.answered,
            r.cancelled,
            r.expired,
            r.epsilon_spent.to_bits(),
            r.delta_spent.to_bits(),
            r.segments.into(),
            r.max_segments.into(),
            r.arms_active.into(),
            r.is_private.into(),
            r.phase.into(),
            r.pending.into(),
        ];
        let refusals = [refused.duplicates, refused.late, refused.rejected, refused.unknown];
        Seen { report, cells: named, overall: cells(handle, None, r.arms_active).unwrap(), refusals }
    }
}

impl Player {
    pub unsafe fn new(mut config: dpb_config, bytes: &mut Bytes) -> Option<Player> {
        let (mut handle, mut error) = (null_mut(), no_error());
        config.max_segments = bytes.pick(&[3, 3, 1, 8, 3, u32::MAX]);
        let imed: [Constructor; 2] = [dpb_new, dpb_new_imed];
        let new = if bytes.once_in(12) { bytes.pick(CONSTRUCTORS) } else { bytes.pick(&imed) };
        let by_name = bytes.once_in(3);
        let mut make = |config: &dpb_config, error: &mut dpb_error| match by_name {
            true => dpb_new_policy(c"dp-imed".as_ptr(), config, &raw mut handle, error),
            false => new(config, &raw mut handle, error),
        };
        let mut status = make(&config, &mut error);
        while status == DPB_INVALID_CONFIG && fits(&mut config, &error) {
            status = make(&config, &mut error);
        }
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_UNSUPPORTED, DPB_NEWER_VERSION, DPB_OVER_BUDGET]);
        let handle = made(status, handle, &error)?;
        assert!(config.max_segments <= 8 && report(handle).max_segments == config.max_segments);
        config.budget = null(); // restored handles are not charged
        Some(Player::of(handle, config, Vec::new(), Some(1)))
    }

    /// Wraps a handle with this many periods so far, or with no model.
    unsafe fn of(handle: *mut dpb_bandit, config: dpb_config, keys: Vec<u64>, periods: Option<u32>) -> Player {
        let (report, seen) = (report(handle), Seen::of(handle, &keys));
        let (capacity, window) = (config.pending_capacity, config.reward_window);
        let clock = (config.clock == DPB_CLOCK_CALLER).then(|| CallerTime::new(window.into(), config.forget_after));
        assert!(report.pending == 0 && (periods.is_none() || report.segments as usize == keys.len()));
        let model = periods.map(|periods| Model {
            window: window as usize,
            clock,
            stamps: Vec::new(),
            first: 0,
            depth: if window > 0 && clock.is_none() { window } else { capacity.next_power_of_two() } as usize,
            log: Vec::new(),
            parts: (config.parts > 0).then(HashSet::new),
            before: report.decisions,
            answered: report.answered,
            cancelled: report.cancelled,
            expired: report.expired,
            pulls: seen.cells.iter().map(|cell| cell[1]).collect(),
            retired: vec![false; seen.cells.len()],
            epsilon: config.epsilon,
            periods,
            firsts: Vec::new(),
            limited: config.max_clicks > 0,
        });
        Player { handle, config, keys, model, seen, tickets: Vec::new(), merged: false }
    }

    /// Makes some calls. Returns None if the last one freed the handle.
    pub unsafe fn play(mut self, bytes: &mut Bytes) -> Option<Player> {
        for _ in 0..=bytes.below(32) {
            // The byte values must not change: see World::step.
            match bytes.byte() {
                0..=75 => self.request(bytes),
                76..=83 => self.valued(bytes),
                111..=114 => self.costed(bytes),
                84..=110 => self.requests(bytes),
                120..=180 => self.answer(bytes),
                190..=203 => self.answer_many(bytes),
                208..=212 => self.set_prior(bytes),
                214..=217 => self.refusals(bytes),
                218..=221 => self.merge(bytes),
                224..=227 => self.cancel_all(),
                228..=233 => self.next_period(),
                234..=237 => self.advance(bytes),
                238 => return None,
                240..=255 => self = self.live_on(bytes),
                _ => {}
            }
            if bytes.0.is_empty() {
                break;
            }
        }
        Some(self)
    }

    #[track_caller]
    unsafe fn after(&mut self, done: bool, refusals: [u64; 4]) {
        let now = Seen::of(self.handle, &self.keys);
        let mut expected = self.seen.refusals;
        expected.iter_mut().zip(refusals).for_each(|(sum, more)| *sum += more);
        assert_eq!(now.refusals, expected);
        if !done {
            self.seen.refusals = expected;
            assert_eq!(now, self.seen, "a refused call changed something");
        }
        let spent = |seen: &Seen| f64::from_bits(seen.report[4]);
        assert!(spent(&now) >= spent(&self.seen), "epsilon is never given back");
        if let Some(model) = &self.model {
            let decisions = model.before + model.log.len() as u64;
            assert_eq!(now.report[..4], [decisions, model.answered, model.cancelled, model.expired]);
            assert!(now.cells.iter().map(|cell| cell[1]).eq(model.pulls.iter().copied()), "{now:?} {:?}", model.pulls);
            let arms = now.overall.len();
            let overall = |arm| model.pulls.iter().skip(arm).step_by(arms).sum::<u64>();
            assert!((0..arms).all(|arm| now.overall[arm][1] == overall(arm)));
            assert!(now.report[6] as usize == self.keys.len() && now.report[10] >= self.seen.report[10]);
            assert!(spent(&now) <= model.most(f64::from_bits(now.report[5])));
        }
        self.seen = now;
    }

    /// Records a new decision in the segment with this key.
    fn take(&mut self, key: u64, decision: dpb_decision) {
        let arms = self.seen.overall.len() as u32;
        let is_none = decision.arm == DPB_NO_ARM && decision.ticket == 0;
        assert!(decision.propensity > 0.0 && decision.propensity <= 1.0 && decision.phase < 2);
        assert!(decision.arm < arms || is_none);
        self.tickets.push(decision.ticket);
        let new = !self.keys.contains(&key);
        if new {
            self.keys.push(key);
        }
        let segment = self.keys.iter().position(|&known| known == key).unwrap() as u32;
        if let Some(model) = &mut self.model {
            if new {
                model.pulls.resize(model.pulls.len() + arms as usize, 0);
                model.retired.resize(model.pulls.len(), false);
            }
            let cell = if is_none { DPB_NO_ARM } else { segment * arms + decision.arm };
            model.selected(dpb_decision { arm: cell, ..decision });
        }
    }

    /// Records all decisions of a request.
    fn take_all(&mut self, key: u64, decisions: &[dpb_decision]) {
        let first = self.model.as_mut().map_or(0, |model| {
            (0..decisions.len()).for_each(|ahead| model.before_select(ahead));
            model.log.len()
        });
        for (slot, &decision) in decisions.iter().enumerate() {
            assert!(decisions[..slot].iter().all(|before| before.arm != decision.arm));
            self.take(key, decision);
            self.model.iter_mut().for_each(|model| *model.firsts.last_mut().unwrap() = first);
        }
    }

    fn count(&self) -> u32 {
        self.seen.report[6] as u32
    }

    fn spec(&self, bytes: &mut Bytes) -> Spec {
        let key = match bytes.below(self.keys.len() + 2) {
            place if place < self.keys.len() => self.keys[place],
            _ => bytes.pick(&KEYS),
        };
        Spec::new(bytes, self.seen.overall.len(), self.config.expected_users > 0, key)
    }

    /// The expected status of this request at this index of an array, with these segments so far.
    fn expected_status(&self, begun: &[u64], spec: &Spec, number: usize) -> dpb_status {
        let arms = self.seen.overall.len() as u32;
        let refused = |arms_of: &Vec<u32>| arms_of.is_empty() || arms_of.iter().any(|&arm| arm >= arms);
        if spec.flaw.is_some() {
            return spec.flawed(number);
        }
        match spec.slots {
            _ if spec.user != 0 && self.config.expected_users == 0 => DPB_UNSUPPORTED,
            0 => DPB_INVALID_REQUEST,
            _ if spec.eligible.as_ref().is_some_and(refused) => DPB_INVALID_REQUEST,
            _ if !begun.contains(&spec.segment) && begun.len() as u64 == self.seen.report[7] => DPB_FULL,
            1 if !spec.has_worths() => DPB_OK,
            // Each reward would be a contribution of its own.
            2.. if spec.abstain => DPB_INVALID_REQUEST,
            2.. if self.config.expected_users > 0 && self.config.max_slots == 0 && !spec.has_worths() => {
                DPB_INVALID_REQUEST
            }
            slots => {
                let mut different = spec.eligible.clone().unwrap_or_else(|| (0..arms).collect());
                if spec.has_worths() {
                    match spec.valued(arms as usize, &self.config, |_| true) {
                        Ok(valued) => different = valued,
                        Err(status) => return status,
                    }
                    if slots > 1 && self.config.expected_users > 0 && self.config.max_slots == 0 {
                        return DPB_INVALID_REQUEST;
                    }
                }
                different.sort_unstable();
                different.dedup();
                let most = if self.config.max_slots > 0 { self.config.max_slots } else { u32::MAX };
                let depth = self.model.as_ref().map_or(usize::MAX, |model| model.depth);
                let choices = different.len().max(usize::from(spec.abstain));
                let fits = slots <= most && slots as usize <= choices.min(depth);
                if fits { DPB_OK } else { DPB_INVALID_REQUEST }
            }
        }
    }

    /// Checks the decisions of these requests, up to the first one that was refused. A new key creates a segment unless
    /// its request is refused.
    #[track_caller]
    unsafe fn check_decisions(
        &mut self,
        specs: &[Spec],
        (status, done, decisions): (dpb_status, usize, Vec<dpb_decision>),
    ) {
        let refused = [DPB_INVALID_REQUEST, DPB_UNSUPPORTED, DPB_NEWER_VERSION, DPB_NOT_READY, DPB_FULL];
        assert!(status == DPB_OK || refused.contains(&status), "{status}");
        let mut begun = self.keys.clone();
        for (number, spec) in specs.iter().enumerate().take(done + 1) {
            let expected = self.expected_status(&begun, spec, number);
            if self.model.is_some() {
                assert_eq!(if number < done { DPB_OK } else { status }, expected, "{spec:?}");
            }
            if number < done && !begun.contains(&spec.segment) {
                begun.push(spec.segment);
            }
        }
        let mut left = &decisions[..];
        for spec in &specs[..done] {
            let (these, others) = left.split_at(spec.slots as usize);
            left = others;
            self.take_all(spec.segment, these);
            assert!(these.iter().all(|d| spec.permits(d.arm)));
        }
        // As in calls.rs: slots are in random order.
        while self.model.as_ref().is_some_and(Model::within) {
            let key = self.keys[0];
            let (status, _, decisions) = decide(self.handle, &[Spec { segment: key, ..Spec::PLAIN }], false);
            assert_eq!(status, DPB_OK);
            self.take_all(key, &decisions);
        }
        self.after(done > 0, [0; 4]);
    }

    unsafe fn valued(&mut self, bytes: &mut Bytes) {
        let specs = [self.spec(bytes).with_values(bytes, self.seen.overall.len())];
        self.check_decisions(&specs, decide(self.handle, &specs, false));
    }

    unsafe fn costed(&mut self, bytes: &mut Bytes) {
        let specs = [self.spec(bytes).with_costs(bytes, self.seen.overall.len())];
        self.check_decisions(&specs, decide(self.handle, &specs, false));
    }

    unsafe fn request(&mut self, bytes: &mut Bytes) {
        let specs = [self.spec(bytes)];
        self.check_decisions(&specs, decide(self.handle, &specs, false));
    }

    unsafe fn requests(&mut self, bytes: &mut Bytes) {
        let specs: Vec<_> = (0..bytes.below(12)).map(|_| self.spec(bytes)).collect();
        self.check_decisions(&specs, decide(self.handle, &specs, true));
    }

    unsafe fn next_period(&mut self) {
        let status = one_of(dpb_next_period(self.handle), &[DPB_OK, DPB_UNSUPPORTED, DPB_OVER_BUDGET]);
        if let Some(model) = &mut self.model {
            assert_eq!(
                status,
                if self.config.expected_users > 0 { model.another(&self.config) } else { DPB_UNSUPPORTED }
            );
            model.periods += u32::from(status == DPB_OK);
            if model.periods % 2 == 0 {
                store(self.handle);
            }
        }
        self.after(status == DPB_OK, [0; 4]);
    }

    unsafe fn advance(&mut self, bytes: &mut Bytes) {
        let done = advance(self.handle, &mut self.model, bytes);
        self.after(done, [0; 4]);
    }

    unsafe fn cancel_all(&mut self) {
        assert_eq!(dpb_cancel_all(self.handle), DPB_OK);
        self.model.iter_mut().for_each(Model::end_all);
        self.after(true, [0; 4]);
    }

    fn answered(&mut self, ticket: u64, good: Option<bool>, cancel: bool, status: dpb_status) {
        let Some(model) = &mut self.model else {
            one_of(status, &[DPB_OK, DPB_UNKNOWN_TICKET, DPB_DUPLICATE, DPB_EXPIRED, DPB_INVALID_REWARD]);
            return;
        };
        let part = (!cancel).then_some(0);
        let verdict = if good == Some(false) { DPB_INVALID_REWARD } else { model.verdict(ticket, part) };
        let good = good.filter(|_| cancel || model.parts.is_none());
        assert!(status == verdict || (good.is_none() && status == DPB_INVALID_REWARD), "{status}, not {verdict}");
        if status == DPB_OK {
            model.ended(ticket, part);
        }
    }

    fn reward(&self, bytes: &mut Bytes) -> (f64, Option<bool>) {
        let (low, high) = (self.config.reward_min, self.config.reward_max);
        bytes.pick(&[
            (low, Some(true)),
            (low, Some(true)),
            (high, Some(true)),
            (high, Some(true)),
            (low / 2.0 + high / 2.0, None),
            (7.0, None),
            (f64::NAN, Some(false)),
        ])
    }

    fn ticket(&self, bytes: &mut Bytes) -> u64 {
        let back = bytes.below(32.min(self.tickets.len()));
        let ticket = self.tickets.iter().rev().nth(back).copied().unwrap_or(5);
        if bytes.once_in(16) { ticket ^ 1 << bytes.below(64) } else { ticket }
    }

    unsafe fn answer(&mut self, bytes: &mut Bytes) {
        let (ticket, cancel) = (self.ticket(bytes), bytes.once_in(6));
        let (reward, good) = if cancel { (0.0, Some(true)) } else { self.reward(bytes) };
        let status = match cancel {
            true => dpb_cancel(self.handle, ticket),
            false => dpb_update(self.handle, ticket, reward),
        };
        self.answered(ticket, good, cancel, status);
        self.after(status == DPB_OK, refusal(status));
    }

    unsafe fn answer_many(&mut self, bytes: &mut Bytes) {
        let n = bytes.below(10);
        let tickets: Vec<_> = (0..n).map(|_| self.ticket(bytes)).collect();
        let (rewards, good): (Vec<_>, Vec<_>) = (0..n).map(|_| self.reward(bytes)).unzip();
        let (mut each, mut done, mut refusals) = (vec![-1; n], usize::MAX, [0; 4]);
        let status =
            dpb_update_many(self.handle, tickets.as_ptr(), rewards.as_ptr(), n, each.as_mut_ptr(), &raw mut done);
        for i in 0..n {
            self.answered(tickets[i], good[i], false, each[i]);
            refusals.iter_mut().zip(refusal(each[i])).for_each(|(sum, more)| *sum += more);
        }
        assert_eq!(done, each.iter().filter(|&&status| status == DPB_OK).count());
        assert_eq!(status, each.iter().copied().find(|&status| status != DPB_OK).unwrap_or(DPB_OK));
        self.after(done > 0, refusals);
    }

    unsafe fn set_prior(&mut self, bytes: &mut Bytes) {
        let arm = bytes.below(self.seen.report[8] as usize + 1) as u32;
        let (mean, strength) = (self.reward(bytes).0, bytes.pick(&[1.0, 100.0, 1e7, 0.0]));
        let status = dpb_set_prior(self.handle, arm, mean, strength, null_mut());
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_INVALID_REQUEST]);
        assert!(status != DPB_OK || (strength > 0.0 && !mean.is_nan() && u64::from(arm) < self.seen.report[8]));
        self.after(status == DPB_OK, [0; 4]);
    }

    /// Calls that a handle with segments does not support.
    unsafe fn refusals(&mut self, bytes: &mut Bytes) {
        let (mut decision, mut done, n) = (NO_DECISION, 77, bytes.below(3));
        assert_eq!(dpb_select(self.handle, &raw mut decision), DPB_UNSUPPORTED);
        assert_eq!(dpb_select_many(self.handle, null(), n, &raw mut decision, &raw mut done), DPB_UNSUPPORTED);
        assert!(untouched(&decision) && done == 0);
        let (mut arm, mut low, mut high, mut plan): (_, _, _, dpb_shuffle_params) = (77, -7.0, -7.0, zeroed());
        let _ = bytes.byte();
        assert_eq!(dpb_add_arm(self.handle, 1, &raw mut arm, null_mut()), DPB_INVALID_CONFIG);
        assert_eq!(dpb_retire_arm(self.handle, u32::MAX), DPB_INVALID_REQUEST);
        assert_eq!(dpb_compare(self.handle, 0, 0, 0.9, &raw mut low, &raw mut high), DPB_INVALID_CONFIG);
        assert_eq!(dpb_shuffle_params_read(self.handle, 0, &raw mut plan), DPB_UNSUPPORTED);
        assert_eq!(dpb_submit_shuffled(self.handle, 0, 0, null(), 0), DPB_UNSUPPORTED);
        assert_eq!((arm, low, high, plan.struct_size), (77, -7.0, -7.0, 0));
        // A snapshot of another kind.
        let plain = fresh(2, 1, 0, 0, 0);
        assert_eq!(dpb_merge(self.handle, plain.as_ptr(), plain.len(), null_mut()), DPB_INVALID_CONFIG);
        let (delta, mut epsilon) = (bytes.pick(ODD), -7.0);
        let status = one_of(dpb_epsilon_spent(self.handle, delta, &raw mut epsilon), &[DPB_OK, DPB_INVALID_CONFIG]);
        assert!(if status == DPB_OK { epsilon >= 0.0 } else { epsilon == -7.0 });
        self.after(false, [0; 4]);
    }

    /// Merges its own snapshot or another handle's, altered or not. The handle's decisions go on as before; only its
    /// estimates change.
    unsafe fn merge(&mut self, bytes: &mut Bytes) {
        let mut told = snapshot(self.handle).unwrap();
        let own = bytes.once_in(4);
        if !own {
            told[origin()] ^= 1 + bytes.byte() % 8;
            if bytes.once_in(2) {
                alter(&mut told, bytes);
            }
        }
        let (told, mut error) = (sealed(told), no_error());
        let status = dpb_merge(self.handle, told.as_ptr(), told.len(), &raw mut error);
        one_of(status, &[DPB_OK, DPB_CORRUPT, DPB_NEWER_VERSION, DPB_INVALID_CONFIG, DPB_UNSUPPORTED]);
        assert!(!own || status == DPB_OK);
        let before = self.seen.clone();
        let news = status == DPB_OK && !own;
        self.merged |= news;
        self.after(news, [0; 4]);
        let public = |seen: &Seen| {
            let pulls: Vec<_> = seen.cells.iter().map(|cell| cell[1]).collect();
            (pulls, seen.report[..4].to_vec(), seen.report[6..9].to_vec(), seen.report[10])
        };
        assert_eq!(public(&before), public(&self.seen));
        assert_eq!(dpb_merge(self.handle, told.as_ptr(), told.len(), null_mut()), status);
        self.after(false, [0; 4]); // its own snapshot changes nothing
    }

    /// Takes a snapshot, restores it, and does both again; or restores an altered one.
    unsafe fn live_on(self, bytes: &mut Bytes) -> Player {
        let mut first = snapshot(self.handle).unwrap();
        if bytes.once_in(2) {
            alter(&mut first, bytes);
            // tests/memory_usage.rs tests millions of decisions in a ring, of segments and of users.
            for upper in sizes() {
                first[upper.clone()].fill(0);
            }
            return match restore(&sealed(first)) {
                Ok(handle) if report(handle).max_segments > 0 && has_all_arms(handle) => {
                    store(handle); // a restored handle that counts users decides only after this
                    let arms = report(handle).arms_active;
                    let mut keys = KEYS.to_vec();
                    keys.retain(|&key| cells(handle, Some(key), arms).is_some());
                    Player::of(handle, self.config, keys, None)
                }
                Ok(handle) => {
                    dpb_free(handle);
                    self
                }
                Err(_) => self,
            };
        }
        let another = self.model.as_ref().map(|model| model.another(&self.config));
        let Ok(second) = restore(&first) else {
            assert!(another.is_none_or(|another| another == DPB_OVER_BUDGET));
            return self;
        };
        assert!(another.is_none_or(|another| another == DPB_OK));
        let mut early = NO_DECISION;
        if self.config.expected_users > 0 && self.model.is_some() {
            let request = Spec { segment: bytes.pick(&KEYS), user: 1, ..Spec::PLAIN }.request();
            assert_eq!(dpb_select_for(second, &raw const request, &raw mut early), DPB_NOT_READY);
            assert_eq!(report(second).segments, self.count());
        }
        assert!(untouched(&early));
        if self.model.is_some() {
            self.restored_as_it_was(&first);
        }
        let next = snapshot(second).unwrap();
        gate(second, &first, &next, self.config.expected_users > 0 && self.model.is_some());
        let Ok(third) = restore(&next) else {
            dpb_free(second); // over budget, as checked above
            return self;
        };
        let last = snapshot(third).unwrap();
        // The snapshots differ only in the generation's number and the checksum.
        assert!(next.len() == last.len() && next.iter().zip(&last).filter(|(a, b)| a != b).count() <= 8);
        let (seen, mut then) = (Seen::of(second, &self.keys), Seen::of(third, &self.keys));
        dpb_free(third);
        if self.model.is_none() || self.config.expected_users > 0 {
            // A new period: the reported loss may grow but not shrink.
            assert!(f64::from_bits(then.report[4]) >= f64::from_bits(seen.report[4]));
            then.report[4..6].copy_from_slice(&seen.report[4..6]);
        }
        assert_eq!(seen, then);
        let evidence = |seen: &Seen| seen.cells.iter().map(|cell| cell[2]).collect::<Vec<_>>();
        assert_eq!(seen.refusals, [0; 4]);
        assert!(self.merged || evidence(&seen) == evidence(&self.seen));
        let (then, now) = (seen.report, self.seen.report);
        let open = now[0] - now[1] - now[2] - now[3];
        assert_eq!(then[..4], [now[0], now[1], now[2], now[3] + open]);
        assert_eq!((then[6..9].to_vec(), then[10]), (now[6..9].to_vec(), now[10]));
        assert!(f64::from_bits(then[4]) >= f64::from_bits(now[4]) && then[9] <= now[9]);
        let periods = self.model.as_ref().map(|model| model.periods + 1);
        let mut next = Player::of(second, self.config, self.keys.clone(), periods);
        if let (Some(next), Some(last)) = (&mut next.model, &self.model) {
            next.clock = last.clock;
        }
        next
    }

    /// A snapshot is restored under its own configuration and no other, with as many segments as it has or more.
    unsafe fn restored_as_it_was(&self, bytes: &[u8]) {
        let (mut handle, mut error) = (null_mut(), no_error());
        let mut restore_as = |config: &dpb_config, max_segments| {
            let config = dpb_config { max_segments, ..*config };
            let name = dpb_policy_name(self.handle);
            dpb_restore_as(name, &raw const config, bytes.as_ptr(), bytes.len(), &raw mut handle, &raw mut error)
        };
        let mut other = self.config;
        other.contributions_per_user ^= 1 << 20;
        assert_eq!(restore_as(&other, 100), DPB_INVALID_CONFIG);
        assert_eq!(restore_as(&self.config, 0), DPB_INVALID_CONFIG);
        assert_eq!(restore_as(&self.config, self.count().wrapping_sub(1)), DPB_INVALID_CONFIG);
        assert_eq!(restore_as(&self.config, self.count() + 1), DPB_OK);
        assert_eq!(u64::from(report(handle).max_segments), self.seen.report[6] + 1);
        dpb_free(handle);
    }
}

/// Overwrites some bytes at any position.
fn alter(snapshot: &mut [u8], bytes: &mut Bytes) {
    for _ in 0..=bytes.below(4) {
        let place = (usize::from(bytes.byte()) << 8 | usize::from(bytes.byte())) % snapshot.len();
        snapshot[place] = bytes.byte();
    }
}

/// The position of the handle's identity in a snapshot: snapshots of fresh handles first differ there.
fn origin() -> usize {
    static ORIGIN: OnceLock<usize> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let [one, other] = [fresh(2, 1, 0, 0, 1), fresh(2, 1, 0, 0, 1)];
        one.iter().zip(&other).position(|(a, b)| a != b).unwrap()
    })
}

/// The snapshot of a new handle with at most this many segments.
pub fn fresh(arms: u32, capacity: u32, window: u32, users: u64, most: u32) -> Vec<u8> {
    // SAFETY: as in run.
    unsafe {
        let (mut config, mut handle): (dpb_config, _) = (zeroed(), null_mut());
        dpb_config_init_sized(&raw mut config, size_of::<dpb_config>() as u32, arms, 1.0);
        (config.pending_capacity, config.reward_window, config.expected_users) = (capacity, window, users);
        (config.test_seed, config.node) = (SEED.as_ptr(), 7);
        config.max_segments = most;
        assert_eq!(dpb_new(&raw const config, &raw mut handle, null_mut()), DPB_OK);
        let bytes = snapshot(handle).unwrap();
        dpb_free(handle);
        bytes
    }
}

/// The positions of the sizes of the ring, the tables and the user counters in a snapshot, except each one's lower two
/// bytes.
fn sizes() -> &'static [Range<usize>; 5] {
    static SIZES: OnceLock<[Range<usize>; 5]> = OnceLock::new();
    SIZES.get_or_init(|| {
        let plain = fresh(2, 1, 0, 0, 1);
        let four = [fresh(3, 1, 0, 0, 1), fresh(2, 2, 0, 0, 1), fresh(2, 1, 1, 0, 1), fresh(2, 1, 0, 0, 2)];
        let [arms, capacity, window, most] = four.map(|other| (other, 4));
        [arms, capacity, window, most, (fresh(2, 1, 0, 1, 1), 8)].map(|(other, bytes)| {
            let place = plain.iter().zip(&other).position(|(a, b)| a != b).unwrap();
            place + 2..place + bytes
        })
    })
}
