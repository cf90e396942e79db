// Package openrtb_ext replaces github.com/prebid/prebid-server/v3/openrtb_ext and
// github.com/prebid/openrtb/v20/openrtb2 here. It has the parts that the module uses, with the same names and types.
package openrtb_ext

// RequestWrapper is a request whose parts are decoded on first use.
type RequestWrapper struct {
	*BidRequest
	ext RequestExt
}

type BidRequest struct {
	ID  string
	Imp []Imp
}

// Imp is a slot for an ad.
type Imp struct {
	ID          string
	BidFloor    float64 // for a thousand impressions
	BidFloorCur string  // USD if empty
}

type ImpWrapper struct{ *Imp }

func (rw *RequestWrapper) GetImp() []*ImpWrapper {
	imps := make([]*ImpWrapper, len(rw.Imp))
	for i := range imps {
		imps[i] = &ImpWrapper{&rw.Imp[i]}
	}
	return imps
}

func (rw *RequestWrapper) GetRequestExt() (*RequestExt, error) { return &rw.ext, nil }

// RequestExt is the request's ext.
type RequestExt struct{ prebid *ExtRequestPrebid }

// ExtRequestPrebid is its ext.prebid. The server writes Integration into the URLs of the events of all bids, as the
// parameter int. It has at most 64 letters, digits, - and _.
type ExtRequestPrebid struct {
	Integration string
}

// GetPrebid returns a copy, or nil.
func (re *RequestExt) GetPrebid() *ExtRequestPrebid {
	if re.prebid == nil {
		return nil
	}
	prebid := *re.prebid
	return &prebid
}

func (re *RequestExt) SetPrebid(prebid *ExtRequestPrebid) { re.prebid = prebid }
