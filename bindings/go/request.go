package dpb

/*
#cgo noescape decide
#cgo nocallback decide
#cgo noescape decide_many
#cgo nocallback decide_many
#cgo noescape predict
#cgo nocallback predict
#cgo noescape request_check
#cgo nocallback request_check
#cgo noescape dpb_feature_cross
#cgo nocallback dpb_feature_cross
#cgo noescape dpb_segment_read
#cgo nocallback dpb_segment_read
#cgo noescape dpb_select_many
#cgo nocallback dpb_select_many
#include <dpb.h>

// Go memory that C sees may hold no Go pointer, so the dpb_request is made here.
static inline void fill(dpb_request *request, uint32_t slots, uint64_t segment, uint64_t user,
                        const uint32_t *eligible, size_t eligible_len, const double *values,
                        size_t values_len, const double *examined, size_t examined_len, const float *features,
                        const dpb_feature *sparse, size_t features_len, const uint32_t *ends, size_t ends_len) {
  dpb_request_init(request);
  request->slots = slots;
  request->segment = segment;
  request->user = user;
  request->eligible = eligible;
  request->eligible_len = eligible_len;
  request->values = values;
  request->values_len = values_len;
  request->examined = examined;
  request->examined_len = examined_len;
  request->features = features;
  request->sparse = sparse;
  request->features_len = features_len;
  request->sparse_ends = ends;
  request->sparse_ends_len = ends_len;
}
static inline dpb_status decide(dpb_bandit *bandit, uint32_t slots, uint64_t segment, uint64_t user,
                                const uint32_t *eligible, size_t eligible_len, const double *values,
                                size_t values_len, const double *examined, size_t examined_len, const float *features,
                                const dpb_feature *sparse, size_t features_len, const uint32_t *ends, size_t ends_len,
                                dpb_decision *out) {
  dpb_request request;
  fill(&request, slots, segment, user, eligible, eligible_len, values, values_len, examined, examined_len, features, sparse,
       features_len, ends, ends_len);
  return dpb_select_for(bandit, &request, out);
}
static inline dpb_status request_check(dpb_bandit *bandit, uint32_t slots, uint64_t segment, uint64_t user,
                                       const uint32_t *eligible, size_t eligible_len, const double *values,
                                       size_t values_len, const double *examined, size_t examined_len,
                                       const float *features, const dpb_feature *sparse, size_t features_len,
                                       const uint32_t *ends, size_t ends_len, dpb_error *error) {
  dpb_request request;
  fill(&request, slots, segment, user, eligible, eligible_len, values, values_len, examined, examined_len, features, sparse,
       features_len, ends, ends_len);
  return dpb_request_check(bandit, &request, error);
}
static inline dpb_status predict(dpb_bandit *bandit, uint64_t segment, const uint32_t *eligible, size_t eligible_len,
                                 const float *features, const dpb_feature *sparse, size_t features_len,
                                 const uint32_t *ends, size_t ends_len, double *mean, double *deviation, size_t cap,
                                 size_t *n) {
  dpb_request request;
  fill(&request, 1, segment, 0, eligible, eligible_len, NULL, 0, NULL, 0, features, sparse, features_len, ends, ends_len);
  return dpb_predict(bandit, &request, mean, deviation, cap, n);
}

// The fields of a Request as numbers, in the order of this array. Addresses are pinned.
enum {
  slots_, segment_, user_, eligible_, eligible_len_, values_, values_len_, examined_, examined_len_, features_,
  sparse_, features_len_, ends_, ends_len_, said_
};
typedef uint64_t said_of[said_];
enum { piece = 64 };
static inline dpb_status decide_many(dpb_bandit *bandit, const said_of *said, size_t n, dpb_decision *out, size_t *done) {
  dpb_request requests[piece];
  size_t i;
  for (i = 0; i < n; i++) {
    const uint64_t *s = said[i];
    fill(&requests[i], (uint32_t)s[slots_], s[segment_], s[user_], (const uint32_t *)(uintptr_t)s[eligible_],
         (size_t)s[eligible_len_], (const double *)(uintptr_t)s[values_], (size_t)s[values_len_],
         (const double *)(uintptr_t)s[examined_], (size_t)s[examined_len_],
         (const float *)(uintptr_t)s[features_], (const dpb_feature *)(uintptr_t)s[sparse_], (size_t)s[features_len_],
         (const uint32_t *)(uintptr_t)s[ends_], (size_t)s[ends_len_]);
  }
  return dpb_select_many(bandit, requests, n, out, done);
}
*/
import "C"

