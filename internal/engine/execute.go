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

// completion is how a run ended, on its way to the index.
type completion struct {
	run     *Run
	chunks  []OutputChunk
	deleted []string // paths of inputs that are gone
	pinned  []Digest // blobs of run.Files, until the index knows them
	err     error    // instead of an outcome, for the caller who waits
	message string   // run.Message, before it said that the run was not recorded
	session *Session // implicit, and not recorded any more than the run
}

// execute carries a run through: it waits for its turn, runs the program,
// stores what came out, and publishes the result. It always ends the job.
func (s *Service) execute(ctx context.Context, j *job) {
	defer s.retire(j)
	defer j.cancel(nil)
	j.inUse = s.keep(ctx, j)
	defer j.inUse.end()
	end := s.attempt(ctx, j)
	defer func() {
		if fault := recover(); fault != nil {
			s.panicked(ctx, j, fault)
			end.interrupt(internalFault(j))
			j.publish(end)
		}
	}()
	j.timings.end("collect")
	s.conclude(context.WithoutCancel(ctx), j, end)
	j.timings.end("record")
	end.run.Timings = j.timings.all
	j.publish(end)
}

func (s *Service) panicked(ctx context.Context, j *job, fault any) {
	s.log.ErrorContext(ctx, "a run panicked", "run", j.id, "panic", fmt.Sprintf("%.200v", fault), "stack",
		string(debug.Stack()))
}

func internalFault(j *job) error {
	return &Error{Op: opRun, Kind: ErrInternal, ID: j.id.String(), Err: errors.New("internal fault")}
}

// attempt does all of a run that may go wrong. A panic in it, ours or that of
// an edge's code, ends this run and no other.
func (s *Service) attempt(ctx context.Context, j *job) (end *completion) {
	end = &completion{run: j.snapshot()}
	defer func() {
		if fault := recover(); fault != nil {
			s.panicked(ctx, j, fault)
			end.interrupt(internalFault(j))
		}
	}()
	waited, err := s.awaitSlot(ctx, j)
	s.meter.wait.observe(waited)
	j.timings.end("queue")
	if errors.Is(err, errCrowded) {
		s.meter.rejected.Add(1)
		end.err = s.queue.tooLong(j.maxWait, 0)
		end.run.Status = StatusCancelled
		end.run.Message = fmt.Sprintf("%s: its turn did not come within %v. Try again later.", gaveUp, j.maxWait)
		return end
	}
	if err != nil {
		end.run.Status = StatusCancelled
		end.run.Message = "The run was cancelled before it started: " + err.Error() + "."
		return end
	}
	if !j.deferredInsert.deferred {
		s.useSession(ctx, j.session, s.now())
	}
	stage, err := s.stage(ctx, j)
	defer stage.close()
	if err == nil {
		err = s.perform(ctx, j, stage, end)
	}
	switch {
	case err == nil:
	case context.Cause(ctx) != nil: // it failed because it was cancelled
		end.run.Status = StatusCancelled
		end.run.Message = "The run was cancelled: " + context.Cause(ctx).Error() + "."
	default:
		end.interrupt(failure(opRun, j.id.String(), err))
		if errors.Is(end.err, ErrUnavailable) || errors.Is(end.err, ErrInternal) {
			s.log.ErrorContext(ctx, "a run has no outcome", "run", j.id, "error", err)
		}
	}
	return end
}

// interrupt turns a completion into one without an outcome.
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

// knownCause is what a run's owner may know of a failure, after a colon.
func knownCause(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != "" {
		return ": " + e.Cause
	}
	return ""
}

// reason is an error's cause and cure, without what was being done.
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
// collecting, before we stop waiting for the sandbox to enforce it.
const sandboxGrace = time.Minute

var errSandboxGrace = errors.New("the sandbox did not end the program in time")

