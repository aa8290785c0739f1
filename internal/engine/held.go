package engine

import "context"

// A held workspace on another machine may go with that, or with the api that knows where it
// is. What its runs left is stored after each of them, so that the workspace is made anew
// from it, on another machine.

// restoredNote is what a program's stderr begins with then: those who call may look at
// nothing else.
const restoredNote = "[The workspace of this session went with the machine that it was on. " +
	"It has its files as of the last run again; what ran in it has ended.]\n"

// restorable reports whether a session is one of those, also once it was taken over by a
// node that has its workspace itself.
func (s *Session) restorable() bool { return s.Kind == SessionHeld && s.Place.Worker != 0 }

// runHeld runs a program in its session's workspace, which is made again if it is gone.
func (s *Service) runHeld(ctx context.Context, j *job, spec *Spec, host Host) (*Outcome, error) {
	outcome, err := s.sandbox.Run(ctx, spec, host)
	if KindOf(err) != ErrNotFound || err == nil {
		return outcome, err
	}
	st := &stage{known: map[string]File{}}
	defer st.close()
	j.restores = true
	if err := s.stageSession(ctx, j, st, newTargets()); err != nil {
		return nil, err
	}
	if err := s.sandbox.Release(ctx, j.session.ID); err != nil { // what a former holder had
		return nil, err
	}
	if err := s.sandbox.Hold(ctx, j.session.ID, st.inputs(), spec.Limits); err != nil {
		return nil, err
	}
	host.Output(Stderr, []byte(restoredNote))
	return s.sandbox.Run(ctx, spec, host)
}

// keepHeld stores what a program has changed in a held workspace that can be restored.
func (s *Service) keepHeld(ctx context.Context, j *job) {
	if !j.session.restorable() {
		return
	}
	if _, err := s.SaveSession(ctx, j.session, j.request.Profile.Limits); err != nil {
		s.log.WarnContext(ctx, "files of a held session could not be stored: they are in its workspace alone", "session",
			j.session.ID, "error", err)
	}
}
