package provider

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Recorded returns the provider with all objects that it creates recorded in the ledger.
// Retry belongs around it, not inside: each attempt needs an entry, since each may create
// an object.
func (l *Ledger) Recorded(p Provider) Provider { return &recorded{Provider: p, ledger: l} }

type recorded struct {
	Provider
	ledger *Ledger
}

type recordedFiles struct {
	FileStore
	r *recorded
}

type recordedSessions struct {
	SessionStore
	r *recorded
}

func (r *recorded) Files() FileStore       { return recordedFiles{r.Provider.Files(), r} }
func (r *recorded) Sessions() SessionStore { return recordedSessions{r.Provider.Sessions(), r} }

func (f recordedFiles) Upload(ctx context.Context, u Upload) (FileInfo, error) {
	e, err := f.r.ledger.recordIntent(ctx, f.r.Provider, EntryFile, u.Name, u.Size)
	if err != nil {
		return FileInfo{}, err
	}
	info, err := f.FileStore.Upload(ctx, u)
	return info, join(err, f.r.ledger.recordResult(ctx, e, info.Ref.ID, err))
}

// join is errors.Join that does not wrap a single error.
func join(a, b error) error {
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}

func (s recordedSessions) Create(ctx context.Context, spec SessionSpec) (Session, error) {
	e, err := s.r.ledger.recordIntent(ctx, s.r.Provider, EntrySession, spec.Name, -1)
	if err != nil {
		return Session{}, err
	}
	spec.Name = e.Name
	session, err := s.SessionStore.Create(ctx, spec)
	return session, join(err, s.r.ledger.recordResult(ctx, e, session.ID, err))
}

// Run records the objects that the provider creates by itself as soon as they are known:
// sessions, and files of the model's code in the account's store.
func (r *recorded) Run(ctx context.Context, q RunRequest, sink Sink) (*RunResult, error) {
	var failed error
	seen := map[string]bool{q.Session: true, "": true}
	note := func(kind EntryKind, id, name string, size int64) {
		if seen[id] {
			return
		}
		seen[id] = true
		ctx := context.WithoutCancel(ctx) // it exists even if the caller has left
		known, err := r.ledger.knows(ctx, r, kind, id)
		if err == nil && !known {
			var e Entry
			if e, err = r.ledger.recordIntent(ctx, r.Provider, kind, name, size); err == nil {
				err = r.ledger.recordResult(ctx, e, id, nil)
			}
		}
		failed = errors.Join(failed, err)
	}
	session := func(s Session) {
		if r.Caps().SessionDelete {
			note(EntrySession, s.ID, s.Name, -1)
		}
	}
	file := func(a Artifact) {
		if a.Ref.Scope == ScopeFile {
			note(EntryFile, a.Ref.ID, a.Name, a.Size)
		}
	}
	watched, err := r.ledger.beginRun(ctx, r.Provider, q)
	if err != nil {
		return nil, err
	}
	result, err := r.Provider.Run(ctx, q, func(e Event) {
		watched.event(e)
		switch e := e.(type) {
		case SessionStarted:
			session(e.Session)
		case FileFound:
			file(e.Artifact)
		}
		sink.Send(e)
	})
	if result != nil {
		for _, s := range result.Sessions {
			session(s)
		}
		for _, a := range result.Artifacts {
			file(a)
		}
	}
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	failed = join(failed, watched.end(recording, err))
	return result, join(err, failed)
}

// knows reports whether a session or a file has an entry of any holder.
func (l *Ledger) knows(ctx context.Context, p Provider, kind EntryKind, id string) (bool, error) {
	entries, err := l.store.Entries(ctx)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if e.Kind == kind && e.ID == id && e.Account == p.Account() && e.Provider == p.Name() {
			return true, nil
		}
	}
	return false, nil
}

// Retried returns the provider with its calls repeated by the rule, where that is
// harmless: an upload whose body can be read again, a run without events so far, a list
// before its first element.
func Retried(p Provider, rule Retry, counters *Counters) Provider {
	return &retried{Provider: p, rule: rule.counting(counters, p.Name())}
}

type retried struct {
	Provider
	rule Retry
}

type retriedFiles struct {
	FileStore
	rule Retry
}

type retriedSessions struct {
	SessionStore
	rule Retry
}

func (r *retried) Files() FileStore       { return retriedFiles{r.Provider.Files(), r.rule} }
func (r *retried) Sessions() SessionStore { return retriedSessions{r.Provider.Sessions(), r.rule} }

// try is Retry.Do for a call with a result.
func try[T any](ctx context.Context, rule Retry, once func(context.Context) (T, error)) (result T, err error) {
	err = rule.Do(ctx, func(ctx context.Context) (err error) {
		result, err = once(ctx)
		return err
	})
	return result, err
}

