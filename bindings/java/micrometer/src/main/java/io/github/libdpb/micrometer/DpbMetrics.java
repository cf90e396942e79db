package io.github.libdpb.micrometer;

import io.github.libdpb.Arm;
import io.github.libdpb.Bandit;
import io.github.libdpb.Decision;
import io.github.libdpb.Diagnostics;
import io.github.libdpb.DpbException;
import io.github.libdpb.Interval;
import io.github.libdpb.Prediction;
import io.github.libdpb.Report;
import io.github.libdpb.Status;
import io.github.libdpb.Verdict;
import io.github.libdpb.Warning;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;

/**
 * The metrics of a bandit for Micrometer. In Prometheus they have the names of the other languages, such as
 * {@code dpb_decisions_total}, with the label {@code bandit}.
 *
 * <pre>{@code
 * DpbMetrics.of("ads", bandit).bindTo(registry);
 * }</pre>
 *
 * <p>There are public metrics, and those for operators, which are NOT private: bind these to a registry of their own.
 */
public final class DpbMetrics implements MeterBinder {
    record Metric<T>(boolean isCounter, String name, String help, ToDoubleFunction<T> value) {
        /** Registers it, as what {@code read} makes of an object. */
        <S> void register(MeterRegistry to, Tags tags, S object, ToDoubleFunction<S> read) {
            if (isCounter) {
                FunctionCounter.builder(named(name), object, read)
                        .description(help)
                        .tags(tags)
                        .register(to);
            } else {
                Gauge.builder(named(name), object, read)
                        .description(help)
                        .tags(tags)
                        .strongReference(true)
                        .register(to);
            }
        }
    }

    static <T> Metric<T> counter(String name, String help, ToDoubleFunction<T> value) {
        return new Metric<>(true, name, help, value);
    }

    static <T> Metric<T> gauge(String name, String help, ToDoubleFunction<T> value) {
        return new Metric<>(false, name, help, value);
    }

    private static final List<Metric<Report>> REPORT = List.of(
            // begin generated report
            gauge("phase", "The policy's epoch, phase or interval.", of -> of.phase()),
            gauge("arms_active", "Arms that are neither eliminated nor retired.", of -> of.armsActive()),
            gauge("pending", "Decisions that are open.", of -> of.pending()),
            counter("decisions", "Decisions made.", of -> of.decisions()),
            counter(
                    "answered",
                    "Decisions whose reward took effect or whose reward window is over.",
                    of -> of.answered()),
            counter("cancelled", "Decisions that were cancelled.", of -> of.cancelled()),
            counter("expired", "Decisions that a full pending table or a restart dropped.", of -> of.expired()),
            gauge(
                    "epsilon_spent",
                    "Upper bound of the privacy loss so far, at dpb_delta_spent.",
                    of -> of.epsilonSpent()),
            gauge(
                    "delta_spent",
                    "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.",
                    of -> of.deltaSpent()),
            gauge("private", "1, or 0 for baselines and under a test seed.", of -> of.isPrivate() ? 1 : 0),
            counter("changes", "Releases that contradicted the arm's earlier releases.", of -> of.changesDetected()),
            gauge("segments", "Segments in use; 0 for a handle without segments.", of -> of.segments()),
            counter("failures", "Updates of a model that failed, so that the last model stayed.", of -> of.failures()),
            counter("contributions", "Contributions of other handles that were added.", of -> of.contributions()),
            counter(
                    "contributions_lost",
                    "Contributions that were missed, or not used in full.",
                    of -> of.contributionsLost()),
            gauge(
                    "duty",
                    "0: releases its own batches; 1: contributes and releases nothing; 2: leads.",
                    of -> of.duty().ordinal()),
            counter("clock_leaps", "Leaps of the caller's clock.", of -> of.clockLeaps()),
            gauge("stopped", "1 if the policy has decided for an arm, or 0.", of -> of.stopped() ? 1 : 0),
            gauge("clip", "The learned clip of rewards; 0 before it is known.", of -> of.clip()),
            gauge(
                    "epsilon_limit",
                    "The most that dpb_epsilon_spent can become; +Inf if nothing limits it.",
                    of -> of.epsilonLimit()),
            gauge(
                    "epsilon_left",
                    "dpb_epsilon_limit minus dpb_epsilon_spent; 0 for baselines.",
                    of -> of.epsilonLeft()),
            // end generated report
            gauge("up", "1, or 0 for a handle that is closed.", of -> 1));

