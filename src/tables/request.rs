// The table of the fields of a request: the only place for a field. `request/mod.rs` includes it, and makes `Request`. The
// test `header` includes it too, and writes from it what C, C++, Go, Python and Lua need.
//
// /// The documentation, in all languages, as in `config.rs`.
// name: type = default, "version since" [, "what the length is" of a list] [{ members of C }];
//
// C has the fields in this order, but those of 32 bits fill holes. A list is a pointer and a length there; the rows of
// features have their own members. A field that is added has a later version: then C has it behind all older ones.
requests! {
    /// The number of different arms to choose, at least 1. Each gets a decision and a ticket of its own.
    slots: u32 = 1, "0.1";
    /// With [`max_segments`](crate::Config::max_segments): the key of the request's segment, such as the placement's
    /// number or a hash of its name. The first request with a new key creates that segment. Otherwise 0.
    segment: u64 = 0, "0.1";
    /// With [`expected_users`](crate::Config::expected_users): a keyed hash of the person who makes the request.
    /// Otherwise 0.
    user: u64 = 0, "0.1";
    /// `None`, the default = all live arms. Otherwise a list of live arms, in any order; one listed twice counts once.
    /// Choose them by public information only (targeting, flights, frequency caps). A remaining click budget depends
    /// on rewards, so do not filter by it.
    eligible: Option<&'a [u32]> = None, "0.1", "at least 1 if eligible is not NULL, otherwise 0";
    /// `None`, the default = a reward is worth the same for all arms. Otherwise what a reward of each eligible arm is
    /// worth in this request, in that order: a bid, a price, a margin; without `eligible`, for every arm by its
    /// number (those of retired arms are not read). Finite, at least 0. The handle then maximises value times mean,
    /// and still learns means: reports, [`predict`](crate::Bandit::predict) and rewards stay in their own units. An
    /// arm whose value is below 2^-20 of the largest is not eligible. `eligible` must name no arm twice, and
    /// [`reward_min`](crate::Config::reward_min) must be 0. Log the values with the decision: its propensity is exact
    /// given them. Do not compute a value from rewards: spend, real clicks and a model of your clicks are made of
    /// them. A high value buys pulls: an arm with K times the value of the best one is pulled until its mean is known
    /// to be below 1/K of that one's, rewards or not, so limit ratios to about 100.
    values: Option<&'a [f64]> = None, "0.1", "that of eligible arms, or of all arms";
    /// `None`, the default = nothing costs anything. Otherwise what it costs to play each arm in this request, whatever
    /// its reward is, in the order of `values` and in the same unit: the price of a model's answer, of a place, of a
    /// delay. Without `values` they are 1. Finite; below 0 it is a gain. The handle then maximises the worth of an arm,
    /// value times mean minus cost. A cost is at most 2^20 times the largest value times
    /// [`reward_max`](crate::Config::reward_max), and [`reward_min`](crate::Config::reward_min) must be 0. Log the
    /// costs too, and do not compute one from rewards. The worth of an arm of value 0 is known: it is minus its cost.
    /// A request of one slot considers the best of these arms, a request of several slots none. Not with `examined`.
    costs: Option<&'a [f64]> = None, "0.1", "that of eligible arms, or of all arms";
    /// Whether the request may get no arm, while no arm seems to be worth more than 0. The decision then has the arm
    /// [`NO_ARM`](crate::NO_ARM) and the ticket 0: there is nothing to report. It counts as one that was cancelled at
    /// once, and not as one of its user. Arms that may still be worth something are tried now and then. For requests of
    /// one slot, and for policies that take `values`.
    abstain: bool = false, "0.1";
    /// `None`, the default = visitors examine all slots alike. Otherwise for each slot the probability that a visitor
    /// examines it, from 2^-16 to 1. The slots then get the arms in the order of value times mean: the best arm where
    /// most visitors look; arms without a mean, and ties, at random. The handle learns click rates: the mean of an
    /// arm is its chance of a click in a slot that is examined, and effective_pulls and the sizes of batches count
    /// examinations. [`reward_min`](crate::Config::reward_min) must be 0. Public: estimate the probabilities from
    /// slots filled at random, once, and not from the order that this handle has chosen. The first such request
    /// allocates 2 bytes for each open decision. For `dp-imed` without `max_segments`.
    examined: Option<&'a [f64]> = None, "0.1", "that of slots";
    /// With [`features`](crate::Config::features) = d: rows of d finite numbers, one after the other; otherwise
    /// `None`. With `model_per_arm` one row. Otherwise a row for each eligible arm, in that order; without
    /// `eligible`, for every arm by its number (rows of retired arms are not read). Do not compute a feature from
    /// rewards: see `dp-linear`.
    features: Option<Rows<'a>> = None, "0.1" {
        /// The same rows, in place of features: only those features that are not 0. A feature that occurs twice
        /// counts as the sum. NULL if no row has an entry.
        sparse: *const dpb_feature;
        /// With sparse: where each row ends, as the number of entries in all rows up to it.
        sparse_ends: *const u32;
        /// The length of features, or of sparse. If the request needs another length, for example because another
        /// thread has added an arm, the call is DPB_INVALID_REQUEST.
        features_len: usize;
        /// Likewise the length of sparse_ends; 0 if that is NULL.
        sparse_ends_len: usize;
    };
}
