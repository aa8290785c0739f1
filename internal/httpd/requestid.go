package httpd

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	requestIDHeader = "X-Request-Id"
	requestIDAttr   = "request_id"
)

// requestID gives each request an id. It is in the header of the answer from the start,
// where dialects read it for their error bodies. An id that the client sent is kept if it
// is short and plain; others are replaced, because ids are echoed and logged.
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
		next.ServeHTTP(w, r.WithContext(engine.WithRequest(r.Context(), id)))
	})
}

// LogRequests adds the id of the request in the context to each record, so that log lines
// of the engine can be found by the header of the answer.
func LogRequests(h slog.Handler) slog.Handler { return requestLog{h} }

type requestLog struct{ slog.Handler }

func (l requestLog) Handle(ctx context.Context, record slog.Record) error {
	if engine.HolderNoted(ctx) != 0 && record.Level > slog.LevelDebug {
		if !l.Enabled(ctx, slog.LevelDebug) {
			return nil // not a failure: another node answers
		}
		record = record.Clone()
		record.Level = slog.LevelDebug
	}
	id, ok := engine.RequestID(ctx)
	record.Attrs(func(a slog.Attr) bool {
		ok = ok && a.Key != requestIDAttr // the record names it itself
		return ok
	})
	if ok {
		record = record.Clone()
		record.AddAttrs(slog.String(requestIDAttr, id))
	}
	return l.Handler.Handle(ctx, record)
}

func (l requestLog) WithAttrs(a []slog.Attr) slog.Handler { return requestLog{l.Handler.WithAttrs(a)} }
func (l requestLog) WithGroup(name string) slog.Handler   { return requestLog{l.Handler.WithGroup(name)} }

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
