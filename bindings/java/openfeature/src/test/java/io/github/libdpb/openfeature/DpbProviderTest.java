package io.github.libdpb.openfeature;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.openfeature.sdk.Client;
import dev.openfeature.sdk.ErrorCode;
import dev.openfeature.sdk.FlagEvaluationDetails;
import dev.openfeature.sdk.ImmutableContext;
import dev.openfeature.sdk.MutableTrackingEventDetails;
import dev.openfeature.sdk.OpenFeatureAPI;
import dev.openfeature.sdk.Value;
import io.github.libdpb.Bandit;
import io.github.libdpb.Config;
import io.github.libdpb.Request;
import java.util.Map;
import org.junit.jupiter.api.Test;

class DpbProviderTest {
    private static Client client(Map<String, Flag> flags) {
        OpenFeatureAPI.getInstance().setProviderAndWait(new DpbProvider(flags));
        return OpenFeatureAPI.getInstance().getClient();
    }

    @Test
    void anEvaluationIsADecisionAndAnEventItsReward() {
        try (Bandit bandit = new Bandit(new Config(2, 1.0))) {
            Client client = client(Map.of("colour", new Flag(bandit, "red", "blue").event("click")));
            for (int i = 0; i < 3000; i++) {
                FlagEvaluationDetails<String> details = client.getStringDetails("colour", "red");
                assertEquals("SPLIT", details.getReason());
                assertEquals(details.getValue(), details.getVariant());
                int arm = details.getFlagMetadata().getInteger(DpbProvider.ARM);
                assertEquals(arm == 0 ? "red" : "blue", details.getValue());
                assertTrue(details.getFlagMetadata().getDouble(DpbProvider.PROPENSITY) > 0);
                String ticket = details.getFlagMetadata().getString(DpbProvider.TICKET);
                client.track("click", new MutableTrackingEventDetails(arm).add(DpbProvider.TICKET, ticket));
                client.track("click", new MutableTrackingEventDetails(arm).add(DpbProvider.TICKET, ticket));
            }
            client.track("click", new MutableTrackingEventDetails(1).add(DpbProvider.TICKET, "none"));
            client.track("click", new MutableTrackingEventDetails(1));
            client.track("other", new MutableTrackingEventDetails(1));
            assertTrue(bandit.arms().get(1).pulls() > 2000, bandit.arms().toString());
            assertEquals(3000, bandit.report().answered());
            assertEquals(3000, bandit.diagnostics().duplicates());
        }
    }

    @Test
    void aVisitorKeepsADecision() {
        try (Bandit bandit = new Bandit(new Config(3, 1.0).rewardWindow(100))) {
            Client client = client(Map.of("size", new Flag(bandit, 1, 2, 3).keep(2).variants("s", "m", "l")));
            ImmutableContext ann = new ImmutableContext("ann");
            FlagEvaluationDetails<Integer> first = client.getIntegerDetails("size", 0, ann);
            client.track("size", ann, new MutableTrackingEventDetails(1));
            String ticket = first.getFlagMetadata().getString(DpbProvider.TICKET);
            client.getIntegerDetails("size", 0, new ImmutableContext("bob"));
            FlagEvaluationDetails<Integer> again = client.getIntegerDetails("size", 0, ann);
            assertEquals(ticket, again.getFlagMetadata().getString(DpbProvider.TICKET));
            assertEquals(2, bandit.report().decisions());
            client.getIntegerDetails("size", 0, new ImmutableContext("cyd"));
            FlagEvaluationDetails<Integer> later = client.getIntegerDetails("size", 0, ann);
            assertNotEquals(ticket, later.getFlagMetadata().getString(DpbProvider.TICKET));
            assertEquals("sml".substring(later.getValue() - 1, later.getValue()), later.getVariant());
        }
    }

    @Test
    void whatCannotBeDecidedHasTheDefaultValue() {
        Bandit bandit = new Bandit(new Config(2, 1.0));
        Bandit segments = new Bandit(new Config(2, 1.0).maxSegments(1));
        Client client = client(Map.of(
                "flag",
                new Flag(bandit, true, false),
                "page",
                new Flag(segments, new Value("a"), new Value("b"))
                        .request(context -> new Request().segment(context.getValue("page").asInteger()))));
        assertEquals(ErrorCode.FLAG_NOT_FOUND, client.getBooleanDetails("none", true).getErrorCode());
        assertEquals(ErrorCode.TYPE_MISMATCH, client.getStringDetails("flag", "x").getErrorCode());
        ImmutableContext first = new ImmutableContext(Map.of("page", new Value(1)));
        ImmutableContext second = new ImmutableContext(Map.of("page", new Value(2)));
        assertEquals(null, client.getObjectDetails("page", new Value(), first).getErrorCode());
        FlagEvaluationDetails<Value> full = client.getObjectDetails("page", new Value("z"), second);
        assertEquals("z", full.getValue().asString());
        assertTrue(full.getErrorMessage().contains("FULL"), full.getErrorMessage());
        bandit.addArm(0);
        bandit.retireArm(0);
        bandit.retireArm(1);
        assertTrue(client.getBooleanDetails("flag", true).getErrorMessage().contains("has no value"));
        bandit.close();
        assertTrue(client.getBooleanDetails("flag", true).getErrorMessage().contains("CLOSED"));
        segments.close();
    }

    @Test
    void wrongFlagsAreRefused() {
        try (Bandit bandit = new Bandit(new Config(2, 1.0))) {
            for (Flag wrong : new Flag[] {
                new Flag(bandit, 1), new Flag(bandit, 1, "a"), new Flag(bandit, 1, 2).variants("one")
            }) {
                assertThrows(IllegalArgumentException.class, () -> new DpbProvider(Map.of("f", wrong)));
            }
            Map<String, Flag> two = Map.of("f", new Flag(bandit, 1, 2).event("e"), "e", new Flag(bandit, 1, 2));
            assertThrows(IllegalArgumentException.class, () -> new DpbProvider(two));
        }
    }
}
