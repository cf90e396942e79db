package org.prebid.server.hooks.modules.dpb;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.TextNode;
import com.iab.openrtb.request.BidRequest;
import com.iab.openrtb.request.Imp;
import io.github.libdpb.Arm;
import io.github.libdpb.DpbException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.prebid.server.analytics.AnalyticsReporter;
import org.prebid.server.analytics.model.NotificationEvent;
import org.prebid.server.hooks.execution.v1.auction.AuctionRequestPayloadImpl;
import org.prebid.server.hooks.v1.InvocationAction;
import org.prebid.server.hooks.v1.InvocationResult;
import org.prebid.server.hooks.v1.InvocationStatus;
import org.prebid.server.hooks.v1.Module;
import org.prebid.server.hooks.v1.auction.AuctionRequestPayload;
import org.prebid.server.proto.openrtb.ext.request.ExtRequest;
import org.prebid.server.proto.openrtb.ext.request.ExtRequestPrebid;
import org.springframework.beans.factory.BeanCreationException;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;

class DpbModuleTest {
    private final List<DpbModule> made = new ArrayList<>();

    private DpbModule module(double epsilon, int rewardWindow, String... floors) {
        List<BigDecimal> all = Arrays.stream(floors).map(BigDecimal::new).toList();
        made.add(new DpbModule(new DpbModule.Settings(all, "USD", epsilon, "dp-imed", rewardWindow, 0)));
        return made.getLast();
    }

    @AfterEach
    void close() {
        made.forEach(DpbModule::close);
    }

    private static Imp imp(String floor, String currency) {
        BigDecimal number = floor == null ? null : new BigDecimal(floor);
        return Imp.builder().bidfloor(number).bidfloorcur(currency).build();
    }

    private static BidRequest request(Imp... imps) {
        return BidRequest.builder().id("1").imp(List.of(imps)).build();
    }

    private static BidRequest integrated(String integration) {
        ExtRequest ext = ExtRequest.of(ExtRequestPrebid.builder().integration(integration).build());
        ext.addProperties(Map.of("other", TextNode.valueOf("kept")));
        return request(imp(null, null)).toBuilder().ext(ext).build();
    }

    /** Does what the server does at this stage: it calls the hook, and applies its update. */
    private static BidRequest auction(DpbModule module, BidRequest request) {
        AuctionRequestPayload payload = AuctionRequestPayloadImpl.of(request);
        InvocationResult<AuctionRequestPayload> result = module.call(payload, null).result();
        assertEquals(InvocationStatus.success, result.status());
        assertEquals(InvocationAction.update, result.action());
        return result.payloadUpdate().apply(payload).bidRequest();
    }

    /** The integration that events will carry. */
    private static String integration(BidRequest request) {
        return request.getExt().getPrebid().getIntegration();
    }

    /** Simulates a browser's call of /event. */
    private static void event(DpbModule module, NotificationEvent.Type type, String integration) {
        NotificationEvent event = NotificationEvent.builder().type(type).integration(integration).build();
        assertTrue(module.processEvent(event).succeeded());
    }

    /** The operator's counts of duplicate, late and unknown tickets. */
    private static List<Long> refused(DpbModule module) {
        return List.of(
                module.bandit.diagnostics().duplicates(),
                module.bandit.diagnostics().late(),
                module.bandit.diagnostics().unknown());
    }

