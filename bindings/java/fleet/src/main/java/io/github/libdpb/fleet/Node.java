package io.github.libdpb.fleet;

import io.github.libdpb.Bandit;
import io.github.libdpb.Clock;
import io.github.libdpb.Command;
import io.github.libdpb.Config;
import io.github.libdpb.DpbException;
import io.github.libdpb.FleetNode;
import io.github.libdpb.NodeDiagnostics;
import io.github.libdpb.NodeOptions;
import io.github.libdpb.NodeReport;
import io.github.libdpb.NodeState;
import io.github.libdpb.Policy;
import io.github.libdpb.Status;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The membership of this process in a fleet: processes that learn as one bandit, through a store that they share. A
 * decision never waits for the store, and the node decides while the store is away.
 *
 * <pre>{@code
 * try (Node node = Node.join(store, null, config, new NodeOptions("ads"), Duration.ofSeconds(30))) {
 *     Decision ad = node.bandit().select(new Decision());
 *     node.update(ad.ticket(), 1); // for a ticket of any node
 * } // hands over
 * }</pre>
 *
 * <p>Any number of threads may use a node. It has two daemon threads.
 */
public final class Node implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.github.libdpb.fleet");

    private final FleetNode core;
    private final Store store;
    private final Duration tick; // null: a tick is a decision
    private final long began = System.nanoTime();
    private final long time = System.currentTimeMillis();
    private final CompletableFuture<Bandit> joined = new CompletableFuture<>();
    private final CompletableFuture<NodeReport> ended;

    private Node(Store store, Policy policy, Config config, NodeOptions options) {
        this.core = new FleetNode(policy, config, options);
        this.store = store;
        this.tick = config.clock() == Clock.CALLER ? options.tick() : null;
        var rounds = start(FleetNode.Lane.ROUNDS);
        var exchanges = start(FleetNode.Lane.EXCHANGES);
        this.ended = CompletableFuture.allOf(rounds, exchanges).thenApply(nothing -> core.report());
    }

    /**
     * Takes a number, makes this node's bandit, and merges what all other nodes have released. If the store has a
     * snapshot of this number, the node continues from it. While the store fails, or another process has the number, it
     * tries again.
     *
     * @param policy one that can merge; null for the recommended one
     * @param config the same at all nodes, but for {@link Config#node(long)}: 1 to 65535, which no other process has;
     *     or 0, for the lowest number that is free. With {@link Clock#CALLER} the node sets the bandit's clock, to the
     *     time since 1970 in ticks: do not call advance.
     * @param patience how long it tries
     * @throws DpbException as {@link FleetNode#FleetNode}
     * @throws TimeoutException not joined within that time; the message has the last error of the store
     * @throws IllegalStateException the store's snapshot of this number is not of this configuration
     */
    public static Node join(Store store, Policy policy, Config config, NodeOptions options, Duration patience)
            throws InterruptedException, TimeoutException {
        Node node = new Node(store, policy, config, options);
        boolean isIn = false;
        try {
            CompletableFuture.anyOf(node.joined, node.ended).get(patience.toMillis(), TimeUnit.MILLISECONDS);
            isIn = node.joined.isDone();
            if (!isIn) {
                throw new IllegalStateException("not joined: " + node.report().lastError());
            }
            return node;
        } catch (TimeoutException late) {
            throw new TimeoutException("not joined: " + node.report().lastError());
        } catch (ExecutionException failure) {
            throw new IllegalStateException(failure.getCause());
        } finally {
            if (!isIn) {
                node.core.leaveFleet();
                node.ended.whenComplete((report, failure) -> node.core.close());
            }
        }
    }

    private CompletableFuture<Void> start(FleetNode.Lane lane) {
        var end = new CompletableFuture<Void>();
        Thread thread = new Thread(() -> run(lane, end), "dpb-fleet-" + lane.name().toLowerCase(java.util.Locale.ROOT));
        thread.setDaemon(true);
        thread.start();
        return end;
    }

    private void run(FleetNode.Lane lane, CompletableFuture<Void> end) {
        try {
            while (true) {
                Duration now = Duration.ofMillis(time).plusNanos(System.nanoTime() - began);
                Command command = core.next(lane);
                Bandit bandit = core.bandit();
                if (bandit != null) {
                    if (tick != null) { // after next, which cancels decisions first if this process stood still
                        bandit.advance(now.dividedBy(tick));
                    }
                    joined.complete(bandit);
                }
                switch (command.kind()) {
                    case WAIT -> Thread.sleep(command.waiting());
                    case LOG -> log(command.text());
                    default -> run(command);
                }
            }
        } catch (Throwable failure) {
            if (failure instanceof DpbException refusal && refusal.status() == Status.HALTED) {
                end.complete(null);
            } else {
                end.completeExceptionally(failure);
            }
        }
    }

    private void run(Command command) {
        byte[] reply;
        try {
            reply = store.run(command);
        } catch (Exception failure) {
            Throwable root = failure;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            core.failed(command.id(), root == failure ? root.toString() : failure + ": " + root);
            return;
        }
        core.reply(command.id(), reply);
    }

    private void log(String text) {
        NodeReport report = core.report();
        boolean isPlanned = report.state() == NodeState.LEFT;
        LOG.log(
                isPlanned ? System.Logger.Level.INFO : System.Logger.Level.WARNING,
                "fleet: " + text + " (node " + report.number() + ")");
    }

    /** Returns the node's bandit, for decisions and reports: {@link FleetNode#bandit}. */
    public Bandit bandit() {
        return joined.join();
    }

    /**
     * Reports the reward of a decision of any node. It never waits for the store. The status is NOT private: give a
     * visitor the same reply whatever it is.
     *
     * @throws DpbException as {@link FleetNode#update}
     */
    public void update(long ticket, double reward) {
        core.update(ticket, reward);
    }

    /** The same for a part of a reward: {@link FleetNode#updatePart}. */
    public void updatePart(long ticket, int part, double value) {
        core.updatePart(ticket, part, value);
    }

    /** Begins a period: {@link FleetNode#nextPeriod}. */
    public void nextPeriod() {
        core.nextPeriod();
    }

    /** Reads what anybody may know of the node. Its {@code ready} says whether a balancer may send it requests. */
    public NodeReport report() {
        return core.report();
    }

    /** Reads counts of rewards, which are NOT private. */
    public NodeDiagnostics diagnostics() {
        return core.diagnostics();
    }

    /**
     * Returns what completes when the node has ended: after {@link #close}; or by itself, when another process has its
     * number ({@link NodeState#REPLACED}): then end this process, of which the fleet learns nothing.
     */
    public CompletableFuture<NodeReport> ended() {
        return ended.copy();
    }

    /**
     * Leaves the fleet, within 25 s, and frees the node and its bandit. The fleet releases what this node has
     * collected, and with a fleetKey another node continues with the decisions that are open, whose rewards still
     * count. Decide nothing after it.
     */
    @Override
    public void close() {
        try {
            core.leaveFleet();
            ended.handle((report, failure) -> report).join();
        } catch (DpbException refusal) {
            if (refusal.status() != Status.CLOSED) { // a second call
                throw refusal;
            }
        } finally {
            core.close();
        }
    }

    /**
     * Ends the lease of a number whose process has died, so that the others need not wait for 30 delays. A process that
     * has the number is replaced.
     *
     * @param name of {@link NodeOptions}
     * @throws Exception of the store
     */
    public static void leave(Store store, String name, int number) throws Exception {
        store.run(FleetNode.gone(name, number));
    }
}
