package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Pausing, snapshots and copies of sessions. Where a session has a kernel of its own, they keep its memory too:
// variables and processes. With the shared kernel they are about files.

// Pause ends the interpreter and all programs of a session, and leaves the session to its stored files: it takes no
// memory until its next use. That starts anew, unless the memory is stored too. If something cannot be stored, the
// session continues, and the error says so.
func (s *Service) Pause(ctx context.Context, caller engine.Caller, id engine.ID, memory Memory) error {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return err
	}
	if at.id != at.record.ID {
		return missing(id.String())
	}
	keep, err := memory.of(at.record, "pause")
	if err == nil && keep {
		err = at.remember(ctx, "pause", "It was paused by request.")
	}
	if err != nil {
		return err
	}
	if !keep {
		_ = at.store() // dispensable says
	}
	if err := at.dispensable(); err != nil {
		return err
	}
	for _, one := range s.within(id) {
		one.pause()
		one.await(ctx)
	}
	at.vacate(ctx) // of an interpreter that had ended before, as well
	return nil
}

// vacate releases the workspace if no interpreter has it, and all that is in it is stored. None starts meanwhile.
func (at *session) vacate(ctx context.Context) {
	if at.dispensable() != nil || at.service.shares(at) {
		return
	}
	at.mu.Lock()
	if at.interpreter != nil || at.vacating != nil {
		at.mu.Unlock()
		return
	}
	done := make(chan struct{})
	at.vacating = done
	at.mu.Unlock()
	at.service.vacate(ctx, at.record)
	at.mu.Lock()
	defer at.mu.Unlock()
	at.vacating = nil
	close(done)
}

// vacate releases the workspace of a session, whose interpreters have ended. A change that is not stored yet is lost:
// who has made it is told.
func (s *Service) vacate(ctx context.Context, record engine.Session) {
	for _, one := range s.within(record.ID) {
		one.mu.Lock()
		one.vacated++
		one.mu.Unlock()
	}
	_ = s.engine.Vacate(ctx, record) // logged by the engine
}

// pause begins to end the interpreter.
func (at *session) pause() {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.cancelQueued("The session was paused before this ran.")
	at.paused = true
	if it := at.interpreter; it != nil {
		it.vacate = true
		it.end("It was paused by request.")
	}
}

// AddSnapshot makes a snapshot of a session of any kind; see engine.Service.AddSnapshot.
func (s *Service) AddSnapshot(
	ctx context.Context, caller engine.Caller, id engine.ID, name string, memory Memory,
) (engine.Snapshot, error) {
	keep, forget, err := s.addMemory(ctx, caller, id, "snapshot", memory)
	if err != nil {
		return engine.Snapshot{}, err
	}
	defer forget()
	made, err := s.engine.AddSnapshot(ctx, caller, id, name, keep)
	s.noteStored(id)
	return made, err
}

// noteStored records that files of a session were stored, which it may know nothing of.
func (s *Service) noteStored(id engine.ID) {
	for _, at := range s.within(id) {
		at.mu.Lock()
		at.stored = s.changes.Add(1)
		at.mu.Unlock()
	}
}

// CopyRequest asks for sessions that are copies. Zero fields are as in the source.
type CopyRequest struct {
	Count   int           // of the copies
	Origin  engine.Origin // empty: native
	TTL     time.Duration // of each; zero: the service's default
	Network *engine.Network
	Secrets []engine.Secret // nil: none, whatever the source has
	Setup   *Setup
	Limits  engine.Limits
	Scope   string
	Wall    engine.Wall // at least that of the source
	Memory  Memory
}

