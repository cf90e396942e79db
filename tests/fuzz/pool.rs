//! The same for pools: what a model says of an arm it says of an arm in a segment.

use super::*;

/// All that can be read of a pool, comparable.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    report: [u64; 11],
    /// Mean, pulls, effective pulls.
    cells: Vec<[u64; 3]>,
    refusals: [u64; 4],
}

pub struct Player {
    handle: *mut dpb_pool,
    config: dpb_config,
    keys: Vec<u64>,
    /// None for altered snapshots.
    model: Option<Model>,
    seen: Seen,
    tickets: Vec<u64>,
    /// It believes what others have released.
    merged: bool,
}

impl Drop for Player {
    fn drop(&mut self) {
        // SAFETY: freed once.
        unsafe { dpb_pool_free(self.handle) };
    }
}

unsafe fn report(handle: *const dpb_pool) -> dpb_pool_report {
    let mut report: dpb_pool_report = zeroed();
    report.struct_size = size_of::<dpb_pool_report>() as u32;
    assert_eq!(dpb_pool_report_read(handle, &raw mut report), DPB_OK);
    report
}

impl Seen {
    unsafe fn of(handle: *const dpb_pool) -> Seen {
        let r = report(handle);
        assert_eq!(r.decisions - r.answered - r.cancelled - r.expired, u64::from(r.pending));
        assert!(r.epsilon_spent >= 0.0 && r.delta_spent >= 0.0 && r.is_private < 2 && r.segments <= r.max_segments);
        let mut cells = Vec::new();
        for segment in 0..r.segments {
            let mut n = usize::MAX;
            assert_eq!(dpb_pool_arms_read(handle, segment, null_mut(), 0, &raw mut n), DPB_BUFFER_TOO_SMALL);
            assert_eq!(n, r.arms as usize);
            let mut arms = vec![dpb_arm::default(); n];
            assert_eq!(dpb_pool_arms_read(handle, segment, arms.as_mut_ptr(), n, &raw mut n), DPB_OK);
            for arm in arms {
                assert!(arm.mean.is_finite() && arm.width.is_nan(), "{} {}", arm.mean, arm.width);
                assert!(arm.effective_pulls >= 0.0 && arm.active == 1 && arm.reserved == 0 && arm.spare == [0.0; 3]);
                cells.push([arm.mean.to_bits(), arm.pulls, arm.effective_pulls.to_bits()]);
            }
        }
        let mut refused: dpb_diagnostics = zeroed();
        refused.struct_size = size_of::<dpb_diagnostics>() as u32;
        assert_eq!(dpb_pool_diagnostics_read(handle, &raw mut refused), DPB_OK);
        let report = [
            r.decisions,
            r.answered,
            r.cancelled,
            r.expired,
            r.epsilon_spent.to_bits(),
            r.delta_spent.to_bits(),
            r.segments.into(),
            r.max_segments.into(),
            r.arms.into(),
            r.is_private.into(),
            r.releases,
        ];
        Seen { report, cells, refusals: [refused.duplicates, refused.late, refused.rejected, refused.unknown] }
    }
}

unsafe fn snapshot(handle: *const dpb_pool) -> Vec<u8> {
    let mut length = 0;
    assert_eq!(dpb_pool_snapshot(handle, null_mut(), 0, &raw mut length), DPB_BUFFER_TOO_SMALL);
    let mut bytes = vec![0; length];
    assert_eq!(dpb_pool_snapshot(handle, bytes.as_mut_ptr(), length, &raw mut length), DPB_OK);
    bytes
}

unsafe fn restore(bytes: &[u8]) -> Option<*mut dpb_pool> {
    let (mut handle, mut error) = (null_mut(), no_error());
    let status = dpb_pool_restore(bytes.as_ptr(), bytes.len(), &raw mut handle, &raw mut error);
    one_of(status, &[DPB_OK, DPB_CORRUPT, DPB_NEWER_VERSION, DPB_INVALID_CONFIG, DPB_UNSUPPORTED, DPB_OVER_BUDGET]);
    made(status, handle, &error)
}

