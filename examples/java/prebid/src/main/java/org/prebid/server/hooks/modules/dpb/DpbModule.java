package org.prebid.server.hooks.modules.dpb;

import com.iab.openrtb.request.BidRequest;
import com.iab.openrtb.request.Imp;
import io.github.libdpb.Bandit;
import io.github.libdpb.Config;
import io.github.libdpb.Decision;
import io.github.libdpb.DpbException;
import io.github.libdpb.Policy;
import io.github.libdpb.Request;
import io.vertx.core.Future;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.prebid.server.analytics.AnalyticsReporter;
import org.prebid.server.analytics.model.NotificationEvent;
import org.prebid.server.hooks.execution.v1.InvocationResultImpl;
import org.prebid.server.hooks.execution.v1.auction.AuctionRequestPayloadImpl;
import org.prebid.server.hooks.v1.Hook;
import org.prebid.server.hooks.v1.InvocationAction;
import org.prebid.server.hooks.v1.InvocationContext;
import org.prebid.server.hooks.v1.InvocationResult;
import org.prebid.server.hooks.v1.InvocationStatus;
import org.prebid.server.hooks.v1.Module;
import org.prebid.server.hooks.v1.auction.AuctionInvocationContext;
import org.prebid.server.hooks.v1.auction.AuctionRequestPayload;
import org.prebid.server.hooks.v1.auction.ProcessedAuctionRequestHook;
import org.prebid.server.proto.openrtb.ext.request.ExtRequest;
import org.prebid.server.proto.openrtb.ext.request.ExtRequestPrebid;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * A module for Prebid Server that learns which price floor earns most, with differential privacy for what each visitor
 * saw. The draft in Go, examples/go/prebid, says how it learns and why.
 *
 * <p>At the stage processed-auction-request it chooses one of the configured floors for the request. Floors below the
 * publisher's own are not eligible. The reward is 1 if the winner's ad was seen (event imp), and otherwise 0. The value
 * of a reward is the floor. The ticket of a decision is in ext.prebid.integration, with a seal. The server writes that
 * field into the URL of every event, so the module needs no table.
 *
 * <p>Prebid Server compiles its modules into the server:
 *
 * <ol>
 *   <li>Put src/main and src/test below extra/modules/dpb, without src/stubs. Its pom is like those beside it, with the
 *       dependency on io.github.libdpb:dpb. Name the module in the poms of extra/modules and extra/bundle.
 *   <li>Run the server with Java 22 or newer and --enable-native-access=ALL-UNNAMED.
 *   <li>In the host's YAML set hooks.dpb.enabled: true, and {@link Settings} below hooks.modules.dpb. The execution
 *       plan has the module-code dpb and the hook-impl-code dpb.
 *   <li>Add dpb to analytics.global.adapters, which delivers the events, and enable events in the accounts.
 *   <li>Set auction.price-floors.enabled in these accounts, so that the server drops bids below the floor. Let neither
 *       accounts nor requests have rules for floors: they come after this stage, and replace the floor.
 * </ol>
 *
 * <p>It handles all requests and events, many at a time.
 */
public final class DpbModule implements Module, ProcessedAuctionRequestHook, AnalyticsReporter, AutoCloseable {
    public static final String CODE = "dpb";

    // A token follows the publisher's own integration. It has the ticket and a seal, so that a sender of events cannot
    // invent tickets, which the operator's counts would show.
    static final int SEALED = 8; // bytes under the seal
    static final int TOKEN_LENGTH = 1 + (SEALED + 8) * 8 / 6 + 1;
    static final int INTEGRATION_LENGTH = 64;

    /**
     * The module's properties in the host's configuration.
     *
     * @param floors ascending, for a thousand impressions
     * @param rewardWindow requests: as many as in ten minutes
     * @param memory forgetAfter in requests; 0: never
     */
    @ConfigurationProperties("hooks.modules." + CODE)
    public record Settings(
            List<BigDecimal> floors,
            @DefaultValue("USD") String currency,
            @DefaultValue("1") double epsilon,
            @DefaultValue("dp-imed") String policy,
            @DefaultValue("100000") int rewardWindow,
            @DefaultValue("0") long memory) {}

    final Bandit bandit;
    private final List<BigDecimal> floors;
    private final double[] values;
    private final String currency;
    private final SecretKeySpec key; // of the seals; the process makes it, like the tickets

    /** Makes the module. Close it when done. */
    public DpbModule(Settings settings) {
        floors = settings.floors() == null ? List.of() : List.copyOf(settings.floors());
        values = floors.stream().mapToDouble(BigDecimal::doubleValue).toArray();
        boolean rising = IntStream.range(1, values.length).allMatch(i -> values[i - 1] < values[i]);
        if (values.length < 2 || !rising || values[0] <= 0) {
            throw new IllegalArgumentException("floors: two at least, rising, above 0");
        }
        currency = settings.currency();
        byte[] random = new byte[32];
        new SecureRandom().nextBytes(random);
        key = new SecretKeySpec(random, "HmacSHA256");
        Config config = new Config(values.length, settings.epsilon())
                .rewardBits(0) // seen or not
                .rewardWindow(settings.rewardWindow())
                .forgetAfter(settings.memory());
        bandit = new Bandit(Policy.named(settings.policy()), config);
        try {
            bandit.check(new Request().values(values)); // not all policies take values
        } catch (DpbException refused) {
            bandit.close();
            throw refused;
        }
    }

