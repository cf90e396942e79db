package io.github.libdpb;

/** What a tick of {@code rewardWindow} and {@code forgetAfter} is. */
public enum Clock {
    /** A tick is a decision. */
    DECISIONS(Native.DPB_CLOCK_DECISIONS),
    /** A tick is a unit of the time that you pass to {@link Bandit#advance}. */
    CALLER(Native.DPB_CLOCK_CALLER);

    private final int number;

    Clock(int number) {
        this.number = number;
    }

    int number() {
        return number;
    }
}
