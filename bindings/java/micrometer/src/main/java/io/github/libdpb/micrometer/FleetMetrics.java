package io.github.libdpb.micrometer;

import io.github.libdpb.NodeDiagnostics;
import io.github.libdpb.NodeReport;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;

/** The metrics of a node of a fleet for Micrometer, with the names of the other languages: see {@link DpbMetrics}. */
public final class FleetMetrics implements MeterBinder {
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
        gauge(
                to,
                report,
                "age_seconds",
                "Seconds since the last successful exchange.",
                of -> of.age().toMillis() / 1e3);
        count(to, report, "exchanges", "Successful exchanges.", NodeReport::exchanges);
        gauge(
                to,
                report,
                "outage",
                "1 while rewards cannot travel between nodes, so that decisions are cancelled.",
                of -> one(of.outage()));
        count(
                to,
                report,
                "outages",
                "Outages: periods in which rewards could not travel between nodes.",
                NodeReport::outages);
        gauge(to, report, "nodes", "Other nodes that are alive.", of -> Math.max(of.nodes(), 1) - 1);
        gauge(
                to,
                report,
                "released_nodes",
                "Other nodes from which this node has read a snapshot, also nodes that have left.",
                NodeReport::released);
        gauge(
                to,
                report,
                "incompatible_nodes",
                "Other nodes whose newest snapshot was refused.",
                NodeReport::incompatible);
        gauge(
                to,
                report,
                "leads",
                "1 while this node leads: it releases what all nodes contribute.",
                of -> one(of.leads()));
        gauge(
                to,
                report,
                "learns",
                "1 if this node may learn from people: the store has kept a snapshot that counts this period.",
                of -> one(of.learns()));
        gauge(to, report, "ready", "1 if a balancer may send this node requests.", of -> one(of.ready()));
        gauge(
                to,
                report,
                "draining",
                "Nodes that have ended, with whose open decisions this node continues.",
                NodeReport::draining);
        count(to, report, "contributions", "Contributions sent to leaders.", NodeReport::contributions);
        if (diagnostics == null) {
            return;
        }
        count(
                to,
                diagnostics,
                "failures",
                "Commands to the store that failed. NOT private: some fail only if there are rewards.",
                NodeDiagnostics::failures);
        count(to, diagnostics, "rewards_sent", "Rewards sent to other nodes. NOT private.", NodeDiagnostics::sent);
        gauge(
                to,
                diagnostics,
                "rewards_waiting",
                "Rewards in the queue to other nodes. NOT private.",
                NodeDiagnostics::waiting);
        count(
                to,
                diagnostics,
                "rewards_unsent",
                "Rewards lost because the queue or a message was full. NOT private.",
                NodeDiagnostics::unsent);
        count(
                to,
                diagnostics,
                "rewards_received",
                "Rewards from other nodes that took effect. NOT private.",
                NodeDiagnostics::received);
        count(
                to,
                diagnostics,
                "rewards_refused",
                "Rewards from other nodes that were refused. NOT private.",
                NodeDiagnostics::refused);
    }

    private static double one(boolean is) {
        return is ? 1 : 0;
    }

    private <T> void gauge(MeterRegistry to, Supplier<T> from, String metric, String help, ToDoubleFunction<T> value) {
        Gauge.builder(DpbMetrics.named("fleet_" + metric), from, of -> read(of, value))
                .description(help)
                .tags(Tags.of("bandit", name))
                .strongReference(true)
                .register(to);
    }

    private <T> void count(MeterRegistry to, Supplier<T> from, String metric, String help, ToDoubleFunction<T> value) {
        FunctionCounter.builder(DpbMetrics.named("fleet_" + metric), from, of -> read(of, value))
                .description(help)
                .tags(Tags.of("bandit", name))
                .register(to);
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
