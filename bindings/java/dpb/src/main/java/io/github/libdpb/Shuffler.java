package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Keeps the messages of one batch until all have arrived, then returns their bits in uniformly random order, once, and
 * nothing else. Any number of threads may use it. Close it when done. Experimental: it may change in any version.
 */
public final class Shuffler extends Handle {
    /**
     * Makes a shuffler for batches of this plan, one after another.
     *
     * @throws DpbException {@link Status#INVALID_CONFIG}: the plan does not keep its claim
     */
    public Shuffler(ShuffleParams params) {
        super(make(params), Native::dpb_shuffler_free);
    }

    private static long make(ShuffleParams params) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            long c = params.write(arena).address();
            explain(error -> Native.dpb_new_shuffler(c, out.address(), error));
            return out.get(JAVA_LONG, 0);
        }
    }

    /**
     * Adds one user's message.
     *
     * @throws DpbException {@link Status#EXPIRED}: a complete batch waits; {@link Status#INVALID_CONFIG}: no message of
     *     this plan
     */
    public void push(byte[] bits) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(JAVA_BYTE, bits).address();
            call(c -> Native.dpb_shuffler_push(c, at, bits.length));
        }
    }

    /**
     * Returns the complete batch, and starts the next one.
     *
     * @throws DpbException {@link Status#NOT_READY} until it is complete
     */
    public byte[] take() {
        long c = enter();
        try {
            return written((buf, cap, len, error) -> Native.dpb_shuffler_take(c, buf, cap, len));
        } finally {
            leave();
        }
    }
}