impl Player {
    pub unsafe fn new(config: &dpb_config, bytes: &mut Bytes) -> Option<Player> {
        let (mut handle, mut error) = (null_mut(), no_error());
        let most = bytes.pick(&[3, 3, 1, 8, 0, u32::MAX]);
        let status = dpb_new_pool(config, most, &raw mut handle, &raw mut error);
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_UNSUPPORTED, DPB_NEWER_VERSION, DPB_OVER_BUDGET]);
        let handle = made(status, handle, &error)?;
        assert!((1..=8).contains(&most));
        Some(Player::of(handle, *config, Vec::new(), Some(1)))
    }

    /// The periods that it has had, if a model knows it.
    unsafe fn of(handle: *mut dpb_pool, config: dpb_config, keys: Vec<u64>, periods: Option<u32>) -> Player {
        let (report, seen) = (report(handle), Seen::of(handle));
        let (capacity, window) = (config.pending_capacity, config.answer_window);
        assert!(report.pending == 0 && (periods.is_none() || report.segments as usize == keys.len()));
        let model = periods.map(|periods| Model {
            window: window as usize,
            depth: if window > 0 { window } else { capacity.next_power_of_two() } as usize,
            log: Vec::new(),
            before: report.decisions,
            answered: report.answered,
            cancelled: report.cancelled,
            expired: report.expired,
            pulls: seen.cells.iter().map(|cell| cell[1]).collect(),
            retired: vec![false; seen.cells.len()],
            epsilon: config.epsilon,
            periods,
            firsts: Vec::new(),
            limited: false,
        });
        Player { handle, config, keys, model, seen, tickets: Vec::new(), merged: false }
    }

    /// Some calls; None where the last one freed it.
    pub unsafe fn play(mut self, bytes: &mut Bytes) -> Option<Player> {
        for _ in 0..=bytes.below(32) {
            match bytes.below(21) {
                0..=3 => self.segment(bytes),
                4..=8 => self.select(bytes),
                9..=10 => self.among(bytes),
                11..=15 => self.answer(bytes),
                16 => self.answer_many(bytes),
                17 if bytes.once_in(3) => self.set_prior(bytes),
                17 if bytes.once_in(2) => self.read(bytes),
                17 => self.merge(bytes),
                18 if bytes.once_in(2) => self.cancel_all(),
                18 => self.next_period(),
                _ if bytes.once_in(12) => return None,
                _ => self = self.live_on(bytes),
            }
            if bytes.0.is_empty() {
                break;
            }
        }
        Some(self)
    }

    #[track_caller]
    unsafe fn after(&mut self, done: bool, refusals: [u64; 4]) {
        let now = Seen::of(self.handle);
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
            assert!(spent(&now) <= model.most(f64::from_bits(now.report[5])));
        }
        self.seen = now;
    }

    /// A decision that was handed out.
    fn take(&mut self, segment: u32, decision: dpb_decision) {
        let arms = self.seen.report[8] as u32;
        assert!(decision.propensity.is_nan() && decision.arm < arms && decision.phase < 2);
        self.tickets.push(decision.ticket);
        if let Some(model) = &mut self.model {
            model.before_select(0);
            model.selected(dpb_decision { arm: segment * arms + decision.arm, ..decision });
        }
    }

    fn count(&self) -> u32 {
        self.seen.report[6] as u32
    }

    unsafe fn segment(&mut self, bytes: &mut Bytes) {
        let key = bytes.pick(&[0, 1, 2, 3, 4, 5, 6, 1 << 40, u64::MAX]);
        let mut segment = u32::MAX;
        let status = dpb_pool_segment(self.handle, key, &raw mut segment);
        one_of(status, &[DPB_OK, DPB_FULL]);
        let known = self.keys.iter().position(|&known| known == key);
        let new = status == DPB_OK && segment == self.count();
        if self.model.is_some() {
            match known {
                Some(place) => assert_eq!((status, segment), (DPB_OK, place as u32)),
                None => assert_eq!(new, self.seen.report[6] < self.seen.report[7]),
            }
        }
        assert!(status == DPB_OK || segment == u32::MAX);
        if new {
            self.keys.push(key);
            if let Some(model) = &mut self.model {
                model.pulls.resize(model.pulls.len() + self.seen.report[8] as usize, 0);
                model.retired.resize(model.pulls.len(), false);
            }
        }
        self.after(new, [0; 4]);
    }

    unsafe fn select(&mut self, bytes: &mut Bytes) {
        let count = self.count();
        let n = if bytes.once_in(4) { bytes.below(40) } else { 1 };
        let segments: Vec<u32> = (0..n)
            .map(
                |_| if bytes.once_in(40) { bytes.pick(&[count, u32::MAX]) } else { bytes.below(count as usize) as u32 },
            )
            .collect();
        let mut decisions = vec![NO_DECISION; n];
        let status = match n {
            1 => dpb_pool_select(self.handle, segments[0], decisions.as_mut_ptr()),
            _ => dpb_pool_select_many(self.handle, segments.as_ptr(), decisions.as_mut_ptr(), n),
        };
        let all = segments.iter().all(|&segment| segment < count);
        if status == DPB_UNSUPPORTED {
            // Every decision is somebody's.
            assert!(self.model.is_none() || self.config.users > 0);
            assert!(decisions.iter().all(untouched));
            self.after(false, [0; 4]);
            for (&segment, decision) in segments.iter().zip(&mut decisions) {
                let status = dpb_pool_select_for(self.handle, segment, bytes.pick(&[1, 1, 2, u64::MAX]), decision);
                assert_eq!(status, if segment < count { DPB_OK } else { DPB_INVALID_CONFIG });
                if status == DPB_OK {
                    self.take(segment, *decision);
                }
            }
            return self.after(segments.iter().any(|&segment| segment < count), [0; 4]);
        }
        assert_eq!(status, if all { DPB_OK } else { DPB_INVALID_CONFIG });
        for (&segment, &decision) in segments.iter().zip(&decisions) {
            if all {
                self.take(segment, decision);
            } else {
                assert!(untouched(&decision));
            }
        }
        self.after(all, [0; 4]);
    }

    unsafe fn among(&mut self, bytes: &mut Bytes) {
        let (count, arms) = (self.count(), self.seen.report[8] as usize);
        let segment = bytes.below(count as usize + 1) as u32;
        let some: Vec<u32> = (0..bytes.below(5))
            .map(|_| if bytes.once_in(12) { arms as u32 } else { bytes.below(arms) as u32 })
            .collect();
        let mut decision = NO_DECISION;
        let pointer = if some.is_empty() { null() } else { some.as_ptr() };
        let mut status = dpb_pool_select_among(self.handle, segment, pointer, some.len(), &raw mut decision);
        if status == DPB_UNSUPPORTED {
            assert!(untouched(&decision));
            status = dpb_pool_select_among_for(self.handle, segment, 1, pointer, some.len(), &raw mut decision);
        }
        let fits = segment < count && !some.is_empty() && some.iter().all(|&arm| (arm as usize) < arms);
        assert_eq!(status, if fits { DPB_OK } else { DPB_INVALID_CONFIG });
        if fits {
            assert!(some.contains(&decision.arm));
            self.take(segment, decision);
        } else {
            assert!(untouched(&decision));
        }
        self.after(fits, [0; 4]);
    }

    unsafe fn next_period(&mut self) {
        let status = one_of(dpb_pool_next_period(self.handle), &[DPB_OK, DPB_UNSUPPORTED, DPB_OVER_BUDGET]);
        if let Some(model) = &mut self.model {
            assert_eq!(status, if self.config.users > 0 { model.another(&self.config) } else { DPB_UNSUPPORTED });
            model.periods += u32::from(status == DPB_OK);
        }
        self.after(status == DPB_OK, [0; 4]);
    }

    unsafe fn cancel_all(&mut self) {
        assert_eq!(dpb_pool_cancel_all(self.handle), DPB_OK);
        self.model.iter_mut().for_each(Model::end_all);
        self.after(true, [0; 4]);
    }

    fn answered(&mut self, ticket: u64, good: Option<bool>, cancel: bool, status: dpb_status) {
        let Some(model) = &mut self.model else {
            one_of(status, &[DPB_OK, DPB_UNKNOWN_TICKET, DPB_DUPLICATE, DPB_EXPIRED, DPB_INVALID_REWARD]);
            return;
        };
        let verdict = if good == Some(false) { DPB_INVALID_REWARD } else { model.verdict(ticket, cancel) };
        assert!(status == verdict || (good.is_none() && status == DPB_INVALID_REWARD), "{status}, not {verdict}");
        if status == DPB_OK {
            model.ended(ticket, cancel);
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
            true => dpb_pool_cancel(self.handle, ticket),
            false => dpb_pool_update(self.handle, ticket, reward),
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
            dpb_pool_update_many(self.handle, tickets.as_ptr(), rewards.as_ptr(), n, each.as_mut_ptr(), &raw mut done);
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
        let status = dpb_pool_set_prior(self.handle, arm, mean, strength);
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG]);
        assert!(status != DPB_OK || (strength > 0.0 && !mean.is_nan() && u64::from(arm) < self.seen.report[8]));
        self.after(status == DPB_OK, [0; 4]);
    }

    /// Into structs of other sizes, and of segments that there are not: nothing is written.
    unsafe fn read(&mut self, bytes: &mut Bytes) {
        let size = bytes.pick(&[0, 4, 79, 88, u32::MAX]);
        let mut room = [7u64; 20];
        room.as_mut_ptr().cast::<u32>().write(size);
        let before = room;
        let status = dpb_pool_report_read(self.handle, room.as_mut_ptr().cast());
        assert_eq!((status, room), (if size > 80 { DPB_NEWER_VERSION } else { DPB_INVALID_CONFIG }, before));
        let mut n = 77;
        let none = bytes.pick(&[self.count(), u32::MAX]);
        assert_eq!(dpb_pool_arms_read(self.handle, none, null_mut(), 0, &raw mut n), DPB_INVALID_CONFIG);
        assert_eq!(n, 77);
        self.after(false, [0; 4]);
    }

    /// Its own snapshot, or another's, which a stranger may have altered. A pool that has merged goes on as before, but
    /// for what it believes.
    unsafe fn merge(&mut self, bytes: &mut Bytes) {
        let mut told = snapshot(self.handle);
        let own = bytes.once_in(4);
        if !own {
            told[origin()] ^= 1 + bytes.byte() % 8;
            if bytes.once_in(2) {
                alter(&mut told, bytes);
            }
        }
        let (told, mut error) = (sealed(told), no_error());
        let status = dpb_pool_merge_with(self.handle, told.as_ptr(), told.len(), &raw mut error);
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
        assert_eq!(dpb_pool_merge(self.handle, told.as_ptr(), told.len()), status);
        self.after(false, [0; 4]); // it is no news
    }

    /// Snapshot, restore, and again; or what comes of one that a stranger has altered.
    unsafe fn live_on(self, bytes: &mut Bytes) -> Player {
        let mut first = snapshot(self.handle);
        if bytes.once_in(2) {
            alter(&mut first, bytes);
            // A ring, or a pool, of millions is the tests' of memory, and so are millions of users.
            for upper in sizes() {
                first[upper.clone()].fill(0);
            }
            return match restore(&sealed(first)) {
                Some(handle) => {
                    snapshot(handle); // by now it may count users
                    Player::of(handle, self.config, Vec::new(), None)
                }
                None => self,
            };
        }
        let another = self.model.as_ref().map(|model| model.another(&self.config));
        let Some(second) = restore(&first) else {
            assert!(another.is_none_or(|another| another == DPB_OVER_BUDGET));
            return self;
        };
        assert!(another.is_none_or(|another| another == DPB_OK));
        let mut early = NO_DECISION;
        if self.config.users > 0 && self.model.is_some() && !self.keys.is_empty() {
            assert_eq!(dpb_pool_select_for(second, 0, 1, &raw mut early), DPB_NOT_READY);
        }
        assert!(untouched(&early));
        if self.model.is_some() {
            self.restored_as_it_was(&first);
        }
        let next = snapshot(second);
        let Some(third) = restore(&next) else {
            dpb_pool_free(second); // over budget, as is seen above
            return self;
        };
        let last = snapshot(third);
        // Alike but for the number of the life, and the checksum.
        assert!(next.len() == last.len() && next.iter().zip(&last).filter(|(a, b)| a != b).count() <= 8);
        let (seen, mut then) = (Seen::of(second), Seen::of(third));
        dpb_pool_free(third);
        if self.model.is_none() || self.config.users > 0 {
            // Another period: more may be spent, but no less.
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
        Player::of(second, self.config, self.keys.clone(), periods)
    }

    /// Under its configuration and no other, with as many segments as it has, or more.
    unsafe fn restored_as_it_was(&self, bytes: &[u8]) {
        let (mut handle, mut error) = (null_mut(), no_error());
        let mut restore_as = |config: &dpb_config, most| {
            dpb_pool_restore_as(config, most, bytes.as_ptr(), bytes.len(), &raw mut handle, &raw mut error)
        };
        let mut config = self.config;
        config.struct_size = size_of::<dpb_config>() as u32;
        let mut other = config;
        other.contributions_per_user ^= 1 << 20;
        assert_eq!(restore_as(&other, 100), DPB_INVALID_CONFIG);
        if self.config.struct_size == config.struct_size {
            assert_eq!(restore_as(&config, self.count().wrapping_sub(1)), DPB_INVALID_CONFIG);
            assert_eq!(restore_as(&config, self.count() + 1), DPB_OK);
            assert_eq!(u64::from(report(handle).max_segments), self.seen.report[6] + 1);
            dpb_pool_free(handle);
        }
    }
}

