package httpd

import (
	"log/slog"
	"net/http"
	"time"
)

// audit logs each request. It logs the owner and the public id of the key, and the route in
// place of the path, so that neither keys nor names of files get into the log. Requests that
// may change something are logged at level info, others at level debug. Those that were refused
// because there were too many are counted.
func (s *Server) audit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		defer func() {
			v := watch(w)
			if s.tooMany.add(v.status, refused{v.caller.Owner, v.caller.Key, v.name()}) {
				return
			}
			level := slog.LevelInfo
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				level = slog.LevelDebug
			}
			s.opts.Log.Log(r.Context(), level, "request", "request_id", w.Header().Get(requestIDHeader),
				"owner", v.caller.Owner, "key", v.caller.Key, "method", method(r.Method), "route", v.name(),
				"status", v.status, "duration", time.Since(start).Round(time.Millisecond))
		}()
		next.ServeHTTP(w, r)
	})
}
