package io.github.libdpb;

import static io.github.libdpb.Refusals.refused;
import static io.github.libdpb.Refusals.seed;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class BanditTest {
    private static Decision[] decisions(int n) {
        Decision[] all = new Decision[n];
        Arrays.setAll(all, i -> new Decision());
        return all;
    }

    @Test
    void itLearnsWhichArmIsBest() {
        try (Bandit bandit = new Bandit(new Config(3, 1.0).testSeed(seed(1)))) {
            Random random = new Random(1);
            Decision decision = new Decision();
            for (int i = 0; i < 20_000; i++) {
                bandit.select(decision);
                bandit.update(decision.ticket(), random.nextDouble() < 0.1 + 0.2 * decision.arm() ? 1 : 0);
            }
            List<Arm> arms = bandit.arms();
            assertTrue(arms.get(2).pulls() > 15_000, arms.toString());
            assertEquals(0.5, arms.get(2).mean(), 0.05);
            Report report = bandit.report();
            assertEquals(20_000, report.decisions());
            assertEquals(20_000, report.answered());
            assertEquals(1.0, report.epsilonSpent(), 1e-9);
            assertEquals(report.epsilonSpent(), bandit.epsilonSpent(0));
            assertEquals(Duty.ALONE, report.duty());
            assertEquals(Set.of(), report.warnings());
            Interval difference = bandit.compare(2, 0, 0.95);
            assertTrue(difference.low() < difference.high());
            Interval lift = bandit.lift(Decision.NO_ARM, 0.95);
            assertTrue(-1 <= lift.low() && lift.low() < lift.high());
            refused(Status.INVALID_REQUEST, "", () -> bandit.lift(9, 0.95));
            refused(Status.UNSUPPORTED, "", bandit::bestArm);
            assertEquals(Native.VERSION, Bandit.version());
            assertEquals(Native.DPB_STATE_LIFETIME, Bandit.STATE_LIFETIME);
            assertTrue(Bandit.abiVersion() >= 1);
        }
    }

    @Test
    void rewardsAreRefusedWithTheirStatus() {
        Bandit bandit = new Bandit(new Config(2, 1.0).rewardWindow(10).node(77));
        Decision decision = bandit.select(new Decision());
        assertEquals(77, Bandit.ticketNode(decision.ticket()));
        for (double reward : new double[] {Double.NaN, 2, -1, Double.POSITIVE_INFINITY}) {
            refused(Status.INVALID_REWARD, "reward", () -> bandit.update(decision.ticket(), reward));
        }
        bandit.update(decision.ticket(), 1);
        refused(Status.DUPLICATE, "ticket", () -> bandit.update(decision.ticket(), 1));
        refused(Status.UNKNOWN_TICKET, "ticket", () -> bandit.update(12345, 1));
        Decision other = bandit.select(new Decision());
        bandit.cancel(other.ticket());
        refused(Status.DUPLICATE, "", () -> bandit.cancel(other.ticket()));
        bandit.skip(10);
        refused(Status.EXPIRED, "", () -> bandit.update(decision.ticket(), 1));
        Diagnostics diagnostics = bandit.diagnostics();
        assertEquals(4, diagnostics.rejected());
        assertEquals(2, diagnostics.duplicates());
        assertEquals(1, diagnostics.unknown());
        assertEquals(1, diagnostics.late());
        refused(Status.INVALID_CONFIG, "ticks", () -> bandit.skip(-1));
        refused(Status.UNSUPPORTED, "", () -> bandit.advance(1));
        assertThrows(NullPointerException.class, () -> bandit.select((Decision) null));
        assertThrows(NullPointerException.class, () -> bandit.select(null, new Decision()));
        bandit.cancelAll();
        bandit.close();
        bandit.close();
        refused(Status.CLOSED, "closed", () -> bandit.select(decision));
        refused(Status.CLOSED, "closed", () -> bandit.update(1, 1));
        refused(Status.CLOSED, "closed", bandit::report);
        refused(Status.CLOSED, "closed", bandit::arms);
        refused(Status.CLOSED, "closed", bandit::snapshot);
        refused(Status.CLOSED, "closed", bandit::policy);
    }

    @Test
    void partsOfARewardComeOneByOne() {
        Config config = new Config(2, 1.0).rewardWindow(5).rewardMin(-1).partWeights(0.5, -0.5);
        assertEquals(2, config.parts());
        try (Bandit bandit = new Bandit(config)) {
            long ticket = bandit.select(new Decision()).ticket();
            bandit.updatePart(ticket, 1, 1);
            bandit.update(ticket, 1);
            refused(Status.DUPLICATE, "", () -> bandit.updatePart(ticket, 0, 1));
            refused(Status.INVALID_CONFIG, "", () -> bandit.updatePart(ticket, 2, 1));
            refused(Status.INVALID_CONFIG, "", () -> bandit.updatePart(ticket, -1, 1));
        }
    }

    @Test
    void requestsOfSeveralSlotsGetDifferentArms() {
        try (Bandit bandit = new Bandit(new Config(5, 1.0))) {
            Decision[] out = decisions(3);
            Request request = new Request().slots(3).eligible(new int[] {0, 2, 3, 4}).values(new double[] {1, 2, 1, 3});
            bandit.selectSlots(request, out);
            Set<Integer> arms = new HashSet<>();
            for (Decision decision : out) {
                assertTrue(arms.add(decision.arm()) && decision.arm() != 1, out[0].toString());
                bandit.update(decision.ticket(), 0);
            }
            refused(Status.INVALID_REQUEST, "slots is 3, but got 2", () -> bandit.selectSlots(request, decisions(2)));
            refused(Status.INVALID_REQUEST, "slots must be 1", () -> bandit.select(request, new Decision()));
            refused(Status.INVALID_REQUEST, "slots", () -> bandit.selectSlots(new Request().slots(9), decisions(9)));
            bandit.selectSlots(new Request().slots(2).examined(new double[] {1, 0.5}), decisions(2));
            assertEquals(5, bandit.report().decisions());
        }
    }

    @Test
    void badRequestsAreRefusedWithTheField() {
        try (Bandit bandit = new Bandit(new Config(3, 1.0))) {
            Decision out = new Decision();
            refused(Status.INVALID_REQUEST, "got 3", () -> bandit.select(new Request().eligible(new int[] {3}), out));
            int[] none = {-1};
            refused(Status.INVALID_REQUEST, "eligible", () -> bandit.select(new Request().eligible(none), out));
            refused(Status.INVALID_REQUEST, "eligible", () -> bandit.select(new Request().eligible(new int[0]), out));
            double[] two = {1, 1};
            refused(Status.INVALID_REQUEST, "values.length", () -> bandit.select(new Request().values(two), out));
            double[] nan = {1, Double.NaN, 1};
            refused(Status.INVALID_REQUEST, "values", () -> bandit.select(new Request().values(nan), out));
            refused(Status.INVALID_REQUEST, "costs", () -> bandit.select(new Request().costs(nan), out));
            refused(Status.INVALID_REQUEST, "examined", () -> bandit.select(new Request().examined(two), out));
            refused(Status.UNSUPPORTED, "segment", () -> bandit.select(new Request().segment(1), out));
            refused(Status.UNSUPPORTED, "user", () -> bandit.select(new Request().user(1), out));
            refused(Status.UNSUPPORTED, "features", () -> bandit.select(new Request().features(new float[3]), out));
            refused(Status.INVALID_REQUEST, "values.length", () -> bandit.check(new Request().values(two)));
            bandit.check(new Request());
            assertEquals(0, bandit.report().decisions());
            Request dear = new Request().costs(new double[] {9, 9, 9}).abstain(true);
            boolean abstained = false;
            for (int i = 0; i < 1000 && !abstained; i++) {
                bandit.select(dear, out);
                abstained = out.arm() == Decision.NO_ARM;
                if (!abstained) {
                    bandit.update(out.ticket(), 0);
                }
            }
            assertTrue(abstained);
        }
        try (Bandit bandit = new Bandit(new Config(3, 1.0).maxSegments(2))) {
            refused(Status.UNSUPPORTED, "maxSegments", () -> bandit.select(new Decision()));
        }
    }

    @Test
    void segmentsLearnForThemselves() {
        try (Bandit bandit = new Bandit(new Config(2, 1.0).maxSegments(2))) {
            Decision out = new Decision();
            bandit.select(new Request().segment(5), out);
            bandit.select(new Request().segment(-6), out); // all 64 bits
            refused(Status.FULL, "", () -> bandit.select(new Request().segment(7), out));
            assertEquals(2, bandit.segment(5).size());
            assertEquals(2, bandit.segment(-6).size());
            refused(Status.INVALID_REQUEST, "", () -> bandit.segment(7));
            assertEquals(2, bandit.report().segments());
        }
    }

    @Test
    void aLiftByFeaturesNeedsExploration() {
        for (double exploration : new double[] {0, 0.2}) {
            Config config = new Config(3, 4.0)
                    .features(1)
                    .modelPerArm(true)
                    .exploration(exploration)
                    .testSeed(new byte[32]);
            try (Bandit bandit = new Bandit(config)) {
                Decision out = new Decision();
                Request request = new Request().features(new float[] {1});
                for (int t = 0; t < 20_000; t++) {
                    bandit.select(request, out);
                    bandit.update(out.ticket(), out.arm() == 1 ? 1 : 0);
                }
                if (exploration == 0) {
                    refused(Status.UNSUPPORTED, "", () -> bandit.lift(Decision.NO_ARM, 0.95));
                } else {
                    Interval lift = bandit.lift(Decision.NO_ARM, 0.95); // 1 in place of 1/3
                    assertTrue(0.5 < lift.low() && lift.low() < 2 && 2 < lift.high(), lift.toString());
                }
            }
        }
    }

    @Test
    void featuresAreDenseOrSparse() {
        Config config = new Config(3, 1.0).features(4).modelPerArm(true);
        try (Bandit bandit = new Bandit(config)) {
            Decision out = new Decision();
            int phone = Features.hash("device", "phone", 4);
            bandit.select(new Request().features(new float[] {1, 0, 0, 1}), out);
            Request sparse = new Request().sparse(new int[] {phone, 3}, new float[] {1, 1}, 2);
            sparse.eligible(new int[] {0, 2});
            bandit.select(sparse, out);
            assertEquals(2, bandit.predict(sparse).size());
            assertEquals(3, bandit.predict(new Request().features(new float[4])).size());
            assertEquals(5, bandit.featureWeights(2).size());
            assertTrue(bandit.featureWeights(0).get(4).deviation() > 0);
            refused(Status.INVALID_REQUEST, "", () -> bandit.featureWeights(3));
            float[] short3 = new float[3];
            refused(Status.INVALID_REQUEST, "features", () -> bandit.select(new Request().features(short3), out));
            refused(Status.INVALID_REQUEST, "features", () -> bandit.predict(new Request().features(short3)));
            float[] nan = {1, Float.NaN, 0, 0};
            refused(Status.INVALID_REQUEST, "features", () -> bandit.select(new Request().features(nan), out));
            int[] one = {0};
            float[] first = {1};
            float[] values = {1, 2};
            refused(Status.INVALID_REQUEST, "indices", () -> bandit.select(new Request().sparse(one, values, 1), out));
            refused(Status.INVALID_REQUEST, "end", () -> bandit.select(new Request().sparse(one, first, 2), out));
            refused(Status.INVALID_REQUEST, "", () -> bandit.select(new Request().sparse(one, first, -1), out));
            int[] large = {4};
            refused(Status.INVALID_REQUEST, "", () -> bandit.select(new Request().sparse(large, first, 1), out));
            refused(Status.INVALID_REQUEST, "", () -> bandit.select(new Request().sparse(one, first), out));
        }
        assertEquals((int) (crc("device=phone") % 1000), Features.hash("device", "phone", 1000));
        assertTrue(Features.cross(3, 5, 1000) < 1000);
        float[] book = Features.codebook(new float[0], 2, 4);
        assertEquals("[1.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, -1.0]", java.util.Arrays.toString(book));
        assertEquals(4, Features.codebook(new float[] {1, 0, 0, 1, 1, 1}, 2, 2).length);
        refused(Status.INVALID_CONFIG, "len", () -> Features.codebook(new float[0], 2, 3));
        refused(Status.INVALID_CONFIG, "codebook", () -> Features.codebook(new float[3], 2, 1));
        Config hidden = new Config(3, 2.0).features(2).modelPerArm(true).privateFeatures(true).rewardWindow(10);
        refused(Status.INVALID_CONFIG, "codebook", () -> new Bandit(hidden));
        refused(Status.INVALID_CONFIG, "codebook", () -> new Bandit(hidden.codebook(new float[] {1, 2, 3})));
        try (Bandit closed = new Bandit(hidden.codebook(book))) {
            Decision given = new Decision();
            closed.select(new Request().features(new float[] {1, 0}), given);
            closed.update(given.ticket(), 1.0);
            assertEquals(1, closed.report().decisions());
        }
        refused(Status.INVALID_REQUEST, "NUL", () -> Features.hash("a", "b\0c", 10));
    }

    private static long crc(String text) {
        java.util.zip.CRC32 crc = new java.util.zip.CRC32();
        crc.update(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        return crc.getValue();
    }

    @Test
    void batchesAreDecidedInOrder() {
        try (Bandit bandit = new Bandit(new Config(4, 1.0))) {
            Request[] requests = new Request[200];
            for (int i = 0; i < requests.length; i++) {
                requests[i] = new Request().slots(1 + i % 2).eligible(new int[] {i % 3, 3});
            }
            Decision[] out = decisions(300);
            bandit.selectMany(requests, out);
            long[] tickets = new long[300];
            for (int i = 0; i < 300; i++) {
                tickets[i] = out[i].ticket();
                int request = i / 3 * 2 + (i % 3 == 0 ? 0 : 1);
                assertTrue(out[i].arm() == request % 3 || out[i].arm() == 3, i + ": " + out[i]);
            }
            double[] rewards = new double[300];
            rewards[7] = Double.NaN;
            Status[] each = new Status[300];
            assertEquals(299, bandit.updateMany(tickets, rewards, each));
            assertEquals(Status.INVALID_REWARD, each[7]);
            assertEquals(Status.OK, each[8]);
            assertEquals(1, bandit.updateMany(tickets, new double[300], null)); // the one that was refused
            refused(Status.INVALID_CONFIG, "length", () -> bandit.updateMany(tickets, new double[2], null));
            refused(Status.INVALID_CONFIG, "length", () -> bandit.updateMany(tickets, rewards, new Status[1]));
            // The index of the refused one, in the second piece.
            requests[150].eligible(new int[] {9});
            DpbException refusal =
                    refused(Status.INVALID_REQUEST, "got 9", () -> bandit.selectMany(requests, decisions(300)));
            assertEquals(150, refusal.done());
            assertEquals(300 + 225, bandit.report().decisions());
            refused(Status.INVALID_REQUEST, "slots", () -> bandit.selectMany(requests, decisions(299)));
            bandit.selectMany(new Request[0], new Decision[0]);
        }
    }

    @Test
    void armsComeAndGo() {
        try (Bandit bandit = new Bandit(new Config(2, 1.0))) {
            assertEquals(2, bandit.addArm(0));
            assertEquals(3, bandit.addArm(99));
            assertEquals(3, bandit.addArm(99));
            refused(Status.INVALID_CONFIG, "id", () -> bandit.addArm(1));
            bandit.retireArm(0);
            refused(Status.INVALID_REQUEST, "", () -> bandit.retireArm(0));
            bandit.setPrior(1, 0.05, 1000);
            refused(Status.INVALID_CONFIG, "mean", () -> bandit.setPrior(1, Double.NaN, 1000));
            refused(Status.INVALID_REQUEST, "", () -> bandit.setPrior(17, 0.5, 10));
            assertFalse(bandit.arms().get(0).active());
        }
    }

    @Test
    void usersCountInStoredPeriods() {
        Config config = new Config(2, 1.0).expectedUsers(1000).budgetPeriods(3);
        byte[] snapshot;
        try (Bandit bandit = new Bandit(config)) {
            Decision out = new Decision();
            bandit.select(new Request().user(5), out);
            bandit.nextPeriod();
            snapshot = bandit.snapshot();
            bandit.stored(snapshot);
        }
        try (Bandit bandit = Bandit.restore(snapshot)) {
            Decision out = new Decision();
            refused(Status.NOT_READY, "", () -> bandit.select(new Request().user(5), out));
            refused(Status.INVALID_CONFIG, "", () -> bandit.stored(snapshot));
            bandit.stored(bandit.snapshot());
            bandit.select(new Request().user(5), out);
            refused(Status.OVER_BUDGET, "", bandit::nextPeriod);
        }
    }

    @Test
    void snapshotsRestoreAndMerge() {
        Config config = new Config(2, 1.0);
        try (Bandit bandit = new Bandit(config);
                Bandit other = new Bandit(config)) {
            for (int i = 0; i < 5000; i++) {
                long ticket = bandit.select(new Decision()).ticket();
                bandit.update(ticket, i % 2);
            }
            byte[] snapshot = bandit.snapshot();
            other.merge(snapshot);
            assertEquals(bandit.arms().get(0).mean(), other.arms().get(0).mean(), 1e-12);
            try (Bandit restored = Bandit.restore(snapshot)) {
                assertEquals(bandit.arms().get(0).mean(), restored.arms().get(0).mean());
            }
            try (Bandit restored = Bandit.restore(snapshot, null, new Config(2, 1.0).rewardWindow(9))) {
                assertEquals(Policy.IMED, restored.policy());
            }
            refused(Status.INVALID_CONFIG, "arms", () -> Bandit.restore(snapshot, Policy.IMED, new Config(3, 1.0)));
            snapshot[40] ^= 1;
            refused(Status.CORRUPT, "", () -> Bandit.restore(snapshot));
            refused(Status.CORRUPT, "", () -> other.merge(new byte[0]));
            refused(Status.CORRUPT, "", () -> Bandit.restore(new byte[3]));
        }
        try (Bandit bandit = new Bandit(Policy.UCB, config)) {
            refused(Status.UNSUPPORTED, "", bandit::snapshot);
        }
    }

    @Test
    void statesMoveWithTheirOpenDecisions() {
        Config config = new Config(2, 1.0).rewardWindow(100).fleetKey(seed(9));
        Bandit bandit = new Bandit(config);
        long ticket = bandit.select(new Decision()).ticket();
        byte[] state = bandit.suspend(0);
        refused(Status.HALTED, "", () -> bandit.select(new Decision()));
        bandit.close();
        try (Bandit resumed = Bandit.resume(config, state)) {
            refused(Status.NOT_READY, "", () -> resumed.update(ticket, 1));
            resumed.claimed();
            resumed.update(ticket, 1);
            long receiver = resumed.receiver();
            try (Bandit third = new Bandit(config)) {
                byte[] addressed = third.suspend(receiver);
                Bandit.resume(config, addressed).close();
                refused(Status.EXPIRED, "", () -> Bandit.resume(config, addressed));
            }
        }
        refused(Status.UNSUPPORTED, "fleetKey", () -> new Bandit(new Config(2, 1.0)).suspend(0));
        refused(Status.CORRUPT, "", () -> Bandit.resume(config, new byte[100]));
    }

    @Test
    void oneLeaderReleasesWhatAllCollect() {
        Config config = new Config(2, 1.0).fleetKey(seed(9));
        try (Bandit leader = new Bandit(config);
                Bandit other = new Bandit(config)) {
            long generation = leader.lead();
            assertEquals(Duty.LEADS, leader.report().duty());
            leader.setHandles(2);
            other.setHandles(2);
            other.contribution(generation);
            for (int i = 0; i < 1000; i++) {
                other.update(other.select(new Decision()).ticket(), 1);
            }
            byte[] contribution = other.contribution(generation);
            leader.combine(contribution);
            refused(Status.DUPLICATE, "", () -> leader.combine(contribution));
            assertEquals(1, leader.report().contributions());
            refused(Status.INVALID_CONFIG, "generation", () -> other.contribution(0));
            other.alone();
            byte[] message = {1, 2, 3};
            byte[] sealed = other.seal(message);
            assertEquals(3 + Native.DPB_SEAL_BYTES, sealed.length);
            assertArrayEquals(message, leader.open(sealed));
            sealed[9] ^= 1;
            refused(Status.CORRUPT, "", () -> leader.open(sealed));
        }
    }

    @Test
    void aTestSaysItsVerdictInWords() {
        try (Bandit bandit = new Bandit(Policy.TT, new Config(2, 1.0).testSeed(seed(3)).plannedEnd(2000))) {
            assertEquals(TestState.RUNNING, bandit.verdict().state());
            for (int i = 0; i < 10_000; i++) {
                Decision decision = bandit.select(new Decision());
                bandit.update(decision.ticket(), decision.arm());
            }
            Verdict verdict = bandit.verdict();
            assertEquals(TestState.WON, verdict.state());
            assertEquals(1, verdict.leader());
            assertTrue(verdict.toString().startsWith("Arm 1 is the best of 2"), verdict.text());
            assertEquals(1, bandit.bestArm());
        }
    }

    @Test
    void sumsAndStoppingRulesWork() {
        try (Counter counter = new Counter(Counter.Kind.BINARY, 1, 100, seed(1))) {
            for (int i = 0; i < 100; i++) {
                counter.add(1);
            }
            assertEquals(100, counter.sum(), 60);
            assertFalse(counter.isPrivate());
            refused(Status.INVALID_REWARD, "", () -> counter.add(Double.NaN));
            refused(Status.HALTED, "", () -> counter.add(1));
        }
        try (StoppingRule rule = new StoppingRule(StoppingRule.Kind.DP_NAS, 1, 0.3, 0.1, 1, null)) {
            refused(Status.NOT_READY, "", rule::mean);
            refused(Status.INVALID_REWARD, "", () -> rule.push(2));
            for (int i = 0; i < 1_000_000 && !rule.push(0.9); i++) {}
            assertEquals(0.9, rule.mean(), 0.3);
            assertTrue(rule.isPrivate());
        }
        for (StoppingRule.Kind kind : StoppingRule.Kind.values()) {
            new StoppingRule(kind, 1, 0.3, 0.1, 1, null).close();
        }
        refused(Status.INVALID_CONFIG, "alpha", () -> new StoppingRule(StoppingRule.Kind.NAS, 1, 0, 0.1, 1, null));
    }

    @Test
    void shuffledBatchesAreSubmitted() {
        ShuffleParams plan = ShuffleParams.plan(0.5, 1e-6, 100_000, false);
        assertEquals(100_000, plan.users());
        assertEquals(1 + plan.coinsPerUser(), plan.encode(1).length);
        refused(Status.INVALID_REWARD, "", () -> plan.encode(2));
        refused(Status.INVALID_CONFIG, "epsilon", () -> ShuffleParams.plan(0, 1e-6, 1000, false));
        try (Bandit bandit = new Bandit(Policy.SDP_AE, new Config(2, 1.0).delta(1e-6).horizon(100_000))) {
            Decision decision = bandit.select(new Decision());
            ShuffleParams params = bandit.shuffleParams(decision.phase());
            try (Shuffler shuffler = new Shuffler(params)) {
                refused(Status.NOT_READY, "", shuffler::take);
                refused(Status.INVALID_CONFIG, "", () -> shuffler.push(new byte[0]));
                for (int i = 0; i < params.users(); i++) {
                    shuffler.push(params.encode(1));
                }
                refused(Status.EXPIRED, "", () -> shuffler.push(params.encode(1)));
                byte[] batch = shuffler.take();
                bandit.submitShuffled(decision.phase(), decision.arm(), batch);
                refused(
                        Status.DUPLICATE,
                        "",
                        () -> bandit.submitShuffled(decision.phase(), decision.arm(), batch));
            }
        }
        LocalModel.encode(1, 0.5);
        refused(Status.INVALID_CONFIG, "", () -> LocalModel.encode(0, 0.5));
    }

    @Test
    void timeIsTheCallers() {
        try (Bandit bandit = new Bandit(new Config(2, 1.0).clock(Clock.CALLER).rewardWindow(1000))) {
            bandit.advance(5000);
            long ticket = bandit.select(new Decision()).ticket();
            bandit.advance(6000);
            refused(Status.EXPIRED, "", () -> bandit.update(ticket, 1));
        }
    }

    @Test
    void aNodeIsWithoutABanditUntilItHasJoined() {
        Config config = new Config(2, 1.0);
        try (FleetNode node = new FleetNode(null, config, new NodeOptions("ads"))) {
            assertEquals(null, node.bandit());
            Command command = node.next(FleetNode.Lane.EXCHANGES);
            assertEquals(Command.Kind.TAKE, command.kind());
            assertTrue(command.script().contains("redis") && command.sha1().length() == 40, command.toString());
            node.failed(command.id(), "it was a test");
            assertEquals("it was a test", node.report().lastError());
            assertEquals(NodeState.TAKING, node.report().state());
            assertEquals(1, node.diagnostics().failures());
            refused(Status.UNKNOWN_TICKET, "", () -> node.update(5, 1));
            refused(Status.NOT_READY, "", node::nextPeriod);
        }
        assertEquals(Command.Kind.LEAVE, FleetNode.gone("ads", 3).kind());
        refused(Status.INVALID_CONFIG, "number", () -> FleetNode.gone("ads", 0));
        refused(Status.INVALID_CONFIG, "name", () -> new FleetNode(null, config, new NodeOptions("a{b}")));
        refused(Status.UNSUPPORTED, "", () -> new FleetNode(Policy.UCB, config, new NodeOptions("ads")));
        refused(
                Status.INVALID_CONFIG,
                "interval in milliseconds",
                () -> new FleetNode(null, config, new NodeOptions("ads").interval(java.time.Duration.ofMillis(3))));
    }
}