// Copy makes sessions with the files of a session of any kind, or of a snapshot: all of them or none. A live one has
// the language, packages, image, limits and network of the source, as far as the caller may have them, and a new
// interpreter, without the secrets of the source. Copy also returns the files that could not be copied.
func (s *Service) Copy(
	ctx context.Context, caller engine.Caller, from engine.CopySource, req CopyRequest,
) ([]engine.Session, []engine.DroppedFile, error) {
	if req.Count < 1 || req.Count > engine.MaxCopies {
		return nil, nil, engine.Invalid("count", "must be 1 to %d", engine.MaxCopies)
	}
	live, err := s.sourceOf(ctx, caller, from)
	if err != nil {
		return nil, nil, err
	}
	if live == "" && len(req.Secrets) > 0 {
		return nil, nil, engine.Invalid("secrets", "are for live sessions and runs, which this is not")
	}
	one := engine.SessionRequest{Origin: req.Origin, TTL: req.TTL, Scope: req.Scope, Limits: req.Limits, Wall: req.Wall}
	why := "Its files are a copy."
	if live != "" {
		known, err := s.adapt(ctx, caller, live, &req)
		if err != nil {
			return nil, nil, err
		}
		remembered, err := json.Marshal(known)
		if err != nil {
			return nil, nil, err
		}
		one.Live, one.Limits = string(remembered), known.Limits
		why = sentence(why, missed(Secrets(live), req.Secrets))
	}
	if from.Snapshot.IsZero() {
		keep, forget, err := s.addMemory(ctx, caller, from.Session, "fork", req.Memory)
		if err != nil {
			return nil, nil, err
		}
		defer forget()
		from.Memory = keep
	} else {
		from.Memory = req.Memory != WithoutMemory
	}
	requests := make([]engine.SessionRequest, req.Count)
	for i := range requests {
		requests[i] = one
	}
	made, dropped, err := s.engine.CopySession(ctx, caller, from, requests)
	s.noteStored(from.Session)
	if err != nil {
		return nil, nil, err
	}
	for _, record := range made {
		if record.Kind == engine.SessionLive {
			_, err := s.add(&session{id: record.ID, caller: caller, record: record, why: why,
				secrets: req.Secrets})
			if err != nil {
				return nil, nil, err
			}
		}
	}
	return made, dropped, nil
}

// sourceOf returns the settings of what a session is copied from; empty: it has no interpreter.
func (s *Service) sourceOf(ctx context.Context, caller engine.Caller, from engine.CopySource) (string, error) {
	if from.Snapshot.IsZero() {
		of, err := s.engine.GetSession(ctx, caller, from.Session)
		return of.Live, err
	}
	of, err := s.engine.GetSnapshot(ctx, caller, from.Snapshot.String())
	return of.Live, err
}

// adapt returns the settings of a copy: those of its source, of which the caller must be allowed each.
func (s *Service) adapt(ctx context.Context, caller engine.Caller, live string, req *CopyRequest) (*settings, error) {
	var known settings
	if err := json.Unmarshal([]byte(live), &known); err != nil {
		return nil, fmt.Errorf("the settings of a live session: %w", err)
	}
	if req.Network != nil {
		known.Network = req.Network
	}
	if req.Setup != nil {
		known.Setup = req.Setup
	}
	known.Limits = req.Limits.Or(known.Limits)
	known.Secrets = req.Secrets
	if err := s.engine.CheckNetwork(ctx, caller, known.Network, known.Secrets); err != nil {
		return nil, err
	}
	if known.Setup != nil {
		if err := checkVariables(known.Secrets, known.Setup.Env); err != nil {
			return nil, err
		}
	}
	if err := s.engine.CheckMounts(caller, known.Mounts); err != nil {
		return nil, err
	}
	if err := s.engine.CheckVolumes(ctx, caller, known.Volumes, known.Mounts); err != nil {
		return nil, err
	}
	image, err := s.engine.ChooseImage(caller, cmp.Or(req.Origin, engine.OriginNative),
		cmp.Or(known.Image, engine.HostImage), known.Packages)
	if err != nil || image == nil {
		return &known, err
	}
	lang, ok := language.Find(known.Language)
	if !ok {
		return nil, engine.Invalid("language", "%.40q has no live interpreter", known.Language)
	}
	known.Image, known.ImageID = image.Name, image.ID
	return &known, hasLive(image, lang)
}

// SetupOf returns the setup of a session or snapshot, by its Live.
func SetupOf(live string) Setup {
	var known settings
	if json.Unmarshal([]byte(live), &known) != nil || known.Setup == nil {
		return Setup{}
	}
	return *known.Setup
}
