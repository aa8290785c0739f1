package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/trick"
)

// Config is the configuration for Start.
type Config struct {
	Launcher Launcher // closed with the sandbox
	Wall     string   // for Launcher.Launch
	Lending  string   // lending folder, on the file system of inputs; empty: all inputs are copied
	Strict   bool     // refuse a host that cannot enforce memory and process limits, or hands out core dumps
	Log      *slog.Logger
}

// Sandbox implements engine.Sandbox for the service. It has no rights of its own and
// sends requests to the executor.
type Sandbox struct {
	config Config

	lending   *os.File // nil: nothing is lent
	leastLent int64    // size of the smallest lent input; tests change it

	mu        sync.Mutex
	executor  *Link
	isolation engine.Isolation
	closed    bool
	watching  sync.WaitGroup
}

// Time limits of the executor: to become ready, to stage a program's inputs, and to end a
// program after its request was cancelled. An executor that exceeds one counts as dead.
const (
	readyTime = 3 * time.Minute
	stageTime = 60 * time.Second
	endTime   = 10 * time.Second
)

// Start starts an executor and waits until it is ready.
func Start(ctx context.Context, config Config) (*Sandbox, error) {
	s := &Sandbox{config: config, leastLent: leastLent}
	if config.Lending != "" && trick.On(trick.Lending) {
		var err error
		if s.lending, err = openLending(lendingOf(config.Lending, config.Wall)); err != nil {
			config.Log.Warn("large inputs are copied", "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.launch(ctx); err != nil {
		s.lending.Close()
		return nil, errors.Join(err, config.Launcher.Close())
	}
	return s, nil
}

// launch starts an executor. The caller holds the lock.
func (s *Sandbox) launch(ctx context.Context) error {
	socket, err := s.config.Launcher.Launch(ctx, s.config.Wall)
	if err != nil {
		return err
	}
	l, err := newLongLink(socket)
	if err != nil {
		return err
	}
	var a answer
	l.SetReadDeadline(time.Now().Add(readyTime))
	files, err := l.Receive(&a)
	CloseAll(files...)
	l.SetReadDeadline(time.Time{})
	unavailable := func(doctor bool, hint, format string, args ...any) error {
		return &engine.Error{Op: "start the sandbox", Kind: engine.ErrUnavailable, Err: fmt.Errorf(format, args...),
			Hint: hint, Doctor: doctor}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = unavailable(false, "this host is too busy or too slow for it; try again when other work has ended",
			"the executor was not ready after %v", readyTime)
	case err != nil:
		err = unavailable(true, "this host does not allow what the sandbox needs; `airlock doctor` tells what, and the log "+
			"says where it stopped", "the executor ended before it was ready: %w", err)
	case a.Report == nil:
		err = fromFailure("start the sandbox", a.Error)
	case s.config.Strict && !a.Report.Strict:
		err = unavailable(true, "run as root with the memory and pids controllers and a kernel.core_pattern that does not "+
			"begin with @, or accept less with --isolation=best; `airlock doctor` tells what is missing",
			"strict isolation was asked for, and this host gives less: %s", a.Report.Summary)
	}
	if err != nil {
		l.Close()
		return err
	}
	s.executor, s.isolation = l, *a.Report
	s.watching.Go(func() { s.watch(l) })
	return nil
}

// watch waits for an executor to exit and starts the next, so that it is ready before a
// request needs it.
func (s *Sandbox) watch(l *Link) {
	var nothing answer
	files, _ := l.Receive(&nothing) // it returns when the executor has exited
	CloseAll(files...)
	l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.executor != l {
		return
	}
	s.executor = nil
	s.config.Log.Error("the sandbox executor died; its runs are interrupted", "next", "starting another")
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if err := s.launch(ctx); err != nil {
		s.config.Log.Error("cannot start another executor; the next request tries again", "error", err)
	}
}

// open sends the first message of a request and returns the request's socket. The
// caller still owns the files.
func (s *Sandbox) open(ctx context.Context, r request, files ...*os.File) (*Link, error) {
	socket, err := newRequestEnds()
	if err != nil {
		return nil, err
	}
	defer socket.theirs.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 {
		if s.closed {
			err = &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.New("the sandbox is closed")}
			break
		}
		if s.executor == nil {
			if err = s.launch(ctx); err != nil {
				break
			}
		}
		if err = s.executor.Send(r, append([]*os.File{socket.theirs}, files...)...); err == nil {
			return socket.ours, nil
		}
		s.executor = nil // its watcher closes it
	}
	socket.ours.Close()
	if engine.KindOf(err) == engine.ErrInternal { // no executor runs
		err = lost(err)
	}
	return nil, err
}

// openRequest begins a request that ends with ctx, or when the caller closes the link. stop
// detaches the request from ctx, and reports false if ctx has ended.
func (s *Sandbox) openRequest(
	ctx context.Context, r request, files ...*os.File,
) (l *Link, stop func() bool, err error) {
	if l, err = s.open(ctx, r, files...); err != nil {
		return nil, nil, err
	}
	return l, context.AfterFunc(ctx, func() { l.Close() }), nil
}

// next receives the next answer to a request and checks its number of open files.
func (l *Link) next(ctx context.Context, op string, want int) (a answer, files []*os.File, err error) {
	files, err = l.Receive(&a)
	switch {
	case err != nil && ctx.Err() != nil:
		err = &engine.Error{Op: op, Kind: engine.ErrCanceled, Err: ctx.Err()}
	case err != nil:
		err = lost(err)
	case a.Error != nil:
		err = fromFailure(op, a.Error)
	case len(files) != want:
		err = lost(errors.New("an answer with another number of files"))
	}
	if err != nil {
		CloseAll(files...)
	}
	return a, files, err
}

// query sends a request that has one answer.
func (s *Sandbox) query(ctx context.Context, op string, r request, list []input, files []*os.File) (answer, error) {
	l, stop, err := s.openRequest(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer l.Close()
	defer stop()
	sent := l.sendInputs(list, files)
	a, _, err := l.next(ctx, op, 0)
	if err == nil && sent != nil {
		err = lost(sent)
	}
	return a, err
}

// Hold makes a held workspace. It has the one wall that the executor makes.
func (s *Sandbox) Hold(
	ctx context.Context, id engine.ID, _ int64, _ engine.Wall, inputs []engine.Input, limits engine.Limits,
) error {
	list, files := fromInputs(inputs)
	hold := &holdRequest{id.String(), limits.Workspace, limits.Inodes, len(list)}
	_, err := s.query(ctx, "sandbox", request{Hold: hold}, list, files)
	return err
}

// Release removes a held workspace.
func (s *Sandbox) Release(ctx context.Context, id engine.ID, _ int64) error {
	_, err := s.query(ctx, "sandbox", request{Release: id.String()}, nil, nil)
	return err
}

// Held returns the memory that each held workspace reserves.
func (s *Sandbox) Held(ctx context.Context) (map[engine.ID]int64, error) {
	l, stop, err := s.openRequest(ctx, request{Usage: true})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer stop()
	held := map[engine.ID]int64{}
	for {
		a, _, err := l.next(ctx, "sandbox", 0)
		if err != nil || len(a.Held) == 0 {
			return held, err
		}
		for _, use := range a.Held {
			id, err := engine.ParseID(use.ID)
			if err != nil {
				return nil, lost(err)
			}
			held[id] = use.Memory
		}
	}
}

// Isolation returns the isolation that the executor enforces.
func (s *Sandbox) Isolation(context.Context) (engine.Isolation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isolation, nil
}

// Pools returns how many sandboxes wait, by pool.
func (s *Sandbox) Pools(ctx context.Context) ([]engine.Pool, error) {
	a, err := s.query(ctx, "sandbox", request{Inspect: true}, nil, nil)
	return a.Pools, err
}

// Distant implements engine.Sandbox.
func (s *Sandbox) Distant() bool { return false }

// Close ends the executor and with it every sandbox, and closes the launcher.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.executor != nil {
		s.executor.closeWrite()
	}
	s.mu.Unlock()
	s.watching.Wait()
	s.lending.Close() // closing nil returns an error, which is ignored
	return s.config.Launcher.Close()
}