import (
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"unsafe"
)

// Request describes a request for one or more decisions. All of it is public. Do not compute anything in it from rewards.
type Request struct {
	// Slots is the number of different arms to choose. 0 means 1. Each slot has its own decision and ticket.
	Slots uint32
	// Segment is the key of the request's segment, with [Config.MaxSegments]; otherwise 0. The first request with a new key
	// begins that segment. If the bandit has MaxSegments segments, a new key is ErrFull.
	Segment uint64
	// User is a keyed hash of the person who makes the request, with [Config.ExpectedUsers]; otherwise 0. The bandit learns
	// from at most [Config.ContributionsPerUser] of a user's decisions in a period. It serves later ones like all others.
	User uint64
	// Eligible lists the live arms that the bandit may choose. nil means all. Choose them by public information only.
	Eligible []uint32
	// Values holds what a reward of each arm of Eligible is worth in this request, in that order, such as a bid; if Eligible
	// is nil, of every arm by its number. nil means that all are alike. The bandit then maximises value times mean, and still
	// learns means. Values are finite and at least 0; an arm below 2^-20 of the largest is not eligible. Eligible must not
	// name an arm twice, and [Config.RewardMin] must be 0. Log the values with the decision: its propensity is exact given
	// them. Do not compute a value from rewards, such as spend or a model of your clicks. A high value buys pulls, so limit
	// the ratio of values to about 100.
	Values []float64
	// Examined holds for each slot the probability that a visitor examines it, from 2^-16 to 1. nil means that all slots are
	// alike. The slots then get the arms in the order of value times mean, and the bandit learns click rates: the chance of a
	// click in a slot that is examined. [Config.RewardMin] must be 0. Estimate the probabilities from slots filled at random,
	// once. For [NewIMED] without segments.
	Examined []float64
	// Features holds rows of [Config.Features] finite numbers, one after the other. With [Config.ModelPerArm] it is one row.
	// Otherwise it is one row for each arm of Eligible, in that order; if Eligible is nil, for every arm by its number.
	// Do not compute a feature from rewards.
	Features []float32
	// Sparse holds the features that are not 0 of the same rows. Set it instead of Features.
	Sparse []Feature
	// SparseEnds holds, for each row, the number of entries of Sparse up to the end of that row.
	SparseEnds []uint32
}

// Feature is one entry of a sparse row.
type Feature struct {
	Index uint32  // below [Config.Features]
	Value float32 // finite
}

// Feature and dpb_feature must have the same size: otherwise one of these arrays does not compile.
var (
	_ [unsafe.Sizeof(Feature{}) - C.sizeof_dpb_feature]struct{}
	_ [C.sizeof_dpb_feature - unsafe.Sizeof(Feature{})]struct{}
)

// rows returns the features as C reads them. C checks all lengths, except that the last of SparseEnds is that of Sparse.
func (r *Request) rows() (features *C.float, sparse *C.dpb_feature, n C.size_t, ends *C.uint32_t, endsLen C.size_t) {
	if r.SparseEnds != nil {
		sparse = (*C.dpb_feature)(unsafe.Pointer(unsafe.SliceData(r.Sparse)))
		n, endsLen = C.size_t(len(r.Sparse)), C.size_t(len(r.SparseEnds))
		ends = (*C.uint32_t)(unsafe.SliceData(r.SparseEnds))
		return
	}
	return (*C.float)(unsafe.SliceData(r.Features)), nil, C.size_t(len(r.Features)), nil, 0
}

// checkRows refuses what the arguments of C cannot express.
func (r *Request) checkRows() error {
	switch n := len(r.SparseEnds); {
	case r.SparseEnds == nil && r.Sparse != nil, r.SparseEnds != nil && r.Features != nil:
		return fmt.Errorf("%w: set Features, or set Sparse and SparseEnds", ErrInvalidRequest)
	case n > 0 && int(r.SparseEnds[n-1]) != len(r.Sparse):
		return fmt.Errorf("%w: the last of SparseEnds is %d, and Sparse has %d entries", ErrInvalidRequest, r.SparseEnds[n-1], len(r.Sparse))
	}
	return nil
}

func (r *Request) slots() uint32 { return max(r.Slots, 1) }

// SelectFor chooses an arm for a request of one slot. It allocates nothing.
//
// It returns ErrInvalidRequest if no decision can meet the request, ErrUnsupported if the policy or configuration lacks a
// feature that the request uses, ErrFull for a segment too many, and ErrNotReady for a restored bandit with
// [Config.ExpectedUsers] before [Bandit.Stored]. After an error nothing has changed or been counted, and
// [Bandit.CheckRequest] says why.
func (b *Bandit) SelectFor(request Request) (Decision, error) {
	var d [1]Decision
	err := b.SelectSlots(request, d[:])
	return d[0], err
}

