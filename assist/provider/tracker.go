package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Tracker manages the session of a conversation: it creates the session, keeps it alive,
// and replaces an expired one.
type Tracker struct {
	Provider Provider
	Spec     SessionSpec
	Clock    Clock     // nil: the system's
	Counters *Counters // may be nil
	// Again uploads a file that the provider has lost; nil: the turn fails.
	Again func(ctx context.Context, f FileInfo) (FileInfo, error)

	mu      sync.Mutex
	session Session
	used    time.Time
	staged  []Attachment // all files of the conversation so far
}

func (t *Tracker) clock() Clock { return cmp.Or(t.Clock, Clock(SystemClock{})) }

// Session returns the session; its ID is "" if there is none.
func (t *Tracker) Session() Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

// Staged returns all files of the conversation so far, also those of earlier processes,
// for [Tracker.Resume].
func (t *Tracker) Staged() (all []Attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.staged { // a repeated turn adds its files twice
		if a.File.Ref.ID == "" || !slices.ContainsFunc(all, func(b Attachment) bool {
			return b.File.Ref.ID == a.File.Ref.ID
		}) {
			all = append(all, a)
		}
	}
	return all
}

// Resume sets the session and the files of an earlier process.
func (t *Tracker) Resume(s Session, staged []Attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session, t.staged, t.used = s, staged, s.LastUsed
}

// Ready creates the session if needed and adds the files to it, where the provider
// supports this, before the model is asked.
func (t *Tracker) Ready(ctx context.Context, files []Attachment, sink Sink) (string, error) {
	if !t.Provider.Caps().SessionCreate {
		return t.Session().ID, nil
	}
	if t.Session().ID != "" && t.idleOver() {
		if s, err := t.Provider.Sessions().Get(ctx, t.Session().ID); err != nil && KindOf(err) != ContainerExpired {
			return "", err
		} else if err != nil || !s.Active {
			t.gone(sink)
		}
	}
	if t.Session().ID == "" {
		return t.create(ctx, files)
	}
	files = slices.Clone(files)
	for i := range files {
		err := t.add(ctx, &files[i])
		if KindOf(err) == ContainerExpired {
			t.gone(sink)
			return t.create(ctx, files)
		}
		if err != nil {
			return "", err
		}
	}
	t.note(t.Session(), files)
	return t.Session().ID, nil
}

// add adds a file to the session. It uploads a file again that the provider has lost.
func (t *Tracker) add(ctx context.Context, a *Attachment) error {
	_, err := t.Provider.Sessions().Add(ctx, t.Session().ID, a.File)
	if t.Again == nil || !isMissing(err) {
		return err
	}
	if a.File, err = t.Again(ctx, a.File); err != nil {
		return err
	}
	_, err = t.Provider.Sessions().Add(ctx, t.Session().ID, a.File)
	return err
}

// idle returns how long the session lives without a use. The caller holds mu.
func (t *Tracker) idle() time.Duration { return cmp.Or(t.session.IdleTTL, t.Provider.Caps().IdleTTL) }

func (t *Tracker) idleOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := t.idle()
	return idle > 0 && t.clock().Now().Sub(t.used) > idle-idle/10
}

// create creates a session with all files of the conversation.
func (t *Tracker) create(ctx context.Context, files []Attachment) (string, error) {
	t.mu.Lock()
	all := append(append([]Attachment(nil), t.staged...), files...)
	t.mu.Unlock()
	spec := t.Spec
	for i := range all {
		info, err := t.alive(ctx, all[i].File)
		if err != nil {
			return "", err
		}
		all[i].File = info
		spec.Files = append(spec.Files, info)
	}
	s, err := t.Provider.Sessions().Create(ctx, spec)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	t.session, t.staged, t.used = s, all, t.clock().Now()
	t.mu.Unlock()
	return s.ID, nil
}

// alive returns a file that the provider has, uploaded again if needed.
func (t *Tracker) alive(ctx context.Context, f FileInfo) (FileInfo, error) {
	if f.Ref.Scope != ScopeFile {
		return f, nil
	}
	_, err := t.Provider.Files().Stat(ctx, f.Ref)
	if t.Again != nil && isMissing(err) {
		return t.Again(ctx, f)
	}
	return f, err
}

func (t *Tracker) note(s Session, files []Attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session, t.used = s, t.clock().Now()
	t.staged = append(t.staged, files...)
}