func fromInputs(inputs []engine.Input) ([]input, []*os.File) {
	list, files := make([]input, len(inputs)), make([]*os.File, len(inputs))
	for i, in := range inputs {
		list[i], files[i] = input{Path: in.Path, Size: in.Size, ReadOnly: in.ReadOnly}, in.File
	}
	return list, files
}

// fromFailure converts the executor's failure into an engine error.
func fromFailure(op string, f *Failure) error {
	if f == nil {
		return lost(errors.New("it answered nothing that makes sense"))
	}
	kind := f.Kind
	switch kind {
	case engine.ErrInvalid, engine.ErrNotFound, engine.ErrConflict, engine.ErrTooLarge, engine.ErrFull, engine.ErrBusy,
		engine.ErrNoLanguage, engine.ErrUnavailable:
	default:
		kind = engine.ErrInternal
	}
	e := &engine.Error{Op: op, Kind: kind, ID: f.Field, Err: errors.New(f.Text), Hint: f.Hint, Doctor: f.Doctor,
		Cause: f.Cause}
	if f.NoProgram {
		e.Err = engine.ErrNoProgram
	}
	if kind == engine.ErrBusy {
		e.RetryAfter = time.Second
	}
	return e
}

// lost returns the error for an executor that exited in the middle of a request.
func lost(err error) error {
	return &engine.Error{
		Op: "sandbox", Kind: engine.ErrUnavailable, Err: fmt.Errorf("the executor did not answer: %w", err),
		Hint: "another executor is being started; try again", RetryAfter: time.Second,
		Cause: "the process that supervises sandboxes ended, or did not answer in time",
	}
}
