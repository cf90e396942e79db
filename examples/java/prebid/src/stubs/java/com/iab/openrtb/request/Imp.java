package com.iab.openrtb.request;

import java.math.BigDecimal;

/** A stub with the fields that the module changes, and the id. */
public final class Imp {
    private final String id;
    private final BigDecimal bidfloor;
    private final String bidfloorcur;

    private Imp(String id, BigDecimal bidfloor, String bidfloorcur) {
        this.id = id;
        this.bidfloor = bidfloor;
        this.bidfloorcur = bidfloorcur;
    }

    public String getId() {
        return id;
    }

    public BigDecimal getBidfloor() {
        return bidfloor;
    }

    public String getBidfloorcur() {
        return bidfloorcur;
    }

    public static ImpBuilder builder() {
        return new ImpBuilder();
    }

    public ImpBuilder toBuilder() {
        return builder().id(id).bidfloor(bidfloor).bidfloorcur(bidfloorcur);
    }

    public static final class ImpBuilder {
        private String id;
        private BigDecimal bidfloor;
        private String bidfloorcur;

        public ImpBuilder id(String id) {
            this.id = id;
            return this;
        }

        public ImpBuilder bidfloor(BigDecimal bidfloor) {
            this.bidfloor = bidfloor;
            return this;
        }

        public ImpBuilder bidfloorcur(String bidfloorcur) {
            this.bidfloorcur = bidfloorcur;
            return this;
        }

        public Imp build() {
            return new Imp(id, bidfloor, bidfloorcur);
        }
    }
}
