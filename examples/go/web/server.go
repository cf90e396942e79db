// Package web serves HTTP with limits for slow and for many connections.
package web

import (
	"container/list"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// The time limit for sending a request, for beginning the next one, and for receiving a response.
	requestTimeout = 10 * time.Second
	// The time limit for running responses when the server stops.
	shutdownTimeout = time.Second
	// The maximum number of connections. For a new one, the server closes those that have been idle for longest.
	maxConnections = 2000
	// The number of connections that it closes at once.
	closedAtOnce = 16
	// The maximum size of a request in bytes, without its body.
	maxRequest = 16 << 10
)

// connections holds the connections of a server, in the order of their last requests.
type connections struct {
	mu     sync.Mutex
	last   *list.List // of net.Conn
	places map[net.Conn]*list.Element
}

func (c *connections) changed(connection net.Conn, state http.ConnState) {
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

// accepts reports whether another connection is possible. If not, it closes idle ones.
func (c *connections) accepts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	full, place := c.last.Len() > maxConnections, c.last.Front()
	for i := 0; full && i < closedAtOnce; i++ {
		place.Value.(net.Conn).Close()
		place = place.Next()
	}
	return !full
}

// NewServer returns a server with limits for slow and for many connections.
func NewServer(pages http.Handler) *http.Server {
	places := &connections{last: list.New(), places: map[net.Conn]*list.Element{}}
	return &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       requestTimeout,
		MaxHeaderBytes:    maxRequest,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		ConnState: func(connection net.Conn, state http.ConnState) {
			places.changed(connection, state)
			for state == http.StateNew && !places.accepts() { // the server waits for this before it accepts the next
				time.Sleep(time.Millisecond)
			}
		},
	}
}

// Main runs a server until a signal stops it, and ends the program. wrong is an error of the options.
func Main(wrong error, run func(stop context.Context, out io.Writer) error) {
	if wrong != nil {
		fmt.Fprintln(os.Stderr, wrong)
		flag.Usage()
		os.Exit(2)
	}
	// Do not log rewards, or the paths and bodies of requests: the log would be a second record of who was rewarded.
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer forget()
	if err := run(stop, os.Stdout); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

// Finish waits for running responses, all of them within one deadline. A second call does nothing.
func Finish(servers []*http.Server) {
	deadline, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(deadline) != nil {
			server.Close() // drops incomplete requests
		}
	}
}
