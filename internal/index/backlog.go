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
	runs    []keptRun
	due     [2]bool      // a timer runs for those that have ended, or go on
	taken   int          // how often all were taken: timers of before that are void
	failing bool         // the last try failed: whoever comes next is told
	waiting atomic.Int32 // len(runs), or more while they are being written
}

// keptRun is a run that has ended or, without text, one that goes on.
type keptRun struct {
	run      *engine.Run
	session  *engine.Session
	text     logText
	finished time.Time

	tries int       // that went wrong
	tried time.Time // the first of them
}

// KeepRun records a run that is final, with its implicit session. Every later
// call of the index sees it; it is on its way to the disk when KeepRun returns.
func (db *DB) KeepRun(ctx context.Context, run *engine.Run, session *engine.Session, log []engine.OutputChunk) error {
	kept, err := db.ended(run, log)
	if err != nil {
		return failed("keep run", run.ID.String(), err)
	}
	kept.session = session
	return db.gather(ctx, "keep run", kept)
}

// ListRun records a run that goes on, and of which nobody has heard yet, with
// its implicit session, as KeepRun does.
func (db *DB) ListRun(ctx context.Context, run *engine.Run, session *engine.Session) error {
	return db.gather(ctx, "list run", keptRun{run: run, session: session})
}

// ended makes a record of a final run.
func (db *DB) ended(run *engine.Run, log []engine.OutputChunk) (k keptRun, err error) {
	k = keptRun{run: run, finished: run.FinishedAt}
	if k.finished.IsZero() {
		k.finished = db.now()
	}
	k.text, err = joinLog(log, run)
	return k, err
}

func (db *DB) gather(ctx context.Context, op string, k keptRun) error {
	if db.backlog.add(k, db.catchUp) {
		return nil
	}
	return db.writeLightly(ctx, op, k.run.ID.String(), func(ctx context.Context, c *conn) error {
		return db.insertKept(ctx, c, k)
	})
}

// add takes a run, unless there are enough or they cannot be written.
func (b *backlog) add(k keptRun, later func()) bool {
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
// until they are settled.
func (b *backlog) takeAll() []keptRun {
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

// settled says what of that is left to try again.
func (b *backlog) settled(runs []keptRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = len(runs) > 0
	b.runs = append(runs, b.runs...)
	b.waiting.Store(int32(len(b.runs)))
}

// catchUp writes what was gathered.
func (db *DB) catchUp() {
	if db.backlog.waiting.Load() == 0 {
		return
	}
	select {
	case writer := <-db.writer:
		defer func() { db.writer <- writer }()
		db.settle()
	case <-db.closed: // Close does it
	}
}

// settle is catchUp for who holds the writer. What cannot be written stays for
// the next time; a run that alone cannot be is given up.
func (db *DB) settle() {
	if db.backlog.waiting.Load() == 0 {
		return
	}
	db.settleApart(db.backlog.takeAll())
}

// settleApart writes what was gathered in a transaction of its own.
func (db *DB) settleApart(runs []keptRun) {
	if db.insertAll(runs) == nil {
		runs = nil
	} else {
		runs = db.insertEach(runs)
	}
	db.backlog.settled(runs)
}

// settleWith writes what was gathered in the transaction of do, which is one
// less; where that fails, each by itself. With an end it writes that in the
// place of its run's beginning, if that is there, and else does.
func (db *DB) settleWith(ctx context.Context, c *conn, end *keptRun, do func() error) error {
	if db.backlog.waiting.Load() == 0 {
		return c.within(ctx, "BEGIN IMMEDIATE", do)
	}
	runs := db.backlog.takeAll()
	write, replaced := withEnd(runs, end)
	begun := false
	err := c.within(ctx, "BEGIN IMMEDIATE", func() error {
		if err := db.insertKepts(ctx, c, write); err != nil || replaced {
			return err
		}
		begun = true
		return do()
	})
	if err == nil {
		db.backlog.settled(nil)
		return nil
	}
	db.settleApart(runs)
	if begun {
		return err
	}
	apart := c.within(ctx, "BEGIN IMMEDIATE", do)
	if errors.Is(apart, engine.ErrNotFound) && db.backlog.isFailing() {
		return err // what it looked for may be what cannot be written yet
	}
	return apart
}

// withEnd puts an end in the place of its run's beginning, if that is there.
func withEnd(runs []keptRun, end *keptRun) (_ []keptRun, replaced bool) {
	if end == nil {
		return runs, false
	}
	i := slices.IndexFunc(runs, func(k keptRun) bool { return k.run.ID == end.run.ID && !k.run.Status.Final() })
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
func (db *DB) insertEach(runs []keptRun) (again []keptRun) {
	var faults []error
	for _, k := range runs {
		if err := db.insertAll([]keptRun{k}); err != nil {
			again, faults = append(again, k), append(faults, err)
		}
	}
	kept := again[:0]
	for i, k := range again {
		if k.tries++; k.tries == 1 {
			k.tried = db.now()
		}
		// That one goes on is never given up for want of room: its end would find no run.
		tired := k.run.Status.Final() && k.tries >= maxTries && db.now().Sub(k.tried) >= tryTime
		if tired || len(faults) < len(runs) || ownFault(faults[i]) {
			db.giveUp(k, faults[i])
			continue
		}
		kept = append(kept, k)
	}
	return kept
}

// settleLast is settle for when there is no next time.
func (db *DB) settleLast() {
	db.settle()
	for _, k := range db.backlog.runs {
		db.giveUp(k, errClosed)
	}
}

// giveUp tells of a run that will not be found among those of its owner.
func (db *DB) giveUp(k keptRun, err error) {
	db.log.Error("a run could not be recorded", "run", k.run.ID, "tries", k.tries, "error", err)
}

func (db *DB) insertAll(runs []keptRun) error {
	ctx := context.Background() //nolint:contextcheck // of many requests, and of none
	return db.light.within(ctx, "BEGIN IMMEDIATE", func() error {
		return db.insertKepts(ctx, db.light, runs)
	})
}

func (db *DB) insertKepts(ctx context.Context, c *conn, runs []keptRun) error {
	for _, k := range runs {
		if err := db.insertKept(ctx, c, k); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) insertKept(ctx context.Context, c *conn, k keptRun) error {
	session, r := *k.session, k.run
	if len(r.Files) > 0 || r.Keyed {
		return errors.New("only a run without files and without a key is kept this way")
	}
	if !r.Status.Final() {
		if err := insertSession(ctx, c, &session); err != nil {
			return err
		}
		return insertRun(ctx, c, r, "", engine.Digest{})
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
		r.ID[:], r.Owner, r.Origin, session.ID[:], r.Language, r.Status, r.ExitCode, r.Signal, r.Truncated, r.Duration.Microseconds(),
		r.CPU.Microseconds(), r.MemoryPeak, inputsColumn{&r.Inputs}, droppedColumn{&r.Dropped}, r.Message,
		r.CreatedAt.UnixMicro(), timeOrNull(r.StartedAt), k.finished.UnixMicro())
	if err != nil || len(k.text.chunks) == 0 {
		return err
	}
	return db.insertLog(ctx, c, r, k.text)
}
