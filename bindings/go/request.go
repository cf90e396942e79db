package dpb

// #include <dpb.h>
import "C"

import (
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"unsafe"
)

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

// rows has the features as C reads them, with C's names.
type rows struct {
	features                      *C.float
	sparse                        *C.dpb_feature
	sparse_ends                   *C.uint32_t
	features_len, sparse_ends_len C.size_t
}

// rows returns the features. C checks all lengths, except that the last of SparseEnds is that of Sparse.
func (r *Request) rows() rows {
	if r.SparseEnds != nil {
		return rows{
			sparse:          (*C.dpb_feature)(unsafe.Pointer(unsafe.SliceData(r.Sparse))),
			sparse_ends:     (*C.uint32_t)(unsafe.SliceData(r.SparseEnds)),
			features_len:    C.size_t(len(r.Sparse)),
			sparse_ends_len: C.size_t(len(r.SparseEnds)),
		}
	}
	return rows{features: (*C.float)(unsafe.SliceData(r.Features)), features_len: C.size_t(len(r.Features))}
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

func number(is bool) C.uint32_t {
	if is {
		return 1
	}
	return 0
}

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
	return check(request.decide(c, (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))))
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
	var failure C.dpb_error
	if status := request.check(c, &failure); status != C.DPB_OK {
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
	var piece [pieces]packed
	for len(requests) > 0 {
		n, slots := min(len(requests), len(piece)), 0
		for i := range requests[:n] {
			r := &requests[i]
			if err := r.checkRows(); err != nil {
				return decided, err
			}
			r.pack(&piece[i], func(position int, first unsafe.Pointer, n int) {
				if n > 0 {
					if pinner == nil {
						pinner = new(runtime.Pinner)
					}
					pinner.Pin(first)
				}
				piece[i][position] = C.uint64_t(uintptr(first))
			})
			slots += int(r.slots())
		}
		out := (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
		err := check(decideMany(c, &piece[0], C.size_t(n), out, &done))
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

// Prediction is an estimate and its standard deviation: of the mean reward of a row, in the units of rewards, or of the
// weight of a feature, in logits. Both are NaN for a retired arm.
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
	request = Request{Segment: request.Segment, Eligible: request.Eligible, Features: request.Features, Sparse: request.Sparse, SparseEnds: request.SparseEnds}
	var n C.size_t
	var means, deviations []float64
	predict := func(room C.size_t) C.dpb_status {
		return request.predict(c, (*C.double)(unsafe.SliceData(means)), (*C.double)(unsafe.SliceData(deviations)), room, &n)
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

// FeatureWeights returns the weight of each feature in the model of an arm, by how much one unit of it changes the logit of
// the mean reward; the intercept is the last one. A weight within two deviations of 0 is not known to matter. With one model
// for all arms every arm has its weights. They are functions of releases and features, so they cost no privacy. It returns
// ErrUnsupported without [Config.Features], and ErrInvalidRequest for an arm that does not exist or is retired.
func (b *Bandit) FeatureWeights(arm uint32) ([]Prediction, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	var n C.size_t
	var means, deviations []float64
	read := func(room C.size_t) C.dpb_status {
		return C.dpb_feature_weights(c, C.uint32_t(arm), (*C.double)(unsafe.SliceData(means)),
			(*C.double)(unsafe.SliceData(deviations)), room, &n)
	}
	status := read(0)
	for status == C.DPB_BUFFER_TOO_SMALL {
		means, deviations = make([]float64, n), make([]float64, n)
		status = read(n)
	}
	if err := check(status); err != nil {
		return nil, err
	}
	weights := make([]Prediction, n)
	for i := range weights {
		weights[i] = Prediction{means[i], deviations[i]}
	}
	return weights, nil
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

// Codebook makes a codebook for [Config.Codebook]: length means of public rows of that many features, one after another, by
// k-means. The rows must be public: old, synthetic or enumerated ones, never those of people whom the bandit protects.
// Without rows it is the 2 features signed unit vectors, which lose more. It returns [ErrInvalidConfig] with a message that
// names the argument, and [ErrNoMemory].
func Codebook(rows []float32, features, length uint32) ([]float32, error) {
	if features == 0 || features > 256 || length > 65536 || len(rows)%int(features) != 0 {
		return nil, fmt.Errorf("%w: rows of 1 to 256 features and a length of at most 65536, got %d numbers, %d features, length %d",
			ErrInvalidConfig, len(rows), features, length)
	}
	book := make([]float32, max(1, int(length)*int(features)))
	var failure C.dpb_error
	n := C.size_t(len(rows) / int(features))
	status := C.dpb_codebook((*C.float)(unsafe.SliceData(rows)), n, C.uint32_t(features), C.uint32_t(length),
		(*C.float)(&book[0]), &failure)
	if status != C.DPB_OK {
		return nil, explainArguments(status, &failure)
	}
	return book, nil
}

// FeatureCross returns the index of a pair of categories, such as device and country: the CRC-32 of both indices as
// little-endian 32-bit numbers, modulo d.
func FeatureCross(a, b, d uint32) uint32 {
	return uint32(C.dpb_feature_cross(C.uint32_t(a), C.uint32_t(b), C.uint32_t(d)))
}
