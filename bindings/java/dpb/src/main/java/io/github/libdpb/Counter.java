package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Releases a private running sum of values in [0, 1]. Any number of threads may use it. Close it when done. */
public final class Counter extends Handle {
    /** When a counter releases. */
    public enum Kind {
        /** When the number of values is a power of two: the least noise, the fewest releases. */
        LOGARITHMIC(Native.DPB_COUNTER_LOGARITHMIC),
        /** At every value, up to a horizon. */
        BINARY(Native.DPB_COUNTER_BINARY),
        /** At every value, without a horizon. */
        HYBRID(Native.DPB_COUNTER_HYBRID);

        private final int number;

        Kind(int number) {
            this.number = number;
        }
    }

    /**
     * Makes a counter.
     *
     * @param epsilon the privacy loss of one value, above 0
     * @param horizon the most values of a binary counter, 1 to 2^37; the other kinds ignore it
     * @param testSeed null; or 32 bytes, which make it reproducible and NOT private
     * @throws DpbException {@link Status#INVALID_CONFIG}
     */
    public Counter(Kind kind, double epsilon, long horizon, byte[] testSeed) {
        super(make(kind, epsilon, horizon, testSeed), Native::dpb_counter_free);
    }

    private static long make(Kind kind, double epsilon, long horizon, byte[] testSeed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            MemorySegment c = arena.allocate(Native.dpb_counter_config.SIZE, 8);
            Native.dpb_counter_config_init_sized(c.address(), (int) c.byteSize(), kind.number, epsilon);
            c.set(JAVA_LONG, Native.dpb_counter_config.horizon, Native.count("horizon", horizon));
            c.set(JAVA_LONG, Native.dpb_counter_config.test_seed, Native.key(arena, "testSeed", testSeed));
            explain(error -> Native.dpb_new_counter(c.address(), out.address(), error));
            return out.get(JAVA_LONG, 0);
        }
    }

    /**
     * Adds a value.
     *
     * @param value in [0, 1]
     * @throws DpbException {@link Status#INVALID_REWARD}; {@link Status#HALTED}: it has as many values as it can take
     */
    public void add(double value) {
        call(c -> Native.dpb_counter_add(c, value));
    }

    /** Returns the released sum, 0 before the first release. It has noise, so it can be negative. */
    public double sum() {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 8, Native::dpb_counter_read).get(JAVA_DOUBLE, 0);
        }
    }

    /** Returns whether it is private: false with a testSeed. */
    public boolean isPrivate() {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 4, Native::dpb_counter_is_private).get(JAVA_INT, 0) != 0;
        }
    }
}