    private static final List<Metric<Arm>> ARMS = List.of(
            // begin generated arms
            gauge("mean", "Released mean reward; NaN before the first release.", of -> of.mean()),
            gauge("width", "Half-width of the mean's confidence interval.", of -> of.width()),
            gauge("pulls", "Decisions that were not cancelled and did not expire.", of -> of.pulls()),
            gauge("active", "1, or 0 if the arm is eliminated or retired.", of -> of.active() ? 1 : 0),
            gauge(
                    "effective_pulls",
                    "Rewards in the released mean, discounted with forget_after.",
                    of -> of.effectivePulls())
            // end generated arms
            );

    private static final List<Metric<Diagnostics>> DIAGNOSTICS = List.of(
            // begin generated diagnostics
            counter(
                    "duplicates",
                    "Updates and cancellations of a ticket that had one already. NOT private.",
                    of -> of.duplicates()),
            counter("late", "Updates and cancellations of an expired ticket. NOT private.", of -> of.late()),
            counter("rejected", "Rewards that were refused. NOT private.", of -> of.rejected()),
            counter("unknown", "Tickets that the handle never issued. NOT private.", of -> of.unknown()),
            counter(
                    "oversized",
                    "Decisions whose row of features was scaled down, because it was far larger than the first ones.",
                    of -> of.oversized())
            // end generated diagnostics
            );

    private static final List<Metric<Verdict>> VERDICT = List.of(
            // begin generated verdicts
            gauge(
                    "verdict_state",
                    "0: the test goes on; 1: won; 2: good enough; 3: ended without a claim.",
                    of -> of.state().ordinal()),
            gauge("verdict_leader", "Arm that the test has decided for, or that leads.", of -> of.leader()),
            gauge("verdict_rewards", "Rewards in the releases since the test began.", of -> of.rewards()),
            gauge(
                    "verdict_low",
                    "Lower end of an interval for the leader's mean minus another arm's; NaN before releases.",
                    of -> of.low()),
            gauge("verdict_high", "Upper end of that interval.", of -> of.high()),
            gauge(
                    "verdict_mismatch",
                    "1 if arms do not get their shares, so that the test says nothing, or 0.",
                    of -> of.mismatch() ? 1 : 0)
            // end generated verdicts
            );

    private static final List<Metric<Interval>> LIFT = List.of(
            gauge(
                    "lift_low",
                    "Lower end of a 95% interval for what decisions gain over even play: 0.1 is 10% more.",
                    of -> of.low()),
            gauge("lift_high", "Upper end of that interval.", of -> of.high()));

    private static final List<Metric<Prediction>> WEIGHT = List.of(
            gauge(
                    "feature_weight",
                    "Change of the logit of the mean reward for one unit of the feature.",
                    of -> of.mean()),
            gauge("feature_weight_deviation", "Standard deviation of that weight.", of -> of.deviation()));

    private static final int MOST_ARMS = 100; // of a lift, which takes a millisecond for each
    private static final int MOST_WEIGHTS = 1000; // rows of each metric

    private static final Set<Warning> OF_REWARDS = EnumSet.of(Warning.ALL_SMALLEST, Warning.ALL_LARGEST);

