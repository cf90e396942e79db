package org.prebid.server.hooks.v1.auction;

import org.prebid.server.hooks.v1.Hook;

/** A stub. */
public interface ProcessedAuctionRequestHook extends Hook<AuctionRequestPayload, AuctionInvocationContext> {}
