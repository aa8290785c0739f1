package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// execute waits for a slot, runs the program, stores its files, and publishes
// the result. It always ends the job.
func (s *Service) execute(ctx context.Context, j *job) {
	defer s.retire(j)
	defer j.cancel(nil)
	j.inUse = s.keep(ctx, j)
	defer j.inUse.end()
	defer j.insert.end()
	defer s.releaseVolumes(j)
	end := &completion{run: j.snapshot()}
	if err := s.guard(ctx, j, func() { s.attempt(ctx, j, end) }); err != nil {
		end.interrupt(err)
	}
	j.timings.end("collect")
	if err := s.guard(ctx, j, func() { s.conclude(context.WithoutCancel(ctx), j, end) }); err != nil {
		end.interrupt(err)
	} else {
		j.timings.end("record")
		end.run.Timings = j.timings.all
		if s.cfg.Traced != nil {
			s.cfg.Traced(ctx, end.run)
		}
	}
	end.run = end.published()
	j.publish(end)
}

// guard calls do. A panic in it, even in an edge's code, ends only this run.
func (s *Service) guard(ctx context.Context, j *job, do func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.log.ErrorContext(ctx, "a run panicked", "run", j.id, "panic", fmt.Sprintf("%.200v", fault), "stack",
				string(debug.Stack()))
			err = &Error{Op: opRun, Kind: ErrInternal, ID: j.id.String(), Err: errors.New("internal fault")}
		}
	}()
	do()
	return nil
}

// attempt does all of a run that may go wrong.
func (s *Service) attempt(ctx context.Context, j *job, end *completion) {
	waited, err := s.awaitSlot(ctx, j)
	s.meter.wait.observe(waited)
	j.timings.end("queue")
	if errors.Is(err, errCrowded) {
		end.err = s.queue.tooLong(j.maxWait, 0)
		s.meter.refuse(end.err)
		end.run.Status = StatusCancelled
		end.run.Message = fmt.Sprintf("The run was given up before it started: its turn did not come within %v. "+
			"Try again later.", j.maxWait)
		return
	}
	if err != nil {
		end.run.Status = StatusCancelled
		end.run.Message = "The run was cancelled before it started: " + err.Error() + "."
		return
	}
	if !j.deferred {
		s.use(ctx, s.now(), j.session.life())
	}
	stage, err := s.stage(ctx, j)
	defer stage.close()
	if err == nil {
		err = s.perform(ctx, j, stage, end)
	}
	switch {
	case err == nil:
		end.unkept = j.unkept
		end.missesFiles()
	case context.Cause(ctx) != nil: // it failed because it was cancelled
		end.run.Status = StatusCancelled
		end.run.Message = "The run was cancelled: " + context.Cause(ctx).Error() + "."
	default:
		end.interrupt(failure(opRun, j.id.String(), err))
		if errors.Is(end.err, ErrUnavailable) || errors.Is(end.err, ErrInternal) {
			s.log.ErrorContext(ctx, "a run has no outcome", "run", j.id, "error", err)
		}
	}
}

// interrupt removes the outcome from a completion.
func (e *completion) interrupt(err error) {
	e.err = err
	e.run.Status, e.run.NoRoom = StatusInterrupted, errors.Is(err, ErrFull)
	e.run.ExitCode, e.run.Signal = nil, ""
	e.run.Files, e.run.Inputs, e.deleted = nil, nil, nil
	switch {
	case errors.Is(err, ErrUnavailable):
		e.run.Message = "The sandbox failed, so that the outcome is not known" + knownCause(err) + "."
	case errors.Is(err, ErrInternal):
		e.run.Message = "The service failed, so that the outcome is not known."
	default:
		e.run.Message = "The program was not run: " + reason(err) + "."
	}
}

// knownCause returns the part of a failure that a run's owner may see, after a colon.
func knownCause(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != "" {
		return ": " + e.Cause
	}
	return ""
}

