package org.prebid.server.hooks.v1;

import java.util.function.UnaryOperator;

/** A stub. */
@FunctionalInterface
public interface PayloadUpdate<PAYLOAD> extends UnaryOperator<PAYLOAD> {}
