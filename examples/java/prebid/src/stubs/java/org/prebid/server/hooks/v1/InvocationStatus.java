package org.prebid.server.hooks.v1;

/** A stub. */
public enum InvocationStatus {
    success,
    failure
}
