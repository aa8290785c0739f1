package native

import (
	"strconv"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
)

// audit answers with acts of administration, newest first.
func (q *request) audit() (any, error) {
	values, ask := q.URL.Query(), engine.AuditQuery{}
	for name, at := range map[string]*time.Time{"since": &ask.Since, "before": &ask.Before} {
		if text := values.Get(name); text != "" {
			var err error
			if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return nil, rest.Invalid("%s must be a time such as 2026-11-30T12:00:00Z", name)
			}
		}
	}
	if text := values.Get("limit"); text != "" {
		var err error
		if ask.Limit, err = strconv.Atoi(text); err != nil || ask.Limit < 1 {
			return nil, rest.Invalid("limit must be a number from 1 to 1000")
		}
	}
	entries, err := q.api.engine.Audit(q.Context(), q.Caller, ask)
	if err != nil {
		return nil, err
	}
	return map[string]any{"entries": rest.Each(entries, func(e engine.AuditEntry) auditBody {
		return auditBody{At: rest.TimeOf(e.At), AuditEntry: client.AuditEntry{Owner: string(e.Owner), Key: e.Key,
			From: e.From, Action: e.Action, Object: e.Object, Outcome: e.Outcome, Detail: e.Detail, More: e.More}}
	})}, nil
}

// auditBody is an entry with its time as the API writes it.
type auditBody struct {
	At string `json:"at"`
	client.AuditEntry
}
