package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;

/**
 * An arm that a {@link Bandit} chose. The bandit writes it: use one again for later decisions, and nothing is
 * allocated.
 */
public final class Decision {
    /** In place of the arm: {@link Request#abstain} is set, and no arm is to be played. The ticket is 0 then. */
    public static final int NO_ARM = Native.DPB_NO_ARM;

    private long ticket;
    private double propensity;
    private int arm;
    private int phase;

    /** A decision for a bandit to write. */
    public Decision() {}

    void read(MemorySegment m, long at) {
        ticket = m.get(JAVA_LONG, at + Native.dpb_decision.ticket);
        propensity = m.get(JAVA_DOUBLE, at + Native.dpb_decision.propensity);
        arm = m.get(JAVA_INT, at + Native.dpb_decision.arm);
        phase = m.get(JAVA_INT, at + Native.dpb_decision.phase);
    }

    /**
     * Returns the name of this decision in {@link Bandit#update} and {@link Bandit#cancel}. It uses all 64 bits: in
     * JSON and URLs write {@link Long#toUnsignedString(long)}, because JavaScript rounds numbers above 2^53.
     */
    public long ticket() {
        return ticket;
    }

    /**
     * Returns the probability of this arm given everything released so far, for off-policy evaluation; NaN if it would
     * reveal rewards, and with features but without {@code exploration}.
     */
    public double propensity() {
        return propensity;
    }

    /** Returns the arm, from 0; or {@link #NO_ARM}. */
    public int arm() {
        return arm;
    }

    /** Returns the policy's number of its epoch, phase or interval. */
    public int phase() {
        return phase;
    }

    @Override
    public String toString() {
        return "arm " + arm + ", ticket " + Long.toUnsignedString(ticket) + ", propensity " + propensity + ", phase "
                + phase;
    }
}
