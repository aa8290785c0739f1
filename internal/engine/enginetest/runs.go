package enginetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// StartRun records a run, unless its key was used before.
func (x *Index) StartRun(
	ctx context.Context, run *engine.Run, session *engine.Session, key string, print engine.Digest,
) (engine.ID, error) {
	if err := x.called(ctx, "StartRun"); err != nil {
		return engine.ID{}, err
	}
	defer x.mu.Unlock()
	again := repeat{run.Owner, key}
	if earlier, ok := x.repeats[again]; ok && key != "" {
		if x.runs[earlier].object.print != print {
			return earlier, engine.ErrConflict
		}
		return earlier, nil
	}
	if session != nil {
		x.addSession(*session, nil)
	} else if !run.Session.IsZero() {
		r, err := x.session(run.Owner, run.Session)
		if err != nil {
			return engine.ID{}, err
		}
		extend(&r.object.ExpiresAt, run.CreatedAt.Add(r.object.TTL))
	}
	x.runs[run.ID] = &row[recorded]{recorded{run: *run, print: print}, x.next()}
	if key != "" {
		x.repeats[again] = run.ID
	}
	return engine.ID{}, nil
}

// EarlierRun returns the run that an owner started with a key.
func (x *Index) EarlierRun(
	ctx context.Context, owner engine.Owner, key string, print engine.Digest,
) (engine.ID, error) {
	if err := x.called(ctx, "EarlierRun"); err != nil {
		return engine.ID{}, err
	}
	defer x.mu.Unlock()
	earlier, ok := x.repeats[repeat{owner, key}]
	switch {
	case !ok:
		return engine.ID{}, engine.ErrNotFound
	case x.runs[earlier].object.print != print:
		return earlier, engine.ErrConflict
	}
	return earlier, nil
}

// FinishRun records how a run ended. Its session may be gone.
func (x *Index) FinishRun(ctx context.Context, run *engine.Run, log []engine.OutputChunk, deleted []string) error {
	if err := x.called(ctx, "FinishRun"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	r, ok := x.runs[run.ID]
	if !ok {
		return engine.ErrNotFound
	}
	r.object.run, r.object.log = *run, slices.Clone(log)
	if s, ok := x.sessions[run.Session]; ok { // its use ends now, and that of the inputs
		extend(&s.object.ExpiresAt, run.FinishedAt.Add(s.object.TTL))
	}
	for _, input := range run.Inputs {
		if f, ok := x.files[input.ID]; ok {
			extend(&f.object.ExpiresAt, run.FinishedAt.Add(f.object.TTL))
		}
	}
	x.applyRun(run, deleted)
	return nil
}

// applyRun brings a session to the state that a run left.
func (x *Index) applyRun(run *engine.Run, deleted []string) {
	places := x.places[run.Session]
	for _, path := range deleted {
		delete(places, path)
	}
	for _, file := range run.Files {
		x.files[file.ID] = &row[engine.File]{file, x.next()}
		if places != nil {
			places[file.Path] = engine.SessionFile{Session: run.Session, File: file.ID, Path: file.Path, Role: engine.RoleOutput}
		}
	}
}

// SaveFiles records files of a session.
func (x *Index) SaveFiles(ctx context.Context, run *engine.Run, deleted []string, now time.Time) error {
	if err := x.called(ctx, "SaveFiles"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	if s, ok := x.sessions[run.Session]; ok {
		extend(&s.object.ExpiresAt, now.Add(s.object.TTL))
	}
	x.applyRun(run, deleted)
	return nil
}

// InsertFinished records runs that have begun and ended.
func (x *Index) InsertFinished(ctx context.Context, runs ...engine.FinishedRun) error {
	if err := x.called(ctx, "InsertFinished"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	for _, r := range runs {
		x.addSession(*r.Session, nil)
		x.runs[r.Run.ID] = &row[recorded]{recorded{run: *r.Run, log: slices.Clone(r.Log)}, x.next()}
	}
	return nil
}

// Run returns a run of an owner.
func (x *Index) Run(ctx context.Context, owner engine.Owner, id engine.ID) (*engine.Run, error) {
	if err := x.called(ctx, "Run"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	r, ok := x.runs[id]
	if !ok || r.object.run.Owner != owner {
		return nil, engine.ErrNotFound
	}
	run := r.object.run
	return &run, nil
}

// NameRun sets the name of a run.
func (x *Index) NameRun(ctx context.Context, owner engine.Owner, id engine.ID, name string) error {
	if err := x.called(ctx, "NameRun"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	r, ok := x.runs[id]
	if !ok || r.object.run.Owner != owner {
		return engine.ErrNotFound
	}
	r.object.run.Name = name
	return nil
}

// RunLog returns the output of a finished run as it came.
func (x *Index) RunLog(ctx context.Context, owner engine.Owner, id engine.ID) ([]engine.OutputChunk, error) {
	if err := x.called(ctx, "RunLog"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	r, ok := x.runs[id]
	if !ok || r.object.run.Owner != owner {
		return nil, engine.ErrNotFound
	}
	return slices.Clone(r.object.log), nil
}

// Runs lists runs, with as much of their output as is asked for.
func (x *Index) Runs(ctx context.Context, q engine.RunQuery) ([]engine.Run, error) {
	if err := x.called(ctx, "Runs"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	var runs []engine.Run
	for _, r := range page(x.runs, q.Page, func(r recorded) bool {
		return r.run.Owner == q.Owner && (q.Origin == "" || r.run.Origin == q.Origin) &&
			(q.Session.IsZero() || r.run.Session == q.Session) && (q.Text == "" || has(r.run, q.Text)) &&
			(!q.Programs || r.run.Origin != engine.OriginLive && r.run.Origin != engine.OriginPreview)
	}) {
		r.run.Stdout = r.run.Stdout[:min(len(r.run.Stdout), q.Output)]
		r.run.Stderr = r.run.Stderr[:min(len(r.run.Stderr), q.Output)]
		r.run.SourceKept = q.Kept && r.run.Source != nil
		if !q.Source {
			r.run.Source = nil
		}
		runs = append(runs, r.run)
	}
	return runs, nil
}

// has reports whether each word of a text is somewhere in a run.
func has(run engine.Run, text string) bool {
	all := strings.Join([]string{run.Language, run.Status.Words(), run.Stdout, run.Stderr}, " ")
	if run.Source != nil {
		all += " " + run.Source.Code
	}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		if !strings.Contains(strings.ToLower(all), word) {
			return false
		}
	}
	return true
}

// IndexRuns has nothing to do.
func (x *Index) IndexRuns(ctx context.Context, _ int) (int, error) {
	if err := x.called(ctx, "IndexRuns"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	return 0, nil
}

// InterruptRuns marks every run that is not final as interrupted.
func (x *Index) InterruptRuns(ctx context.Context, now time.Time) (int, error) {
	if err := x.called(ctx, "InterruptRuns"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	n := 0
	for _, r := range x.runs {
		if !r.object.run.Status.Final() {
			r.object.run.Status, r.object.run.FinishedAt = engine.StatusInterrupted, now
			n++
		}
	}
	return n, nil
}

// ExpireRuns deletes runs that ended before a time.
func (x *Index) ExpireRuns(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := x.called(ctx, "ExpireRuns"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	n := 0
	for id, r := range x.runs {
		if n == limit || !r.object.run.Status.Final() || !r.object.run.FinishedAt.Before(before) {
			continue
		}
		delete(x.runs, id)
		for again, earlier := range x.repeats {
			if earlier == id {
				delete(x.repeats, again)
			}
		}
		n++
	}
	return n, nil
}
