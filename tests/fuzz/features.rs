//! The fuzz target for handles with features: dense and sparse requests, valid and invalid, and the predictions for
//! their rows.

use super::*;

const D: u32 = 3;

pub struct Player {
    handle: *mut dpb_bandit,
    per_arm: bool,
    tickets: Vec<u64>,
}

impl Drop for Player {
    fn drop(&mut self) {
        // SAFETY: freed once.
        unsafe { dpb_free(self.handle) };
    }
}

/// All readable state, as bits of numbers.
unsafe fn seen(handle: *const dpb_bandit) -> Vec<u64> {
    let r = report(handle);
    assert_eq!(r.decisions - r.answered - r.cancelled - r.expired, u64::from(r.pending));
    assert!(r.policy == dpb::Algorithm::Linear as u32 && r.epsilon_spent >= 0.0);
    let mut all = vec![r.decisions, r.answered, r.cancelled, r.expired, r.epsilon_spent.to_bits(), r.phase.into()];
    for arm in arms(handle) {
        assert!(arm.mean.is_nan() && arm.effective_pulls >= 0.0 && arm.effective_pulls.is_finite());
        all.extend([arm.pulls, arm.effective_pulls.to_bits(), arm.active.into()]);
    }
    all
}

impl Player {
    pub unsafe fn new(mut config: dpb_config, bytes: &mut Bytes) -> Option<Player> {
        let (mut handle, mut error) = (null_mut(), no_error());
        config.features = bytes.pick(&[D, D, D, 0, 257, 1 << 31]);
        config.feature_model = bytes.pick(&[DPB_MODEL_SHARED, DPB_MODEL_PER_ARM, DPB_MODEL_PER_ARM, 2]);
        let new: [Constructor; 2] = [dpb_new_linear, dpb_new];
        let new = bytes.pick(&new);
        let mut status = new(&raw const config, &raw mut handle, &raw mut error);
        while status == DPB_INVALID_CONFIG && fits(&mut config, &error) {
            status = new(&raw const config, &raw mut handle, &raw mut error);
        }
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_UNSUPPORTED, DPB_NEWER_VERSION, DPB_OVER_BUDGET]);
        let handle = made(status, handle, &error)?;
        if report(handle).features != D || config.expected_users > 0 {
            dpb_free(handle); // DP-IMED, or a struct size without features
            return None;
        }
        Some(Player { handle, per_arm: config.feature_model == DPB_MODEL_PER_ARM, tickets: Vec::new() })
    }

    /// Makes some calls. Returns None if the last one freed the handle.
    pub unsafe fn play(mut self, bytes: &mut Bytes) -> Option<Player> {
        for _ in 0..=bytes.below(64) {
            // The byte values must not change: see World::step.
            match bytes.byte() {
                0..=120 => self.request(bytes, false, false),
                251..=253 => self.request(bytes, true, false),
                254..=255 => self.request(bytes, true, true),
                121..=220 => self.answer(bytes),
                221..=226 => self.change_arms(bytes),
                227..=230 => _ = dpb_advance(self.handle, bytes.number()),
                231..=234 => self.hash(bytes),
                235..=240 => self.merge(),
                241..=246 => self = self.live_on(bytes),
                247 => return None,
                248 => _ = dpb_cancel_all(self.handle),
                249..=250 => {
                    _ = dpb_set_prior(self.handle, bytes.below(9) as u32, bytes.pick(ODD), bytes.pick(ODD), null_mut())
                }
            }
            seen(self.handle);
            if bytes.0.is_empty() {
                break;
            }
        }
        Some(self)
    }

    unsafe fn request(&mut self, bytes: &mut Bytes, valued: bool, costed: bool) {
        let before = seen(self.handle);
        let live: Vec<bool> = arms(self.handle).iter().map(|arm| arm.active == 1).collect();
        let eligible: Option<Vec<u32>> = match bytes.once_in(2) {
            true => None,
            false => Some((0..bytes.below(5)).map(|_| bytes.below(live.len() + 1) as u32).collect()),
        };
        let rows = match &eligible {
            _ if self.per_arm => 1,
            Some(arms) => arms.len(),
            None => live.len(),
        };
        let odd: &[f32] =
            &[1.0, 0.0, -1.0, 0.5, 0.0, 1.0, 1e6, 1e-30, f32::MAX, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY];
        let few = odd.len() - if bytes.once_in(8) { 0 } else { 2 };
        let mut request: dpb_request = zeroed();
        dpb_request_init_sized(&raw mut request, size_of::<dpb_request>() as u32);
        request.slots = bytes.pick(&[1, 1, 1, 2, 3, 0, u32::MAX]);
        let (mut dense, mut entries, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let sparse = bytes.once_in(2);
        for _ in 0..rows {
            for _ in 0..if sparse { bytes.below(4) as u32 } else { D } {
                let value = bytes.pick(&odd[..few]);
                let index = if bytes.once_in(64) { bytes.pick(&[D, u32::MAX]) } else { bytes.below(D as usize) as u32 };
                dense.push(value);
                entries.push(dpb_feature { index, value });
            }
            ends.push(entries.len() as u32);
        }
        // One more of each, so that a length may be too large.
        let (numbers, mut extra_ends, mut extra_numbers) = (dense.len(), ends.clone(), dense.clone());
        extra_ends.push(entries.len() as u32);
        extra_numbers.push(0.0);
        let more = bytes.below(4);
        let length = |right: usize| [0, right, right, right + 1][more];
        if sparse {
            (request.sparse, request.features_len) = (entries.as_ptr(), entries.len());
            (request.sparse_ends, request.sparse_ends_len) = (extra_ends.as_ptr(), length(rows));
        } else {
            (request.features, request.features_len) = (extra_numbers.as_ptr(), length(numbers));
        }
        let wrong_length = length(if sparse { rows } else { numbers }) != if sparse { rows } else { numbers };
        if bytes.once_in(32) {
            (request.features, request.sparse, request.sparse_ends) = (null(), null(), null());
        }
        if let Some(arms) = &eligible {
            (request.eligible, request.eligible_len) = (arms.as_ptr(), arms.len());
        }
        let all = eligible.as_ref().map_or(live.len(), Vec::len);
        let values: Vec<f64> = if valued { (0..all).map(|_| bytes.pick(VALUES)).collect() } else { Vec::new() };
        if valued && !values.is_empty() {
            (request.values, request.values_len) = (values.as_ptr(), all - usize::from(bytes.once_in(32)));
        }
        let costs: Vec<f64> = if costed { (0..all).map(|_| bytes.pick(COSTS)).collect() } else { Vec::new() };
        if costed && !costs.is_empty() {
            (request.costs, request.costs_len) = (costs.as_ptr(), all - usize::from(bytes.once_in(32)));
        }
        request.abstain = u32::from(costed && bytes.once_in(2)) * bytes.pick(&[1, 1, 1, 1, 2]);
        let refused = [DPB_OK, DPB_INVALID_REQUEST, DPB_UNSUPPORTED];
        let (mut means, mut deviations, mut n) = (vec![-7.0; all + 1], vec![-7.0; all + 1], 77);
        let mut predict = |cap, n| {
            let (means, deviations) = (means.as_mut_ptr(), deviations.as_mut_ptr());
            dpb_predict(self.handle, &raw const request, means, deviations, cap, n)
        };
        let mut needed = 77;
        if all > 0 && predict(all - 1, &raw mut needed) == DPB_BUFFER_TOO_SMALL {
            assert_eq!(needed, all);
        }
        let predicted = predict(all, &raw mut n);
        match one_of(predicted, &refused) {
            DPB_OK => {
                assert_eq!(n, all);
                for place in 0..all {
                    let is_live = eligible.is_some() || live[place];
                    assert!(means[place].is_finite() == is_live && (!is_live || deviations[place] >= 0.0));
                }
                assert!(means[all] == -7.0 && deviations[all] == -7.0);
            }
            _ => assert!(n == 77 && means.iter().chain(&deviations).all(|&x| x == -7.0)),
        }
        let arm = bytes.pick(&[0, 0, 1, 2, 3, 99]);
        let (mut weights, mut number) = ([-7.0f64; D as usize + 2], 77);
        let mut read = |cap, n| dpb_feature_weights(self.handle, arm, weights.as_mut_ptr(), null_mut(), cap, n);
        let too_small = one_of(read(D as usize, &raw mut number), &[DPB_BUFFER_TOO_SMALL, DPB_INVALID_REQUEST]);
        let status = one_of(read(D as usize + 1, &raw mut number), &[DPB_OK, DPB_INVALID_REQUEST]);
        assert!((status == DPB_OK) == (too_small == DPB_BUFFER_TOO_SMALL) && arm < 99 || status != DPB_OK);
        assert_eq!(number, if status == DPB_OK { D as usize + 1 } else { 77 });
        assert!(weights[..=D as usize].iter().all(|&x| if status == DPB_OK { x.is_finite() } else { x == -7.0 }));
        assert_eq!(weights[D as usize + 1], -7.0);
        assert_eq!(seen(self.handle), before, "a prediction changed something");
        let mut decisions = [NO_DECISION; 4];
        let checked = check(self.handle, &raw const request);
        let status = one_of(dpb_select_for(self.handle, &raw const request, decisions.as_mut_ptr()), &refused);
        assert!(status == checked && (status != DPB_OK || !wrong_length));
        let bad = entries.iter().any(|entry| !entry.value.is_finite() || (sparse && entry.index >= D));
        let all_are_read = self.per_arm || eligible.is_some() || !live.contains(&false);
        assert!(status != DPB_OK || !bad || !all_are_read, "a bad row was taken");
        if status != DPB_OK {
            assert!(decisions.iter().all(untouched));
            assert_eq!(seen(self.handle), before, "a refused request changed something");
            return;
        }
        assert_eq!(predicted, DPB_OK, "what can be decided can be predicted");
        for decision in &decisions[..request.slots as usize] {
            assert!(decision.propensity.is_nan() || (decision.propensity > 0.0 && decision.propensity <= 1.0 + 1e-9));
            self.tickets.push(decision.ticket);
            if decision.arm == DPB_NO_ARM {
                assert!(request.abstain == 1 && decision.ticket == 0);
                continue;
            }
            assert!(live[decision.arm as usize] && eligible.as_ref().is_none_or(|arms| arms.contains(&decision.arm)));
            let place = eligible.as_ref().map(|arms| arms.iter().position(|&arm| arm == decision.arm).unwrap());
            assert!(values.get(place.unwrap_or(decision.arm as usize)).is_none_or(|&value| value > 0.0 || costed));
        }
        assert!(untouched(&decisions[request.slots as usize]));
    }

    unsafe fn answer(&mut self, bytes: &mut Bytes) {
        let back = bytes.below(16.min(self.tickets.len()));
        let ticket = self.tickets.iter().rev().nth(back).copied().unwrap_or(5);
        let any = [DPB_OK, DPB_UNKNOWN_TICKET, DPB_DUPLICATE, DPB_EXPIRED, DPB_INVALID_REWARD];
        match bytes.once_in(8) {
            true => one_of(dpb_cancel(self.handle, ticket), &any),
            false => one_of(dpb_update(self.handle, ticket, bytes.pick(&[1.0, 0.0, 1.0, 0.0, f64::NAN])), &any),
        };
    }

    unsafe fn change_arms(&mut self, bytes: &mut Bytes) {
        let n = arms(self.handle).len();
        let mut arm = 77;
        if n < 12 && bytes.once_in(2) {
            let status = dpb_add_arm(self.handle, bytes.pick(&[0, 100, 101, 1]), &raw mut arm, null_mut());
            one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_INVALID_REQUEST]);
        } else {
            let status = dpb_retire_arm(self.handle, bytes.below(n + 1) as u32);
            one_of(status, &[DPB_OK, DPB_INVALID_REQUEST]);
        }
    }

    unsafe fn hash(&mut self, bytes: &mut Bytes) {
        let (d, a, b) = (bytes.number() as u32, bytes.number() as u32, bytes.number() as u32);
        for index in [dpb_feature_cross(a, b, d), dpb_feature_hash(c"field".as_ptr(), null(), d)] {
            assert!(index < d || (d, index) == (0, 0));
        }
        assert_eq!(dpb_feature_hash(null(), null(), u32::MAX), crc32fast::hash(b"=") % u32::MAX);
    }

    unsafe fn merge(&mut self) {
        let Some(bytes) = snapshot(self.handle) else { return };
        let before = seen(self.handle);
        assert_eq!(dpb_merge(self.handle, bytes.as_ptr(), bytes.len(), null_mut()), DPB_OK);
        assert_eq!(seen(self.handle), before, "its own releases are no news");
    }

    /// A restored handle makes the same predictions. A handle from an altered snapshot gets no more calls.
    unsafe fn live_on(self, bytes: &mut Bytes) -> Player {
        let Some(mut first) = snapshot(self.handle) else { return self };
        if bytes.once_in(2) {
            let place = first.len() - 1 - bytes.number() as usize % (first.len() / 2);
            first[place] = bytes.byte();
            if let Ok(handle) = restore(&sealed(first)) {
                arms(handle);
                dpb_free(handle);
            }
            return self;
        }
        let Ok(handle) = restore(&first) else { return self };
        let learned =
            |handle| arms(handle).iter().map(|arm| (arm.effective_pulls.to_bits(), arm.active)).collect::<Vec<_>>();
        let (r, then) = (report(self.handle), report(handle));
        assert_eq!((r.decisions, r.phase, r.features), (then.decisions, then.phase, then.features));
        assert!(learned(handle).iter().zip(learned(self.handle)).all(|(then, now)| then.1 == now.1));
        Player { handle, per_arm: self.per_arm, tickets: Vec::new() }
    }
}
