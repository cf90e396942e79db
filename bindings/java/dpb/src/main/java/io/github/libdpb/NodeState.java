package io.github.libdpb;

/** What a {@link FleetNode} is doing. */
public enum NodeState {
    /** It takes its number. */
    TAKING(Native.DPB_NODE_TAKING),
    /** It stores its first snapshot, and reads those of others. */
    STORING(Native.DPB_NODE_STORING),
    /** It has joined. */
    SERVING(Native.DPB_NODE_SERVING),
    /** It leaves, and collects what is on its way to it as the leader. */
    RESIGNING(Native.DPB_NODE_RESIGNING),
    /** It leaves, and passes on its rewards and its state. */
    MOVING(Native.DPB_NODE_MOVING),
    /** It has left. */
    LEFT(Native.DPB_NODE_LEFT),
    /** Another process has its number. The fleet learns nothing from this one, so end it. */
    REPLACED(Native.DPB_NODE_REPLACED),
    /** It could not continue from the snapshot of its number; {@link NodeReport#lastError} says why. */
    FAILED(Native.DPB_NODE_FAILED);

    private final int number;

    NodeState(int number) {
        this.number = number;
    }

    static NodeState of(int number) {
        for (NodeState state : values()) {
            if (state.number == number) {
                return state;
            }
        }
        throw new AssertionError(number);
    }
}
