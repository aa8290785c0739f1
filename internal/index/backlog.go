package index

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A run that has begun and ended, left no files and was started without a key
// is history: nobody waits for its record. Such records are gathered for a
// moment and written in one transaction, and so is that a run has begun of which
// nobody has heard. The next write takes them along, and whoever reads
// writes them first, so that nobody can tell; only a process that is killed
// within that moment loses them.

const (
	gatherTime = 5 * time.Millisecond  // of a run that has ended
	beginTime  = 25 * time.Millisecond // of one that goes on: its end may come first
	maxGather  = 256
)

// How often, and for how long at least, a run is tried that the disk does not
// take: a full one may have room again.
const (
	maxTries = 10
	tryTime  = 10 * time.Minute
)

type backlog struct {
	mu      sync.Mutex
	runs    []bufferedRun
	due     [2]bool      // a timer runs for those that have ended, or go on
	taken   int          // how often all were taken: timers of before that are void
	failing bool         // the last try failed: whoever comes next is told
	waiting atomic.Int32 // len(runs), or more while they are being written
}

// bufferedRun is a run that has ended or, without text, one that continues.
type bufferedRun struct {
	run      *engine.Run
	session  *engine.Session
	text     logText
	finished time.Time

	tries int       // that went wrong
	tried time.Time // the first of them
}

// InsertFinished records a run that is final, with its implicit session. Every later
// call of the index sees it; it is on its way to the disk when InsertFinished returns.
func (db *DB) InsertFinished(
	ctx context.Context, run *engine.Run, session *engine.Session, log []engine.OutputChunk,
) error {
	kept, err := db.ended(run, log)
	if err != nil {
		return failed("keep run", run.ID.String(), err)
	}
	kept.session = session
	return failed("keep run", run.ID.String(), db.store.add(ctx, kept))
}

// InsertStarted records a run that is running, and of which nobody has heard yet, with
// its implicit session, as InsertFinished does.
func (db *DB) InsertStarted(ctx context.Context, run *engine.Run, session *engine.Session) error {
	return failed("list run", run.ID.String(), db.store.add(ctx, bufferedRun{run: run, session: session}))
}

// ended makes a record of a final run.
func (db *DB) ended(run *engine.Run, log []engine.OutputChunk) (k bufferedRun, err error) {
	k = bufferedRun{run: run, finished: run.FinishedAt}
	if k.finished.IsZero() {
		k.finished = db.now()
	}
	k.text, err = joinLog(log, run)
	return k, err
}

func (l *local) add(ctx context.Context, k bufferedRun) error {
	if l.backlog.add(k, l.catchUp) {
		return nil
	}
	return l.write(ctx, noSync, nil, func(ctx context.Context, c *conn) error { return l.record(ctx, c, k) })
}

// add takes a run, unless there are enough or they cannot be written.
func (b *backlog) add(k bufferedRun, later func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing || len(b.runs) >= maxGather {
		return false
	}
	kind, wait := 0, gatherTime
	if !k.run.Status.Final() {
		kind, wait = 1, beginTime
	}
	if b.runs = append(b.runs, k); !b.due[kind] {
		b.due[kind] = true
		taken := b.taken
		time.AfterFunc(wait, func() {
			if b.untaken(taken) {
				later()
			}
		})
	}
	b.waiting.Store(int32(len(b.runs)))
	return true
}

// untaken reports whether nobody took what waited since.
func (b *backlog) untaken(taken int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken == taken
}

// takeAll is for who holds the writer. To everybody else the runs still wait,
// until they are resolved.
func (b *backlog) takeAll() []bufferedRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	runs := b.runs
	b.runs, b.due = nil, [2]bool{}
	b.taken++
	return runs
}

func (b *backlog) isFailing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing
}

// requeue ends the flush that takeAll began; runs are those to try again.
func (b *backlog) requeue(runs []bufferedRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = len(runs) > 0
	b.runs = append(runs, b.runs...)
	b.waiting.Store(int32(len(b.runs)))
}

// catchUp writes what was gathered.
func (l *local) catchUp() {
	if l.backlog.waiting.Load() == 0 {
		return
	}
	select {
	case writer := <-l.writer:
		defer func() { l.writer <- writer }()
		l.flush()
	case <-l.closed: // Close does it
	}
}

// flush is catchUp for the holder of the writer. What cannot be written stays in the
// buffer; a run that cannot be written alone is dropped.
func (l *local) flush() {
	if l.backlog.waiting.Load() == 0 {
		return
	}
	l.flushApart(l.backlog.takeAll())
}

// flushApart writes buffered runs in a transaction of its own.
func (l *local) flushApart(runs []bufferedRun) {
	if l.insertAll(runs) == nil {
		runs = nil
	} else {
		runs = l.insertEach(runs)
	}
	l.backlog.requeue(runs)
}

