package org.prebid.server.proto.openrtb.ext.request;

import org.prebid.server.proto.openrtb.ext.FlexibleExtension;

/** A stub. */
public final class ExtRequest extends FlexibleExtension {
    private final ExtRequestPrebid prebid;

    private ExtRequest(ExtRequestPrebid prebid) {
        this.prebid = prebid;
    }

    public static ExtRequest of(ExtRequestPrebid prebid) {
        return new ExtRequest(prebid);
    }

    public static ExtRequest empty() {
        return of(null);
    }

    public ExtRequestPrebid getPrebid() {
        return prebid;
    }
}