    /** Frees the bandit. Requests that are still running get no floor. */
    @Override
    public void close() {
        bandit.close();
    }

    /** The code of the module, and of its hook. */
    @Override
    public String code() {
        return CODE;
    }

    @Override
    public Collection<? extends Hook<?, ? extends InvocationContext>> hooks() {
        return List.of(this);
    }

    /**
     * Requests an update of the floors. The update makes the decision, because the server does not apply the update of
     * a hook that is too slow.
     */
    @Override
    public Future<InvocationResult<AuctionRequestPayload>> call(
            AuctionRequestPayload payload, AuctionInvocationContext context) {
        return Future.succeededFuture(InvocationResultImpl.<AuctionRequestPayload>builder()
                .status(InvocationStatus.success)
                .action(InvocationAction.update)
                .payloadUpdate(this::setFloor)
                .build());
    }

    /** Sets all floors of the request or none. After an exception the server continues as if there were no module. */
    private AuctionRequestPayload setFloor(AuctionRequestPayload payload) {
        BidRequest request = payload.bidRequest();
        List<Imp> imps = Objects.requireNonNullElse(request.getImp(), List.of());
        int[] eligible = eligible(imps);
        if (eligible.length == 0) {
            return payload;
        }
        ExtRequest ext = Objects.requireNonNullElseGet(request.getExt(), ExtRequest::empty);
        ExtRequestPrebid prebid =
                Objects.requireNonNullElseGet(ext.getPrebid(), () -> ExtRequestPrebid.builder().build());
        String own = Objects.requireNonNullElse(prebid.getIntegration(), "");
        if (own.length() + TOKEN_LENGTH > INTEGRATION_LENGTH) {
            throw new IllegalArgumentException("integration \"" + own + "\" is too long: a ticket does not fit");
        }
        double[] worth = Arrays.stream(eligible).mapToDouble(arm -> values[arm]).toArray();
        Decision decision = bandit.select(new Request().eligible(eligible).values(worth), new Decision());
        BigDecimal floor = floors.get(decision.arm());
        ExtRequest sealed = ExtRequest.of(
                prebid.toBuilder().integration(own + seal(decision.ticket())).build());
        sealed.addProperties(ext.getProperties());
        return AuctionRequestPayloadImpl.of(request.toBuilder()
                .imp(imps.stream()
                        .map(imp -> imp.toBuilder().bidfloor(floor).bidfloorcur(currency).build())
                        .toList())
                .ext(sealed)
                .build());
    }

    /** The floors that are not below any floor of the publisher: none if one is in another currency. */
    private int[] eligible(List<Imp> imps) {
        if (imps.stream().anyMatch(imp -> floor(imp) > 0 && !currency(imp).equals(currency))) {
            return new int[0];
        }
        double least = imps.stream().mapToDouble(DpbModule::floor).max().orElse(Double.POSITIVE_INFINITY);
        return IntStream.range(0, values.length).filter(arm -> values[arm] >= least).toArray();
    }

    private static double floor(Imp imp) {
        return imp.getBidfloor() == null ? 0 : imp.getBidfloor().doubleValue();
    }

    private static String currency(Imp imp) {
        return imp.getBidfloorcur() == null || imp.getBidfloorcur().isEmpty() ? "USD" : imp.getBidfloorcur();
    }

    /**
     * Receives the event of an ad that was seen. The result is always the same, so a sender of events does not learn
     * their status.
     */
    @Override
    public <T> Future<Void> processEvent(T event) {
        if (event instanceof NotificationEvent notified && notified.getType() == NotificationEvent.Type.imp) {
            open(notified.getIntegration()).ifPresent(ticket -> {
                try {
                    bandit.update(ticket, 1);
                } catch (DpbException refused) {
                    // The operator's counts have refused rewards.
                }
            });
        }
        return Future.succeededFuture();
    }

    /** The number of a vendor in the TCF: none, because nothing leaves the server. */
    @Override
    public int vendorId() {
        return 0;
    }

    @Override
    public String name() {
        return CODE;
    }

    private String seal(long ticket) {
        byte[] number = ByteBuffer.allocate(SEALED).putLong(ticket).array();
        byte[] token = ByteBuffer.allocate(SEALED + 8).put(number).put(sealOf(number)).array();
        return "_" + Base64.getUrlEncoder().withoutPadding().encodeToString(token);
    }

    private byte[] sealOf(byte[] number) {
        try {
            Mac mac = Mac.getInstance(key.getAlgorithm());
            mac.init(key);
            return Arrays.copyOf(mac.doFinal(number), 8);
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException(impossible); // every Java has this algorithm
        }
    }

    /** The ticket in an integration with a valid seal. */
    OptionalLong open(String integration) {
        if (integration == null || integration.length() < TOKEN_LENGTH) {
            return OptionalLong.empty();
        }
        byte[] token;
        try {
            token = Base64.getUrlDecoder().decode(integration.substring(integration.length() - TOKEN_LENGTH + 1));
        } catch (IllegalArgumentException other) {
            return OptionalLong.empty();
        }
        byte[] number = Arrays.copyOf(token, SEALED);
        boolean valid = token.length == SEALED + 8
                && MessageDigest.isEqual(Arrays.copyOfRange(token, SEALED, token.length), sealOf(number));
        return valid ? OptionalLong.of(ByteBuffer.wrap(number).getLong()) : OptionalLong.empty();
    }
}
