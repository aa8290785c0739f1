package native

import (
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// Who allows programs to contact what, in answers.
const (
	bySession = "session" // who made the session asked for it
	byKey     = "key"     // the key has it
	byService = "service" // the service allows it to all
)

// getNetwork says what the programs of a live session may contact, and what may be asked for.
func (q *request) getNetwork(on live.Sessions) (any, error) {
	n, err := on.Network(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	b := client.SessionNetwork{Allow: append([]string{}, n.Allow...), Deny: append([]string{}, n.Deny...),
		May: append([]string{}, n.May...)}
	switch {
	case n.OfKey:
		b.By = byKey
	case len(n.Allow) > 0:
		b.By = bySession
	}
	switch {
	case n.MayOfKey:
		b.MayBy = byKey
	case len(n.May) > 0:
		b.MayBy = byService
	}
	return b, nil
}

// setNetwork changes what the programs of a live session may contact.
func (q *request) setNetwork(on live.Sessions) (any, error) {
	body := q.Object()
	network := &engine.Network{Allow: append([]string{}, body.Texts("allow")...), Deny: body.Texts("deny"),
		MaxBytes: body.Count("max_bytes", 1<<50)}
	if err := body.Done(); err != nil {
		return nil, err
	}
	if err := on.SetNetwork(q.Context(), q.Caller, q.id, network); err != nil {
		return nil, err
	}
	return q.getNetwork(on)
}

// installPackages installs packages into a live session, as a stream of events of a cell, or to its end.
func (q *request) installPackages(on live.Sessions) (any, error) {
	body := q.Object()
	names := body.Texts("names")
	if err := body.Done(); err != nil {
		return nil, err
	}
	events, err := on.Install(q.Context(), q.Caller, q.id, names)
	if err != nil {
		return nil, err
	}
	if wantsEvents(q.Header) {
		return sendStream(q, events, appendCellEvent)
	}
	var done cellBody
	outputs := []outcomeBody{}
	for e := range events {
		switch e.Type {
		case live.DoneEvent:
			done = cellOf(*e.Cell)
		case live.Stdout, live.Stderr:
			outputs = append(outputs, outcomeOf(e.Output))
		}
	}
	done.Outputs = outputs
	return done, nil
}
