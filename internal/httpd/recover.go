package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
)

// recovery turns a panic into a 500 with nothing but the request id, and logs the stack. If
// part of an answer was sent, it cuts the connection, so that the client cannot take the
// part for the whole.
func (s *Server) recovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			// The value of a panic may quote the request, so only its type is
			// logged, and the stack, which has no values of strings.
			s.opts.Log.Error("panic", "request_id", w.Header().Get(requestIDHeader),
				"type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			if answered(w) {
				panic(http.ErrAbortHandler)
			}
			h := w.Header()
			h.Del("Content-Length")
			h.Del("Content-Encoding")
			h.Del("ETag")
			refuse(w, r, http.StatusInternalServerError, "internal", "internal error")
		}()
		next.ServeHTTP(w, r)
	})
}