    /**
     * Runs many auctions at once. Of four floors the second earns most: 0.5 * 0.8 = 0.4 for each request, against 0.25,
     * 0.19 and 0.1. The event of each ad comes twice. In 400 runs of the same test in Go, at least 3851 of the last
     * 4000 requests got this floor.
     */
    @Test
    void findsTheFloorThatEarnsMost() throws Exception {
        DpbModule module = module(4, 200, "0.25", "0.5", "0.75", "1");
        Map<BigDecimal, Integer> arms = new HashMap<>();
        List.of("0.25", "0.5", "0.75", "1").forEach(floor -> arms.put(new BigDecimal(floor), arms.size()));
        double[] seen = {1, 0.8, 0.25, 0.1};
        AtomicIntegerArray late = new AtomicIntegerArray(seen.length);
        try (ExecutorService crowd = Executors.newFixedThreadPool(4)) {
            List<Callable<Void>> visitors = new ArrayList<>();
            for (int number = 0; number < 4; number++) {
                SplittableRandom random = new SplittableRandom(number);
                visitors.add(() -> {
                    for (int i = 0; i < 4000; i++) {
                        BidRequest request = auction(module, request(imp(null, null)));
                        int arm = arms.get(request.getImp().getFirst().getBidfloor());
                        if (random.nextDouble() < seen[arm]) {
                            event(module, NotificationEvent.Type.win, integration(request));
                            event(module, NotificationEvent.Type.imp, integration(request));
                            event(module, NotificationEvent.Type.imp, integration(request));
                        }
                        if (i >= 3000) {
                            late.incrementAndGet(arm);
                        }
                    }
                    return null;
                });
            }
            for (Future<Void> visitor : crowd.invokeAll(visitors)) {
                visitor.get();
            }
        }
        assertTrue(late.get(1) > 2000, late.toString());
        Arm best = module.bandit.arms().get(1);
        assertEquals(0.8, best.mean(), 0.1);
    }

    @Test
    void floorsAreNotBelowThePublishersOwn() {
        DpbModule module = module(1, 100, "0.25", "0.5", "1");
        long decisions = 0;
        record Case(double from, Imp... imps) {} // the lower bound of the new floor; 0: it does not change
        for (Case test : List.of(
                new Case(0.25, imp(null, null)),
                new Case(0.5, imp("0.50", "")),
                new Case(1, imp("0.1", null), imp("0.7", "USD")),
                new Case(0, imp("1.5", null)),
                new Case(0, imp("0.1", "EUR")),
                new Case(0.25, imp("0", "EUR")),
                new Case(0))) {
            for (int i = 0; i < 20; i++) {
                BidRequest request = request(test.imps);
                BidRequest after = auction(module, request);
                if (test.from == 0) {
                    assertSame(request, after);
                    continue;
                }
                decisions++;
                assertNotNull(integration(after));
                assertEquals("1", after.getId());
                assertEquals(test.imps.length, after.getImp().size());
                BigDecimal floor = after.getImp().getFirst().getBidfloor();
                assertTrue(floor.doubleValue() >= test.from, floor::toString);
                for (Imp imp : after.getImp()) {
                    assertEquals(floor, imp.getBidfloor());
                    assertEquals("USD", imp.getBidfloorcur());
                }
            }
        }
        assertNull(auction(module, BidRequest.builder().build()).getImp());
        assertEquals(decisions, module.bandit.report().decisions());
    }

    /** An event counts once, and only with an unchanged token. The publisher's own integration stays in front. */
    @Test
    void anEventCountsOnceWithItsSeal() {
        DpbModule module = module(1, 100, "0.5", "1");
        BidRequest request = auction(module, integrated("pbjs-9"));
        assertEquals("kept", request.getExt().getProperties().get("other").asText());
        String good = integration(request);
        assertTrue(good.matches("pbjs-9_[A-Za-z0-9_-]{22}"), good); // the server refuses other characters
        assertTrue(module.processEvent(null).succeeded());
        assertTrue(module.processEvent("another event").succeeded());
        event(module, NotificationEvent.Type.win, good);
        event(module, NotificationEvent.Type.imp, null);
        String foreign = integration(auction(module(1, 100, "0.5", "1"), request(imp(null, null))));
        String cut = good.substring(0, good.length() - 1);
        for (String bad : List.of(
                "", "pbjs-9", foreign, cut, good + "A", cut + "=", "_".repeat(64), "é".repeat(32), "€".repeat(32))) {
            event(module, NotificationEvent.Type.imp, bad);
        }
        // The last digit has unused bits.
        for (int i = good.length() - DpbModule.TOKEN_LENGTH + 1; i < good.length() - 1; i++) {
            char other = good.charAt(i) == 'A' ? 'B' : 'A';
            String flipped = good.substring(0, i) + other + good.substring(i + 1);
            assertEquals(OptionalLong.empty(), module.open(flipped), flipped);
        }
        assertEquals(List.of(0L, 0L, 0L), refused(module), "refused for another reason than the seal");
        event(module, NotificationEvent.Type.imp, good);
        assertEquals(List.of(0L, 0L, 0L), refused(module));
        event(module, NotificationEvent.Type.imp, good);
        assertEquals(List.of(1L, 0L, 0L), refused(module));
    }

