package org.prebid.server.hooks.execution.v1.auction;

import com.iab.openrtb.request.BidRequest;
import org.prebid.server.hooks.v1.auction.AuctionRequestPayload;

/** A stub. */
public record AuctionRequestPayloadImpl(BidRequest bidRequest) implements AuctionRequestPayload {
    public static AuctionRequestPayloadImpl of(BidRequest bidRequest) {
        return new AuctionRequestPayloadImpl(bidRequest);
    }
}
