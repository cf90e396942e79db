package io.github.libdpb;

import static io.github.libdpb.Refusals.refused;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ElsewhereTest {
    private static final long ALL = 1L << 32;

    @Test
    void aDecisionIsRecordedOnce() {
        try (Bandit bandit = new Bandit(Policy.MED, new Config(4, 1.0).tableCapacity(8))) {
            Request phone = new Request().eligible(new int[] {2});
            assertArrayEquals(new long[] {0, 0, ALL, 0}, bandit.weights(phone));
            refused(Status.INVALID_REQUEST, "", () -> bandit.weights(new Request().eligible(new int[] {9})));
            long version = bandit.tableBegin(3);
            Elsewhere made = Elsewhere.decide(bandit.weights(phone), "salt", "phone", "ana");
            assertEquals(2, made.arm());
            assertEquals(1.0, made.propensity());
            Decision first = bandit.record(version, made.id(), phone, new Decision());
            assertTrue(Double.isNaN(first.propensity()));
            assertEquals(first.ticket(), bandit.record(version, made.id(), phone, new Decision()).ticket());
            assertEquals(first.ticket(), bandit.find(version, made.id(), new Decision()).ticket());
            bandit.update(first.ticket(), 1.0);
            refused(Status.DUPLICATE, "", () -> bandit.record(version, made.id(), phone, first));
            refused(Status.UNKNOWN_TICKET, "", () -> bandit.find(version, 7, first));
            refused(Status.EXPIRED, "", () -> bandit.find(version + 1, 7, first));
        }
        try (Bandit bandit = new Bandit(new Config(4, 1.0))) {
            refused(Status.UNSUPPORTED, "dp-med", () -> bandit.weights(new Request()));
            refused(Status.UNSUPPORTED, "", () -> bandit.tableBegin(3));
        }
    }

    @Test
    void badWeightsAndUnitsAreRefused() {
        for (long[] weights : new long[][] {{}, {ALL - 1}, {ALL, 1}, {-1, ALL + 1}, {Long.MAX_VALUE, ALL + 1}}) {
            refused(Status.INVALID_CONFIG, "", () -> Elsewhere.decide(weights, "salt", "", "ana"));
        }
        for (String unit : new String[] {"", "a\nb"}) {
            refused(Status.INVALID_REQUEST, "", () -> Elsewhere.decide(new long[] {ALL}, "salt", "", unit));
        }
    }
}
