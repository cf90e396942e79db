package main

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// How long a visitor may take to send a request, to begin the next one, and to take an answer.
	patience = 10 * time.Second
	// How long those who are being answered may take when the server ends.
	grace = time.Second
	// Connections at a time. When a newcomer finds no place, those that have asked for nothing for longest are closed.
	maxConnections = 2000
	// How many of them at once.
	closedAtOnce = 16
	// Bytes of a request. None has a body.
	maxRequest = 16 << 10
)

// crowd has the connections of a server, in the order of their last requests.
type crowd struct {
	mu     sync.Mutex
	last   *list.List // of net.Conn
	places map[net.Conn]*list.Element
}

func (c *crowd) changed(connection net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, known := c.places[connection]
	switch {
	case state == http.StateNew:
		c.places[connection] = c.last.PushBack(connection)
	case state == http.StateClosed && known:
		c.last.Remove(place)
		delete(c.places, connection)
	case known:
		c.last.MoveToBack(place)
	}
}

// hasRoom: if there is none, there is soon.
func (c *crowd) hasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	full, place := c.last.Len() > maxConnections, c.last.Front()
	for i := 0; full && i < closedAtOnce; i++ {
		place.Value.(net.Conn).Close()
		place = place.Next()
	}
	return !full
}

// newServer withstands slow visitors and many.
func newServer(pages http.Handler) *http.Server {
	places := &crowd{last: list.New(), places: map[net.Conn]*list.Element{}}
	return &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: patience,
		ReadTimeout:       patience,
		WriteTimeout:      patience,
		IdleTimeout:       patience,
		MaxHeaderBytes:    maxRequest,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		ConnState: func(connection net.Conn, state http.ConnState) {
			places.changed(connection, state)
			for state == http.StateNew && !places.hasRoom() { // the server waits for this before it accepts the next
				time.Sleep(time.Millisecond)
			}
		},
	}
}

// finish lets those finish who are being answered, all of them within one deadline. A second time it does nothing.
func finish(servers []*http.Server) {
	deadline, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(deadline) != nil {
			server.Close() // half a request is none
		}
	}
}

// guard lets in what has a page: GET without a body. HEAD too would play an ad that nobody sees.
func guard(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // a cached ad would repeat its ticket
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // nobody reads it
		}
		if r.URL.Path == "" {
			r.URL.Path = "/" // of a target that names the server alone
		}
		switch {
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "only GET is served")
		case r.ContentLength != 0:
			refuse(w, http.StatusRequestEntityTooLarge, "body_refused", "no request has a body here")
		default:
			pages.ServeHTTP(w, r)
		}
	})
}
