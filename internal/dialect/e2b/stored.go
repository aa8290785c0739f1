package e2b

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// What is kept of a sandbox with its session, in its Scope: sandboxes outlive the service.

// Store is the part of the engine that keeps sandboxes and snapshots.
type Store interface {
	SetScope(ctx context.Context, caller engine.Caller, id engine.ID, scope string) error
	SessionsOf(ctx context.Context, origin engine.Origin) ([]engine.Session, error)
	SessionsOfOthers(ctx context.Context, origin engine.Origin) ([]engine.Session, error)
	Claim(ctx context.Context, session engine.Session) (engine.Session, error)
	GetSnapshot(ctx context.Context, caller engine.Caller, called string) (engine.Snapshot, error)
	ListSnapshots(ctx context.Context, caller engine.Caller, query engine.SnapshotQuery) ([]engine.Snapshot, error)
	DeleteSnapshot(ctx context.Context, caller engine.Caller, id engine.ID) error
}

// record is a sandbox as it is stored.
type record struct {
	ID        string            `json:"id"`
	Token     string            `json:"token"`
	Caller    engine.Caller     `json:"caller"`
	Template  string            `json:"template"`
	Labels    map[string]string `json:"labels,omitempty"`
	Env       map[string]string `json:"env"`
	Public    bool              `json:"public"`
	Mask      string            `json:"mask,omitempty"`
	HTTPS     []int             `json:"https,omitempty"`
	Key       string            `json:"key,omitempty"`
	Domain    string            `json:"domain,omitempty"`
	Started   time.Time         `json:"started"`
	Ends      time.Time         `json:"ends"`
	Paused    bool              `json:"paused,omitempty"`
	AutoPause bool              `json:"auto_pause,omitempty"`
	Contexts  []contextRecord   `json:"contexts"`
}

type contextRecord struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"dir"`
	Standard bool   `json:"standard,omitempty"`
}

// record returns what is stored of a sandbox. The caller holds mu, or is the only one that has it.
func (sb *sandbox) record() (string, error) {
	r := record{sb.id, sb.token, sb.caller, sb.template, sb.labels, sb.env, sb.public, sb.mask, sb.https, sb.key,
		sb.domain, sb.started, sb.ends, sb.paused, sb.autoPause, nil}
	for _, c := range sb.contexts {
		r.Contexts = append(r.Contexts, contextRecord{c.ID, c.Language, c.Dir, c.standard})
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// save stores a sandbox after a change. The caller does not hold its mu.
func (h *Handler) save(ctx context.Context, sb *sandbox) {
	if h.Store == nil {
		return
	}
	sb.mu.Lock()
	text, err := sb.record()
	sb.mu.Unlock()
	if err == nil {
		err = h.Store.SetScope(context.WithoutCancel(ctx), sb.caller, sb.session, text)
	}
	if err != nil && engine.KindOf(err) != engine.ErrNotFound { // it was deleted meanwhile
		h.Log.Error("a change of a sandbox could not be stored", "session", sb.session, "err", err)
	}
}

// load continues with the sandboxes that an earlier process had. Those whose time was over meanwhile end at once.
func (h *Handler) load(ctx context.Context) error {
	sessions, err := h.Store.SessionsOf(ctx, engine.OriginE2B)
	if err != nil {
		return err
	}
	for _, session := range sessions {
		if r := recordOf(session); r != nil {
			h.resume(ctx, session, r)
		}
	}
	return nil
}

// recordOf returns what is stored of the sandbox of a session; nil: it is of an earlier version, and ends by its own
// time.
func recordOf(session engine.Session) *record {
	var r record
	if json.Unmarshal([]byte(session.Scope), &r) != nil || r.ID == "" || r.Caller.Owner != session.Owner {
		return nil
	}
	return &r
}

// resume continues with a stored sandbox.
func (h *Handler) resume(ctx context.Context, session engine.Session, r *record) {
	defaults, maxima := h.Limits()
	sb := &sandbox{id: r.ID, token: r.Token, session: session.ID, caller: r.Caller, template: r.Template,
		labels: r.Labels, env: r.Env, public: r.Public, mask: r.Mask, https: r.HTTPS, key: r.Key, domain: r.Domain,
		started: r.Started,
		paused:  r.Paused, autoPause: r.AutoPause, limits: limitsOf(maxima).Or(defaults)}
	if sb.labels == nil {
		sb.labels = map[string]string{}
	}
	for i, c := range r.Contexts {
		made := &codeContext{ID: c.ID, Language: cmp.Or(c.Language, live.Language(session)), Dir: c.Dir,
			interpreter: session.ID, standard: c.Standard}
		var err error
		if i > 0 {
			made.interpreter, err = h.fork(ctx, sb, made.Language, made.Dir)
		}
		if err == nil {
			sb.contexts = append(sb.contexts, made)
		} else if !errors.Is(err, engine.ErrNoLanguage) {
			h.Log.Error("a context of a sandbox is lost", "session", session.ID, "err", err)
		}
	}
	h.sandboxes.add(sb, time.Until(r.Ends))
}

// limitsOf returns the limits of sandboxes.
func limitsOf(maxima engine.Limits) engine.Limits {
	return engine.Limits{Timeout: maxima.Timeout, Output: engine.OutputLimit{Bytes: maxima.Output.Bytes}}
}

// fork adds an interpreter to a sandbox.
func (h *Handler) fork(ctx context.Context, sb *sandbox, language, dir string) (engine.ID, error) {
	setup := live.Setup{Env: sb.env, Dir: dir}
	if language == "python" {
		setup.Code = prelude
	}
	return h.Live.Fork(ctx, sb.caller, sb.session, live.ForkRequest{Language: language, Setup: setup})
}
