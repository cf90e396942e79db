package io.github.libdpb;

import static io.github.libdpb.Refusals.refused;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.HexFormat;
import java.util.regex.Pattern;
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

    @Test
    void aPublishedTableIsJson() {
        try (Bandit bandit = new Bandit(Policy.MED, new Config(2, 1.0).tableCapacity(8))) {
            var publication = new Publication("a \"flag\"").arms("caf\u00e9 \ud83d\ude80", "\\\t")
                    .context("phone", new Request().eligible(new int[] {1}))
                    .until(Instant.ofEpochMilli(1764347400000L));
            String table = bandit.publish(publication);
            var is = Pattern.compile(Pattern.quote("{\"dpb_table\": 1, \"name\": \"a \\\"flag\\\"\", \"version\": \"")
                            + "([0-9a-f]{16})\", \"salt\": \"([0-9a-f]{32})"
                            + Pattern.quote("\", \"until\": 1764347400000, \"arms\": [\"caf\u00e9 \ud83d\ude80\", \"\\\\\\u0009\"], "
                                    + "\"contexts\": {\"\": [2147483648, 2147483648], \"phone\": [0, 4294967296]}, "
                                    + "\"policy\": \"dp-med\", \"is_private\": true}"))
                    .matcher(table);
            assertTrue(is.matches(), table);
            long version = HexFormat.fromHexDigitsToLong(is.group(1));
            Elsewhere made = Elsewhere.decide(new long[] {0, ALL}, is.group(2), "phone", "ana");
            bandit.record(version, made.id(), new Request().eligible(new int[] {made.arm()}), new Decision());
            assertTrue(!bandit.publish(publication).contains(is.group(2)));
            assertTrue(bandit.publish(new Publication("b")).contains("\"arms\": [\"0\", \"1\"]"));
            refused(Status.INVALID_CONFIG, "2 names", () -> bandit.publish(new Publication("b").arms("one")));
            refused(Status.INVALID_CONFIG, "newline", () -> new Publication("b").context("a\nb", new Request()));
        }
    }
}
