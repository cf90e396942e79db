package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A node of a fleet: many processes that learn as one bandit, through a store that they share. It has no socket and no
 * thread: in each of its two lanes, ask for the next command, run it with a client of the store, and pass the reply.
 * The package io.github.libdpb.fleet does that for Redis and Valkey.
 *
 * <p>Any number of threads may use a node. Close it when done.
 */
public final class FleetNode extends Handle {
    /** The two lanes. Each needs a thread of its own, so that a slow exchange delays no beat. */
    public enum Lane {
        /** Beats and rewards. */
        ROUNDS(Native.DPB_LANE_ROUNDS),
        /** Everything else. */
        EXCHANGES(Native.DPB_LANE_EXCHANGES);

        private final int number;

        Lane(int number) {
            this.number = number;
        }
    }

    private final long began = System.nanoTime();
    private Bandit bandit;

    /**
     * Makes a node. It begins to join with its first {@link #next}, and has joined when {@link #bandit} is not null.
     *
     * @param policy one that can merge; null for the policy that {@link Bandit#Bandit(Config)} takes
     * @param config the same at all nodes, but for {@link Config#node(long)}: the number of this process, 1 to 65535,
     *     which no other process has; or 0, for the lowest that is free. With a fleetKey one node releases for all,
     *     rewards are sealed, and states move.
     * @throws DpbException {@link Status#INVALID_CONFIG}; {@link Status#UNSUPPORTED}: a policy that cannot merge;
     *     {@link Status#ENTROPY}; {@link Status#NO_MEMORY}. What only the bandit finds wrong in the configuration ends
     *     the node: {@link NodeState#FAILED}.
     */
    public FleetNode(Policy policy, Config config, NodeOptions options) {
        super(make(policy, config, options), Native::dpb_node_free);
    }

    private static long make(Policy policy, Config config, NodeOptions options) {
        try (Arena arena = Arena.ofConfined()) {
            long name = policy == null ? 0 : arena.allocateFrom(policy.label()).address();
            long given = options.write(arena).address();
            return Bandit.make(config, (c, out, error) -> Native.dpb_node_new(name, c, given, out, error));
        }
    }

    /** Milliseconds on a clock that never goes back. */
    private long now() {
        return (System.nanoTime() - began) / 1_000_000;
    }

    /**
     * Returns the node's bandit, for decisions and reports; null until the node has joined. It ends with the node. The
     * node does what concerns the fleet: call {@link #update} and {@link #nextPeriod} in place of the bandit's, and not
     * its merge, lead, alone, setHandles, contribution, combine, suspend or stored. With {@link Clock#CALLER} call
     * advance only after a {@link #next} of that time.
     */
    public synchronized Bandit bandit() {
        if (bandit == null) {
            long c = enter();
            try {
                long address = Native.dpb_node_bandit(c);
                bandit = address == 0 ? null : Bandit.of(this, address);
            } finally {
                leave();
            }
        }
        return bandit;
    }

    /** Frees the node and its bandit, after calls on them that run. It does not leave: see {@link #leaveFleet}. */
    @Override
    public synchronized void close() {
        if (bandit != null) {
            bandit.closeWithNode();
        }
        super.close();
    }

    /**
     * Says what to do next in a lane. There is at most one command in flight in a lane: before its reply or its timeout
     * the next is {@link Command.Kind#WAIT}.
     *
     * @throws DpbException {@link Status#HALTED}: the node has ended, see {@link NodeReport#state}
     */
    public Command next(Lane lane) {
        long c = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = Command.room(arena);
            explain(error -> Native.dpb_node_next(c, lane.number, now(), out.address(), error));
            return Command.of(out);
        } finally {
            leave();
        }
    }

    /** Passes the reply to a command. A reply to a command that the node has given up changes nothing. */
    public void reply(long id, byte[] reply) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(JAVA_BYTE, reply).address();
            call(c -> Native.dpb_node_reply(c, id, now(), at, reply.length));
        }
    }

    /** Says that a command has failed, or perhaps has, whatever the reason. The node repeats it later. */
    public void failed(long id, String why) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(why.replace('\0', ' ')).address();
            call(c -> Native.dpb_node_failed(c, id, now(), at));
        }
    }

    /**
     * Reports the reward of a decision of any node. If another node has decided, the reward waits for the next round.
     * It never waits for the store. The status is NOT private: give a visitor the same reply whatever it is.
     *
     * @throws DpbException as {@link Bandit#update}; {@link Status#UNKNOWN_TICKET}: of a node that never was, and
     *     before this one has joined; {@link Status#FULL}: too many rewards wait
     */
    public void update(long ticket, double reward) {
        long c = enter();
        try {
            check(Native.dpb_node_update(c, ticket, reward));
        } finally {
            leave();
        }
    }

    /**
     * The same for a part of a reward, as in {@link Bandit#updatePart}.
     *
     * @throws DpbException as {@link #update}; {@link Status#INVALID_CONFIG}: no such part, of another node's ticket
     *     only if it is above 7
     */
    public void updatePart(long ticket, int part, double value) {
        call(c -> Native.dpb_node_update_part(c, ticket, part, value));
    }

    /**
     * Begins a period ({@link Bandit#nextPeriod}), and stores a snapshot at once. The bandit learns from nobody until
     * the store has had that for {@link NodeOptions#settle}.
     *
     * @throws DpbException as {@link Bandit#nextPeriod}; {@link Status#NOT_READY}: before the node has joined
     */
    public void nextPeriod() {
        call(Native::dpb_node_next_period);
    }

    /**
     * Begins to leave. Decide nothing after it, and call {@link #next} in both lanes until it is {@link Status#HALTED},
     * within 25 s. So others release what the node has collected, and with a fleetKey another node continues with its
     * open decisions.
     */
    public void leaveFleet() {
        call(c -> Native.dpb_node_leave(c, now()));
    }

    /** Reads what anybody may know of the node. */
    public NodeReport report() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(Native.dpb_node_report.SIZE, 8);
            out.set(JAVA_INT, Native.dpb_node_report.struct_size, (int) out.byteSize());
            call(c -> Native.dpb_node_report_read(c, now(), out.address()));
            return NodeReport.of(out);
        }
    }

    /** Reads counts of rewards. They are NOT private: a reward is a click. */
    public NodeDiagnostics diagnostics() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(Native.dpb_node_diagnostics.SIZE, 8);
            out.set(JAVA_INT, Native.dpb_node_diagnostics.struct_size, (int) out.byteSize());
            call(c -> Native.dpb_node_diagnostics_read(c, out.address()));
            return NodeDiagnostics.of(out);
        }
    }

    /**
     * Returns the command that ends the lease of a number whose process has died, so that the others need not wait for
     * 30 delays. Any process may run it. If a process has the number, it is replaced.
     *
     * @param name as in {@link NodeOptions}
     * @param number 1 to 65535
     */
    public static synchronized Command gone(String name, int number) {
        if (number < 1 || number > 65535) {
            throw DpbException.invalid("number must be from 1 to 65535, got " + number);
        }
        // The command is in memory of the carrier of a virtual thread, until the next call there.
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = Command.room(arena);
            long text = arena.allocateFrom(NodeOptions.checked(name)).address();
            check(Native.dpb_node_gone(text, (short) number, out.address()));
            return Command.of(out);
        }
    }
}