// gone drops an expired session and sends a notice.
func (t *Tracker) gone(sink Sink) {
	t.mu.Lock()
	id := t.session.ID
	t.session = Session{}
	t.mu.Unlock()
	t.Counters.Count(t.Provider.Name(), "", func(c *Counts) { c.Recoveries++ })
	sink.Send(Notice{Text: fmt.Sprintf("The session %s at %s has expired; a new one is made with the same files. What "+
		"code had left in the old one is gone, fetched outputs are not.", id, t.Provider.Name())})
}

// Run runs a turn in the session. When the provider says that the session has
// expired, it is replaced and the turn is run once more.
func (t *Tracker) Run(ctx context.Context, r RunRequest, sink Sink) (*RunResult, error) {
	brought := r.Files
	id, err := t.Ready(ctx, brought, sink)
	if err != nil {
		return nil, err
	}
	r.Session = id
	result, err := t.Provider.Run(ctx, r, sink)
	if id != "" && KindOf(err) == ContainerExpired && result == nil {
		t.gone(sink)
		if t.Provider.Caps().SessionCreate {
			if r.Session, err = t.create(ctx, nil); err != nil {
				return nil, err
			}
		} else { // the provider makes one by itself, from all files
			if r, err = t.afresh(ctx, r); err != nil {
				return nil, err
			}
		}
		result, err = t.Provider.Run(ctx, r, sink)
	}
	if result != nil {
		t.ran(result, brought)
	}
	return result, err
}

// afresh returns the turn with all files of the conversation, for a provider that creates
// a session by itself. It uploads files again that the provider has lost.
func (t *Tracker) afresh(ctx context.Context, r RunRequest) (RunRequest, error) {
	t.mu.Lock()
	staged := slices.Clone(t.staged)
	t.mu.Unlock()
	again := map[string]FileInfo{}
	all := append(slices.Clone(staged), r.Files...)
	for i := range all {
		info, err := t.alive(ctx, all[i].File)
		if err != nil {
			return r, err
		}
		again[all[i].File.Ref.ID] = info
		all[i].File = info
	}
	r.Session, r.Files, r.Input = "", all, slices.Clone(r.Input)
	for i := range r.Input {
		files := slices.Clone(r.Input[i].Files)
		for k := range files {
			if info, ok := again[files[k].File.Ref.ID]; ok && files[k].File.Ref.ID != "" {
				files[k].File = info
			}
		}
		r.Input[i].Files = files
	}
	t.mu.Lock()
	t.staged = all[:len(staged):len(staged)]
	t.mu.Unlock()
	return r, nil
}

// ran records the session that the reply names last.
func (t *Tracker) ran(r *RunResult, brought []Attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = t.clock().Now()
	// A reply without a session ran in the present one: its first attempt may have, and
	// the answer got lost.
	if id := t.session.ID; id != "" && len(r.Sessions) == 0 {
		r.Sessions = []Session{t.session}
	}
	if !t.Provider.Caps().SessionCreate {
		t.staged = append(t.staged, brought...)
	}
	if n := len(r.Sessions); n > 0 && r.Sessions[n-1].ID != t.session.ID {
		t.session = r.Sessions[n-1]
	}
}

// KeepAlive touches the session before it expires, for at most the time most, until the
// context ends or the session has expired. It is for a chat that waits for its user.
func (t *Tracker) KeepAlive(ctx context.Context, most time.Duration) error {
	caps := t.Provider.Caps()
	s := t.Session()
	idle := cmp.Or(s.IdleTTL, caps.IdleTTL)
	if !caps.SessionTouch || idle == 0 || s.ID == "" {
		return nil
	}
	end := t.clock().Now().Add(most)
	for t.clock().Now().Before(end) && t.clock().Wait(ctx, idle-idle/4) == nil { // else the user is back, or has left
		if err := t.Provider.Sessions().Touch(ctx, s.ID); err != nil {
			return err
		}
		t.mu.Lock()
		t.used = t.clock().Now()
		t.mu.Unlock()
	}
	return nil
}

// Until returns when the session expires without a use; zero: there is no session, or the
// time is not known.
func (t *Tracker) Until() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session.ID == "" {
		return time.Time{}
	}
	end, idle := t.session.Expires, t.idle()
	if idle > 0 && !t.used.IsZero() {
		if last := t.used.Add(idle); end.IsZero() || last.Before(end) {
			end = last
		}
	}
	return end
}
