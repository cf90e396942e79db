package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Takes samples until their mean is known to a factor of 1 +- alpha. Any number of threads may use it. Close it when
 * done.
 */
public final class StoppingRule extends Handle {
    /** How it decides. */
    public enum Kind {
        /** NAS, a baseline WITHOUT privacy. */
        NAS,
        /** DP-NAS: pure epsilon-DP. */
        DP_NAS,
        /** DP-exponential-NAS, which tests at powers of two only: pure epsilon-DP. */
        DP_EXP_NAS
    }

    /**
     * Makes a stopping rule.
     *
     * @param range samples are in [-range, range]; above 0, at most 1e290
     * @param alpha the relative error, in (0, 1)
     * @param beta the failure probability, in (0, 1)
     * @param epsilon the privacy loss of one sample, above 0; NAS ignores it
     * @param testSeed null; or 32 bytes, which make it reproducible and NOT private
     * @throws DpbException {@link Status#INVALID_CONFIG}
     */
    public StoppingRule(Kind kind, double range, double alpha, double beta, double epsilon, byte[] testSeed) {
        super(make(kind, range, alpha, beta, epsilon, testSeed), Native::dpb_stopping_free);
    }

    private static long make(Kind kind, double range, double alpha, double beta, double epsilon, byte[] testSeed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            MemorySegment c = arena.allocate(Native.dpb_stopping_config.SIZE, 8);
            Native.dpb_stopping_config_init_sized(c.address(), (int) c.byteSize(), range, epsilon);
            c.set(JAVA_DOUBLE, Native.dpb_stopping_config.alpha, alpha);
            c.set(JAVA_DOUBLE, Native.dpb_stopping_config.beta, beta);
            c.set(JAVA_LONG, Native.dpb_stopping_config.test_seed, Native.key(arena, "testSeed", testSeed));
            explain(error -> switch (kind) {
                case NAS -> Native.dpb_new_nas(c.address(), out.address(), error);
                case DP_NAS -> Native.dpb_new_dp_nas(c.address(), out.address(), error);
                case DP_EXP_NAS -> Native.dpb_new_dp_exp_nas(c.address(), out.address(), error);
            });
            return out.get(JAVA_LONG, 0);
        }
    }

    /**
     * Adds a sample, and returns whether the rule halts with it.
     *
     * @throws DpbException {@link Status#INVALID_REWARD}; {@link Status#HALTED}: it halted before
     */
    public boolean push(double sample) {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 4, (c, out) -> Native.dpb_stopping_push(c, sample, out)).get(JAVA_INT, 0) != 0;
        }
    }

    /**
     * Returns the released mean.
     *
     * @throws DpbException {@link Status#NOT_READY}: it has not halted
     */
    public double mean() {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 8, Native::dpb_stopping_mean).get(JAVA_DOUBLE, 0);
        }
    }

    /** Returns whether it is private: false for NAS and with a testSeed. */
    public boolean isPrivate() {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 4, Native::dpb_stopping_is_private).get(JAVA_INT, 0) != 0;
        }
    }
}
