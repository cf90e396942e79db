package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.time.Duration;

/**
 * What anybody may know of a {@link FleetNode}.
 *
 * @param state what it does
 * @param number its number; 0 until it has one
 * @param incarnation how many processes have had the number, this one included
 * @param ready whether a balancer may send it requests: its rounds have ended well within the last ten delays
 * @param outage whether rewards do not arrive in time, here or at another node, so that decisions are cancelled
 * @param outages how many outages there were
 * @param learns whether the bandit may learn from people: the store has kept a snapshot that counts this period
 * @param leads whether it releases what all nodes contribute
 * @param leader the leader's number; 0: none is known
 * @param nodes nodes that are alive, this one included
 * @param released other nodes of which it has read a snapshot, also nodes that have left
 * @param incompatible those of them whose newest snapshot it refused
 * @param draining bandits of nodes that have ended, with whose open decisions it continues
 * @param exchanges exchanges that ended well
 * @param age since the last one: what it knows of others is at most so old
 * @param contributions contributions that the store has accepted
 * @param lastError of the store or of this node, in the names of C; "": none
 */
public record NodeReport(
        State state,
        int number,
        int incarnation,
        boolean ready,
        boolean outage,
        int outages,
        boolean learns,
        boolean leads,
        int leader,
        int nodes,
        int released,
        int incompatible,
        int draining,
        long exchanges,
        Duration age,
        long contributions,
        String lastError) {
    /** What a node does. */
    public enum State {
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
        /** It could not continue from the snapshot of its number; lastError says why. */
        FAILED(Native.DPB_NODE_FAILED);

        private final int code;

        State(int code) {
            this.code = code;
        }

        static State of(int code) {
            for (State state : values()) {
                if (state.code == code) {
                    return state;
                }
            }
            throw new AssertionError(code);
        }
    }

    static NodeReport of(MemorySegment c) {
        return new NodeReport(
                State.of(c.get(JAVA_INT, Native.dpb_node_report.state)),
                c.get(JAVA_INT, Native.dpb_node_report.number),
                c.get(JAVA_INT, Native.dpb_node_report.incarnation),
                c.get(JAVA_INT, Native.dpb_node_report.ready) != 0,
                c.get(JAVA_INT, Native.dpb_node_report.outage) != 0,
                c.get(JAVA_INT, Native.dpb_node_report.outages),
                c.get(JAVA_INT, Native.dpb_node_report.learns) != 0,
                c.get(JAVA_INT, Native.dpb_node_report.leads) != 0,
                c.get(JAVA_INT, Native.dpb_node_report.leader),
                c.get(JAVA_INT, Native.dpb_node_report.nodes),
                c.get(JAVA_INT, Native.dpb_node_report.released),
                c.get(JAVA_INT, Native.dpb_node_report.incompatible),
                c.get(JAVA_INT, Native.dpb_node_report.draining),
                c.get(JAVA_LONG, Native.dpb_node_report.exchanges),
                Duration.ofMillis(c.get(JAVA_LONG, Native.dpb_node_report.age_ms)),
                c.get(JAVA_LONG, Native.dpb_node_report.contributions),
                c.getString(Native.dpb_node_report.last_error));
    }
}