// reason returns an error's cause and hint, without the operation.
func reason(err error) string {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || e.Err == nil:
		return err.Error()
	case e.Hint == "":
		return e.Err.Error()
	}
	return e.Err.Error() + ". " + strings.ToUpper(e.Hint[:1]) + strings.TrimSuffix(e.Hint[1:], ".")
}

// sandboxGrace is how long after its own limit a run may take, for staging and
// collecting, before the service stops waiting for the sandbox to enforce it.
const sandboxGrace = time.Minute

// fetchGrace is how long a machine may take in addition to fetch the files of an image.
const fetchGrace = 10 * time.Minute

var errSandboxGrace = errors.New("the sandbox did not end the program in time")

// specOf returns the request to the sandbox.
func specOf(j *job, stage *stage) *Spec {
	p := &j.request.Profile
	spec := &Spec{
		Owner: j.owner.Account(), Language: j.language, Packages: j.request.Packages, Image: j.image, Wall: j.wall,
		Code: j.request.Code, Args: j.request.Args,
		Stdin: j.request.Stdin,
		Root:  p.Program.Root, Entry: p.Program.Entry, Inline: p.Program.Inline, Home: p.Program.Home, Limits: p.Limits,
		Inputs: stage.inputs(), Calls: p.Calls.Handler != nil, EchoLast: p.Output.EchoLast, ShowPlots: p.Files.Plots,
		Globals: p.Program.Globals, Locale: p.Program.Locale,
		Folders: p.Files.Folders, Merge: p.Output.Merge, Mounts: j.request.Mounts,
		Volumes: j.places,
	}
	if len(stage.private) > 0 {
		spec.Stdin = slices.Concat(spec.Stdin, stage.private)
	}
	if j.session.Kind == SessionHeld || p.Live != nil {
		spec.Held, spec.Generation = j.session.ID, j.session.Place.Generation
	}
	if p.Files.Discard {
		spec.Limits.Files = FileLimit{}
	}
	switch {
	case p.Live != nil:
		spec.Live, spec.Apart, spec.Limits.Timeout = true, p.Live.Apart, endless
		spec.Imports = p.Live.Imports
	case p.Calls.Handler != nil:
		spec.Limits.Timeout += p.Calls.Pauses
	}
	if j.grant != nil {
		spec.Network = j.grant.network()
	}
	return spec
}

// perform runs the program and fills in the completion.
func (s *Service) perform(ctx context.Context, j *job, stage *stage, end *completion) error {
	p, spec := &j.request.Profile, specOf(j, stage)
	j.started(s.now())
	end.run = j.snapshot()
	grace := sandboxGrace
	if spec.Image != nil && spec.Image.Archive != nil {
		grace += fetchGrace
	}
	guarded, cancel := context.WithTimeoutCause(ctx, spec.Limits.Timeout+grace, errSandboxGrace)
	defer cancel()
	guarded, stop := context.WithCancelCause(guarded)
	defer stop(nil)
	host := &host{job: j, service: s, last: tail{size: symptomBytes}}
	if j.grant != nil {
		host.contacts = s.contacts(j.id, j.grant)
		defer func() { end.contacted(host.contacts.end()) }()
	}
	if p.Calls.Handler != nil && (p.Calls.Pauses > 0 || p.Live != nil) {
		host.pauses = newPauses(s.sandbox, s.queue, j.ticket, p, func() { stop(errSandboxGrace) })
		defer host.pauses.end()
	}
	volumes, err := s.watchVolumes(ctx, j, spec, stop)
	if err != nil {
		return err
	}
	j.timings.end("stage")
	outcome, err := s.runProgram(guarded, j, spec, host)
	if errors.Is(err, ErrFull) && !spec.Held.IsZero() && s.evict(ctx, j.owner, spec.Limits.Workspace) {
		outcome, err = s.runProgram(guarded, j, spec, host)
	}
	j.timings.end("sandbox")
	volumes.finish(ctx)
	if err != nil {
		if spec.Held == j.session.ID && p.Live == nil && errors.Is(err, ErrNotFound) {
			s.forget(ctx, j.session)
			return &Error{Op: opRun, Kind: ErrNotFound, ID: j.sessionField(), Err: errors.New("its workspace is gone")}
		}
		return err
	}
	j.timings.split("program", outcome.Duration)
	if p.Live == nil {
		end.run.Hint = s.addHint(ctx, j, outcome, string(host.last.bytes()))
	}
	defer closeOutputs(outcome.Outputs)
	if outcome.Cancelled && errors.Is(context.Cause(guarded), errSandboxGrace) {
		outcome.Cancelled, outcome.TimedOut = false, true
	}
	end.describe(outcome, p.Limits, context.Cause(ctx))
	volumes.describe(outcome, end.run)
	// The program's files are kept also after a cancel.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if p.Files.Discard {
		if j.session.Kind == SessionHeld { // files of a live session are kept with its cells
			s.keepHeld(keep, j)
		}
		return nil
	}
	names := s.addWholes(keep, j, stage, outcome)
	s.collect(keep, j, stage, outcome, end)
	j.log.nameWholes(names, end.run.Files)
	return nil
}

