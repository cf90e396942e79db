package org.prebid.server.hooks.v1.auction;

import org.prebid.server.hooks.v1.InvocationContext;

/** A stub without methods: the module reads nothing of it. */
public interface AuctionInvocationContext extends InvocationContext {}
