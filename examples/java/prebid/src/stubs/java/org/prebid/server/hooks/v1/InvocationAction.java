package org.prebid.server.hooks.v1;

/** A stub. */
public enum InvocationAction {
    no_action,
    update,
    reject
}
