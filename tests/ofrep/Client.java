import com.fasterxml.jackson.databind.ObjectMapper;
import dev.openfeature.contrib.providers.ofrep.OfrepProvider;
import dev.openfeature.contrib.providers.ofrep.OfrepProviderOptions;
import dev.openfeature.sdk.FlagEvaluationDetails;
import dev.openfeature.sdk.ImmutableContext;
import dev.openfeature.sdk.MutableStructure;
import dev.openfeature.sdk.OpenFeatureAPI;
import dev.openfeature.sdk.Value;
import java.util.HashMap;
import java.util.Map;

/** Asks the server by OpenFeature's provider for Java. Prints what it says as JSON. */
public final class Client {
    private static Map<String, Object> said(FlagEvaluationDetails<?> details) {
        var all = new HashMap<String, Object>();
        Object value = details.getValue();
        all.put("value", value instanceof Value object ? object.asStructure().asObjectMap() : value);
        all.put("variant", details.getVariant());
        all.put("reason", details.getReason());
        all.put("errorCode", details.getErrorCode() == null ? null : details.getErrorCode().name());
        all.put("flagMetadata", details.getFlagMetadata().asUnmodifiableMap());
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        var options = OfrepProviderOptions.builder().baseUrl(System.getenv("OFREP")).build();
        OpenFeatureAPI.getInstance().setProviderAndWait(OfrepProvider.constructProvider(options));
        var client = OpenFeatureAPI.getInstance().getClient();
        var visitor = new ImmutableContext("visitor-1", Map.of("device", new Value("phone")));
        var server = new HashMap<String, Object>();
        server.put("button", said(client.getStringDetails("button", "none", visitor)));
        server.put("limit", said(client.getIntegerDetails("limit", 0, visitor)));
        server.put("offer", said(client.getObjectDetails("offer", new Value(new MutableStructure()), visitor)));
        server.put("none", said(client.getStringDetails("none", "mine", visitor)));
        server.put("mismatch", said(client.getBooleanDetails("button", true, visitor)));
        var nobody = client.getStringDetails("button", "none", new ImmutableContext());
        System.out.println(new ObjectMapper().writeValueAsString(
                Map.of("server", server, "nobody", String.valueOf(nobody.getErrorCode()))));
        System.exit(0);
    }
}
