package io.github.libdpb;

/** Whether a test of arms has ended, and with which claim. */
public enum TestState {
    /** It goes on. */
    RUNNING(Native.DPB_TEST_RUNNING),
    /** The leader is the best arm, with probability 1 - {@code beta}. */
    WON(Native.DPB_TEST_WON),
    /** No arm is better than the leader by {@code tolerance} or more, with probability 1 - {@code beta}. */
    TIED(Native.DPB_TEST_TIED),
    /** {@code plannedEnd} rewards have come, and nothing is claimed. */
    UNDECIDED(Native.DPB_TEST_UNDECIDED);

    private final int number;

    TestState(int number) {
        this.number = number;
    }

    static TestState of(int number) {
        for (TestState state : values()) {
            if (state.number == number) {
                return state;
            }
        }
        throw new AssertionError(number);
    }
}