// missesFiles has a run that ended well end in an error if files that it left could not be stored.
func (e *completion) missesFiles() {
	n := Unstored(e.run.Dropped) - e.unkept
	if e.run.Status == StatusOK && n > 0 {
		e.run.Status = StatusError
		e.run.Message = sentences(e.run.Message,
			fmt.Sprintf("The program ended well, but %d of its files could not be stored.", n))
	}
}

// Unstored returns how many of the files that were not kept could not be stored, by no fault of the program's own and
// within all limits that its caller knows: who does not look at what was dropped would take them for stored.
func Unstored(dropped []DroppedFile) (n int) {
	for _, d := range dropped {
		switch d.Reason {
		case DropUnstored, DropDiskFull, DropSlow:
			n += 1 + d.More
		}
	}
	return n
}

// runProgram runs a program in the sandbox. It restores the workspace if that was lost.
func (s *Service) runProgram(ctx context.Context, j *job, spec *Spec, host *host) (*Outcome, error) {
	switch {
	case j.request.Profile.Live != nil:
		return s.runLive(ctx, j, spec, host)
	case j.session.Kind == SessionHeld:
		return s.runHeld(ctx, j, spec, host)
	}
	return s.sandbox.Run(ctx, spec, host)
}

func closeOutputs(outputs []Output) {
	for _, output := range outputs {
		if output.File != nil {
			output.File.Close()
		}
	}
}

// host is the Host of one run.
type host struct {
	job      *job
	service  *Service
	contacts *contacts // nil: the run has no network
	pauses   *pauses   // nil: waiting for an answer is running
	last     tail      // of what the program wrote to its messageStream
}

func (h *host) Output(stream Stream, data []byte) {
	if resident := h.job.request.Profile.resident(); resident != nil {
		resident.Output(stream, data)
		return
	}
	if stream == messageStream(&h.job.request.Profile) {
		h.last.write(data)
	}
	h.job.log.output(stream, data)
	if tap := h.job.request.Profile.Output.Tap; tap != nil {
		tap(stream, data)
	}
}

// Call passes a call on to the edge. Its panic must not reach the sandbox's
// goroutine, where it would end the service.
func (h *host) Call(ctx context.Context, name string, input []byte) (answer []byte, err error) {
	handler := h.job.request.Profile.Calls.Handler
	if handler == nil {
		return nil, errors.New("this run has nobody to call")
	}
	fault := h.service.guard(ctx, h.job, func() { answer, err = h.call(ctx, handler, name, input) })
	if fault != nil {
		return nil, errors.New("internal fault")
	}
	return answer, err
}

func (h *host) call(ctx context.Context, handler CallHandler, name string, input []byte) ([]byte, error) {
	h.job.log.flushNow() // output printed before a call precedes the call
	if h.pauses == nil {
		return handler.Call(ctx, name, input)
	}
	h.pauses.addCall()
	answer, err := handler.Call(ctx, name, input)
	if late := h.pauses.resume(ctx); late != nil {
		return nil, late
	}
	if resident := h.job.request.Profile.resident(); resident != nil {
		resident.Resumed()
	}
	return answer, err
}