    /**
     * What was read of the bandit, once for all metrics of a scrape. The verdict is null if it tests no arms, the lift if
     * it has none. Weights are by the label of the arm, which is empty for the model that all arms share.
     */
    private record State(
            long at,
            Report report,
            List<Arm> arms,
            Diagnostics diagnostics,
            Verdict verdict,
            Interval lift,
            SortedMap<String, List<Prediction>> weights) {}

    private static final long FRESH = 100_000_000; // nanoseconds

    private final String name;
    private final Bandit bandit;
    private final boolean isOperator;
    private final List<MultiGauge> ofArms = new ArrayList<>();
    private final List<MultiGauge> ofFeatures = new ArrayList<>();
    private State state;

    private DpbMetrics(String name, Bandit bandit, boolean isOperator) {
        this.name = name;
        this.bandit = bandit;
        this.isOperator = isOperator;
    }

    /** Returns the public metrics of a bandit, by this value of the label. Of a closed one only dpb_up is a number. */
    public static DpbMetrics of(String name, Bandit bandit) {
        return new DpbMetrics(name, bandit, false);
    }

    /**
     * Returns these and the counts of refused calls and the warnings from rewards ({@link Diagnostics}), which are NOT
     * private: a duplicate reveals a click. Show them to operators only.
     */
    public static DpbMetrics forOperators(String name, Bandit bandit) {
        return new DpbMetrics(name, bandit, true);
    }

    /** Null of a bandit that is closed. */
    private synchronized State state() {
        if (state == null || System.nanoTime() - state.at > FRESH) {
            try {
                Report report = bandit.report();
                List<Arm> arms = bandit.arms();
                Verdict verdict = orNull(bandit::verdict);
                Interval lift = arms.size() > MOST_ARMS ? null : orNull(this::lift);
                state = new State(
                        System.nanoTime(), report, arms, bandit.diagnostics(), verdict, lift, weights(report, arms));
            } catch (DpbException closed) {
                state = null;
            }
        }
        return state;
    }

    private static <T> T orNull(Supplier<T> read) {
        try {
            return read.get();
        } catch (DpbException error) {
            if (error.status() != Status.UNSUPPORTED) {
                throw error;
            }
            return null;
        }
    }

    private Interval lift() {
        try {
            return bandit.lift(Decision.NO_ARM, 0.95);
        } catch (DpbException error) {
            if (error.status() != Status.NOT_READY) {
                throw error;
            }
            return new Interval(Double.NaN, Double.NaN);
        }
    }

    private SortedMap<String, List<Prediction>> weights(Report report, List<Arm> arms) {
        SortedMap<String, List<Prediction>> weights = new TreeMap<>();
        int models = report.modelPerArm() ? arms.size() : 1;
        boolean isRead = report.features() > 0 && models * (report.features() + 1) <= MOST_WEIGHTS;
        for (int arm = 0; isRead && weights.size() < models && arm < arms.size(); arm++) {
            if (arms.get(arm).active()) {
                weights.put(report.modelPerArm() ? Integer.toString(arm) : "", bandit.featureWeights(arm));
            }
        }
        return weights;
    }

    private double read(Function<State, Double> value, double otherwise) {
        State now = state();
        return now == null ? otherwise : value.apply(now);
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        Tags tags = Tags.of("bandit", name);
        for (Metric<Report> metric : REPORT) {
            double closed = metric.name.equals("up") ? 0 : Double.NaN;
            bind(registry, metric, tags, now -> metric.value.applyAsDouble(now.report), closed);
        }
        State first = state();
        if (first != null && first.verdict != null) {
            for (Metric<Verdict> metric : VERDICT) {
                bind(registry, metric, tags, now -> metric.value.applyAsDouble(now.verdict), Double.NaN);
            }
        }
        if (first != null && first.lift != null) {
            for (Metric<Interval> metric : LIFT) {
                bind(registry, metric, tags, now -> metric.value.applyAsDouble(now.lift), Double.NaN);
            }
        }
        String policy = bandit.policy().label();
        bind(
                registry,
                gauge("info", "1, with the policy and the version of the library.", of -> 1),
                tags.and("policy", policy, "version", Bandit.version()),
                now -> 1.0,
                Double.NaN);
        warnings(registry, tags, "warning", "1 for a sign that the handle cannot learn, or 0.", false);
        for (Metric<Arm> metric : ARMS) {
            ofArms.add(many(registry, "arm_" + metric.name, metric.help, tags));
        }
        for (Metric<Prediction> metric : WEIGHT) {
            ofFeatures.add(many(registry, metric.name, metric.help, tags));
        }
        refresh();
        if (isOperator) {
            for (Metric<Diagnostics> metric : DIAGNOSTICS) {
                bind(registry, metric, tags, now -> metric.value.applyAsDouble(now.diagnostics), Double.NaN);
            }
            String help = "1 for a sign, in rewards, that the handle cannot learn, or 0. NOT private.";
            warnings(registry, tags, "reward_warning", help, true);
        }
    }

