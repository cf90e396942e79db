package org.prebid.server.proto.openrtb.ext.request;

/** A stub with the field that the module changes. */
public final class ExtRequestPrebid {
    private final String integration;

    private ExtRequestPrebid(String integration) {
        this.integration = integration;
    }

    public String getIntegration() {
        return integration;
    }

    public static ExtRequestPrebidBuilder builder() {
        return new ExtRequestPrebidBuilder();
    }

    public ExtRequestPrebidBuilder toBuilder() {
        return builder().integration(integration);
    }

    public static final class ExtRequestPrebidBuilder {
        private String integration;

        public ExtRequestPrebidBuilder integration(String integration) {
            this.integration = integration;
            return this;
        }

        public ExtRequestPrebid build() {
            return new ExtRequestPrebid(integration);
        }
    }
}