// flushWith writes the buffered runs in the transaction of do, which saves one; if
// that fails, each in its own. An end replaces the buffered start of its run; if
// there is none, do writes it.
func (l *local) flushWith(ctx context.Context, c *conn, end *bufferedRun, do func() error) error {
	if l.backlog.waiting.Load() == 0 {
		return c.within(ctx, "BEGIN IMMEDIATE", do)
	}
	runs := l.backlog.takeAll()
	write, replaced := withEnd(runs, end)
	begun := false
	err := c.within(ctx, "BEGIN IMMEDIATE", func() error {
		if err := l.insertBuffered(ctx, c, write); err != nil || replaced {
			return err
		}
		begun = true
		return do()
	})
	if err == nil {
		l.backlog.requeue(nil)
		return nil
	}
	l.flushApart(runs)
	if begun {
		return err
	}
	apart := c.within(ctx, "BEGIN IMMEDIATE", do)
	if errors.Is(apart, engine.ErrNotFound) && l.backlog.isFailing() {
		return err // what it looked for may be what cannot be written yet
	}
	return apart
}

// withEnd puts an end in the place of its run's beginning, if that is there.
func withEnd(runs []bufferedRun, end *bufferedRun) (_ []bufferedRun, replaced bool) {
	if end == nil {
		return runs, false
	}
	i := slices.IndexFunc(runs, func(k bufferedRun) bool { return k.run.ID == end.run.ID && !k.run.Status.Final() })
	if i < 0 {
		return runs, false
	}
	runs = slices.Clone(runs)
	end.session = runs[i].session
	runs[i] = *end
	return runs, true
}

// insertEach writes runs one by one and returns those to try again: none if any
// could be written, for then it is not the disk that keeps the others out.
func (l *local) insertEach(runs []bufferedRun) (again []bufferedRun) {
	var faults []error
	for _, k := range runs {
		if err := l.insertAll([]bufferedRun{k}); err != nil {
			again, faults = append(again, k), append(faults, err)
		}
	}
	kept := again[:0]
	for i, k := range again {
		if k.tries++; k.tries == 1 {
			k.tried = l.now()
		}
		// That one continues is never abandoned for want of room: its end would find no run.
		exhausted := k.run.Status.Final() && k.tries >= maxTries && l.now().Sub(k.tried) >= tryTime
		if exhausted || len(faults) < len(runs) || ownFault(faults[i]) {
			l.drop(k, faults[i])
			continue
		}
		kept = append(kept, k)
	}
	return kept
}

// flushLast is flush at the end: what fails is dropped.
func (l *local) flushLast() {
	l.flush()
	for _, k := range l.backlog.runs {
		l.drop(k, errClosed)
	}
}

// drop logs a run that is missing from its owner's list from now on.
func (l *local) drop(k bufferedRun, err error) {
	l.log.Error("a run could not be recorded", "run", k.run.ID, "tries", k.tries, "error", err)
}

func (l *local) insertAll(runs []bufferedRun) error {
	ctx := context.Background() //nolint:contextcheck // of many requests, and of none
	return l.noSync.within(ctx, "BEGIN IMMEDIATE", func() error {
		return l.insertBuffered(ctx, l.noSync, runs)
	})
}

func (l *local) insertBuffered(ctx context.Context, c *conn, runs []bufferedRun) error {
	for _, k := range runs {
		if err := l.record(ctx, c, k); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) insertBufferedRun(ctx context.Context, c *conn, k bufferedRun) error {
	session, r := *k.session, k.run
	if len(r.Files) > 0 || r.Keyed {
		return errors.New("only a run without files and without a key is kept this way")
	}
	if !r.Status.Final() {
		if err := insertSession(ctx, c, &session); err != nil {
			return err
		}
		return db.insertRun(ctx, c, r, "", engine.Digest{})
	}
	if used := k.finished.Add(session.TTL); used.After(session.ExpiresAt) {
		session.ExpiresAt = used
	}
	if err := insertSession(ctx, c, &session); err != nil {
		return err
	}
	_, err := c.exec(ctx, `INSERT INTO runs (id, owner, origin, session, language, status, exit_code, signal, truncated, duration_us,
		cpu_us, memory_peak, inputs, dropped, message, created_us, started_us, finished_us)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID[:], r.Owner, r.Origin, session.ID[:], r.Language, r.Status, r.ExitCode, r.Signal, r.Truncated,
		r.Duration.Microseconds(),
		r.CPU.Microseconds(), r.MemoryPeak, inputsColumn{&r.Inputs}, droppedColumn{&r.Dropped}, r.Message,
		r.CreatedAt.UnixMicro(), timeOrNull(r.StartedAt), k.finished.UnixMicro())
	if err != nil || len(k.text.chunks) == 0 && k.text.source == nil {
		return err
	}
	return db.insertLog(ctx, c, r, k.text)
}