// SelectSlots chooses a different arm for each slot of a request and writes the decisions, whose number must be that of
// the slots. The order of the arms is not a ranking. [Config.MaxSlots] determines whether Epsilon protects one reward or
// one request with all its rewards. SelectSlots allocates nothing. Its errors are those of [Bandit.SelectFor].
func (b *Bandit) SelectSlots(request Request, decisions []Decision) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	if len(decisions) != int(request.slots()) {
		return fmt.Errorf("%w: %d slots, but %d decisions", ErrInvalidRequest, request.slots(), len(decisions))
	}
	if err := request.checkRows(); err != nil {
		return err
	}
	features, sparse, featuresLen, ends, endsLen := request.rows()
	eligible, n := (*C.uint32_t)(unsafe.SliceData(request.Eligible)), C.size_t(len(request.Eligible))
	values, valuesLen := (*C.double)(unsafe.SliceData(request.Values)), C.size_t(len(request.Values))
	examined, examinedLen := (*C.double)(unsafe.SliceData(request.Examined)), C.size_t(len(request.Examined))
	out := (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
	return check(C.decide(c, C.uint32_t(request.slots()), C.uint64_t(request.Segment), C.uint64_t(request.User), eligible, n, values, valuesLen, examined, examinedLen, features, sparse, featuresLen, ends, endsLen, out))
}

// CheckRequest returns the error with which [Bandit.SelectFor] or [Bandit.SelectSlots] would refuse a request now, with
// the field and the value, or nil. It changes and counts nothing. A refusal allocates, so do not call it for each request.
func (b *Bandit) CheckRequest(request Request) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	if err := request.checkRows(); err != nil {
		return err
	}
	features, sparse, featuresLen, ends, endsLen := request.rows()
	eligible, n := (*C.uint32_t)(unsafe.SliceData(request.Eligible)), C.size_t(len(request.Eligible))
	values, valuesLen := (*C.double)(unsafe.SliceData(request.Values)), C.size_t(len(request.Values))
	examined, examinedLen := (*C.double)(unsafe.SliceData(request.Examined)), C.size_t(len(request.Examined))
	var failure C.dpb_error
	status := C.request_check(c, C.uint32_t(request.slots()), C.uint64_t(request.Segment), C.uint64_t(request.User), eligible, n, values, valuesLen, examined, examinedLen, features, sparse, featuresLen, ends, endsLen, &failure)
	if status != C.DPB_OK {
		return explain(status, &failure)
	}
	return nil
}

