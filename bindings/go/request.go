package dpb

/*
#cgo noescape decide
#cgo nocallback decide
#cgo noescape decide_many
#cgo nocallback decide_many
#cgo noescape dpb_segment_read
#cgo nocallback dpb_segment_read
#cgo noescape dpb_select_many
#cgo nocallback dpb_select_many
#include <dpb.h>

// Go memory that C sees may hold no Go pointer, so the request is made here.
static inline dpb_status decide(dpb_bandit *bandit, uint32_t slots, uint64_t segment, uint64_t user,
                                const uint32_t *eligible, size_t eligible_len, dpb_decision *out) {
  dpb_request request;
  dpb_request_init(&request);
  request.slots = slots;
  request.segment = segment;
  request.user = user;
  request.eligible = eligible;
  request.eligible_len = eligible_len;
  return dpb_select_for(bandit, &request, out);
}

// Of each request its slots, segment, user, and the address and number of its eligible arms.
enum { piece = 64 };
static inline dpb_status decide_many(dpb_bandit *bandit, const uint64_t (*said)[5], size_t n, dpb_decision *out, size_t *done) {
  dpb_request requests[piece];
  size_t i;
  for (i = 0; i < n; i++) {
    dpb_request_init(&requests[i]);
    requests[i].slots = (uint32_t)said[i][0];
    requests[i].segment = said[i][1];
    requests[i].user = said[i][2];
    requests[i].eligible = (const uint32_t *)(uintptr_t)said[i][3];
    requests[i].eligible_len = (size_t)said[i][4];
  }
  return dpb_select_many(bandit, requests, n, out, done);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Request is one request for a decision. All of it is public: nothing in it may be made from rewards.
type Request struct {
	// Slots is how many different arms to choose; 0 means 1. Each has a decision and a ticket of its own.
	Slots uint32
	// Segment, with [Config.MaxSegments], is the key of the segment that the request is in. The first request with a new
	// key begins that segment; ErrFull where there are as many as there may be.
	Segment uint64
	// User, with [Config.ExpectedUsers], is a keyed hash of the person who makes the request: the bandit learns from no more than
	// [Config.ContributionsPerUser] of a user's decisions in a period. Later ones are served like any other.
	User uint64
	// Eligible are the live arms that may be chosen; nil means all. Choose them by public information only.
	Eligible []uint32
}

func (r *Request) slots() uint32 { return max(r.Slots, 1) }

// SelectFor decides a request of one slot. ErrInvalidRequest says that it cannot be met, ErrUnsupported that this bandit
// cannot do what it asks; then nothing has changed or been counted. It allocates nothing.
func (b *Bandit) SelectFor(request Request) (Decision, error) {
	var d [1]Decision
	err := b.SelectSlots(request, d[:])
	return d[0], err
}

// SelectSlots decides a request: it fills decisions, one for each slot, with different arms in no order of merit. Which
// unit Epsilon is for, a reward or a request with all its rewards, is [Config.MaxSlots]'s to say. It allocates nothing.
func (b *Bandit) SelectSlots(request Request, decisions []Decision) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	if len(decisions) != int(request.slots()) {
		return fmt.Errorf("%w: %d slots, room for %d decisions", ErrInvalidRequest, request.slots(), len(decisions))
	}
	eligible, n := (*C.uint32_t)(unsafe.SliceData(request.Eligible)), C.size_t(len(request.Eligible))
	out := (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
	return check(C.decide(c, C.uint32_t(request.slots()), C.uint64_t(request.Segment), C.uint64_t(request.User), eligible, n, out))
}

// SelectMany decides requests in turn, 64 at a time under one lock, until one is refused: it fills decisions, those of
// all slots, request by request. With requests nil, each of decisions is that of a request that says nothing. It returns
// how many requests were decided, and allocates nothing unless a request has eligible arms.
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
		return 0, fmt.Errorf("%w: %d slots, room for %d decisions", ErrInvalidRequest, slots, len(decisions))
	}
	decided := 0
	var pinner *runtime.Pinner // made where there are eligible arms to pin: it allocates
	defer func() {
		if pinner != nil {
			pinner.Unpin()
		}
	}()
	var piece [C.piece][5]C.uint64_t
	for len(requests) > 0 {
		n, slots := min(len(requests), len(piece)), 0
		for i := range requests[:n] {
			r := &requests[i]
			piece[i] = [5]C.uint64_t{C.uint64_t(r.slots()), C.uint64_t(r.Segment), C.uint64_t(r.User), 0, C.uint64_t(len(r.Eligible))}
			if r.Eligible != nil {
				if pinner == nil {
					pinner = new(runtime.Pinner)
				}
				first := unsafe.SliceData(r.Eligible)
				pinner.Pin(first)
				piece[i][3] = C.uint64_t(uintptr(unsafe.Pointer(first)))
			}
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

// Segment reads all arms of a segment, by its key. Mean is what the bandit believes of an arm there, from all segments'
// releases; Width is NaN, and EffectivePulls counts the rewards behind the segment's own releases. ErrInvalidRequest
// where no request had this key.
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
