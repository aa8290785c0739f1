package engine

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"
)

// AuditEntry is an act of administration: of whom, on what, and what became of it. It has no secret.
type AuditEntry struct {
	At      time.Time
	Owner   Owner  // empty: not known
	Key     string // public id; empty: without one
	From    string // kind of the address that asked: FromSocket and the others; empty: not known
	Action  string
	Object  string
	Outcome string // OutcomeDone and the others
	Detail  string
	More    int // acts like it of the same caller, just before, that have no entries because they were too many
}

// The acts that are recorded.
const (
	ActKeyMade      = "key made"
	ActKeyRevoked   = "key revoked"
	ActSignIn       = "sign-in"
	ActSignOut      = "sign-out"
	ActShared       = "notebook shared"
	ActUnshared     = "share revoked"
	ActNetwork      = "network of a session changed"
	ActDrain        = "node drained"
	ActUndrain      = "node takes work again"
	ActNodeRevoked  = "worker revoked"
	ActNodeApproved = "worker approved"
	ActSetting      = "setting changed on the page"
)

// The outcomes.
const (
	OutcomeDone    = "done"
	OutcomeRefused = "refused" // the caller may not do it
	OutcomeFailed  = "failed"
)

// Kinds of addresses.
const (
	FromSocket   = "socket" // of this machine
	FromLoopback = "loopback"
	FromPrivate  = "private network"
	FromPublic   = "internet"
	FromDatabase = "database" // a command that opens it
)

// AuditQuery selects entries.
type AuditQuery struct {
	Since, Before time.Time // zero: no bound
	Limit         int
}

// AuditIndex records acts of administration. Its entries are not changed.
type AuditIndex interface {
	AddAudit(ctx context.Context, entry AuditEntry) error
	// Audit returns entries, newest first.
	Audit(ctx context.Context, query AuditQuery) ([]AuditEntry, error)
	// ExpireAudit deletes up to limit entries from before a time. Those of the last 30 days stay.
	ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error)
}

type fromKey struct{}

// WithFrom returns a context of a request from an address of that kind.
func WithFrom(ctx context.Context, kind string) context.Context {
	return context.WithValue(ctx, fromKey{}, kind)
}

// From returns that kind; empty if it is not known.
func From(ctx context.Context) string {
	kind, _ := ctx.Value(fromKey{}).(string)
	return kind
}

// act returns an entry for what a caller did.
func (s *Service) act(ctx context.Context, caller Caller, action, object, detail string, err error) AuditEntry {
	e := AuditEntry{At: s.now(), Owner: caller.Owner, Key: caller.Key, Action: action, Object: clip(object),
		Detail: clip(detail), Outcome: OutcomeDone}
	e.From = From(ctx)
	switch kind := KindOf(err); {
	case err == nil:
	case kind == ErrForbidden, kind == ErrUnauthorized, kind == ErrNetwork:
		e.Outcome = OutcomeRefused
	default:
		e.Outcome = OutcomeFailed
	}
	return e
}

// maxAuditText bounds the texts of an entry, which callers may choose.
const maxAuditText = 300

func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxAuditText {
		text = strings.ToValidUTF8(text[:maxAuditText], "") + "…"
	}
	return text
}

// RecordAct records what a caller did, or tried to do: err says why it could not. An entry that cannot be recorded
// is logged.
func (s *Service) RecordAct(ctx context.Context, caller Caller, action, object, detail string, err error) {
	e := s.act(ctx, caller, action, object, detail, err)
	if !caller.Admin || e.Outcome != OutcomeDone {
		var ok bool
		if e.More, ok = s.acts.admit(actor{caller.Owner, action, e.Outcome}, e.At); !ok {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.index.AddAudit(ctx, e); err != nil {
		s.log.ErrorContext(ctx, "an act could not be recorded in the audit log", "owner", e.Owner, "action", action, "object",
			e.Object, "outcome", e.Outcome, "error", err)
	}
}

// acts bounds the entries of callers without admin rights, who could fill the disk with them, and hide others.
type acts struct {
	mu sync.Mutex
	of map[actor]*actLimit
}

type actor struct {
	owner           Owner
	action, outcome string
}

type actLimit struct {
	left int // of actBurst
	at   time.Time
	more int // that were not recorded
}

const (
	actBurst  = 20
	actEvery  = time.Minute // one more
	maxActors = 1000
)

// admit reports whether an act is recorded, and how many before it were not.
func (a *acts) admit(who actor, now time.Time) (more int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil || len(a.of) >= maxActors && a.of[who] == nil {
		a.of = map[actor]*actLimit{}
	}
	l := a.of[who]
	if l == nil {
		l = &actLimit{left: actBurst, at: now}
		a.of[who] = l
	}
	if n := int(now.Sub(l.at) / actEvery); n > 0 {
		l.left, l.at = min(l.left+n, actBurst), l.at.Add(time.Duration(n)*actEvery)
	}
	if l.left == 0 {
		l.more++
		return 0, false
	}
	l.left--
	more, l.more = l.more, 0
	return more, true
}

const mostAudit = 1000

// Audit returns acts of administration, newest first. The caller must be an operator.
func (s *Service) Audit(ctx context.Context, caller Caller, q AuditQuery) ([]AuditEntry, error) {
	const op = "list the audit log"
	if !caller.Operator() {
		return nil, adminOnly(op, caller)
	}
	if q.Before.IsZero() {
		q.Before = s.now().Add(time.Hour) // another node's clock may be ahead
	}
	if q.Since.IsZero() {
		q.Since = time.Unix(0, 0)
	}
	if q.Limit < 0 || q.Limit > mostAudit {
		return nil, Invalid("limit", "must be from 1 to %d", mostAudit)
	}
	q.Limit = cmp.Or(q.Limit, defaultPage)
	entries, err := s.index.Audit(ctx, q)
	return entries, failure(op, "", err)
}
