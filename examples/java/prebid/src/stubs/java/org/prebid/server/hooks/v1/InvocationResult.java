package org.prebid.server.hooks.v1;

/** A stub with the fields that the module sets. */
public interface InvocationResult<PAYLOAD> {
    InvocationStatus status();

    InvocationAction action();

    PayloadUpdate<PAYLOAD> payloadUpdate();
}
