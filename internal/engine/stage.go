package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// stage is the content of a workspace before a run: the files of the request,
// and the session's files at all other paths.
type stage struct {
	entries []staged
	known   map[string]File // the session's files by path, staged or not
	notes   []string        // about files that could not be staged
	memory  *File           // of a live session; nil: it has none
	private []byte          // appended to stdin
}

// staged is one file of a stage.
type staged struct {
	file     File
	path     string
	readOnly bool
	open     *os.File // nil where the sandbox needs none
}

// stage opens the inputs of a run. The caller closes the returned stage, also
// after an error.
func (s *Service) stage(ctx context.Context, j *job) (*stage, error) {
	st := &stage{known: map[string]File{}}
	if j.request.Profile.Live != nil {
		return st, nil // runLive stages its own files
	}
	taken := newTargets()
	if entry := s.entryOf(&j.request); entry != "" {
		taken.add(entry)
	}
	for _, ref := range j.request.Files {
		taken.add(ref.Path)
	}
	if err := s.stageRefs(ctx, opRun, st, j.request.Files, j.files); err != nil {
		return st, err
	}
	if err := s.stageSession(ctx, j, st, taken); err != nil {
		return st, err
	}
	return st, s.link(ctx, j)
}

// stageRefs adds the files that a request refers to. Errors name the reference.
func (s *Service) stageRefs(ctx context.Context, op string, st *stage, refs []FileRef, files []File) error {
	for i, ref := range refs {
		err := s.stageFile(ctx, st, staged{file: files[i], path: ref.Path, readOnly: ref.ReadOnly})
		if errors.Is(err, ErrNotFound) {
			return NotFound(op, ref.field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stageSession adds the files of the run's session. It omits files whose bytes
// are lost.
func (s *Service) stageSession(ctx context.Context, j *job, st *stage, taken *targets) error {
	if j.session.Implicit && j.request.Session.IsZero() {
		return nil // made for this run: it is empty
	}
	if err := s.retryUses(ctx); err != nil {
		return err
	}
	files, places, err := s.index.SessionFiles(ctx, j.owner, j.session.ID)
	if errors.Is(err, ErrNotFound) {
		return NotFound(opRun, j.sessionField())
	}
	if err != nil {
		return err
	}
	if j.session.Kind == SessionHeld {
		s.useHeld(ctx, j.session, files)
	}
	now, omitted := s.now(), 0
	for i, place := range places {
		if place.Path == MemoryMark {
			st.memory = &files[i]
			continue
		}
		st.known[place.Path] = files[i]
		if j.restores && len(st.entries) >= s.mostRestored() {
			omitted++
			continue
		}
		if j.session.Kind == SessionHeld && !j.restores ||
			!s.touches.expiry(files[i].life()).After(now) || !taken.add(place.Path) {
			continue
		}
		if place.Path == j.request.Profile.Files.Private {
			err = s.readPrivate(ctx, j, st, files[i])
		} else {
			err = s.stageFile(ctx, st, staged{file: files[i], path: place.Path, readOnly: place.ReadOnly})
		}
		if errors.Is(err, ErrNotFound) {
			st.notes = append(st.notes, fmt.Sprintf("%q was left out, its content is lost.", place.Path))
			continue
		}
		if err != nil {
			return err
		}
		s.use(ctx, s.now(), files[i].life())
		j.inUse.add(files[i].life())
	}
	if omitted > 0 {
		st.notes = append(st.notes, fmt.Sprintf("%d more files were left out, no more than %d come back at once.", omitted,
			len(st.entries)))
	}
	return nil
}

// mostRestored bounds the files of a restored workspace, which are all open at once.
func (s *Service) mostRestored() int { return min(3*s.cfg.Maxima.Files.Count, 10_000) }

// readPrivate reads the file of a session that is not put into the workspace, if the
// program is to have it.
func (s *Service) readPrivate(ctx context.Context, j *job, st *stage, file File) error {
	if !j.request.Profile.Files.PrivateInStdin {
		return nil
	}
	content, err := s.blobs.Read(ctx, file.SHA256, file.Size)
	if err != nil {
		return err
	}
	defer content.Close()
	st.private, err = io.ReadAll(content)
	return err
}

func (s *Service) stageFile(ctx context.Context, st *stage, entry staged) (err error) {
	if s.sandbox.Distant() {
		st.entries = append(st.entries, entry)
		return nil
	}
	if entry.open, err = s.blobs.Open(ctx, entry.file.SHA256, entry.file.Size); err != nil {
		return err
	}
	st.entries = append(st.entries, entry)
	return nil
}

// link puts the files of the request into the run's session, so that the next
// run finds them. It omits other owners' files: a session has one owner.
func (s *Service) link(ctx context.Context, j *job) error {
	var places []SessionFile
	for i, ref := range j.request.Files {
		if j.files[i].Owner == j.owner {
			places = append(places, SessionFile{Session: j.session.ID, File: ref.ID, Path: ref.Path, Role: RoleInput,
				ReadOnly: ref.ReadOnly})
		}
	}
	if len(places) == 0 {
		return nil
	}
	return s.index.LinkFiles(ctx, places)
}

// inputs returns the stage as the sandbox wants it.
func (st *stage) inputs() []Input {
	inputs := make([]Input, len(st.entries))
	for i, e := range st.entries {
		inputs[i] = Input{Path: e.path, File: e.open, Size: e.file.Size, SHA256: e.file.SHA256, ReadOnly: e.readOnly}
	}
	return inputs
}

// at returns the file that the workspace had at a path, if any.
func (st *stage) at(path string) (file File, readOnly, ok bool) {
	for _, e := range st.entries {
		if e.path == path {
			return e.file, e.readOnly, true
		}
	}
	file, ok = st.known[path]
	return file, false, ok
}

func (st *stage) close() {
	for _, e := range st.entries {
		if e.open != nil {
			e.open.Close()
		}
	}
}
