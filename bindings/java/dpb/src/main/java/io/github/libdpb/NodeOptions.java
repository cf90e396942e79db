package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;

/**
 * The options of a {@link FleetNode}. All nodes of a fleet have the same ones, but for the snapshot. Durations are
 * rounded up to milliseconds.
 */
public final class NodeOptions {
    private final String name;
    private Duration interval;
    private Duration delay;
    private Duration tick;
    private Duration settle;
    private boolean routed;
    private int queue;
    private int sendRate;
    private long clickDelay;
    private byte[] snapshot;

    /**
     * The defaults.
     *
     * @param name of the bandit in the store: 1 to 200 bytes, without { and }
     */
    public NodeOptions(String name) {
        this.name = name;
    }

    /** The longest time between two exchanges: how old the knowledge of other nodes may be. Default 5 s. */
    public NodeOptions interval(Duration interval) {
        this.interval = interval;
        return this;
    }

    /**
     * The longest time that a reward may take to the node that decided. If rewards take longer, the node cancels
     * decisions. A node beats eight times in it, is not ready after 10 of them without a reply, and its number is free
     * after 30. Default 1 s.
     */
    public NodeOptions delay(Duration delay) {
        this.delay = delay;
        return this;
    }

    /** The duration of a tick of {@link Clock#CALLER}. Default 1 ms. */
    public NodeOptions tick(Duration tick) {
        this.tick = tick;
        return this;
    }

    /** Returns the duration of a tick. */
    public Duration tick() {
        return tick == null ? Duration.ofMillis(1) : tick;
    }

    /**
     * With expectedUsers: how long a snapshot must have been in the store before the bandit learns on its strength.
     * Longer than a failover of the store goes back. Default 15 s.
     */
    public NodeOptions settle(Duration settle) {
        this.settle = settle;
        return this;
    }

    /** Whether a balancer brings each reward to the node that decided: silence then counts whatever the fleet does. */
    public NodeOptions routed(boolean routed) {
        this.routed = routed;
        return this;
    }

    /** The most rewards that wait here for the store. Default 100,000. */
    public NodeOptions queue(int queue) {
        this.queue = queue;
        return this;
    }

    /**
     * Needs a fleetKey. 0, the default: rewards travel at once, and the store shows how many do and when, which is NOT
     * private. Otherwise each round sends a message of one length to each other node, with space for so many rewards a
     * second. A reward that finds no space is lost.
     */
    public NodeOptions sendRate(int sendRate) {
        this.sendRate = sendRate;
        return this;
    }

    /**
     * Within how many ticks of rewardWindow most rewards come: an outage cancels no decision that was made longer
     * before it. Default rewardWindow.
     */
    public NodeOptions clickDelay(long clickDelay) {
        this.clickDelay = clickDelay;
        return this;
    }

    /**
     * A snapshot of the same number from a file of this host, or null. The node continues from it if it counts more
     * periods than the store's. Needs {@link Config#node(long)}.
     */
    public NodeOptions snapshot(byte[] snapshot) {
        this.snapshot = snapshot;
        return this;
    }

    static String checked(String name) {
        if (name.indexOf('\0') >= 0) {
            throw DpbException.invalid("name must have no NUL");
        }
        return name;
    }

    MemorySegment write(Arena arena) {
        MemorySegment c = arena.allocate(Native.dpb_node_options.SIZE, 8);
        long text = arena.allocateFrom(checked(name)).address();
        Native.dpb_node_options_init_sized(c.address(), (int) c.byteSize(), text);
        c.set(JAVA_INT, Native.dpb_node_options.flags, routed ? Native.DPB_NODE_ROUTED : 0);
        set(c, Native.dpb_node_options.interval_ms, "interval", interval);
        set(c, Native.dpb_node_options.delay_ms, "delay", delay);
        set(c, Native.dpb_node_options.tick_ms, "tick", tick);
        set(c, Native.dpb_node_options.settle_ms, "settle", settle);
        if (queue != 0) {
            c.set(JAVA_INT, Native.dpb_node_options.queue, Native.count("queue", queue));
        }
        c.set(JAVA_INT, Native.dpb_node_options.send_rate, Native.count("sendRate", sendRate));
        c.set(JAVA_LONG, Native.dpb_node_options.click_delay, Native.count("clickDelay", clickDelay));
        if (snapshot != null) {
            c.set(JAVA_LONG, Native.dpb_node_options.snapshot, arena.allocateFrom(JAVA_BYTE, snapshot).address());
            c.set(JAVA_LONG, Native.dpb_node_options.snapshot_len, snapshot.length);
        }
        return c;
    }

    private static void set(MemorySegment c, long at, String name, Duration duration) {
        if (duration == null) {
            return;
        }
        if (duration.isNegative() || duration.compareTo(Duration.ofDays(24)) > 0) {
            throw DpbException.invalid(name + " must be from 0 to 24 days, got " + duration);
        }
        c.set(JAVA_INT, at, (int) duration.plusNanos(999_999).toMillis());
    }
}
