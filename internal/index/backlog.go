package index

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A run that has begun and ended, left no files and was started without a key
// is history: nobody waits for its record. Such records are gathered for a
// moment and written in one transaction. Whatever else is done with the index
// writes them first, so that nobody can tell; only a process that is killed
// within that moment loses them.

const (
	gatherTime = 5 * time.Millisecond
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
	failing bool         // the last try failed: whoever comes next is told
	waiting atomic.Int32 // len(runs)
}

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
	text, err := joinLog(log, run)
	if err != nil {
		return failed("keep run", run.ID.String(), err)
	}
	kept := keptRun{run: run, session: session, text: text, finished: run.FinishedAt}
	if kept.finished.IsZero() {
		kept.finished = db.now()
	}
	if db.backlog.add(kept, db.catchUp) {
		return nil
	}
	return db.writeLightly(ctx, "keep run", run.ID.String(), func(ctx context.Context, c *conn) error {
		return db.insertKept(ctx, c, kept)
	})
}

// add takes a run, unless there are enough or they cannot be written.
func (b *backlog) add(k keptRun, later func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing || len(b.runs) >= maxGather {
		return false
	}
	if b.runs = append(b.runs, k); len(b.runs) == 1 {
		time.AfterFunc(gatherTime, later)
	}
	b.waiting.Store(int32(len(b.runs)))
	return true
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
	b := &db.backlog
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	runs := b.runs
	b.runs = nil
	b.mu.Unlock()
	if db.insertAll(runs) == nil {
		runs = nil
	} else {
		runs = db.insertEach(runs)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = len(runs) > 0
	b.runs = append(runs, b.runs...)
	b.waiting.Store(int32(len(b.runs)))
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
		tired := k.tries >= maxTries && db.now().Sub(k.tried) >= tryTime
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
		for _, k := range runs {
			if err := db.insertKept(ctx, db.light, k); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db *DB) insertKept(ctx context.Context, c *conn, k keptRun) error {
	if !k.run.Status.Final() || len(k.run.Files) > 0 || k.run.Keyed {
		return errors.New("only a final run without files and without a key is kept this way")
	}
	session, r := *k.session, k.run
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
