package dpb

import (
	"runtime"
	"sync"
	"time"
)

// handle owns the C object of the Go object that embeds it. Close frees the C object; otherwise the garbage collector
// does. Neither does so while a call on it runs. P is a pointer to a C type.
//
// The lock is only between calls and Close, and takes about 15 ns. Calls do not wait for each other here.
type handle[P comparable] struct {
	mu      sync.RWMutex
	c       P // zero once closed
	free    func(P)
	cleanup runtime.Cleanup
}

// own must be called once, before the object is shared. Bytes is the estimated memory of the C object. The cleanup
// receives the C pointer only: with a reference to h, the garbage collector would never collect h.
func (h *handle[P]) own(c P, free func(P), bytes int64) {
	h.c = c
	h.free = func(c P) {
		free(c)
		foreign.drop(bytes)
	}
	h.cleanup = runtime.AddCleanup(h, h.free, c)
	foreign.take(bytes)
}

// foreign is the memory of the C objects of all handles. The garbage collector sees only a few bytes of each, so a
// program that does not close them could hold a gigabyte before a collection. Therefore take starts one when they hold
// more than twice what they held when one was last freed, plus leastLimit.
//
// The alternative, a Go slice of the same size in each handle, makes the collector run seventeen times as often, counts
// twice in a memory limit, and is written to when memory is used again: 28% more is resident.
var foreign memory

type memory struct {
	mu          sync.Mutex
	held, limit int64
}

const leastLimit = 64 << 20

func (m *memory) take(bytes int64) {
	m.mu.Lock()
	m.held += bytes
	held, collect := m.held, m.held > max(m.limit, leastLimit)
	if collect {
		m.limit = 2*m.held + leastLimit // until some are freed
	}
	m.mu.Unlock()
	if collect {
		runtime.GC()
		m.awaitCleanups(held / 2)
	}
}

// awaitCleanups waits until no more than goal is held, for 20 ms at most: all handles may be in use, or the caller may be
// the goroutine of the cleanups. Without it a busy machine makes new handles faster than that goroutine frees old ones.
func (m *memory) awaitCleanups(goal int64) {
	for range 20 {
		m.mu.Lock()
		freed := m.held <= goal
		m.mu.Unlock()
		if freed {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (m *memory) drop(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held -= bytes
	m.limit = min(m.limit, 2*m.held+leastLimit)
}

// enter returns the C object for one call. Call leave afterwards unless enter fails.
func (h *handle[P]) enter() (P, error) {
	h.mu.RLock()
	var closed P
	if h.c == closed {
		h.mu.RUnlock()
		return closed, ErrClosed
	}
	return h.c, nil
}

// leave ends a call. It also keeps h, and so the C object, alive until then.
func (h *handle[P]) leave() {
	h.mu.RUnlock()
	runtime.KeepAlive(h)
}

// do makes one call with the C object.
func (h *handle[P]) do(call func(P) error) error {
	c, err := h.enter()
	if err != nil {
		return err
	}
	defer h.leave()
	return call(c)
}

// Close waits for running calls and frees the C object. Later calls return ErrClosed. Closing again does nothing. Close
// always returns nil; the error is for io.Closer.
func (h *handle[P]) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var closed P
	if h.c != closed {
		h.cleanup.Stop()
		h.free(h.c)
		h.c = closed
	}
	runtime.KeepAlive(h)
	return nil
}