/// Some bytes, anywhere.
fn alter(snapshot: &mut [u8], bytes: &mut Bytes) {
    for _ in 0..=bytes.below(4) {
        let place = (usize::from(bytes.byte()) << 8 | usize::from(bytes.byte())) % snapshot.len();
        snapshot[place] = bytes.byte();
    }
}

/// Where a snapshot says whose it is: fresh pools differ there first.
fn origin() -> usize {
    static ORIGIN: OnceLock<usize> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let [one, other] = [fresh(2, 1, 0, 0, 1), fresh(2, 1, 0, 0, 1)];
        one.iter().zip(&other).position(|(a, b)| a != b).unwrap()
    })
}

/// The snapshot of a pool that was just made.
fn fresh(arms: u32, capacity: u32, window: u32, users: u64, most: u32) -> Vec<u8> {
    // SAFETY: as in run.
    unsafe {
        let (mut config, mut handle): (dpb_config, _) = (zeroed(), null_mut());
        dpb_config_init_sized(&raw mut config, size_of::<dpb_config>() as u32, arms, 1.0);
        (config.pending_capacity, config.answer_window, config.users) = (capacity, window, users);
        (config.test_seed, config.node) = (SEED.as_ptr(), 7);
        assert_eq!(dpb_new_pool(&raw const config, most, &raw mut handle, null_mut()), DPB_OK);
        let bytes = snapshot(handle);
        dpb_pool_free(handle);
        bytes
    }
}

