package httpd

import (
	"crypto/rand"
	"net/http"
)

const requestIDHeader = "X-Request-Id"

// requestID names each request. The name is on the answer's header from the
// start, which is where every dialect finds it for its error bodies. One that
// the peer sent is kept if it is short and plain; what it sends is echoed and
// logged, so anything else is replaced.
func requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !plainID(id) {
			id = rand.Text()
		}
		h := w.Header()
		h.Set(requestIDHeader, id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

func plainID(id string) bool {
	if len(id) < 8 || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
