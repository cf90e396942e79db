package org.prebid.server.hooks.v1;

import java.util.Collection;

/** A stub. */
public interface Module {
    String code();

    Collection<? extends Hook<?, ? extends InvocationContext>> hooks();
}