    /** A hook whose update is not applied, or cannot be applied, makes no decision. */
    @Test
    void nothingIsDecidedInVain() {
        DpbModule module = module(1, 100, "0.5", "1");
        module.call(AuctionRequestPayloadImpl.of(request(imp(null, null))), null);
        assertThrows(IllegalArgumentException.class, () -> auction(module, integrated("x".repeat(42))));
        assertEquals(0, module.bandit.report().decisions());
        BidRequest fits = auction(module, integrated("x".repeat(41)));
        assertEquals(DpbModule.INTEGRATION_LENGTH, integration(fits).length());
        module.close();
        BidRequest request = request(imp(null, null));
        assertThrows(DpbException.class, () -> auction(module, request));
        assertNull(request.getImp().getFirst().getBidfloor());
        event(module, NotificationEvent.Type.imp, integration(fits));
    }

    private static AnnotationConfigApplicationContext server(Map<String, Object> properties) {
        AnnotationConfigApplicationContext server = new AnnotationConfigApplicationContext();
        server.getEnvironment().getPropertySources().addFirst(new MapPropertySource("yaml", properties));
        server.register(DpbConfiguration.class);
        server.refresh();
        return server;
    }

    /** Spring makes the module from the host's properties, and closes it. */
    @Test
    void theContainerMakesIt() {
        Map<String, Object> properties = new HashMap<>(Map.of(
                "hooks.modules.dpb.floors[0]", "1", "hooks.modules.dpb.floors[1]", "2.5",
                "hooks.modules.dpb.policy", "dp-med", "hooks.modules.dpb.reward-window", "77"));
        try (AnnotationConfigApplicationContext server = server(properties)) {
            assertTrue(server.getBeansOfType(Module.class).isEmpty());
        }
        properties.put("hooks.dpb.enabled", "true");
        DpbModule module;
        try (AnnotationConfigApplicationContext server = server(properties)) {
            module = server.getBean(DpbModule.class);
            assertSame(module, server.getBean(AnalyticsReporter.class));
            assertSame(module, server.getBean(Module.class).hooks().iterator().next());
            assertEquals(List.of("dpb", "dpb"), List.of(module.code(), module.name()));
            assertEquals(
                    new DpbModule.Settings(
                            List.of(new BigDecimal("1"), new BigDecimal("2.5")), "USD", 1, "dp-med", 77, 0),
                    server.getBean(DpbModule.Settings.class));
            assertEquals("dp-med", module.bandit.policy().label());
            assertFalse(integration(auction(module, request(imp(null, null)))).isEmpty());
        }
        assertThrows(DpbException.class, module.bandit::report);
    }

    @Test
    void aWrongConfigurationStopsTheServer() {
        for (Map<String, String> wrong : List.of(
                Map.of("floors", ""), Map.of("floors", "1"), Map.of("floors", "1,0.5"), Map.of("floors", "0,1"),
                Map.of("floors", "1,1"), Map.of("floors", "1,x"), Map.of("policy", "none"), Map.of("epsilon", "-1"),
                Map.of("policy", "dp-tt"), Map.of("floors", "1,2"))) {
            Map<String, String> properties = new HashMap<>(Map.of("dpb.floors", "1,2"));
            wrong.forEach((name, value) -> properties.put("dpb." + name, value));
            Binder binder = new Binder(new MapConfigurationPropertySource(properties));
            Executable start = () -> made.add(new DpbModule(binder.bindOrCreate("dpb", DpbModule.Settings.class)));
            if (wrong.containsValue("1,2")) { // the same without anything wrong
                assertDoesNotThrow(start);
            } else {
                assertThrows(RuntimeException.class, start, wrong::toString);
            }
        }
        assertThrows(BeanCreationException.class, () -> server(Map.of("hooks.dpb.enabled", "true")));
    }
}
