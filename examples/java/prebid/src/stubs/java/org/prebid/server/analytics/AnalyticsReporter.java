package org.prebid.server.analytics;

import io.vertx.core.Future;

/** A stub. */
public interface AnalyticsReporter {
    <T> Future<Void> processEvent(T event);

    int vendorId();

    String name();
}
