package com.iab.openrtb.request;

import java.util.List;
import org.prebid.server.proto.openrtb.ext.request.ExtRequest;

/** A stub with the fields that the module changes, and the id. */
public final class BidRequest {
    private final String id;
    private final List<Imp> imp;
    private final ExtRequest ext;

    private BidRequest(String id, List<Imp> imp, ExtRequest ext) {
        this.id = id;
        this.imp = imp;
        this.ext = ext;
    }

    public String getId() {
        return id;
    }

    public List<Imp> getImp() {
        return imp;
    }

    public ExtRequest getExt() {
        return ext;
    }

    public static BidRequestBuilder builder() {
        return new BidRequestBuilder();
    }

    public BidRequestBuilder toBuilder() {
        return builder().id(id).imp(imp).ext(ext);
    }

    public static final class BidRequestBuilder {
        private String id;
        private List<Imp> imp;
        private ExtRequest ext;

        public BidRequestBuilder id(String id) {
            this.id = id;
            return this;
        }

        public BidRequestBuilder imp(List<Imp> imp) {
            this.imp = imp;
            return this;
        }

        public BidRequestBuilder ext(ExtRequest ext) {
            this.ext = ext;
            return this;
        }

        public BidRequest build() {
            return new BidRequest(id, imp, ext);
        }
    }
}
