// The tables of what may be read of a handle: the only place for a field of a report. `bandit/report.rs` includes them,
// and makes the structs and fills them; `ffi/fill.rs` fills those of C. The test `header` includes them too, and writes
// from them the structs of C, Go, Java and Python, the metrics of C++, Go and Java, and what Lua reads.
//
// Report as its name in C from what it is made of
//
// /// The documentation, in all languages, as in `config.rs`.
// name: type = |of| where it comes from, "version since" [, [name in C]] [, counter|gauge "metric" "help"] [{ parts }];
//
// parts:  what the other languages have in place of a value that is more than a number: rows of their own, where the
//         name of the row is the value in Rust, and each part says what it makes of it.
// metric: without the prefix dpb_ and the suffix _total of counters, and without arm_ for an arm.
//
// A field that is added comes last, and has a later version. Languages but Rust have those of version 0.1 in another order.
reports! {
    /// The state of a handle that may be published: released values and public counts.
    ///
    /// With a reward_window a reward is a click, so a count of rewards would be a raw sum. There `answered` counts
    /// decisions whose window is over, and `pending` those whose window is not, with a reward or without.
    Report as dpb_report from Reading {
        /// The policy.
        algorithm: Algorithm = |of| of.algorithm, "0.1" {
            /// The policy.
            policy: Policy = algorithm as u32;
        };
        /// Counts of decisions.
        counts: Counts = |of| of.state.engine.counts(), "0.1" {
            /// The number of open decisions.
            pending: u32 = counts.pending() as u32, gauge "pending" "Decisions that are open.";
            /// The number of decisions.
            decisions: u64 = counts.decisions, counter "decisions" "Decisions made.";
            /// The number of decisions whose reward took effect.
            answered: u64 = counts.answered,
                counter "answered" "Decisions whose reward took effect or whose reward window is over.";
            /// The number of decisions cancelled by [`cancel`](crate::Bandit::cancel) and
            /// [`cancel_all`](crate::Bandit::cancel_all).
            cancelled: u64 = counts.cancelled, counter "cancelled" "Decisions that were cancelled.";
            /// The number of decisions that were dropped before their window ended, with a reward or without: for
            /// lack of `pending_capacity`, or because they were open at a restart. Nothing is learned from them. A
            /// decision whose window ended is answered.
            expired: u64 = counts.expired,
                counter "expired" "Decisions that a full pending table or a restart dropped.";
        };
        /// The policy's epoch, phase or interval; for a policy with batches the number of releases.
        phase: u32 = |of| of.policy.phase, "0.1", gauge "phase" "The policy's epoch, phase or interval.";
        /// The number of arms that are not eliminated.
        arms_active: u32 = |of| of.policy.active, "0.1",
            gauge "arms_active" "Arms that are neither eliminated nor retired.";
        /// The privacy loss of one user so far: an upper bound at `delta_spent`, infinite for baselines. With
        /// [`expected_users`](crate::Config::expected_users): of a user with requests in all periods so far, that is
        /// epsilon for each period of a pure policy. With a `test_seed`: what real entropy would have spent.
        epsilon_spent: f64 = |of| of.spent.0, "0.1",
            gauge "epsilon_spent" "Upper bound of the privacy loss so far, at dpb_delta_spent.";
        /// The delta of that bound, 0 for a pure policy.
        delta_spent: f64 = |of| of.spent.1, "0.1",
            gauge "delta_spent" "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.";
        /// `true`; `false` for baselines and with a `test_seed`.
        is_private: bool = |of| !of.state.seeded && of.policy.loss != PrivacyLoss::Unbounded, "0.1",
            gauge "private" "1, or 0 for baselines and under a test seed.";
        /// With [`forget_after`](crate::Config::forget_after): the number of releases that contradicted their arm's
        /// past and ended it.
        changes_detected: u64 = |of| of.policy.changes, "0.1",
            counter "changes" "Releases that contradicted the arm's earlier releases.";
        /// With [`features`](crate::Config::features): how often a model was not updated, because a matrix was not
        /// positive definite to working precision. The model before stayed.
        failures: u64 = |of| of.policy.failures, "0.1",
            counter "failures" "Updates of a model that failed, so that the last model stayed.";
        /// [`features`](crate::Config::features).
        features: u32 = |of| of.config.features, "0.1";
        /// [`model_per_arm`](crate::Config::model_per_arm).
        model_per_arm: bool = |of| of.config.model_per_arm, "0.1", [feature_model];
        /// With [`max_segments`](crate::Config::max_segments): the number of segments in use.
        segments: u32 = |of| of.policy.segments, "0.1",
            gauge "segments" "Segments in use; 0 for a handle without segments.";
        /// [`max_segments`](crate::Config::max_segments).
        max_segments: u32 = |of| of.config.max_segments, "0.1";
        /// The number of contributions that [`combine`](crate::Bandit::combine) has added to this handle.
        contributions: u64 = |of| of.sharing.map_or(0, |sharing| sharing.accepted), "0.1",
            counter "contributions" "Contributions of other handles that were added.";
        /// The number of contributions that this handle missed (it knows from their sequence numbers), or could not
        /// use in full. Their rewards are in no release.
        contributions_lost: u64 = |of| of.sharing.map_or(0, |sharing| sharing.lost), "0.1",
            counter "contributions_lost" "Contributions that were missed, or not used in full.";
        /// With [`Caller`](crate::Clock::Caller): how often the clock leapt ([`advance`](crate::Bandit::advance)).
        clock_leaps: u64 = |of| of.state.engine.caller_time().1, "0.1",
            counter "clock_leaps" "Leaps of the caller's clock.";
        /// A number by which different fleet keys differ; 0 without [`fleet_key`](crate::Config::fleet_key). It tells
        /// nothing else of the key.
        fleet_key_id: u64 = |of| of.sharing.map_or(0, |sharing| sharing.id), "0.1";
        /// What the handle does with the rewards that it collects.
        duty: Duty = |of| of.duty, "0.1" {
            /// [`Alone`](crate::Duty::Alone), [`Contributes`](crate::Duty::Contributes) (this handle releases nothing
            /// itself) or [`Leads`](crate::Duty::Leads).
            duty: Duty = duty.number(),
                gauge "duty" "0: releases its own batches; 1: contributes and releases nothing; 2: leads.";
            /// The generation that the handle leads or contributes to; 0 if it is alone.
            generation: u64 = duty.generation();
        };
        /// 0, or signs that the handle cannot learn, joined by |: [`CLOCK_STOPPED`](crate::Warnings::CLOCK_STOPPED),
        /// [`EXPIRING`](crate::Warnings::EXPIRING), [`UNLEARNED`](crate::Warnings::UNLEARNED),
        /// [`UNMERGED`](crate::Warnings::UNMERGED), [`UNRELEASED`](crate::Warnings::UNRELEASED).
        warnings: Warnings = |of| of.warnings, "0.1";
        /// The arm that the policy has decided for; `None` before that, and for policies that never decide.
        best_arm: Option<u32> = |of| of.policy.best, "0.1" {
            /// `true` if the policy has decided for an arm ([`best_arm`](crate::Bandit::best_arm)), else `false`.
            stopped: bool = best_arm.is_some(), gauge "stopped" "1 if the policy has decided for an arm, or 0.";
            /// That arm; 0 if stopped is `false`.
            best_arm: u32 = best_arm.unwrap_or_default();
        };
        /// With [`learn_clip`](crate::Config::learn_clip): the clip, in the caller's units, of which no reward counts as
        /// more. Means are those of clipped rewards. `None` before the pilot has ended, and without `learn_clip`.
        clip: Option<f64> = |of| of.policy.clip.map(|clip| of.config.reward_max * clip), "0.1" {
            /// With [`learn_clip`](crate::Config::learn_clip): the clip, in the caller's units, of which no reward counts
            /// as more. Means are those of clipped rewards. 0 before the pilot has ended, and without `learn_clip`.
            clip: f64 = clip.unwrap_or_default(), gauge "clip" "The learned clip of rewards; 0 before it is known.";
        };
        /// The most that `epsilon_spent` can become, through all restarts: infinite for baselines, and with
        /// [`expected_users`](crate::Config::expected_users) unless [`budget_periods`](crate::Config::budget_periods)
        /// limits the periods.
        epsilon_limit: f64 = |of| of.limit, "0.1",
            gauge "epsilon_limit" "The most that dpb_epsilon_spent can become; +Inf if nothing limits it.";
        /// `epsilon_limit` minus `epsilon_spent`; 0 for baselines.
        epsilon_left: f64 = |of| left(of.limit, of.spent.0), "0.1",
            gauge "epsilon_left" "dpb_epsilon_limit minus dpb_epsilon_spent; 0 for baselines.";
    }

    /// The state of one arm that may be published.
    ArmReport as dpb_arm from ArmReading {
        /// The released mean in the caller's units, NaN before the first release.
        mean: f64 = |of| of.range.mean_from_unit(of.arm.mean), "0.1",
            gauge "mean" "Released mean reward; NaN before the first release.";
        /// Half-width of its confidence interval at 1 - beta (95% if beta and horizon are 0), in the caller's units;
        /// NaN before the first release.
        width: f64 = |of| of.range.width_from_unit(of.arm.width), "0.1",
            gauge "width" "Half-width of the mean's confidence interval.";
        /// The number of decisions for this arm that were not cancelled and did not expire. With
        /// [`expected_users`](crate::Config::expected_users) it includes decisions that nothing was learned from;
        /// effective_pulls does not.
        pulls: u64 = |of| of.pulls, "0.1", gauge "pulls" "Decisions that were not cancelled and did not expire.";
        /// The number of rewards behind the mean, 0 before the first release. With
        /// [`forget_after`](crate::Config::forget_after) each counts by its weight: 1 when new, 0 when forgotten;
        /// with [`examined`](crate::Request::examined) by the probability that visitors examined it.
        effective_pulls: f64 = |of| of.arm.effective_pulls, "0.1",
            gauge "effective_pulls" "Rewards in the released mean, discounted with forget_after.";
        /// `true` until the arm is eliminated or retired, then `false`.
        active: bool = |of| of.arm.active, "0.1", gauge "active" "1, or 0 if the arm is eliminated or retired.";
    }

    /// Counts of refused calls and signs from rewards, for the operator only. NOT private: a duplicate reveals a
    /// click.
    Diagnostics as dpb_diagnostics from Refused {
        /// Rewards and cancellations of a ticket that had one ([`Duplicate`](crate::Error::Duplicate)).
        duplicates: u64 = |of| of.refusals.duplicates, "0.1",
            counter "duplicates" "Updates and cancellations of a ticket that had one already. NOT private.";
        /// Rewards and cancellations of an expired ticket ([`Expired`](crate::Error::Expired)).
        late: u64 = |of| of.refusals.late, "0.1",
            counter "late" "Updates and cancellations of an expired ticket. NOT private.";
        /// Refused rewards ([`InvalidReward`](crate::Error::InvalidReward)).
        rejected: u64 = |of| of.refusals.rejected, "0.1", counter "rejected" "Rewards that were refused. NOT private.";
        /// Tickets that this handle never issued ([`UnknownTicket`](crate::Error::UnknownTicket)).
        unknown: u64 = |of| of.refusals.unknown, "0.1",
            counter "unknown" "Tickets that the handle never issued. NOT private.";
        /// Decisions whose row of features was more than 16 times as large as the first ones, and so was scaled down.
        oversized: u64 = |of| of.policy.oversized, "0.1",
            counter "oversized" "Decisions whose row of features was scaled down, because it was far larger than the first ones.";
        /// 0, or signs that the handle cannot learn, joined by |: [`ALL_SMALLEST`](crate::Warnings::ALL_SMALLEST),
        /// [`ALL_LARGEST`](crate::Warnings::ALL_LARGEST).
        warnings: Warnings = |of| of.warnings, "0.1";
    }

    /// What a test of arms says (`dp-tt`), made of released values and public counts.
    Verdict as dpb_verdict from Judged {
        /// Whether the test has ended, and with which claim.
        state: TestState = |of| of.test.state, "0.1" {
            /// [`Running`](crate::TestState::Running), [`Won`](crate::TestState::Won), [`Tied`](crate::TestState::Tied) or
            /// [`Undecided`](crate::TestState::Undecided).
            state: TestState = state as u32,
                gauge "verdict_state" "0: the test goes on; 1: won; 2: good enough; 3: ended without a claim.";
        };
        /// The arm that the test has decided for; the one with the best released mean while it goes on, and if it is
        /// undecided. With several [`winners`](crate::Config::winners) it is the one of them with the smallest released mean.
        leader: u32 = |of| of.test.leader, "0.1", gauge "verdict_leader" "Arm that the test has decided for, or that leads.";
        /// The arm that the leader is compared with: the control if there is one and it is no leader, otherwise the best
        /// of the others by released means.
        other: u32 = |of| of.test.other, "0.1";
        /// The number of rewards in the releases since the test began.
        rewards: u64 = |of| of.test.rewards, "0.1", gauge "verdict_rewards" "Rewards in the releases since the test began.";
        /// The lower end of an interval for the leader's mean minus the other's, in the caller's units; NaN until both have
        /// a release. Once the test has ended, the interval is fixed. With probability 1 - `beta` the decision is right;
        /// the probability that it is right and the interval wrong is at most `beta`.
        low: f64 = |of| of.range.width_from_unit(of.test.low), "0.1",
            gauge "verdict_low" "Lower end of an interval for the leader's mean minus another arm's; NaN before releases.";
        /// The upper end of that interval.
        high: f64 = |of| of.range.width_from_unit(of.test.high), "0.1", gauge "verdict_high" "Upper end of that interval.";
        /// An estimate of the number of rewards until the test ends, if the released means are the true ones; 0 once it has
        /// ended, infinite if it would not end, NaN before each arm has a release.
        more: f64 = |of| of.more, "0.1";
        /// Whether the decisions that the test learns from are not split between the arms as they should be: some are lost
        /// for one arm rather than another, and the test says nothing. If all is well, this is ever so with probability
        /// 1/1000. `false` once a request has not permitted all arms.
        mismatch: bool = |of| of.test.mismatch, "0.1",
            gauge "verdict_mismatch" "1 if arms do not get their shares, so that the test says nothing, or 0.";
        /// The number of arms that are not retired.
        arms: u32 = |of| of.arms, "0.1";
        /// The number of arms that the test looks for: [`winners`](crate::Config::winners), or 1.
        winners: u32 = |of| of.winners, "0.1";
        /// 1 - `beta`.
        confidence: f64 = |of| 1.0 - of.beta, "0.1";
    }
}
