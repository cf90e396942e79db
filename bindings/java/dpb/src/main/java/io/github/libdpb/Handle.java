package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;

/** Owns an object of the library. A call holds it open, and {@link #close} waits for calls. */
abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final int CLOSED = Integer.MIN_VALUE;
    private static final VarHandle CALLS;

    static {
        try {
            CALLS = MethodHandles.lookup().findVarHandle(Handle.class, "calls", int.class);
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** The number of calls that run, and CLOSED. */
    @SuppressWarnings("FieldMayBeFinal")
    private volatile int calls;

    private final long address;
    private final Cleaner.Cleanable freed;

    /** With null in place of a function that frees it, another object owns what is at the address. */
    Handle(long address, LongConsumer free) {
        this.address = address;
        this.freed = free == null ? null : CLEANER.register(this, new Free(address, free));
    }

    /** It must not refer to the handle, which would never be collected then. */
    private record Free(long address, LongConsumer free) implements Runnable {
        @Override
        public void run() {
            free.accept(address);
        }
    }

    /** Begins a call, which ends with {@link #leave}. */
    final long enter() {
        if ((int) CALLS.getAndAdd(this, 1) < 0) {
            leave();
            throw DpbException.of(Status.CLOSED);
        }
        return address;
    }

    final void leave() {
        CALLS.getAndAdd(this, -1);
        Reference.reachabilityFence(this);
    }

    /**
     * Waits for calls that run, and frees the memory. Later calls are {@link Status#CLOSED}. A second call changes
     * nothing.
     */
    @Override
    public void close() {
        CALLS.getAndBitwiseOr(this, CLOSED);
        while (calls != CLOSED) {
            LockSupport.parkNanos(20_000);
            Thread.onSpinWait();
        }
        if (freed != null) {
            freed.clean();
        }
    }

    /** A call with the address of the object. */
    interface Call {
        int run(long c);
    }

    final void call(Call call) {
        long c = enter();
        try {
            check(call.run(c));
        } finally {
            leave();
        }
    }

    /** A call with the addresses of the object and of what it reads or writes. */
    interface CallWith {
        int run(long c, long at);
    }

    /** Makes a call that writes so many bytes, and returns them. */
    final MemorySegment read(Arena arena, long bytes, CallWith call) {
        MemorySegment out = arena.allocate(bytes, 8);
        call(c -> call.run(c, out.address()));
        return out;
    }

    /** Makes a call that says why it is refused. */
    final void explained(CallWith call) {
        long c = enter();
        try {
            explain(error -> call.run(c, error));
        } finally {
            leave();
        }
    }

    /** A call that may be refused, with the address of a dpb_error. */
    static void explain(Call call) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment error = arena.allocate(Native.dpb_error.SIZE, 8);
            int status = call.run(error.address());
            if (status != Native.DPB_OK) {
                throw DpbException.of(status, error.getString(Native.dpb_error.message));
            }
        }
    }

    static void check(int status) {
        if (status != Native.DPB_OK) {
            throw DpbException.of(status, "");
        }
    }

    /** A call that writes bytes, as many as it says. */
    interface Writer {
        int write(long buf, long cap, long len, long error);
    }

    /** The bytes that a call writes, whose number may grow between two calls. */
    static byte[] written(Writer writer) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment error = arena.allocate(Native.dpb_error.SIZE, 8);
            MemorySegment length = arena.allocate(8, 8);
            int status = writer.write(0, 0, length.address(), error.address());
            MemorySegment buffer = MemorySegment.NULL;
            while (status == Native.DPB_BUFFER_TOO_SMALL) {
                long needed = length.get(JAVA_LONG, 0);
                buffer = arena.allocate(needed + needed / 8, 1);
                status = writer.write(buffer.address(), buffer.byteSize(), length.address(), error.address());
            }
            if (status != Native.DPB_OK) {
                throw DpbException.of(status, error.getString(Native.dpb_error.message));
            }
            byte[] all = buffer.toArray(JAVA_BYTE);
            long n = length.get(JAVA_LONG, 0);
            return n == all.length ? all : Arrays.copyOf(all, (int) n);
        }
    }
}
