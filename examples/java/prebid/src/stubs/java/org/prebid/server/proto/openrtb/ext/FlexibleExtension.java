package org.prebid.server.proto.openrtb.ext;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/** A stub. */
public abstract class FlexibleExtension {
    private final Map<String, JsonNode> properties = new HashMap<>();

    public Map<String, JsonNode> getProperties() {
        return Collections.unmodifiableMap(properties);
    }

    public void addProperties(Map<String, JsonNode> more) {
        properties.putAll(more);
    }
}
