package io.github.libdpb.micrometer;

import static io.github.libdpb.micrometer.DpbMetrics.counter;
import static io.github.libdpb.micrometer.DpbMetrics.gauge;

import io.github.libdpb.NodeDiagnostics;
import io.github.libdpb.NodeReport;
import io.github.libdpb.micrometer.DpbMetrics.Metric;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.List;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;

/** The metrics of a node of a fleet for Micrometer, with the names of the other languages: see {@link DpbMetrics}. */
public final class FleetMetrics implements MeterBinder {
    private static final List<Metric<NodeReport>> REPORT = List.of(
            // begin generated node_report
            gauge("fleet_ready", "1 if a balancer may send this node requests.", of -> of.ready() ? 1 : 0),
            gauge(
                    "fleet_outage",
                    "1 while rewards cannot travel between nodes, so that decisions are cancelled.",
                    of -> of.outage() ? 1 : 0),
            counter(
                    "fleet_outages",
                    "Outages: periods in which rewards could not travel between nodes.",
                    of -> of.outages()),
            gauge(
                    "fleet_learns",
                    "1 if this node may learn from people: the store has kept a snapshot that counts this period.",
                    of -> of.learns() ? 1 : 0),
            gauge(
                    "fleet_leads",
                    "1 while this node leads: it releases what all nodes contribute.",
                    of -> of.leads() ? 1 : 0),
            gauge("fleet_nodes", "Nodes that are alive, this one included.", of -> of.nodes()),
            gauge(
                    "fleet_released_nodes",
                    "Other nodes from which this node has read a snapshot, also nodes that have left.",
                    of -> of.released()),
            gauge(
                    "fleet_incompatible_nodes",
                    "Other nodes whose newest snapshot was refused.",
                    of -> of.incompatible()),
            gauge(
                    "fleet_draining",
                    "Nodes that have ended, with whose open decisions this node continues.",
                    of -> of.draining()),
            counter("fleet_exchanges", "Successful exchanges.", of -> of.exchanges()),
            gauge("fleet_age_seconds", "Seconds since the last successful exchange.", of -> of.age().toMillis() / 1e3),
            counter(
                    "fleet_contributions",
                    "Contributions to leaders that the store has accepted.",
                    of -> of.contributions())
            // end generated node_report
            );

    private static final List<Metric<NodeDiagnostics>> REWARDS = List.of(
            // begin generated rewards
            gauge("fleet_rewards_waiting", "Rewards in the queue to other nodes. NOT private.", of -> of.waiting()),
            counter("fleet_rewards_sent", "Rewards sent to other nodes. NOT private.", of -> of.sent()),
            counter(
                    "fleet_rewards_unsent",
                    "Rewards lost because the queue or a message was full. NOT private.",
                    of -> of.unsent()),
            counter(
                    "fleet_rewards_received",
                    "Rewards from other nodes that took effect. NOT private.",
                    of -> of.received()),
            counter(
                    "fleet_rewards_refused",
                    "Rewards from other nodes that were refused. NOT private.",
                    of -> of.refused()),
            counter(
                    "fleet_failures",
                    "Commands to the store that failed. NOT private: some fail only if there are rewards.",
                    of -> of.failures())
            // end generated rewards
            );

    private final String name;
    private final Supplier<NodeReport> report;
    private final Supplier<NodeDiagnostics> diagnostics;

    private FleetMetrics(String name, Supplier<NodeReport> report, Supplier<NodeDiagnostics> diagnostics) {
        this.name = name;
        this.report = report;
        this.diagnostics = diagnostics;
    }

    /** Returns the public metrics of a node: {@code FleetMetrics.of("ads", node::report)}. */
    public static FleetMetrics of(String name, Supplier<NodeReport> report) {
        return new FleetMetrics(name, report, null);
    }

    /** Returns these and the counts of rewards that travel, which are NOT private. Show them to operators only. */
    public static FleetMetrics forOperators(
            String name, Supplier<NodeReport> report, Supplier<NodeDiagnostics> diagnostics) {
        return new FleetMetrics(name, report, diagnostics);
    }

    @Override
    public void bindTo(MeterRegistry to) {
        REPORT.forEach(metric -> bind(to, report, metric));
        if (diagnostics != null) {
            REWARDS.forEach(metric -> bind(to, diagnostics, metric));
        }
    }

    private <T> void bind(MeterRegistry to, Supplier<T> from, Metric<T> metric) {
        metric.register(to, Tags.of("bandit", name), from, of -> read(of, metric.value()));
    }

    /** NaN of a node that is closed. */
    private static <T> double read(Supplier<T> from, ToDoubleFunction<T> value) {
        try {
            return value.applyAsDouble(from.get());
        } catch (io.github.libdpb.DpbException closed) {
            return Double.NaN;
        }
    }
}
