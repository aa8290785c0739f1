package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Whole keeps all of an output stream whose Capture leaves out the middle. What the capture has room
// for is held in memory. As soon as there is more, all of it goes to a store, as it arrives.
type Whole struct {
	memory int   // bytes held, at most
	most   int64 // bytes stored, at most: those at the beginning
	store  func(io.Reader) error

	held   []byte
	size   int64          // bytes written
	pipe   *io.PipeWriter // to the store; nil: all is held
	stored chan error
	ended  bool
}

var errNotWanted = errors.New("the output is not wanted")

func (w *Whole) write(p []byte) {
	if w.ended {
		return
	}
	w.size += int64(len(p))
	if w.pipe == nil && len(w.held)+len(p) <= w.memory {
		w.held = append(w.held, p...)
		return
	}
	w.start()
	_, _ = w.pipe.Write(p) // of a store that has failed, or has enough, end tells
}

func (w *Whole) start() {
	if w.pipe != nil {
		return
	}
	r, pipe := io.Pipe()
	w.pipe, w.stored = pipe, make(chan error, 1)
	go func() { // end waits for it
		err := w.store(io.LimitReader(r, w.most))
		r.CloseWithError(errNotWanted)
		w.stored <- err
	}()
	_, _ = pipe.Write(w.held)
	w.held = nil
}

// end returns when all is stored.
func (w *Whole) end() error {
	w.start()
	w.pipe.Close()
	w.pipe, w.ended = nil, true
	return <-w.stored
}

// drop makes the store fail, which then has stored nothing.
func (w *Whole) drop() {
	if w.held = nil; w.ended {
		return
	}
	w.size = 0
	if w.pipe != nil {
		w.pipe.CloseWithError(errNotWanted)
		<-w.stored //nolint:errcheck // it was not wanted
		w.pipe = nil
	}
}

// KeepWhole makes the capture keep all of its stream, up to a number of bytes, in case that it leaves out
// the middle. The store reads the stream while it is written, and returns an error if the reader does.
// The caller calls EndWhole.
func (c *Capture) KeepWhole(most int64, store func(io.Reader) error) {
	longest := len(LeftOut(1<<63-1, wholeName(Stdout, maxWholes), 1<<63-1))
	if c.mark != defaultMarker || !c.tail || longest > c.limit/2 {
		return
	}
	c.room = longest
	c.head = (c.limit - c.room) / 2
	c.whole = &Whole{memory: c.limit, most: most, store: store}
}

// EndWhole ends the stream. If its middle is left out, EndWhole reports so, and returns when the whole
// is stored, or why it is not.
func (c *Capture) EndWhole() (cut bool, err error) {
	c.close()
	if c.whole == nil {
		return false, nil
	}
	if !c.isCut() {
		c.whole.drop()
		return false, nil
	}
	return true, c.whole.end()
}

// NameWhole sets the name of the file that has the whole, for the marker.
func (c *Capture) NameWhole(name string) { c.name = name }

// LeftOut returns the line that stands for so many bytes of output, of which the first bytes are in a file;
// first 0: all of them; no name: none.
func LeftOut(dropped int64, name string, first int64) string {
	where := ""
	switch {
	case name == "":
	case first > 0:
		where = fmt.Sprintf("; its first %d bytes are in %s", first, name)
	default:
		where = "; all of it is in " + name
	}
	return fmt.Sprintf("\n[... %d bytes of output left out%s ...]\n", dropped, where)
}

// maxWholes bounds the files of one name that one session has.
const maxWholes = 9

// wholeName returns the n-th name of the file for a whole stream.
func wholeName(stream Stream, n int) string {
	if n == 1 {
		return string(stream) + ".txt"
	}
	return fmt.Sprintf("%s_%d.txt", stream, n)
}

// WholeName returns the first free name of the file for a whole stream, or "" if none is free.
func WholeName(stream Stream, taken func(string) bool) string {
	for n := 1; n <= maxWholes; n++ {
		if name := wholeName(stream, n); !taken(name) {
			return name
		}
	}
	return ""
}

// keepWholes has the job's log keep whole what it leaves the middle out of, unless its files are not wanted.
func (s *Service) keepWholes(ctx context.Context, j *job) {
	p := &j.request.Profile
	if p.Files.Discard || p.Live != nil || p.Output.Whole || p.Output.Tap != nil {
		return
	}
	most := min(p.Limits.Files.Bytes, p.Limits.Files.Total)
	for stream, c := range j.log.streams {
		stored := new(Blob)
		j.wholes[stream] = stored
		c.KeepWhole(most, func(r io.Reader) error {
			blob, err := s.blobs.Put(ctx, r, most)
			*stored = blob // read after EndWhole
			return err
		})
	}
}

// addWholes adds output that was stored whole to what a program left. It returns the names.
func (s *Service) addWholes(ctx context.Context, j *job, st *stage, outcome *Outcome) map[Stream]string {
	names := map[Stream]string{}
	for _, stream := range []Stream{Stdout, Stderr} {
		cut, err := j.log.endWhole(stream)
		if !cut {
			continue
		}
		name := WholeName(stream, func(name string) bool { return isTaken(name, st, outcome) })
		switch {
		case err != nil:
			if KindOf(err) == ErrInternal {
				s.log.ErrorContext(ctx, "a run's output could not be stored", "run", j.id, "error", err)
			}
			d := DroppedFile{Path: wholeName(stream, 1), Reason: reasonFor(err)}
			outcome.Dropped = append(outcome.Dropped, d)
			j.unkept += Unstored([]DroppedFile{d})
		case name == "":
			s.discardBlob(j.wholes[stream].SHA256)
			outcome.Dropped = append(outcome.Dropped, DroppedFile{Path: wholeName(stream, 1), Reason: DropTooMany})
		default:
			names[stream] = name
			outcome.Outputs = append(outcome.Outputs, Output{Path: name, Blob: *j.wholes[stream]})
		}
	}
	return names
}

// isTaken reports whether the program has a file of that name, or a folder.
func isTaken(name string, st *stage, outcome *Outcome) bool {
	at := func(path string) bool { return path == name || strings.HasPrefix(path, name+"/") }
	for _, o := range outcome.Outputs {
		if at(o.Path) {
			return true
		}
	}
	for _, d := range outcome.Dropped {
		if at(d.Path) {
			return true
		}
	}
	for _, e := range st.entries {
		if at(e.path) {
			return true
		}
	}
	for path := range st.known {
		if at(path) {
			return true
		}
	}
	return false
}

// nameWholes names the files that were kept in the lines that stand for what was left out.
func (l *runLog) nameWholes(names map[Stream]string, kept []File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for stream, name := range names {
		for i := range kept {
			if kept[i].Path == name {
				l.streams[stream].NameWhole(name)
			}
		}
	}
}

func (l *runLog) endWhole(stream Stream) (cut bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[stream].EndWhole()
}
