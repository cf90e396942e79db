package io.github.libdpb;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/** Signs that a bandit cannot learn because of how it is called. docs/operating/monitoring.md says what to do. */
public enum Warning {
    /**
     * With {@link Clock#CALLER}: {@link Bandit#advance} has not been called for 1024 decisions, or has not moved the
     * time for as many decisions as may be open, at least 1024.
     */
    CLOCK_STOPPED(Native.DPB_WARN_CLOCK_STOPPED),
    /** Most of the last 1024 decisions expired. */
    EXPIRING(Native.DPB_WARN_EXPIRING),
    /** With {@code expectedUsers}: fewer than one in 100 of the last 1024 decisions are learned from. */
    UNLEARNED(Native.DPB_WARN_UNLEARNED),
    /** The bandit contributes, and has merged no snapshot in its last 65,536 decisions. */
    UNMERGED(Native.DPB_WARN_UNMERGED),
    /** 16,384 rewards or more took effect, and nothing was released: epsilon is too small for the traffic. */
    UNRELEASED(Native.DPB_WARN_UNRELEASED),
    /** In {@link Diagnostics}: all of the last 65,535 rewards that took effect are {@code rewardMin}. */
    ALL_SMALLEST(Native.DPB_WARN_ALL_SMALLEST),
    /**
     * In {@link Diagnostics}: all of the last 1024 rewards that took effect are {@code rewardMax}; or all of 32 or more
     * since the bandit was made, if at most one in four decisions has a reward.
     */
    ALL_LARGEST(Native.DPB_WARN_ALL_LARGEST);

    private final int bit;

    Warning(int bit) {
        this.bit = bit;
    }

    static Set<Warning> of(int bits) {
        EnumSet<Warning> set = EnumSet.noneOf(Warning.class);
        for (Warning warning : values()) {
            if ((bits & warning.bit) != 0) {
                set.add(warning);
            }
        }
        return Collections.unmodifiableSet(set);
    }
}
