package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Limits the privacy loss of all bandits that one person's rewards reach. A bandit with {@link Config#budget} charges
 * it, when it is made, for all that it can ever lose, or is {@link Status#OVER_BUDGET}. Charges are final. dpb.h, at
 * dpb_new_budget, states how they add up, and when you may choose a bandit by what others have published.
 *
 * <p>Any number of threads may use it. Close it when done: its bandits stay usable.
 */
public final class Budget extends Handle {
    /**
     * Makes a budget.
     *
     * @param epsilon above 0
     * @param delta in [0, 1); with 0 it accepts pure policies only
     * @throws DpbException {@link Status#INVALID_CONFIG}
     */
    public Budget(double epsilon, double delta) {
        super(make(epsilon, delta), Native::dpb_budget_free);
    }

    private static long make(double epsilon, double delta) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            explain(error -> Native.dpb_new_budget(epsilon, delta, out.address(), error));
            return out.get(JAVA_LONG, 0);
        }
    }

    /**
     * Charges what another system releases about the same people, with (epsilon, delta)-DP for one person. Charge before
     * the release.
     *
     * @param epsilon above 0
     * @param delta in [0, 1); 0 is pure
     * @throws DpbException {@link Status#OVER_BUDGET}, and nothing was charged; {@link Status#INVALID_CONFIG}
     */
    public void charge(double epsilon, double delta) {
        explained((c, error) -> Native.dpb_budget_charge(c, epsilon, delta, error));
    }

    /**
     * Returns an upper bound of the epsilon that all charged bandits lose together, infinite if delta is too small for
     * them.
     *
     * @param delta in [0, 1)
     */
    public double spent(double delta) {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 8, (c, out) -> Native.dpb_budget_spent(c, delta, out)).get(JAVA_DOUBLE, 0);
        }
    }

    /** Returns the largest epsilon of a pure bandit that the budget still accepts, or 0. */
    public double remaining() {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 8, Native::dpb_budget_remaining).get(JAVA_DOUBLE, 0);
        }
    }
}
