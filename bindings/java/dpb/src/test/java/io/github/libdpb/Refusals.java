package io.github.libdpb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.function.Executable;

/** Checks that calls are refused, and that the message says what it should. */
final class Refusals {
    private Refusals() {}

    static DpbException refused(Status status, String says, Executable call) {
        DpbException refusal = assertThrows(DpbException.class, call);
        assertEquals(status, refusal.status(), refusal.getMessage());
        assertTrue(refusal.getMessage().contains(says), refusal.getMessage());
        return refusal;
    }

    static byte[] seed(int of) {
        byte[] seed = new byte[32];
        java.util.Arrays.fill(seed, (byte) of);
        return seed;
    }
}
