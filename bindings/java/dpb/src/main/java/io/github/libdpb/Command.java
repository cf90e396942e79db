package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;

/**
 * What to do next in a lane of a {@link FleetNode}.
 *
 * @param kind what it is
 * @param id for {@link FleetNode#reply} and {@link FleetNode#failed}
 * @param waiting of WAIT
 * @param timeout after this time the node has given the command up, and ignores its reply
 * @param text of LOG
 * @param script a script in Lua for Redis or Valkey
 * @param sha1 its name for EVALSHA
 * @param keys all have one hash tag, so a cluster has them on one server
 * @param args its arguments
 */
public record Command(
        Kind kind,
        long id,
        Duration waiting,
        Duration timeout,
        String text,
        String script,
        String sha1,
        byte[][] keys,
        byte[][] args) {
    /** The kind of a command. */
    public enum Kind {
        /** Wait, and ask again. */
        WAIT(Native.DPB_COMMAND_WAIT),
        /** Write the text to the log, and ask again. */
        LOG(Native.DPB_COMMAND_LOG),
        /** For the store, as all others: give a number to a process. */
        TAKE(Native.DPB_COMMAND_TAKE),
        /** Beat, send and receive rewards. */
        ROUND(Native.DPB_COMMAND_ROUND),
        /** Store a snapshot. */
        PUT(Native.DPB_COMMAND_PUT),
        /** Read other nodes' new snapshots. */
        NEWS(Native.DPB_COMMAND_NEWS),
        /** Read, take, renew or end the lease of the leader. */
        LEAD(Native.DPB_COMMAND_LEAD),
        /** Send sums to the leader. */
        CONTRIBUTE(Native.DPB_COMMAND_CONTRIBUTE),
        /** Read what others have sent to this leader. */
        COLLECT(Native.DPB_COMMAND_COLLECT),
        /** Read rewards for the bandit of a node that has ended. */
        KEEP(Native.DPB_COMMAND_KEEP),
        /** Offer to continue with bandits of nodes that end. */
        OFFER(Native.DPB_COMMAND_OFFER),
        /** Seek a node that continues with this one's bandit. */
        HOST(Native.DPB_COMMAND_HOST),
        /** Leave a state to that node. */
        ENTRUST(Native.DPB_COMMAND_ENTRUST),
        /** Take a state that another node has left. */
        ADOPT(Native.DPB_COMMAND_ADOPT),
        /** End a number's lease. */
        LEAVE(Native.DPB_COMMAND_LEAVE);

        private final int code;

        Kind(int code) {
            this.code = code;
        }

        static Kind of(int code) {
            for (Kind kind : values()) {
                if (kind.code == code) {
                    return kind;
                }
            }
            throw new AssertionError(code);
        }
    }

    static MemorySegment room(Arena arena) {
        MemorySegment c = arena.allocate(Native.dpb_command.SIZE, 8);
        c.set(JAVA_INT, Native.dpb_command.struct_size, (int) c.byteSize());
        return c;
    }

    /** A copy, which does not refer to memory of the library. */
    static Command of(MemorySegment c) {
        return new Command(
                Kind.of(c.get(JAVA_INT, Native.dpb_command.kind)),
                c.get(JAVA_LONG, Native.dpb_command.id),
                Duration.ofMillis(c.get(JAVA_INT, Native.dpb_command.wait_ms)),
                Duration.ofMillis(c.get(JAVA_INT, Native.dpb_command.timeout_ms)),
                Native.text(c.get(JAVA_LONG, Native.dpb_command.text)),
                Native.text(c.get(JAVA_LONG, Native.dpb_command.script)),
                Native.text(c.get(JAVA_LONG, Native.dpb_command.sha1)),
                all(c.get(JAVA_LONG, Native.dpb_command.keys), c.get(JAVA_LONG, Native.dpb_command.keys_len)),
                all(c.get(JAVA_LONG, Native.dpb_command.args), c.get(JAVA_LONG, Native.dpb_command.args_len)));
    }

    private static byte[][] all(long address, long n) {
        byte[][] all = new byte[(int) n][];
        MemorySegment list = MemorySegment.ofAddress(address).reinterpret(n * Native.dpb_bytes.SIZE);
        for (int i = 0; i < n; i++) {
            long at = i * Native.dpb_bytes.SIZE;
            long bytes = list.get(JAVA_LONG, at + Native.dpb_bytes.bytes);
            long length = list.get(JAVA_LONG, at + Native.dpb_bytes.len);
            all[i] = MemorySegment.ofAddress(bytes).reinterpret(length).toArray(JAVA_BYTE);
        }
        return all;
    }
}