// tryList repeats a list until it has its first element.
func tryList[T any](
	ctx context.Context, rule Retry, list func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		begun, left := false, false
		err := rule.Do(ctx, func(ctx context.Context) error {
			for element, err := range list(ctx) {
				if err != nil && begun {
					left = true
					yield(element, err)
					return nil
				}
				if err != nil {
					return err
				}
				begun = true
				if !yield(element, nil) {
					left = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !left {
			var none T
			yield(none, err)
		}
	}
}

func (r *retried) Check(ctx context.Context, model string) error {
	return r.rule.Do(ctx, func(ctx context.Context) error { return r.Provider.Check(ctx, model) })
}

func (r *retried) Run(ctx context.Context, q RunRequest, sink Sink) (*RunResult, error) {
	told := false
	sent := map[Notice]int{} // attempt in which a notice came first
	attempt := 0
	counting := func(e Event) {
		if n, ok := e.(Notice); ok { // the next attempt repeats the notices about the request
			if first, before := sent[n]; before && first < attempt {
				return
			}
			sent[n] = attempt
		} else {
			told = true
		}
		sink.Send(e)
	}
	if sink == nil {
		counting = nil
	}
	return try(ctx, r.rule, func(ctx context.Context) (*RunResult, error) {
		attempt++
		result, err := r.Provider.Run(ctx, q, counting)
		if e, ok := errors.AsType[*Error](err); ok && e.Attempts == 0 && (told || result != nil) {
			final := *e
			final.Attempts = 1
			return result, &final
		}
		return result, err
	})
}

func (f retriedFiles) Upload(ctx context.Context, u Upload) (FileInfo, error) {
	var start int64
	seeker, again := u.Body.(io.Seeker)
	if again {
		var err error
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			again = false
		}
	}
	if !again {
		return f.FileStore.Upload(ctx, u)
	}
	return try(ctx, f.rule, func(ctx context.Context) (FileInfo, error) {
		if !u.Rewound(start) {
			return FileInfo{}, &Error{Kind: Invalid, Op: "upload " + u.Name,
				Message: "the file cannot be read from its start again"}
		}
		attempt := u
		body := NewAttemptReader(u.Body)
		defer body.Revoke()
		attempt.Body = lentSeeker{body, seeker}
		return f.FileStore.Upload(ctx, attempt)
	})
}

// lentSeeker lets a provider that sends parts seek to the start of a part.
type lentSeeker struct {
	*AttemptReader
	io.Seeker
}

func (f retriedFiles) Stat(ctx context.Context, r FileRef) (FileInfo, error) {
	return try(ctx, f.rule, func(ctx context.Context) (FileInfo, error) { return f.FileStore.Stat(ctx, r) })
}

func (f retriedFiles) List(ctx context.Context, q Filter) iter.Seq2[FileInfo, error] {
	return tryList(ctx, f.rule, func(ctx context.Context) iter.Seq2[FileInfo, error] { return f.FileStore.List(ctx, q) })
}

func (f retriedFiles) Open(
	ctx context.Context, r FileRef, offset int64,
) (body io.ReadCloser, info FileInfo, err error) {
	err = f.rule.Do(ctx, func(ctx context.Context) (err error) {
		body, info, err = f.FileStore.Open(ctx, r, offset)
		return err
	})
	return body, info, err
}

func (f retriedFiles) Delete(ctx context.Context, r FileRef) error {
	return f.rule.Do(ctx, func(ctx context.Context) error { return f.FileStore.Delete(ctx, r) })
}

func (s retriedSessions) Create(ctx context.Context, spec SessionSpec) (Session, error) {
	return try(ctx, s.rule, func(ctx context.Context) (Session, error) { return s.SessionStore.Create(ctx, spec) })
}

func (s retriedSessions) Get(ctx context.Context, id string) (Session, error) {
	return try(ctx, s.rule, func(ctx context.Context) (Session, error) { return s.SessionStore.Get(ctx, id) })
}

func (s retriedSessions) List(ctx context.Context, f Filter) iter.Seq2[Session, error] {
	return tryList(ctx, s.rule, func(ctx context.Context) iter.Seq2[Session, error] { return s.SessionStore.List(ctx, f) })
}

func (s retriedSessions) Touch(ctx context.Context, id string) error {
	return s.rule.Do(ctx, func(ctx context.Context) error { return s.SessionStore.Touch(ctx, id) })
}

func (s retriedSessions) Files(ctx context.Context, id string) iter.Seq2[FileInfo, error] {
	return tryList(ctx, s.rule, func(ctx context.Context) iter.Seq2[FileInfo, error] {
		return s.SessionStore.Files(ctx, id)
	})
}

func (s retriedSessions) Add(ctx context.Context, id string, file FileInfo) (FileInfo, error) {
	return try(ctx, s.rule, func(ctx context.Context) (FileInfo, error) { return s.SessionStore.Add(ctx, id, file) })
}

func (s retriedSessions) Delete(ctx context.Context, id string) error {
	return s.rule.Do(ctx, func(ctx context.Context) error { return s.SessionStore.Delete(ctx, id) })
}
