package live

import (
	"context"
	"io"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// wholeStream is all output of one stream of a process, of which the middle is no longer in memory. It is
// written to a file of the workspace as it comes.
type wholeStream struct {
	stored string     // name of the file until the process has ended
	done   chan error // of the store

	mu      sync.Mutex
	changed *sync.Cond
	pending [][]byte
	waiting int // bytes that are pending
	size    int64
	ended   bool // nothing follows
	full    bool // the store takes nothing more
}

// keep begins to write a stream, of which all is given.
func (p *process) keep(all [][]byte) *wholeStream {
	at := p.session
	w := &wholeStream{stored: wholePrefix + engine.NewID().String(), done: make(chan error, 1)}
	w.changed = sync.NewCond(&w.mu)
	for _, b := range all {
		w.put(b)
	}
	most := at.wholeLimit()
	at.service.work.Go(func() {
		_, err := at.files().Write(context.Background(), w.stored, io.LimitReader(w, most))
		w.mu.Lock()
		w.full, w.pending = true, nil
		w.changed.Broadcast()
		w.mu.Unlock()
		w.done <- err
	})
	return w
}

// put adds bytes, which do not change any more. It does not wait: see await.
func (w *wholeStream) put(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size += int64(len(b)); w.full {
		return
	}
	w.pending, w.waiting = append(w.pending, b), w.waiting+len(b)
	w.changed.Broadcast()
}

// await waits until few bytes are pending.
func (w *wholeStream) await() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.full && w.waiting > keptOutput {
		w.changed.Wait()
	}
}

// Read implements io.Reader, for the store.
func (w *wholeStream) Read(b []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) == 0 && !w.ended {
		w.changed.Wait()
	}
	if len(w.pending) == 0 {
		return 0, io.EOF
	}
	n = copy(b, w.pending[0])
	if w.pending[0] = w.pending[0][n:]; len(w.pending[0]) == 0 {
		w.pending = w.pending[1:]
	}
	w.waiting -= n
	w.changed.Broadcast()
	return n, nil
}

// end ends the stream and returns when it is stored.
func (w *wholeStream) end() (size int64, err error) {
	w.mu.Lock()
	w.ended = true
	w.changed.Broadcast()
	w.mu.Unlock()
	err = <-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size, err
}

// nameWholes gives names to the files of a process's output.
func (p *process) nameWholes() {
	at, o := p.session, &p.output
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	for _, stream := range []ProcessEventType{ProcessStdout, ProcessStderr, ProcessTerminal} {
		w := o.endWhole(stream)
		if w == nil {
			continue
		}
		size, err := w.end()
		file := WholeFile{Bytes: min(size, at.wholeLimit()), Whole: size <= at.wholeLimit()}
		if err == nil {
			as := engine.Stdout
			if stream == ProcessStderr {
				as = engine.Stderr
			}
			file.Path, err = at.nameFile(ctx, as, w.stored)
		}
		if file.Path == "" {
			at.service.log.Warn("the output of a process could not be kept whole", "session", at.record.ID,
				"reason", unkeptReason(err))
			continue
		}
		o.name(file)
	}
}

// WholeFile is a file of the workspace with the output of a process, from its beginning on.
type WholeFile struct {
	Path  string
	Bytes int64
	Whole bool // it has all of its stream
}