// specOf is what the sandbox is asked for.
func specOf(j *job, stage *stage) *Spec {
	p := &j.request.Profile
	spec := &Spec{
		Language: j.language, Packages: j.request.Packages, Code: j.request.Code, Args: j.request.Args,
		Stdin: j.request.Stdin,
		Root:  p.Root, Entry: p.Entry, Inline: p.Inline, Env: p.Env, Home: p.Home, Limits: p.Limits,
		Inputs: stage.inputs(), Calls: p.Host != nil, EchoLast: p.EchoLast, ShowPlots: p.ShowPlots, Globals: p.Globals,
		Folders: p.Folders, Merge: p.MergeOutput,
	}
	if len(stage.private) > 0 {
		spec.Stdin = slices.Concat(spec.Stdin, stage.private)
	}
	if j.session.Kind == SessionHeld || p.Live {
		spec.Held = j.session.ID
	}
	if p.Discard {
		spec.Limits.Files = FileLimit{}
	}
	switch {
	case p.Live:
		spec.Live, spec.Apart, spec.Limits.Timeout = true, p.Apart, endless
	case p.Host != nil:
		spec.Limits.Timeout += p.Pauses
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
	guarded, cancel := context.WithTimeoutCause(ctx, spec.Limits.Timeout+sandboxGrace, errSandboxGrace)
	defer cancel()
	guarded, stop := context.WithCancelCause(guarded)
	defer stop(nil)
	host := &host{job: j, service: s}
	if j.grant != nil {
		host.contacts = s.contacts(j.id, j.grant)
		defer func() { end.contacted(host.contacts.end()) }()
	}
	if p.Host != nil && (p.Pauses > 0 || p.Live) {
		host.pauses = newPauses(s.sandbox, s.queue, j.ticket, p, func() { stop(errSandboxGrace) })
		defer host.pauses.end()
	}
	j.timings.end("stage")
	run := s.sandbox.Run
	if j.session.restorable() {
		run = func(ctx context.Context, spec *Spec, host Host) (*Outcome, error) {
			return s.runHeld(ctx, j, spec, host)
		}
	}
	if p.Live {
		run = func(ctx context.Context, spec *Spec, host Host) (*Outcome, error) {
			return s.runLive(ctx, j, spec, host)
		}
	}
	outcome, err := run(guarded, spec, host)
	if errors.Is(err, ErrFull) && !spec.Held.IsZero() && s.evict(ctx, j.owner, spec.Limits.Workspace) {
		outcome, err = run(guarded, spec, host)
	}
	j.timings.end("sandbox")
	if err != nil {
		if spec.Held == j.session.ID && !p.Live && errors.Is(err, ErrNotFound) {
			s.forget(ctx, j.session)
			return &Error{Op: opRun, Kind: ErrNotFound, ID: fieldSession, Err: errors.New("its workspace is gone")}
		}
		return err
	}
	j.timings.split("program", outcome.Duration)
	defer closeOutputs(outcome.Outputs)
	if outcome.Cancelled && errors.Is(context.Cause(guarded), errSandboxGrace) {
		outcome.Cancelled, outcome.TimedOut = false, true
	}
	end.describe(outcome, p.Limits, context.Cause(ctx))
	// What the program left is kept also after a cancel.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if p.Discard {
		s.keepHeld(keep, j)
		return nil
	}
	s.collect(keep, j, stage, outcome, end)
	return nil
}

func closeOutputs(outputs []Output) {
	for _, output := range outputs {
		if output.File != nil {
			output.File.Close()
		}
	}
}

// conclude finishes and records a completion. Its files are durable before
// anybody hears of them.
func (s *Service) conclude(ctx context.Context, j *job, end *completion) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	run := end.run
	run.FinishedAt = s.now()
	end.chunks, run.Stdout, run.Stderr, run.Truncated = j.log.closeOutput()
	if len(run.Dropped) > 0 {
		run.Message = sentences(run.Message, droppedMessage(run.Dropped, j.request.Profile.Limits.Files))
	}
	err := s.ensureInserted(ctx, j, end)
	if errors.Is(err, ErrNotFound) { // nobody can ask for it: its session was deleted before it was recorded
		s.meter.ended(run)
		return
	}
	if err != nil {
		s.log.ErrorContext(ctx, "a run could not be recorded", "run", j.id, "error", err)
	}
	if err := s.record(ctx, end); err != nil {
		s.log.ErrorContext(ctx, "a run's end could not be recorded", "run", j.id, "error", err)
	}
	if end.session == nil {
		s.useSession(ctx, j.session, run.FinishedAt)
	}
	s.meter.ended(run)
}

