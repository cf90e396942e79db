// The table of the fields of a configuration: the only place for a field. `config.rs` includes it, and makes `Config` and
// its checks. The test `header` includes it too, and writes from it what C, C++ and Go need, and the tables of the pages.
//
// /// The documentation, in all languages. It omits the default, the range, and the policies that use the field: the
// /// other columns say these. Links and names in backticks become those of C and of Go.
// name: type = default, scope, users, "version since" [, [in C]] [, "rule" => check];
//
// scope:  what must be the same in which objects; see `Scope`.
// users:  Every: all policies use it, except for those whose rows in `policy/policies.rs` refuse it. Listed: only those
//         whose rows list it. A policy refuses a field that it does not use, unless the field has its default.
// in C:   [flag NAME number]: a bit of `flags`. [name VALUE VALUE ..]: another name, or a constant for each value.
// rule:   the text of the error, if the check fails. The range is the same for every policy.
//
// A version after 0.1: snapshot.rs says how to add a field, and older snapshots imply its default.
// Snapshots keep the fields in this order. In C the fields of the papers' policies follow the others.
fields! {
    /// K, the number of arms. Some policies have a smaller limit.
    arms: u32 = 2, Releases, Every, "0.1",
        "must be in 2 .. 2^24" => |arms| (2..=Self::MAX_ARMS).contains(&arms);
    /// The privacy loss of one reward, above 0. With `contributions_per_user`, `max_slots` or `expected_users`: of one
    /// user or one request. Baselines without privacy ignore it.
    epsilon: f64 = 1.0, Releases, Every, "0.1";
    /// The delta of (epsilon, delta)-DP; 0 = pure DP.
    delta: f64 = 0.0, Releases, Listed, "0.1",
        "must be in [0, 1)" => |delta| (0.0..1.0).contains(&delta);
    /// The failure probability of the policy's confidence intervals, and of its decision for an arm; 0 = 1/`horizon`, or
    /// 5% without a horizon. With dp-tt 0 is always 5%.
    beta: f64 = 0.0, Handle, Listed, "0.1",
        "must be in [0, 1)" => |beta| (0.0..1.0).contains(&beta);
    /// T, the number of decisions that you expect; 0 = unknown, which policies that need it refuse. It states a fact, so all
    /// policies accept it.
    horizon: u64 = 0, Handle, Every, "0.1";
    /// The lower end of the declared range of rewards, at least -1e290.
    reward_min: f64 = 0.0, Releases, Every, "0.1";
    /// The upper end of the declared range of rewards, at most 1e290.
    reward_max: f64 = 1.0, Releases, Every, "0.1";
    /// Rewards are rounded to multiples of 2^-`reward_bits` of the range: 0 .. 24. 0 = each reward is exactly
    /// `reward_min` or `reward_max`.
    reward_bits: u32 = 20, Releases, Every, "0.1";
    /// A reward outside the declared range is moved to the nearer end, and not refused. NaN and infinities are refused.
    clamp_rewards: bool = false, Handle, Every, "0.1", [flag DPB_CLAMP_REWARDS 1];
    /// 0 = a decision has one reward. n > 0 = its reward is a sum of n parts, such as click, purchase and return, which come
    /// at different times ([`update_part`](crate::Bandit::update_part)). When the `reward_window` is over, the reward is
    /// the sum of `part_weights` times values, moved into the declared range; a part that nobody reports is 0, not
    /// `reward_min`. Needs a `reward_window`, `reward_bits` above 0, and a declared range that contains 0.
    parts: u32 = 0, Releases, Every, "0.1",
        "must be at most 8" => |parts| parts <= Self::MOST_PARTS;
    /// With `parts`: what one unit of each part is worth, in the unit of the reward. Not 0; the numbers behind the last part
    /// are 0.
    part_weights: PartWeights = [0.0; 8], Releases, Every, "0.1";
    /// For amounts such as revenue: the library learns a clip c, some five times the median amount, and counts no reward as
    /// more than c. So `reward_max` need not be close: it may be up to 16000 median amounts. At first a pilot plays all
    /// arms evenly: for some 120 rewards that are not 0 at epsilon = 1, some 300 at 0.25, and for at most a third of
    /// `horizon`, or 2^20 decisions without one; if it ends so, the clip is `reward_max`. What is maximised is the mean of
    /// clipped rewards, so an arm that is best by rare large amounts is not found. Needs `reward_min` = 0 and
    /// `reward_bits` = 24. Handles that merge or contribute agree on one clip. Not with `parts`, with `max_segments`, with
    /// `delta` and `max_slots` together, and for requests with costs.
    learn_clip: bool = false, Releases, Listed, "0.1", [flag DPB_LEARN_CLIP 8];
    /// m, the maximum number of rewards (with `max_slots`, of requests) of one user. Epsilon is divided by it. Your
    /// program keeps to it: it cancels each further decision of the user at once (decisions, because silence is a reward
    /// too). Or set `expected_users`, and the library does for each period.
    contributions_per_user: u32 = 1, Releases, Every, "0.1",
        "must be at least 1" => |m| m > 0;
    /// The maximum number of open decisions. It is rounded up to a power of two, and to a `reward_window` in decisions.
    /// Without a window, the oldest open decision expires when a new one needs its place. With a window on the caller's
    /// clock the oldest decision expires too, whether it has a reward or not: choose the most decisions in one window.
    pending_capacity: u32 = 4096, Moved, Every, "0.1",
        "must be in 1 .. 2^24" => |most| (1..=Self::MAX_PENDING).contains(&most);
    /// The maximum number of decisions made elsewhere, by a published table, whose ids the handle remembers
    /// ([`record`](crate::Bandit::record)): those of versions that are not closed, and those of open decisions. It takes 32 to
    /// 36 bytes for each. Choose the most decisions in the life of a version with its grace, or in a `reward_window` if that
    /// is longer. 0 = no tables.
    table_capacity: u32 = 0, Moved, Every, "0.1",
        "must be at most 2^24" => |most| most <= Self::MAX_PENDING;
    /// 0 = report or cancel every decision, at a time that does not depend on its reward. W > 0 = silence means
    /// `reward_min` (no click). Every reward then takes effect exactly W ticks after its decision, in ticket order,
    /// whenever it arrives, so the timing of a click reveals nothing. Later rewards are [`Expired`](crate::Error::Expired).
    /// A tick is a decision, and W at most 2^24; or with [`Caller`](crate::Clock::Caller) your unit of time: 1800000
    /// milliseconds are half an hour.
    reward_window: u32 = 0, Moved, Every, "0.1";
    /// With dp-tt: how many of the best arms the test looks for, below `arms`. It ends when all others are refuted
    /// ([`Won`](crate::TestState::Won)), and then draws one of these winners at each decision. The arms that are `active`
    /// after the end are the winners. No single arm is decided for, if there are several. 0 = 1.
    winners: u32 = 0, Releases, Listed, "0.1";
    /// v in (1, 1.5].
    interval_exponent: f64 = 1.1, Moved, Listed, "0.1";
    /// Adds the width of the noise to the index, as a proof requires. The paper's index omits it.
    rigorous_index: bool = false, Moved, Listed, "0.1", [flag DPB_RIGOROUS_INDEX 2];
    /// sdp-ae: m. dp-lap, dp-exp3-lap and tsallis: tau. dp-ucb-int: the least interval. 0 = the policy chooses.
    batch: u32 = 0, Releases, Listed, "0.1";
    /// The number of the base policy.
    base: u32 = 0, Releases, Listed, "0.1";
    /// The noise of the paper's formula. The default is the exact calibration, which needs 13 times less noise or better.
    /// For reproducing the paper; epsilon at most 1.
    shuffle_printed: bool = false, Releases, Listed, "0.1", [flag DPB_SHUFFLE_PRINTED 4];
    /// The number of this handle in a fleet. 1 .. 65535 = the node of its tickets
    /// ([`dpb_ticket_node`](crate::ffi::dpb_ticket_node)), for a router. A larger number is hashed to 16 bits. 0 = random.
    node: u64 = 0, Moved, Every, "0.1";
    /// M, in ticks of the clock. Releases older than M ticks no longer count, half of them earlier, and a release that
    /// contradicts an arm's past ends that past at once. Choose about half the time between changes. 0 = never forget:
    /// then one change of the best arm can cost for ever.
    forget_after: u64 = 0, Fleet, Listed, "0.1",
        "must be 0 or in 1024 .. 2^40" => |memory| memory == 0 || (Self::LEAST_MEMORY..=Self::MOST_MEMORY).contains(&memory);
    /// f: each of K eligible arms has a probability of at least f/K in every decision, for off-policy evaluation. It costs
    /// f times the mean gap in each decision.
    exploration: f64 = 0.0, Handle, Listed, "0.1",
        "must be in [0, 1]" => |share| (0.0..=1.0).contains(&share);
    /// The unit of epsilon for requests with several slots. 0 = one reward; a request of m slots loses up to m epsilon.
    /// S > 0 = one request of at most S slots, with all its rewards; the noise is that of epsilon/S.
    max_slots: u32 = 0, Releases, Listed, "0.1",
        "must be at most 2^24" => |slots| slots <= Self::MAX_ARMS;
    /// 0 = all rewards of a request count. c, 1 .. `max_slots` = at most c rewards that are not `reward_min` count. If a
    /// request has more, c of them are drawn evenly when the `reward_window` of its first decision is over; so it needs a
    /// window. The noise is that of epsilon/min(2c, `max_slots`): with c = 1 that of epsilon/2, for any number of slots.
    max_clicks: u32 = 0, Releases, Every, "0.1";
    /// The number of users that you expect in a period ([`next_period`](crate::Bandit::next_period)). The library then
    /// learns from at most `contributions_per_user` decisions of a user in a period. The counters are made at construction:
    /// 1.5 bytes a user at `contributions_per_user` = 1, 3 up to 3, 6 up to 15, 12 up to 255; 2^30 bytes at most. 0 = your
    /// program limits the rewards of a user. The library learns in the first period of a new handle, and then only in a
    /// period whose snapshot your program has [`stored`](crate::Bandit::stored); a restored handle decides nothing before.
    /// With a `budget` it needs `budget_periods`. In the shuffle and local models the users' devices must count.
    expected_users: u64 = 0, Moved, Every, "0.1",
        "must be at most 2^28" => |users| users <= Self::MOST_USERS;
    /// P, with `expected_users`: the most periods of this handle, all restarts included. After P periods
    /// [`next_period`](crate::Bandit::next_period) is [`OverBudget`](crate::Error::OverBudget), and so is a restore, which
    /// begins a period. The budget is charged when the handle is made, with the loss of a person with requests in all P
    /// periods (P epsilon for a pure policy). A restart may change P: [`restore_as`](crate::Bandit::restore_as) charges
    /// its own `budget` for all of the new P. 0 = any number. P is needed if `expected_users` and `budget` are both set,
    /// and must be 0 without `expected_users`.
    budget_periods: u32 = 0, Handle, Every, "0.1";
    /// 0 = no segments. S > 0 = one handle learns for each of at most S segments (placements, countries, hours), and
    /// segments learn from each other ([`segment`](crate::Request::segment)). `arms` times (S + 1) is at most 2^27. Epsilon
    /// is for all segments together, however many: each reward is in one batch, of its segment's arm or of that arm in all
    /// segments (Theorem P). `pending_capacity` counts the decisions of all segments, and so do `reward_window` and
    /// `forget_after` where ticks are decisions. A restart may change S to any number that its segments fit into.
    max_segments: u32 = 0, Moved, Listed, "0.1";
    /// d: decisions depend on d features of each request ([`features`](crate::Request::features)). The library adds the
    /// intercept, which is no feature. 0 = no features. Not with `max_segments`.
    features: u32 = 0, Releases, Listed, "0.1",
        "must be at most 256" => |d| d <= Self::MOST_FEATURES;
    /// With `features`: a model for each arm, and one row of features for each request. Otherwise one model for all arms,
    /// and a row for each arm.
    model_per_arm: bool = false, Releases, Listed, "0.1", [feature_model DPB_MODEL_SHARED DPB_MODEL_PER_ARM];
    /// With `features`: they are private themselves, and not the rewards alone. A decision uses its exact rows, but of the
    /// chosen row only the number of the nearest row of `codebook` is counted. The unit of epsilon is then a request with
    /// all that is in it: rows, eligible arms, values, reward, and whether it is cancelled. What it does not cover: whoever
    /// sees a request's own decision learns of its row (Theorem J, docs/theory/private-features.md). Propensities are NaN,
    /// and decisions for each arm, cancelled and expired ones are not counted. Needs `codebook` and a `reward_window`. Not
    /// with `max_slots`, `expected_users` and `table_capacity`.
    private_features: bool = false, Releases, Listed, "0.1", [flag DPB_PRIVATE_FEATURES 16];
    /// With `private_features`: the number of rows of `codebook`. This number times the number of models is at most 65536.
    codebook_len: u32 = 0, Releases, Listed, "0.1",
        "must be at most 65536" => |rows| rows <= Codebook::MOST;
    /// With dp-tt: the difference of two means, in the unit of the reward, that does not matter to you. The test may then
    /// also end with [`Tied`](crate::TestState::Tied): no arm is better than the leader by this much or more. 0 = only a
    /// winner ends the test, so one of equal arms does not end. Less than `reward_max` - `reward_min`.
    tolerance: f64 = 0.0, Handle, Listed, "0.1",
        "must be at least 0" => |tolerance| tolerance >= 0.0;
    /// With dp-tt: the number of rewards after which the test ends in any case. If nothing can be claimed then, it is
    /// [`Undecided`](crate::TestState::Undecided). The last batches may exceed it a little. 0 = no end.
    planned_end: u64 = 0, Handle, Listed, "0.1";
    /// With dp-tt: the share of decisions for arm 0, the control, always: while the test goes on and after its end. The other
    /// arms share the rest evenly. When one of them is out, the others take its part, and nothing is learned from that, so
    /// that arms which are compared keep their shares at all times. Requests then name no eligible arms. 0 = each arm that
    /// is left has the same share.
    control_share: f64 = 0.0, Releases, Listed, "0.1",
        "must be in [0, 1)" => |share| (0.0..1.0).contains(&share);
    /// With dp-tt: a number that you choose for this test. Then a visitor ([`user`](crate::Request::user)) gets the same arm at
    /// each visit, by a hash that has no state, and the library learns from first visits alone: it needs `expected_users`,
    /// `contributions_per_user` 1, and a period as long as the test. Choose another number for each test. A restore begins
    /// the test anew, because the handle does not know any more who came; [`resume`](crate::Bandit::resume) continues it.
    /// Requests then name no eligible arms. 0 = each decision is drawn by itself.
    sticky: u64 = 0, Releases, Listed, "0.1";
    /// What `reward_window` and `forget_after` count: decisions, or your unit of time, which
    /// [`advance`](crate::Bandit::advance) sets, so that a window of half an hour is half an hour at any traffic. Time must
    /// not depend on rewards. If a restart changes it, what was learned keeps its age as a part of `forget_after`.
    clock: Clock = Clock::Decisions, Moved, Every, "0.1", [clock DPB_CLOCK_DECISIONS DPB_CLOCK_CALLER];

    // A handle reads these during construction only. A snapshot does not keep them.
    @not_kept

    /// `None` = entropy of the operating system. 32 bytes = reproducible (but for the tickets) and NOT private; reports say
    /// so. Read during construction only, and no part of a snapshot.
    test_seed: Option<[u8; 32]>, Every, "0.1";
    /// 32 secret random bytes, the same for all handles of a fleet and for all their restarts. They seal states that move
    /// ([`suspend`](crate::Bandit::suspend)), and with them one handle can release what all collect, with one noise
    /// ([`lead`](crate::Bandit::lead)). Read during construction only, and no part of a snapshot. `None` = no key.
    fleet_key: Option<FleetKey>, Every, "0.1";
    /// With `private_features`: `codebook_len` public rows of `features` numbers each. Old, synthetic or enumerated rows,
    /// never those of people whom the handle protects. Some 32, or all combinations of one-hot features; requests x epsilon
    /// x rate of rewards should be at least 3 x rows x models. A snapshot contains them, so a restored handle needs none.
    codebook: Option<Codebook>, Every, "0.1";
    /// The budget that is charged when the handle is made, with all that it may lose through all restarts.
    /// [`OverBudget`](crate::Error::OverBudget) if too little is left, and for a baseline or with a `test_seed`. With
    /// `expected_users` it needs `budget_periods`. Read during construction only, and no part of a snapshot. `None` = no
    /// budget.
    budget: Option<Budget>, Every, "0.1";
}
