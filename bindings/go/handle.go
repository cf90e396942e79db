package dpb

import (
	"runtime"
	"sync"
)

// handle owns one C object for a Go one that embeds it: freed once, by Close or, for the forgetful,
// by the garbage collector, and never while a call on it runs. P is a pointer to a C type.
//
// The lock is between calls and Close alone (about 15 ns): calls do not wait for each other here.
type handle[P comparable] struct {
	mu      sync.RWMutex
	c       P // zero once closed
	free    func(P)
	cleanup runtime.Cleanup
}

// own must be called once, before the object is shared. The object takes about so many bytes. The cleanup is given
// the C pointer alone: had it a way back to h, h would never be collected.
func (h *handle[P]) own(c P, free func(P), bytes int64) {
	h.c = c
	h.free = func(c P) {
		free(c)
		foreign.drop(bytes)
	}
	h.cleanup = runtime.AddCleanup(h, h.free, c)
	foreign.take(bytes)
}

// What the C objects of all handles take. The collector cannot know: to it each handle is a few bytes, so a program that
// forgets to close them would have a gigabyte of them before it looks. So it is told to look when they take twice what
// they took when one was last freed, and some more.
var foreign memory

type memory struct {
	mu          sync.Mutex
	held, limit int64
}

const leastLimit = 64 << 20

func (m *memory) take(bytes int64) {
	m.mu.Lock()
	m.held += bytes
	collect := m.held > max(m.limit, leastLimit)
	if collect {
		m.limit = 2*m.held + leastLimit // until some are freed
	}
	m.mu.Unlock()
	if collect {
		runtime.GC()
	}
}

func (m *memory) drop(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held -= bytes
	m.limit = min(m.limit, 2*m.held+leastLimit)
}

// enter returns the C object for one call; leave must follow unless it fails.
func (h *handle[P]) enter() (P, error) {
	h.mu.RLock()
	var closed P
	if h.c == closed {
		h.mu.RUnlock()
		return closed, ErrClosed
	}
	return h.c, nil
}

// leave also keeps h, and so the C object, alive until the call is over.
func (h *handle[P]) leave() {
	h.mu.RUnlock()
	runtime.KeepAlive(h)
}

// Close frees the C object at once, after the calls that are running. Later calls return ErrClosed;
// closing again does nothing. It always returns nil, to be an io.Closer.
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
