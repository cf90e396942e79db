package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Memory of a thread for what the library reads and writes in frequent calls. The library sees only this memory, so no
 * array of Java is pinned, and nothing that another thread does to a request can make it read elsewhere.
 */
final class Scratch {
    /** The most requests of a call. */
    static final int PIECE = 64;

    private static final ThreadLocal<Scratch> OWN = ThreadLocal.withInitial(Scratch::new);

    final int[] slots = new int[PIECE];
    private MemorySegment memory = Arena.ofAuto().allocate(1024, 8);

    static Scratch get() {
        return OWN.get();
    }

    /** At least so many bytes. */
    MemorySegment memory(long bytes) {
        if (memory.byteSize() < bytes) {
            memory = Arena.ofAuto().allocate(Math.max(bytes, 2 * memory.byteSize()), 8);
        }
        return memory;
    }

    /** The number at the beginning. */
    long number() {
        return memory.get(JAVA_LONG, 0);
    }
}
