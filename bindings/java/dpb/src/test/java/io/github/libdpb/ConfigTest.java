package io.github.libdpb;

import static io.github.libdpb.Refusals.refused;
import static io.github.libdpb.Refusals.seed;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

class ConfigTest {
    @Test
    void itsDefaultsAreThoseOfTheLibrary() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment c = arena.allocate(Native.dpb_config.SIZE, 8);
            Native.dpb_config_init_sized(c.address(), (int) c.byteSize(), 7, 0.25);
            assertArrayEquals(c.toArray(JAVA_BYTE), new Config(7, 0.25).write(arena, 0).toArray(JAVA_BYTE));
            MemorySegment request = arena.allocate(Native.dpb_request.SIZE, 8);
            Native.dpb_request_init_sized(request.address(), (int) request.byteSize());
            MemorySegment own = arena.allocate(Native.dpb_request.SIZE + 8, 8);
            new Request().write(own, 1, 0, Native.dpb_request.SIZE);
            assertArrayEquals(
                    request.toArray(JAVA_BYTE), own.asSlice(0, Native.dpb_request.SIZE).toArray(JAVA_BYTE));
        }
    }

    @Test
    void refusalsNameTheFieldAndTheValue() {
        refused(Status.INVALID_CONFIG, "epsilon", () -> new Bandit(new Config(2, Double.NaN)));
        refused(Status.INVALID_CONFIG, "epsilon", () -> new Bandit(new Config(2, -1)));
        refused(Status.INVALID_CONFIG, "arms must be in 2 .. 2^24, got 1", () -> new Bandit(new Config(1, 1)));
        refused(Status.INVALID_CONFIG, "arms must be at least 0, got -3", () -> new Bandit(new Config(-3, 1)));
        refused(Status.INVALID_CONFIG, "horizon must be at least 0", () -> new Bandit(new Config(2, 1).horizon(-1)));
        refused(Status.INVALID_CONFIG, "rewardMin", () -> new Bandit(new Config(2, 1).rewardMin(Double.NaN)));
        refused(Status.INVALID_CONFIG, "testSeed", () -> new Bandit(new Config(2, 1).testSeed(new byte[31])));
        refused(Status.INVALID_CONFIG, "modelPerArm", () -> new Bandit(new Config(2, 1).modelPerArm(true)));
        refused(Status.INVALID_CONFIG, "learnClip", () -> new Bandit(Policy.SE, new Config(2, 1).learnClip(true)));
        refused(Status.INVALID_CONFIG, "9", () -> new Bandit(new Config(2, 1).partWeights(new double[9])));
        refused(Status.INVALID_CONFIG, "no policy", () -> Policy.named("dp-none"));
    }

    @Test
    void everyPolicyIsMadeByItsName() {
        for (Policy policy : Policy.values()) {
            assertEquals(policy, Policy.named(policy.label()));
            try (Arena arena = Arena.ofConfined()) {
                long name = arena.allocateFrom(policy.label()).address();
                assertEquals(policy.number(), Native.dpb_policy_number(name));
            }
            Config config = new Config(2, 1).horizon(1000).delta(policy == Policy.SE ? 0 : 1e-6);
            if (policy == Policy.LAP) {
                config.base(Policy.NONPRIVATE_UCB1);
            }
            if (policy == Policy.LINEAR) {
                config.features(1);
            }
            try (Bandit bandit = new Bandit(policy, config)) {
                assertEquals(policy, bandit.policy());
                assertEquals(policy, bandit.report().policy());
            } catch (DpbException refusal) { // most policies are pure
                assertTrue(refusal.getMessage().contains("delta"), refusal.getMessage());
            }
        }
        long i = 0;
        while (!Native.text(Native.dpb_policy_at(i)).isEmpty()) {
            i++;
        }
        assertEquals(i, Policy.values().length);
    }

    @Test
    void aBudgetIsCharged() {
        Budget budget = new Budget(1.5, 0);
        Config config = new Config(2, 1).budget(budget);
        try (Bandit bandit = new Bandit(config)) {
            assertEquals(1.0, budget.spent(0), 1e-12);
            assertEquals(0.5, budget.remaining(), 1e-12);
            budget.charge(0.25, 0);
            refused(Status.OVER_BUDGET, "budget", () -> budget.charge(0.5, 0));
            refused(Status.INVALID_CONFIG, "epsilon", () -> budget.charge(0, 0));
            assertEquals(0.25, budget.remaining(), 1e-12);
            assertTrue(bandit.statement().contains("\"privacy_parameters\":{\"epsilon\":1.0,"));
            assertTrue(bandit.statementText().contains("Not protected: "));
            refused(Status.OVER_BUDGET, "budget", () -> new Bandit(config));
            budget.close();
            refused(Status.CLOSED, "closed", () -> new Bandit(config));
            refused(Status.CLOSED, "closed", budget::remaining);
            assertTrue(bandit.report().isPrivate());
        }
        refused(Status.INVALID_CONFIG, "epsilon", () -> new Budget(0, 0));
    }

    @Test
    void aSeedMakesItReproducible() {
        double[][] propensities = new double[2][100];
        for (double[] of : propensities) {
            try (Bandit bandit = new Bandit(Policy.MED, new Config(3, 1).testSeed(seed(7)))) {
                Decision decision = new Decision();
                for (int i = 0; i < of.length; i++) {
                    bandit.select(decision);
                    bandit.update(decision.ticket(), decision.arm() == 0 ? 1 : 0);
                    of[i] = decision.propensity() + decision.arm();
                }
                assertFalse(bandit.report().isPrivate());
            }
        }
        assertArrayEquals(propensities[0], propensities[1]);
    }
}
