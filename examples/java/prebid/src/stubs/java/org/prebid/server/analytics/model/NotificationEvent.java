package org.prebid.server.analytics.model;

/** A stub with the fields that the module reads. */
public final class NotificationEvent {
    private final Type type;
    private final String integration;

    private NotificationEvent(Type type, String integration) {
        this.type = type;
        this.integration = integration;
    }

    public Type getType() {
        return type;
    }

    public String getIntegration() {
        return integration;
    }

    public static NotificationEventBuilder builder() {
        return new NotificationEventBuilder();
    }

    public enum Type {
        win,
        imp
    }

    public static final class NotificationEventBuilder {
        private Type type;
        private String integration;

        public NotificationEventBuilder type(Type type) {
            this.type = type;
            return this;
        }

        public NotificationEventBuilder integration(String integration) {
            this.integration = integration;
            return this;
        }

        public NotificationEvent build() {
            return new NotificationEvent(type, integration);
        }
    }
}
