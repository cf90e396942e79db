package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** The encoder of the local model. Experimental: it may change in any version. */
public final class LocalModel {
    private LocalModel() {}

    /**
     * Encodes a reward as one bit on the user's device: the bit is epsilon-DP for whoever reads it. The server passes
     * it to {@link Bandit#update} of {@link Policy#LDP_UCB} or {@link Policy#LDP_KLUCB}: 1 as rewardMax, 0 as
     * rewardMin. Encode each reward once.
     *
     * @param epsilon 1e-6 to 40
     * @param reward in [0, 1]
     * @throws DpbException {@link Status#INVALID_CONFIG}; {@link Status#INVALID_REWARD}
     */
    public static boolean encode(double epsilon, double reward) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bit = arena.allocate(8, 8);
            Handle.check(Native.dpb_ldp_encode(epsilon, reward, bit.address()));
            return bit.get(JAVA_BYTE, 0) != 0;
        }
    }
}
