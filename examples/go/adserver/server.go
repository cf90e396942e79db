package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// How long a visitor may take to send a request, to begin the next one, and to take an answer.
	patience = 10 * time.Second
	// How long those who are being answered may take when the server ends.
	grace = time.Second
	// Connections at a time; more wait until some are closed.
	maxConnections = 2000
	// Bytes of a request. None has a body.
	maxRequest = 16 << 10
)

// newServer withstands slow visitors and many.
func newServer(pages http.Handler) *http.Server {
	places := make(chan struct{}, maxConnections)
	return &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: patience,
		ReadTimeout:       patience,
		WriteTimeout:      patience,
		IdleTimeout:       patience,
		MaxHeaderBytes:    maxRequest,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				places <- struct{}{} // the server waits for this before it accepts the next
			case http.StateClosed:
				<-places
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
