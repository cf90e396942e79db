package main

import "net/http"

// guard accepts GET without a body only. HEAD would choose an ad that is not shown.
func guard(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // a cached ad would repeat its ticket
		// The server does not read a body. Of HTTP/1.0, net/http ignores Transfer-Encoding, so the end of the request is
		// unknown (RFC 9112, 6.1).
		if r.ContentLength != 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		if r.URL.Path == "" {
			r.URL.Path = "/" // for a URL without a path
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