/// Where a snapshot has all but the lower two bytes of what sizes ring, tables, and counters of users.
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

/// NULL wherever there can be one.
pub unsafe fn nothing(config: &dpb_config) {
    let (mut number, mut size, mut handle, mut decision) = (7u32, 7usize, null_mut(), NO_DECISION);
    let statuses = [
        dpb_new_pool(null(), 1, &raw mut handle, null_mut()),
        dpb_new_pool(config, 1, null_mut(), null_mut()),
        dpb_pool_segment(null_mut(), 1, &raw mut number),
        dpb_pool_select(null_mut(), 0, &raw mut decision),
        dpb_pool_select_among(null_mut(), 0, &raw const number, 1, &raw mut decision),
        dpb_pool_select_many(null_mut(), &raw const number, &raw mut decision, 1),
        dpb_pool_select_for(null_mut(), 0, 1, &raw mut decision),
        dpb_pool_select_among_for(null_mut(), 0, 1, &raw const number, 1, &raw mut decision),
        dpb_pool_next_period(null_mut()),
        dpb_pool_update(null_mut(), 1, 1.0),
        dpb_pool_cancel(null_mut(), 1),
        dpb_pool_cancel_all(null_mut()),
        dpb_pool_update_many(null_mut(), &1, &1.0, 1, null_mut(), &raw mut size),
        dpb_pool_set_prior(null_mut(), 0, 0.5, 1.0),
        dpb_pool_arms_read(null(), 0, null_mut(), 0, &raw mut size),
        dpb_pool_report_read(null(), null_mut()),
        dpb_pool_diagnostics_read(null(), null_mut()),
        dpb_pool_snapshot(null(), null_mut(), 0, &raw mut size),
        dpb_pool_restore(null(), 5, &raw mut handle, null_mut()),
        dpb_pool_restore_as(null(), 1, null(), 0, &raw mut handle, null_mut()),
        dpb_pool_restore_as(config, 1, null(), 5, &raw mut handle, null_mut()),
        dpb_pool_merge(null_mut(), null(), 0),
    ];
    assert_eq!(statuses, [DPB_NULL; 22]);
    dpb_pool_free(null_mut());
    assert!((number, size, handle.is_null()) == (7, 7, true) && untouched(&decision));
}
