package live

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// follow watches a process until it has ended, with all that it has started. It kills the process at
// a deadline, but not what it has left by then.
func (p *process) follow(caller engine.Caller, deadline time.Time) {
	stop := func() bool { return false }
	if !deadline.IsZero() {
		stop = time.AfterFunc(time.Until(deadline), func() { p.kill(caller) }).Stop
	}
	stream := func(kind ProcessEventType, from io.Reader) {
		p.pumps.Go(func() { p.output.pump(kind, from) })
	}
	if p.started.Stderr() == nil {
		stream(ProcessTerminal, p.started.Stdout())
	} else {
		stream(ProcessStdout, p.started.Stdout())
		stream(ProcessStderr, p.started.Stderr())
	}
	at := p.session
	at.service.work.Go(func() {
		p.pumps.Wait()
		close(p.drained)
	})
	end, err := p.started.Wait()
	stop()
	grace := time.NewTimer(outputGrace)
	defer grace.Stop()
	select {
	case <-p.drained:
	case <-grace.C: // what it started still holds its output
	}
	if err == nil {
		p.addHint(end)
	}
	p.nameWholes()
	at.flushAll()
	at.mu.Lock()
	p.Running, p.EndedAt = false, time.Now()
	if err == nil {
		p.Background = end.Left
		p.ExitCode, p.Signal, p.CPU = &end.ExitCode, end.Signal, end.CPU
	}
	last := p.snapshot()
	at.mu.Unlock()
	p.output.end(&last)
	if err == nil {
		_ = p.started.WaitAll() // lost: its sandbox has ended
	}
	<-p.drained
	p.started.Close()
	if end.Left {
		at.flushAll()
	}
	at.mu.Lock()
	p.Background = false
	p.release()
	at.mu.Unlock()
	close(p.over)
}

// kill kills a process whose time is over.
func (p *process) kill(caller engine.Caller) {
	at := p.session
	at.mu.Lock()
	p.Overdue = p.Running
	at.mu.Unlock()
	ctx, cancel := context.WithTimeout(at.service.life, endTime)
	defer cancel()
	err := at.service.SignalProcess(ctx, caller, p.Session, p.ID, "KILL")
	if kind := engine.KindOf(err); err != nil && kind != engine.ErrConflict && kind != engine.ErrNotFound {
		at.service.log.Error("a process could not be killed when its time was over", "session", at.id, "error", err)
	}
}

// SignalProcess sends a signal to the group of a process, or to what it has left in the background:
// "SIGTERM", "TERM" or "15". SIGKILL ends all that it has started.
func (s *Service) SignalProcess(ctx context.Context, caller engine.Caller, session, id engine.ID, signal string) error {
	number, err := signalNumber(signal)
	if err != nil {
		return err
	}
	p, err := s.alive(ctx, caller, session, id, leftOrRunning)
	if err != nil {
		return err
	}
	return p.started.Signal(number)
}

func signalNumber(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n), nil
	}
	if n := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")); n != 0 {
		return n, nil
	}
	return 0, engine.Invalid("signal", "%.20q is no signal", name)
}

// leftOrRunning reports whether a process runs, or anything that it has started. The caller holds mu.
func leftOrRunning(p *process) bool { return p.Running || p.Background }

// KillProcess kills a process and all that it has started, and returns when they have ended. It is
// no error if they had before.
func (s *Service) KillProcess(ctx context.Context, caller engine.Caller, session, id engine.ID) error {
	p, err := s.alive(ctx, caller, session, id, leftOrRunning)
	if errors.Is(err, engine.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.started.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, engine.ErrConflict) {
		return err
	}
	if err := p.output.await(ctx); err != nil {
		return err
	}
	select {
	case <-p.over:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	}
}