// SelectMany decides requests in order, 64 at a time under one lock, until one fails. It writes the decisions of all
// slots, request by request. If requests is nil, it makes one decision for each element of decisions, from all live arms.
//
// It returns the number of requests that it decided, and the error of the next one. It allocates nothing unless a request
// has eligible arms, values or features.
func (b *Bandit) SelectMany(requests []Request, decisions []Decision) (int, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var done C.size_t
	if requests == nil {
		out := (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
		err := check(C.dpb_select_many(c, nil, C.size_t(len(decisions)), out, &done))
		return int(done), err
	}
	slots := 0
	for i := range requests {
		slots += int(requests[i].slots())
	}
	if len(decisions) != slots {
		return 0, fmt.Errorf("%w: %d slots, but %d decisions", ErrInvalidRequest, slots, len(decisions))
	}
	decided := 0
	var pinner *runtime.Pinner // made if there is memory to pin, because it allocates
	defer func() {
		if pinner != nil {
			pinner.Unpin()
		}
	}()
	var piece [C.piece][C.said_]C.uint64_t
	for len(requests) > 0 {
		n, slots := min(len(requests), len(piece)), 0
		for i := range requests[:n] {
			r := &requests[i]
			if err := r.checkRows(); err != nil {
				return decided, err
			}
			features, sparse, featuresLen, ends, endsLen := r.rows()
			piece[i] = [C.said_]C.uint64_t{
				C.slots_: C.uint64_t(r.slots()), C.segment_: C.uint64_t(r.Segment), C.user_: C.uint64_t(r.User),
				C.eligible_len_: C.uint64_t(len(r.Eligible)), C.values_len_: C.uint64_t(len(r.Values)), C.examined_len_: C.uint64_t(len(r.Examined)),
				C.features_len_: C.uint64_t(featuresLen), C.ends_len_: C.uint64_t(endsLen),
			}
			pin := func(place int, first unsafe.Pointer, n int) {
				if n > 0 {
					if pinner == nil {
						pinner = new(runtime.Pinner)
					}
					pinner.Pin(first)
				}
				piece[i][place] = C.uint64_t(uintptr(first))
			}
			pin(C.eligible_, unsafe.Pointer(unsafe.SliceData(r.Eligible)), len(r.Eligible))
			pin(C.values_, unsafe.Pointer(unsafe.SliceData(r.Values)), len(r.Values))
			pin(C.examined_, unsafe.Pointer(unsafe.SliceData(r.Examined)), len(r.Examined))
			pin(C.features_, unsafe.Pointer(features), len(r.Features))
			pin(C.sparse_, unsafe.Pointer(sparse), len(r.Sparse))
			pin(C.ends_, unsafe.Pointer(ends), len(r.SparseEnds))
			slots += int(r.slots())
		}
		out := (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
		err := check(C.decide_many(c, &piece[0], C.size_t(n), out, &done))
		decided += int(done)
		if err != nil {
			return decided, err
		}
		requests, decisions = requests[n:], decisions[slots:]
	}
	return decided, nil
}

// Segment reads all arms of a segment, by its key. Mean is the bandit's estimate for the arm in this segment, from the
// releases of all segments. Width is NaN. EffectivePulls counts the rewards in the segment's own releases. Reading costs
// no privacy. It returns ErrInvalidRequest if no request had this key, and ErrUnsupported without [Config.MaxSegments].
func (b *Bandit) Segment(key uint64) ([]Arm, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	return readArms(func(out *C.dpb_arm, n C.size_t, needed *C.size_t) C.dpb_status {
		return C.dpb_segment_read(c, C.uint64_t(key), out, n, needed)
	})
}

// Prediction is the estimate of the mean reward of a row and its standard deviation, in the units of rewards. Both are
// NaN for a retired arm.
type Prediction struct {
	Mean      float64
	Deviation float64
}

// Predict estimates the mean reward of each arm of a request with features, in the order of Eligible; if that is nil, of
// every arm by its number. Estimates are functions of releases, so they cost no privacy. It returns ErrUnsupported
// without [Config.Features], and ErrInvalidRequest as [Bandit.SelectFor].
func (b *Bandit) Predict(request Request) ([]Prediction, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	if err := request.checkRows(); err != nil {
		return nil, err
	}
	features, sparse, featuresLen, ends, endsLen := request.rows()
	eligible, eligibleLen := (*C.uint32_t)(unsafe.SliceData(request.Eligible)), C.size_t(len(request.Eligible))
	var n C.size_t
	var means, deviations []float64
	predict := func(room C.size_t) C.dpb_status {
		return C.predict(c, C.uint64_t(request.Segment), eligible, eligibleLen, features, sparse, featuresLen, ends, endsLen,
			(*C.double)(unsafe.SliceData(means)), (*C.double)(unsafe.SliceData(deviations)), room, &n)
	}
	status := predict(0)
	for status == C.DPB_BUFFER_TOO_SMALL {
		means, deviations = make([]float64, n), make([]float64, n)
		status = predict(n)
	}
	if err := check(status); err != nil {
		return nil, err
	}
	predictions := make([]Prediction, n)
	for i := range predictions {
		predictions[i] = Prediction{means[i], deviations[i]}
	}
	return predictions, nil
}

// FeatureHash returns the index of a category for one-hot features: the CRC-32 (IEEE) of "field=value", modulo d. Two
// categories share an index with probability 1/d. It returns 0 if d is 0. A NUL is ErrInvalidRequest: text of C ends there,
// so a server in another language would give such a category the index of another one.
func FeatureHash(field, value string, d uint32) (uint32, error) {
	if strings.Contains(field, "\x00") || strings.Contains(value, "\x00") {
		return 0, fmt.Errorf("%w: field and value must have no NUL, got %q and %q", ErrInvalidRequest, field, value)
	}
	if d == 0 {
		return 0, nil
	}
	return crc32.ChecksumIEEE([]byte(field+"="+value)) % d, nil
}

// FeatureCross returns the index of a pair of categories, such as device and country: the CRC-32 of both indices as
// little-endian 32-bit numbers, modulo d.
func FeatureCross(a, b, d uint32) uint32 {
	return uint32(C.dpb_feature_cross(C.uint32_t(a), C.uint32_t(b), C.uint32_t(d)))
}
