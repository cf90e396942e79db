// The table of the policies: the only place for a policy, besides its own file. `mod.rs` includes it, and makes `Algorithm`
// with its checks; `ffi/policies.rs` makes the constructors of C. The test `header` includes it too, and writes from it
// their declarations, the constructors of C++ and Go, the constants, and the tables of the pages.
//
// /// The documentation, in all languages; links and names in backticks become those of C and of Go.
// Name = number, name, constructor of C, "name in Go", group, constructor {
//     from:   whose algorithm it is.
//     loss:   its guarantee: a function of the configuration.
//     can:    what it supports beyond selecting, updating and cancelling: see `docs/reference/policies.md`.
//     also:   what a handle must know of it: it needs `full pulls` back, sets the `rounding` of numbers by itself, or
//             takes `bits`. `Algorithm` explains these.
//     needs:  the fields that must not have their defaults.
//     uses:   the fields that it uses, of those that are `Listed` in `tables/config.rs`.
//     refuses: another field that it does not use, and why.
//     select, update, bytes, arms: what a call costs with K arms, the memory of a handle, and the most arms.
// }
//
// group:  Ours, Papers, Baselines, Shuffle or Local. The header has them in this order.
algorithms! {
    /// DP-IMED with the exact Chernoff index: pure epsilon-DP (Theorem P: every reward is in one batch, released once);
    /// with delta > 0 (epsilon, delta)-DP by zCDP and Gaussian noise. It needs no horizon and no tuning. Select and
    /// update are O(1). Supports eligible arms, [`add_arm`](crate::Bandit::add_arm) and
    /// [`retire_arm`](crate::Bandit::retire_arm), `forget_after` and `exploration`.
    Imed = 20, c"dp-imed", dpb_new_imed, "IMED", Ours, batched::imed::DpImed::new {
        from: "this library, after Honda and Takemura 2015: see its file";
        loss: released;
        can: "among, change, slate, values, examined, snapshot, merge, prior";
        also: "rounding";
        needs: "";
        uses: "delta beta horizon forget_after exploration max_slots max_segments learn_clip";
        select: "O(1); among tens of thousands of arms at most 16 indices";
        update: "O(1); at a batch's end a few microseconds for each of a few indices, and O(log K)";
        bytes: "2420 + 712 K";
        arms: "2^24";
    }
    /// DP-MED: learns as `dp-imed` does, and draws each arm with an exact propensity. Pure epsilon-DP (Theorem P); with
    /// delta > 0 (epsilon, delta)-DP by zCDP. It needs no horizon and no tuning. Supports eligible arms,
    /// [`add_arm`](crate::Bandit::add_arm) and [`retire_arm`](crate::Bandit::retire_arm), `forget_after` and
    /// `exploration`.
    Med = 23, c"dp-med", dpb_new_med, "MED", Ours, batched::med::DpMed::new {
        from: "this library, after Honda and Takemura 2011: see its file";
        loss: released;
        can: "among, change, values, snapshot, merge, prior";
        needs: "";
        uses: "delta beta horizon forget_after exploration";
        select: "O(log K)";
        update: "O(1); at a batch's end some 10 microseconds, and K times that where the leading mean has moved";
        bytes: "2500 + 570 K";
        arms: "2^12";
    }
    /// DP-TT, a private A/B test that stops: it finds the best arm at the confidence 1 - `beta` (95% by default), then
    /// pulls it for ever. [`best_arm`](crate::Bandit::best_arm) returns it, and [`verdict`](crate::Bandit::verdict) says
    /// how much better it is. With probability at most beta it ever returns an arm that is not the best, whenever it stops:
    /// its rule is valid at all times and accounts for all noises. With `winners` it finds so many of the best arms. With a
    /// `tolerance` it also stops when no arm is better than the leader by that much, and with `planned_end` after so many
    /// rewards. Pure epsilon-DP (Theorem P); with delta > 0 (epsilon, delta)-DP by zCDP. An arm that was refuted is not
    /// active. Arms that are left are drawn with even probabilities, or with a `control_share`; or each visitor keeps an arm
    /// (`sticky`). Rates may rise and fall together,
    /// but the order of the means must not change. Without `tolerance` and `planned_end` it does not stop if no arm is better
    /// than all others by more than 2^-`reward_bits` of the range, by which rounding may change a difference.
    /// [`add_arm`](crate::Bandit::add_arm) begins a new test with nothing, and so does
    /// [`retire_arm`](crate::Bandit::retire_arm) of an arm that has refuted others, or that the test has decided for; you may
    /// choose the arm by what was released. Supports eligible arms, but not with `control_share` and `sticky`; an arm that is
    /// not active is pulled only if no active one is eligible. A restored handle keeps the `beta`.
    TopTwo = 25, c"dp-tt", dpb_new_tt, "TT", Ours, batched::top_two::DpTopTwo::new {
        from: "this library, after Russo 2016: see its file";
        loss: released;
        can: "among, change, snapshot, merge, decide";
        needs: "";
        uses: "delta beta tolerance planned_end control_share sticky winners";
        select: "O(K)";
        update: "O(1); at a batch's end some 10 microseconds for each arm";
        bytes: "5600 + 460 K";
        arms: "2^8";
    }
    /// dp-linear, the contextual bandit: decisions depend on the features of a request (`features`,
    /// [`features`](crate::Request::features)).
    ///
    /// **A feature must not be made of rewards.** The visitor's clicks so far, an ad's click rate from the log, a score
    /// learned from clicks: each releases rewards without noise, and no theorem covers it. Features are known to the
    /// server and not protected; rewards are.
    ///
    /// Pure epsilon-DP for each reward, for all time, even if an adversary who sees every decision and release chooses
    /// the features (Theorem L, docs/theory/linear.md). A logistic model is learned from one released integer vector for
    /// each batch: noisy sums of rewards, by features or by cells of a public partition of the rows. Everything else is
    /// public and has no noise. Rows may have any unit, which the library learns from the first ones. First a pilot plays
    /// all arms evenly, until it knows the rate of rewards (about 9/epsilon clicks). As many more decisions as there are
    /// models are even too. Then Thompson sampling over 32 draws of the model; with exploration > 0 propensities are
    /// exact, otherwise NaN from then on. Supports eligible arms, several slots, [`add_arm`](crate::Bandit::add_arm) and
    /// [`retire_arm`](crate::Bandit::retire_arm), `forget_after`, `expected_users`, [`merge`](crate::Bandit::merge),
    /// [`snapshot`](crate::Bandit::snapshot); [`set_prior`](crate::Bandit::set_prior) with a model for each arm (a rate for
    /// its intercept).
    ///
    /// With `private_features` it protects whole requests, features included, from all who do not see their own decisions
    /// (Theorem J, docs/theory/private-features.md).
    ///
    /// The handle takes about 66 K + (20 M + 32) D^2 + (810 M + 2150) (D + 3) + (2 D + 14) P bytes: K the number of
    /// arms, M that of models (1, or K with `model_per_arm`), D = features + 1, P as at
    /// [`dpb_new`](crate::ffi::dpb_new). Select takes O(arms d), update O(d), or O(d^2) for dense rows, and the end of a
    /// batch O(d^3). At most 2^21/D arms, with `model_per_arm` at most 2^23/(D (D + 8)).
    Linear = 24, c"dp-linear", dpb_new_linear, "Linear", Ours, linear::Linear::new {
        from: "this library: see its file";
        loss: pure;
        can: "among, change, slate, values, snapshot, merge, prior";
        needs: "features";
        uses: "forget_after exploration max_slots features model_per_arm private_features codebook_len";
        select: "O(K D), and with propensities 32 times that; one row for all arms O(K + D) more";
        update: "O(D), dense rows O(D^2); at a batch's end O(D^3)";
        bytes: "see `dpb_new_linear`";
        arms: "2^21/D; 2^23/(D (D + 8)) with a model for each";
    }
    /// DP-SE, differentially private successive elimination: pure epsilon-DP (Sajed and Sheffet 2019, Algorithm 3,
    /// Theorem 4.1). With a horizon, beta is 1/horizon. Without horizon and beta, the policy guesses a horizon and
    /// squares the guess. With beta it identifies the best arm at that confidence
    /// ([`best_arm`](crate::Bandit::best_arm)).
    Se = 1, c"dp-se", dpb_new_se, "SE", Papers, elimination::se::DpSe::new {
        from: "Sajed and Sheffet 2019, Algorithm 3";
        loss: pure;
        can: "snapshot, decide";
        needs: "";
        uses: "beta horizon";
        select: "O(1) amortised";
        update: "O(1); at an epoch's end O(K)";
        bytes: "1350 + 72 K";
        arms: "2^18";
    }
    /// DP-UCB-BOUND, UCB on hybrid sums with an index widened by the noise: pure epsilon-DP (Tossou and Dimitrakakis
    /// 2016, Algorithm 1, Theorem 3.1, with the hybrid's budget corrected). Needs no horizon.
    UcbBound = 6, c"dp-ucb-bound", dpb_new_ucb_bound, "UCBBound", Papers, continual::ucb_bound::new {
        from: "Tossou and Dimitrakakis 2016, Algorithm 1";
        loss: pure;
        can: "";
        needs: "";
        uses: "beta horizon";
        select: "O(K)";
        update: "O(1), with a noise";
        bytes: "2600 + 408 K";
        arms: "2^18";
    }
    /// DP-UCB, UCB on hybrid sums of equal noise: pure epsilon-DP (Tossou and Dimitrakakis 2016, Algorithm 2, Theorem
    /// 3.1, with the hybrid's budget corrected). An update draws one noise an arm. Needs no horizon. The regret of its
    /// Theorem 3.3 is not proved: a worse arm gets of the order of ln^3 t/epsilon^2 pulls.
    Ucb = 7, c"dp-ucb", dpb_new_ucb, "UCB", Papers, continual::ucb::new {
        from: "Tossou and Dimitrakakis 2016, Algorithm 2";
        loss: pure;
        can: "";
        needs: "";
        uses: "beta horizon";
        select: "O(K)";
        update: "O(K), with K noises";
        bytes: "2600 + 408 K";
        arms: "2^15";
    }
    /// DP-UCB-INT, UCB on means released at intervals: (epsilon, delta)-DP, delta > 0 (Tossou and Dimitrakakis 2016,
    /// Algorithm 3, corrected). The library computes the loss of all releases together, and takes the least noise that
    /// keeps it. `interval_exponent`: v. `batch`: 0 = the series of their Lemma B.1; b > 0 = every max(b, f) rewards,
    /// as printed with b = 1. Needs no horizon. Their Theorem 3.5, a regret of that of UCB plus a constant, does not
    /// hold: with the printed index rare runs play a worse arm for a very long time; with `rigorous_index` none do, but
    /// worse arms get of the order of ln^(2/(2-v)) t decisions.
    UcbInt = 8, c"dp-ucb-int", dpb_new_ucb_int, "UCBInt", Papers, continual::ucb_int::new {
        from: "Tossou and Dimitrakakis 2016, Algorithm 3";
        loss: approximate;
        can: "";
        needs: "delta";
        uses: "delta beta horizon interval_exponent rigorous_index batch";
        select: "O(K)";
        update: "O(1)";
        bytes: "1600 + 96 K";
        arms: "2^20";
    }
    /// Private-UCB, UCB on binary-tree sums: pure epsilon-DP (Mishra and Thakurta 2015; the baseline that Sajed and
    /// Sheffet 2019 call DP-UCB). Needs horizon.
    PrivateUcb = 9, c"private-ucb", dpb_new_private_ucb, "PrivateUCB", Papers, continual::private_ucb::new {
        from: "Mishra and Thakurta 2015";
        loss: pure;
        can: "";
        needs: "horizon";
        uses: "beta horizon";
        select: "O(K)";
        update: "O(1), with a noise";
        bytes: "1400 + 400 K";
        arms: "2^18";
    }
    /// DP-Lambda-Lap (Tossou and Dimitrakakis 2017, Theorem 3.2): the policy with the number `base` (not this one),
    /// made private by noise on its gains. Pure epsilon-DP. Needs the horizon. `batch` = tau plays of one arm make one
    /// gain: 0 = the paper's 1; ceil(1/epsilon) is better, 2 ln(horizon)/epsilon best. Propensities are the base's:
    /// over EXP3_tau NaN.
    Lap = 11, c"dp-lap", dpb_new_lap, "Lap", Papers, adversarial::lap::Lap::new {
        from: "Tossou and Dimitrakakis 2017, Algorithm 1, over any policy";
        loss: pure;
        can: "snapshot";
        also: "full pulls";
        needs: "horizon base";
        uses: "delta beta horizon interval_exponent rigorous_index batch base shuffle_printed";
        select: "the base's, once in `batch` decisions";
        update: "the base's, likewise";
        bytes: "850 + 24 K + 120 P, and the base's";
        arms: "the base's";
    }
    /// DP-EXP3-Lap (Tossou and Dimitrakakis 2017, Algorithm 1), for adversarial rewards: DP-Lambda-Lap over EXP3. Pure
    /// epsilon-DP. Needs the horizon. `batch` = tau plays of one arm make one gain: 0 = the paper's 1; ceil(1/epsilon)
    /// is better, 2 ln(horizon)/epsilon best.
    Exp3Lap = 12, c"dp-exp3-lap", dpb_new_exp3_lap, "EXP3Lap", Papers, adversarial::exp3_lap::new {
        from: "the same over EXP3";
        loss: pure;
        can: "snapshot";
        also: "full pulls";
        needs: "horizon";
        uses: "beta horizon batch";
        select: "O(log K)";
        update: "O(log K)";
        bytes: "1700 + 72 K + 120 P";
        arms: "2^24";
    }
    /// EXP3_tau (Tossou and Dimitrakakis 2017, Section 3.2), for adversarial rewards and switching costs: EXP3 in
    /// intervals of tau decisions, (epsilon, delta)-DP by its own randomness. tau is the smallest that suffices. Needs
    /// the horizon and delta > 0. Propensities are NaN, because they would reveal raw rewards.
    Exp3Tau = 13, c"exp3-tau", dpb_new_exp3_tau, "EXP3Tau", Papers, adversarial::exp3_tau::Exp3Tau::new {
        from: "Tossou and Dimitrakakis 2017, section 3.2";
        loss: approximate;
        can: "";
        also: "full pulls";
        needs: "horizon delta";
        uses: "delta horizon";
        select: "O(1); at an interval's start O(log K)";
        update: "O(1); at its end O(log K)";
        bytes: "1300 + 56 K + 16 P";
        arms: "2^24";
    }
    /// Batched Tsallis-INF for heavy tails (Asi, Raman, Talwar 2025): the recommended policy for adversarial rewards.
    /// Pure epsilon-DP, regret O(sqrt(K T/epsilon)), no horizon. `batch` = decisions for one arm in one release: 0 =
    /// ceil(1/epsilon).
    Tsallis = 14, c"tsallis", dpb_new_tsallis, "Tsallis", Papers, adversarial::tsallis::Tsallis::new {
        from: "Asi, Raman and Talwar 2025";
        loss: pure;
        can: "snapshot";
        also: "full pulls";
        needs: "";
        uses: "batch";
        select: "O(1); at an interval's start O(log K), and seldom O(K)";
        update: "O(1); at its end O(log K)";
        bytes: "1700 + 80 K + 120 P";
        arms: "2^20";
    }
    /// UCB1 (Auer, Cesa-Bianchi, Fischer 2002): a baseline WITHOUT privacy.
    NonprivateUcb1 = 2, c"nonprivate-ucb1", dpb_new_nonprivate_ucb1, "NonprivateUCB1", Baselines, baselines::ucb1::Ucb1::new {
        from: "Auer, Cesa-Bianchi and Fischer 2002";
        loss: unbounded;
        can: "";
        needs: "";
        uses: "beta horizon";
        select: "O(K)";
        update: "O(1)";
        bytes: "1100 + 56 K";
        arms: "2^20";
    }
    /// KL-UCB (Garivier and Cappe 2011): a baseline WITHOUT privacy.
    NonprivateKlUcb = 3, c"nonprivate-klucb", dpb_new_nonprivate_klucb, "NonprivateKLUCB", Baselines, baselines::klucb::KlUcb::new {
        from: "Garivier and Cappe 2011";
        loss: unbounded;
        can: "";
        needs: "";
        uses: "beta horizon";
        select: "O(K)";
        update: "O(1)";
        bytes: "900 + 32 K";
        arms: "2^15";
    }
    /// IMED (Honda and Takemura 2015): a baseline WITHOUT privacy.
    NonprivateImed = 4, c"nonprivate-imed", dpb_new_nonprivate_imed, "NonprivateIMED", Baselines, baselines::imed::Imed::new {
        from: "Honda and Takemura 2015";
        loss: unbounded;
        can: "";
        needs: "";
        uses: "beta horizon";
        select: "O(K)";
        update: "O(1)";
        bytes: "900 + 32 K";
        arms: "2^20";
    }
    /// Successive elimination (Even-Dar, Mannor, Mansour 2006): a baseline WITHOUT privacy. Needs horizon or beta; with
    /// one arm left it is the best arm at that confidence ([`best_arm`](crate::Bandit::best_arm)).
    NonprivateSe = 5, c"nonprivate-se", dpb_new_nonprivate_se, "NonprivateSE", Baselines, baselines::se::new {
        from: "Even-Dar, Mannor and Mansour 2006";
        loss: unbounded;
        can: "decide";
        needs: "horizon|beta";
        uses: "beta horizon";
        select: "O(1) amortised";
        update: "O(1) amortised";
        bytes: "950 + 36 K";
        arms: "2^20";
    }
    /// EXP3 (Auer, Cesa-Bianchi, Freund, Schapire 2003): a baseline for adversarial rewards, WITHOUT privacy. Needs the
    /// horizon.
    NonprivateExp3 = 10, c"nonprivate-exp3", dpb_new_nonprivate_exp3, "NonprivateEXP3", Baselines, adversarial::exp3::Exp3::new {
        from: "Auer and others 2003";
        loss: unbounded;
        can: "";
        also: "full pulls";
        needs: "horizon";
        uses: "horizon";
        select: "O(log K)";
        update: "O(log K)";
        bytes: "1250 + 48 K + 16 P";
        arms: "2^24";
    }
    /// SDP-AE, arm elimination on shuffled batches: (epsilon, delta)-DP in the shuffle model (Tenenbaum, Kaplan,
    /// Mansour, Stemmer 2021, Algorithm 1, Theorem 3.1). Needs delta and horizon. `batch` is m, 0 for four times the
    /// noise's variance. `shuffle_printed` is possible.
    ///
    /// In production devices encode, a shuffler permutes, and the server calls
    /// [`submit_shuffled`](crate::Bandit::submit_shuffled). In a simulation [`update`](crate::Bandit::update) encodes
    /// and shuffles in the process. The first of these calls decides which of the two a handle takes for good.
    SdpAe = 15, c"sdp-ae", dpb_new_sdp_ae, "SDPAE", Shuffle, elimination::sdp_ae::new {
        from: "Tenenbaum and others 2021, Algorithm 1";
        loss: approximate;
        can: "snapshot, decide";
        needs: "horizon delta";
        uses: "delta beta horizon batch shuffle_printed";
        refuses: expected_users "the device must limit its user's contributions before it sends them";
        select: "O(1)";
        update: "O(coins of a user); a batch O(its bits); at a phase's end O(K)";
        bytes: "1370 + 80 K";
        arms: "2^20";
    }
    /// VB-SDP-AE: SDP-AE with 2^t users for each batch of phase t (Algorithm 2). (epsilon, delta)-DP in the shuffle
    /// model, at nearly the central model's regret. Otherwise as `sdp-ae`.
    VbSdpAe = 16, c"vb-sdp-ae", dpb_new_vb_sdp_ae, "VBSDPAE", Shuffle, elimination::vb_sdp_ae::new {
        from: "Tenenbaum and others 2021, Algorithm 2";
        loss: approximate;
        can: "snapshot, decide";
        needs: "horizon delta";
        uses: "delta beta horizon shuffle_printed";
        refuses: expected_users "the device must limit its user's contributions before it sends them";
        select: "O(1)";
        update: "O(coins of a user); a batch O(its bits); at a phase's end O(K)";
        bytes: "1900 + 80 K";
        arms: "2^20";
    }
    /// LDP-UCB: UCB on rewards that the users' devices made private, epsilon-DP in the local model (Ren, Zhou, Liu,
    /// Shroff 2020). [`update`](crate::Bandit::update) takes the bit of [`dpb_ldp_encode`](crate::ffi::dpb_ldp_encode),
    /// 1 as `reward_max` and 0 as `reward_min`; anything else is [`InvalidReward`](crate::Error::InvalidReward). This
    /// handle makes nothing private, so it must never get a raw reward. epsilon: 1e-6 .. 40. `reward_window` must be 0,
    /// because silence would be a bit that no device made private.
    LdpUcb = 17, c"ldp-ucb", dpb_new_ldp_ucb, "LDPUCB", Local, local::ldp_ucb::new {
        from: "Ren and others 2020";
        loss: pure;
        can: "snapshot";
        also: "bits";
        needs: "";
        uses: "";
        refuses: expected_users "the device must limit its user's contributions before it sends them";
        refuses: reward_window "silence would be a bit that no device made private";
        refuses: clamp_rewards "a reward is a bit that a device made private";
        select: "O(K)";
        update: "O(1)";
        bytes: "1100 + 56 K";
        arms: "2^20";
    }
    /// LDP KL-UCB: LDP-UCB with the Kullback-Leibler index of the bits, which are Bernoulli whatever the rewards are.
    /// Otherwise as `ldp-ucb`.
    LdpKlUcb = 18, c"ldp-klucb", dpb_new_ldp_klucb, "LDPKLUCB", Local, local::ldp_klucb::new {
        from: "the same with the index of KL-UCB";
        loss: pure;
        can: "snapshot";
        also: "bits";
        needs: "";
        uses: "";
        refuses: expected_users "the device must limit its user's contributions before it sends them";
        refuses: reward_window "silence would be a bit that no device made private";
        refuses: clamp_rewards "a reward is a bit that a device made private";
        select: "O(K)";
        update: "O(1)";
        bytes: "900 + 32 K";
        arms: "2^15";
    }
}
