package httpd

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/airlock-run/airlock/internal/engine"
)

// audit logs each request. It logs the owner and the public id of the key, and the route in
// place of the path, so that neither keys nor names of files get into the log. Requests that
// may change something are logged at level info, others at level debug. Those that were refused
// because there were too many are counted.
func (s *Server) audit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, path := time.Now(), r.URL.Path // which a handler may change
		defer func() {
			v := watch(w)
			s.countSent(r, v)
			if s.tooMany.add(v.status, refused{v.caller.Owner, v.caller.Key, v.name()}) {
				return
			}
			more := append(spanOf(r, v), named(path)...)
			if run := engine.RunNoted(r.Context()); !run.IsZero() {
				more = append(more, "run", run)
			}
			level := slog.LevelInfo
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				level = slog.LevelDebug
			}
			s.opts.Log.Log(r.Context(), level, "request", append(more, "request_id", w.Header().Get(requestIDHeader),
				"owner", v.caller.Owner, "key", v.caller.Key, "method", method(r.Method), "route", v.name(),
				"status", v.status, "duration", time.Since(start).Round(time.Millisecond))...)
		}()
		next.ServeHTTP(w, r)
	})
}

// countSent counts what was sent to a caller: once, where a node has forwarded the request for a caller whom it knows.
func (s *Server) countSent(r *http.Request, v *response) {
	if f := forwardOf(r.Context()); f == nil || f.Caller == nil {
		s.opts.Engine.Count(v.caller, engine.Consumption{Sent: v.sent.Load()})
	}
}

// NoteCaller notes the caller of a request for the log and for what is counted, for handlers that authenticate by
// themselves.
func NoteCaller(w http.ResponseWriter, caller engine.Caller) {
	if v := watch(w); v != nil && v.caller.Owner == "" {
		v.caller = caller
	}
}

// spanOf names the span of a request after its route, if there is one, and returns what the log has of it.
func spanOf(r *http.Request, v *response) []any {
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return nil
	}
	span.SetName(method(r.Method) + " " + v.name())
	if v.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.SetAttributes(attribute.String("http.request.method", method(r.Method)),
		attribute.String("http.route", v.name()), attribute.Int("http.response.status_code", v.status),
		attribute.String("airlock.owner", string(v.caller.Owner)),
		attribute.String("airlock.request.id", v.Header().Get(requestIDHeader)))
	return []any{"trace_id", span.SpanContext().TraceID().String()}
}

// named returns the session and the run that a path names, for the log. They open nothing without a key.
func named(path string) (about []any) {
	parts := strings.Split(path, "/")
	for i, part := range parts[1:] {
		kind := map[string]string{"sessions": "session", "runs": "run"}[parts[i]]
		if kind == "" {
			continue
		}
		if id, err := engine.ParseID(part); err == nil {
			about = append(about, kind, id)
		}
	}
	return about
}