    /** Makes the metrics of arms that were added. Call it after {@link Bandit#addArm}. */
    public synchronized void refresh() {
        state = null;
        State now = state();
        int arms = now == null ? 0 : now.arms.size();
        for (int i = 0; i < ofArms.size(); i++) {
            Metric<Arm> metric = ARMS.get(i);
            List<MultiGauge.Row<?>> rows = new ArrayList<>();
            for (int arm = 0; arm < arms; arm++) {
                int number = arm;
                rows.add(MultiGauge.Row.of(
                        Tags.of("arm", Integer.toString(number)),
                        () -> read(then -> metric.value.applyAsDouble(then.arms.get(number)), Double.NaN)));
            }
            ofArms.get(i).register(rows, true);
        }
        for (int i = 0; i < ofFeatures.size(); i++) {
            Metric<Prediction> metric = WEIGHT.get(i);
            List<MultiGauge.Row<?>> rows = new ArrayList<>();
            SortedMap<String, List<Prediction>> weights = now == null ? new TreeMap<>() : now.weights;
            weights.forEach((arm, of) -> {
                for (int feature = 0; feature < of.size(); feature++) {
                    int number = feature;
                    String label = feature + 1 == of.size() ? "intercept" : Integer.toString(feature);
                    rows.add(MultiGauge.Row.of(
                            Tags.of("arm", arm, "feature", label),
                            () -> read(then -> weight(metric, then.weights.get(arm), number), Double.NaN)));
                }
            });
            ofFeatures.get(i).register(rows, true);
        }
    }

    /** NaN of an arm that has been retired. */
    private static double weight(Metric<Prediction> metric, List<Prediction> of, int feature) {
        return of == null ? Double.NaN : metric.value.applyAsDouble(of.get(feature));
    }

    private static MultiGauge many(MeterRegistry registry, String name, String help, Tags tags) {
        return MultiGauge.builder(named(name)).description(help).tags(tags).register(registry);
    }

    private void warnings(MeterRegistry registry, Tags tags, String metric, String help, boolean ofRewards) {
        for (Warning warning : Warning.values()) {
            if (OF_REWARDS.contains(warning) == ofRewards) {
                Function<State, Double> value = now -> {
                    Set<Warning> all = ofRewards ? now.diagnostics.warnings() : now.report.warnings();
                    return all.contains(warning) ? 1.0 : 0.0;
                };
                Tags own = tags.and("warning", warning.name().toLowerCase(Locale.ROOT));
                bind(registry, gauge(metric, help, of -> 0), own, value, Double.NaN);
            }
        }
    }

    private <T> void bind(
            MeterRegistry registry, Metric<T> metric, Tags tags, Function<State, Double> value, double closed) {
        metric.register(registry, tags, this, of -> of.read(value, closed));
    }

    /** Micrometer's names have dots, of which the registry of Prometheus makes underscores. */
    private static String named(String metric) {
        return "dpb." + metric.replace('_', '.');
    }
}