// record writes a completion to the index. Should that fail with its files, as
// on a full disk, it is tried without them; should that fail too, the result
// is still published, and the janitor goes on trying.
func (s *Service) record(ctx context.Context, end *completion) error {
	err := s.finish(ctx, end.run, end)
	if s.cluster != nil && errors.Is(err, ErrConflict) {
		end.giveUp()
		err = nil
	}
	if err != nil && len(end.run.Files) > 0 {
		end.dropAll(reasonFor(err))
		err = s.index.FinishRun(ctx, end.run, end.chunks, end.deleted)
	}
	if err != nil {
		end.message = end.run.Message
		end.run.Message = sentences(end.message, "This result could not be recorded and may be lost.")
		s.queueRetry(end)
	}
	s.reclaim.unpin(end.pinned...)
	if len(end.run.Files) < len(end.pinned) { // files were discarded: nothing may refer to their blobs
		s.janitor.enqueueOrphans(end.pinned...)
	}
	end.pinned = nil
	return err
}

// giveUp makes of a completion what the index says of the run: this node was silent for
// so long that its peers took the run for lost.
func (e *completion) giveUp() {
	e.interrupt(&Error{Op: opRun, Kind: ErrUnavailable, ID: e.run.ID.String(), Err: errCutOff})
	e.run.Message = "The run was given up: its node did not answer the others for a while. Nothing of it was kept."
}

func (s *Service) finish(ctx context.Context, run *Run, end *completion) error {
	if end.session != nil {
		return s.index.InsertFinished(ctx, run, end.session, end.chunks)
	}
	return s.index.FinishRun(ctx, run, end.chunks, end.deleted)
}

// dropAll discards the files of a completion.
func (e *completion) dropAll(reason string) {
	for _, file := range e.run.Files {
		e.run.Dropped = append(e.run.Dropped, DroppedFile{Path: file.Path, Reason: reason})
	}
	for i := range e.run.Inputs {
		e.run.Inputs[i].Changed = false
	}
	e.run.Message = sentences(e.run.Message,
		droppedMessage(e.run.Dropped[len(e.run.Dropped)-len(e.run.Files):], FileLimit{}))
	e.run.Files = nil
}

// host is the world outside of one run.
type host struct {
	job      *job
	service  *Service
	contacts *contacts // nil: it has no network
	pauses   *pauses   // nil: waiting for an answer is running
}

func (h *host) Output(stream Stream, data []byte) {
	if resident, ok := h.job.request.Profile.Host.(Resident); ok && h.job.request.Profile.Live {
		resident.Output(stream, data)
		return
	}
	h.job.log.output(stream, data)
}

// Call passes a call on to the edge. Its panic must not reach the sandbox's
// goroutine, where it would end the service.
func (h *host) Call(ctx context.Context, name string, input []byte) (answer []byte, err error) {
	handler := h.job.request.Profile.Host
	if handler == nil {
		return nil, errors.New("this run has nobody to call")
	}
	defer func() {
		if fault := recover(); fault != nil {
			h.service.panicked(ctx, h.job, fault)
			answer, err = nil, errors.New("internal fault")
		}
	}()
	h.job.log.flushNow() // what was printed before a call is seen before it
	if h.pauses == nil {
		return handler.Call(ctx, name, input)
	}
	h.pauses.begin()
	answer, err = handler.Call(ctx, name, input)
	if late := h.pauses.resume(ctx); late != nil {
		return nil, late
	}
	if resident, ok := handler.(Resident); ok {
		resident.Resumed()
	}
	return answer, err
}
