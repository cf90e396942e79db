package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The plan of a batch of the shuffle model, on which its encoders, shuffler and server agree. It is public.
 * Experimental: it may change in any version.
 *
 * @param users the number of messages in a batch
 * @param coinsPerUser the random bits that each user sends besides its own bit
 * @param coinNumerator a coin is 1 with probability coinNumerator / 2^32
 * @param epsilon a batch is (epsilon, delta)-DP
 * @param delta see epsilon
 */
public record ShuffleParams(int users, int coinsPerUser, int coinNumerator, double epsilon, double delta) {
    static ShuffleParams of(MemorySegment c) {
        return new ShuffleParams(
                c.get(JAVA_INT, Native.dpb_shuffle_params.users),
                c.get(JAVA_INT, Native.dpb_shuffle_params.coins_per_user),
                c.get(JAVA_INT, Native.dpb_shuffle_params.coin_numerator),
                c.get(JAVA_DOUBLE, Native.dpb_shuffle_params.epsilon),
                c.get(JAVA_DOUBLE, Native.dpb_shuffle_params.delta));
    }

    MemorySegment write(Arena arena) {
        MemorySegment c = arena.allocate(Native.dpb_shuffle_params.SIZE, 8);
        c.set(JAVA_INT, Native.dpb_shuffle_params.struct_size, (int) c.byteSize());
        c.set(JAVA_INT, Native.dpb_shuffle_params.users, users);
        c.set(JAVA_INT, Native.dpb_shuffle_params.coins_per_user, coinsPerUser);
        c.set(JAVA_INT, Native.dpb_shuffle_params.coin_numerator, coinNumerator);
        c.set(JAVA_DOUBLE, Native.dpb_shuffle_params.epsilon, epsilon);
        c.set(JAVA_DOUBLE, Native.dpb_shuffle_params.delta, delta);
        return c;
    }

    /**
     * Computes the plan that makes the number of ones in a batch (epsilon, delta)-DP.
     *
     * @param printed whether to take the paper's formula in place of the exact calibration
     * @throws DpbException {@link Status#INVALID_CONFIG}
     */
    public static ShuffleParams plan(double epsilon, double delta, int users, boolean printed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(Native.dpb_shuffle_params.SIZE, 8);
            int flags = printed ? Native.DPB_SHUFFLE_PRINTED : 0;
            Handle.explain(error -> Native.dpb_shuffle_plan(epsilon, delta, users, flags, out.address(), error));
            return of(out);
        }
    }

    /**
     * Encodes one reward on the user's device. Send the message, encrypted, to the shuffler only, and once.
     *
     * @param reward in [0, 1]
     * @throws DpbException {@link Status#INVALID_REWARD}; {@link Status#INVALID_CONFIG}: the noise of this plan is too
     *     small
     */
    public byte[] encode(double reward) {
        try (Arena arena = Arena.ofConfined()) {
            long c = write(arena).address();
            return Handle.written(
                    (buf, cap, len, error) -> Native.dpb_shuffle_encode(c, reward, buf, cap, len));
        }
    }
}
