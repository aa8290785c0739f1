package index

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const runColumns = `id, owner, origin, session, language, status, exit_code, signal, truncated, duration_us, cpu_us,
	memory_peak, inputs, dropped, message, created_us, started_us, finished_us, node, start, image, wall, name, hint`

func scanRun(row scanner) (r engine.Run, err error) {
	err = row.Scan(idColumn{&r.ID}, &r.Owner, &r.Origin, idColumn{&r.Session}, &r.Language, &r.Status, &r.ExitCode,
		&r.Signal,
		&r.Truncated, durationColumn{&r.Duration}, durationColumn{&r.CPU}, &r.MemoryPeak, listOf(&r.Inputs),
		listOf(&r.Dropped), &r.Message, timeColumn{&r.CreatedAt}, timeColumn{&r.StartedAt}, timeColumn{&r.FinishedAt},
		&r.Node, &r.Start, &r.Image, &r.Wall, &r.Name, &r.Hint)
	return r, err
}

// StartRun records a run that is not final, with its implicit session if that
// is not nil. A run in a session that was there before counts as a use of it,
// and fails with engine.ErrNotFound if that was deleted.
//
// With a key that this owner has used before nothing is recorded, and the
// earlier run's ID is returned: with engine.ErrConflict if the fingerprint of
// the request differs.
//
// Without a key it does not wait for the disk.
func (db *DB) StartRun(
	ctx context.Context, run *engine.Run, session *engine.Session, key string, fingerprint engine.Digest,
) (earlier engine.ID, err error) {
	write := db.writeNoSync
	if key != "" {
		write = db.write
	}
	err = write(ctx, "start run", run.ID.String(), func(ctx context.Context, c *conn) error {
		if key != "" {
			earlier, err = earlierRun(ctx, c, run.Owner, key, fingerprint)
			if !errors.Is(err, engine.ErrNotFound) {
				return err
			}
		}
		if session != nil {
			if err := insertSession(ctx, c, session); err != nil {
				return err
			}
		} else if !run.Session.IsZero() {
			if err := changed(c.exec(ctx, touchSession+" AND owner = $3 AND expires_us > $4",
				run.CreatedAt.UnixMicro(), run.Session[:], run.Owner, db.micros())); err != nil {
				return failed("start run", run.Session.String(), err)
			}
		}
		err := db.insertRun(ctx, c, run, key, fingerprint)
		if key != "" && code(err) == uniqueViolation {
			return errors.Join(errRepeat, err)
		}
		return err
	})
	return earlier, err
}

// EarlierRun returns the run that an owner has started with a key:
// engine.ErrNotFound if there is none, and with engine.ErrConflict if the
// fingerprint of its request differs.
func (db *DB) EarlierRun(
	ctx context.Context, owner engine.Owner, key string, fingerprint engine.Digest,
) (id engine.ID, err error) {
	err = db.look(ctx, "find earlier run", "", func(c *conn) error {
		id, err = earlierRun(ctx, c, owner, key, fingerprint)
		return err
	})
	return id, err
}

// earlierRun finds the run that an owner has started with a key.
func earlierRun(
	ctx context.Context, c *conn, owner engine.Owner, key string, fingerprint engine.Digest,
) (id engine.ID, err error) {
	var first engine.Digest
	err = c.row(ctx, []any{idColumn{&id}, digestColumn{&first}},
		"SELECT id, request_fingerprint FROM runs WHERE owner = $1 AND request_key = $2", owner, key)
	if err == nil && first != fingerprint {
		err = &engine.Error{Op: "start run", Kind: engine.ErrConflict, ID: id.String(),
			Hint: "This idempotency key belongs to an earlier, different request: use a fresh key for each request.",
			Err:  errors.New("the idempotency key was used for another request")}
	}
	return id, err
}

func (db *DB) insertRun(ctx context.Context, c *conn, r *engine.Run, key string, fingerprint engine.Digest) error {
	if r.Status.Final() {
		return fmt.Errorf("a run cannot start as %q", r.Status)
	}
	var requestKey, requestFingerprint any
	if key != "" {
		requestKey, requestFingerprint = key, fingerprint[:]
	}
	_, err := c.exec(ctx, `INSERT INTO runs (id, owner, origin, session, language, status, created_us,
			started_us, request_key, request_fingerprint, node, image, wall)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		r.ID[:], r.Owner, r.Origin, orNull(r.Session), r.Language, r.Status, r.CreatedAt.UnixMicro(),
		timeOrNull(r.StartedAt), requestKey, requestFingerprint, int64(r.Node), r.Image, r.Wall)
	if err != nil || r.Source == nil {
		return err
	}
	return db.insertLog(ctx, c, r, logText{source: r.Source})
}

// InsertFinished records runs that are final, each with its implicit session: all of them
// or none. It does not wait for the disk.
func (db *DB) InsertFinished(ctx context.Context, runs ...engine.FinishedRun) error {
	return db.writeNoSync(ctx, "insert runs", "", func(ctx context.Context, c *conn) error {
		for _, r := range runs {
			if err := db.insertFinished(ctx, c, r.Run, *r.Session, r.Log); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db *DB) insertFinished(
	ctx context.Context, c *conn, run *engine.Run, session engine.Session, log []engine.OutputChunk,
) error {
	if len(run.Files) > 0 || run.Keyed {
		return errors.New("only a run without files and without a key is recorded at its end alone")
	}
	finished := db.finishedAt(run)
	if used := finished.Add(session.TTL); used.After(session.ExpiresAt) {
		session.ExpiresAt = used
	}
	if err := insertSession(ctx, c, &session); err != nil {
		return err
	}
	begun := *run
	if begun.Status = engine.StatusRunning; len(log) > 0 {
		begun.Source = nil // it is stored with the output
	}
	if err := db.insertRun(ctx, c, &begun, "", engine.Digest{}); err != nil {
		return err
	}
	return db.finishRun(ctx, c, run, finished, log)
}

func (db *DB) finishedAt(run *engine.Run) time.Time {
	if run.FinishedAt.IsZero() {
		return db.now()
	}
	return run.FinishedAt
}

// finishRun makes a run final, and replaces the log that was stored at its start with its
// output.
func (db *DB) finishRun(
	ctx context.Context, c *conn, run *engine.Run, finished time.Time, log []engine.OutputChunk,
) error {
	text, err := joinLog(log, run)
	if err != nil {
		return err
	}
	if err := updateRun(ctx, c, run, finished); err != nil || len(log) == 0 {
		return err
	}
	// Deleted, not replaced: the account of stored results depends on it.
	if _, err := c.exec(ctx, "DELETE FROM run_logs WHERE run = $1", run.ID[:]); err != nil {
		return err
	}
	return db.insertLog(ctx, c, run, text)
}

// FinishRun records how a run ended, its output, its files and their links
// in its session, without the paths in deleted. The session and the run's
// inputs are touched: their use ends now, however long the run took. Objects
// deleted in the meantime are skipped. If the run is already final, FinishRun
// returns engine.ErrConflict.
//
// It waits for the disk if there are files, whose only copy may be here, or if
// the run was started with a key.
func (db *DB) FinishRun(ctx context.Context, run *engine.Run, log []engine.OutputChunk, deleted []string) error {
	const op = "finish run"
	finished := db.finishedAt(run)
	for _, input := range run.Inputs {
		defer db.files.forget(input.ID)
	}
	write := db.writeNoSync
	if len(run.Files) > 0 || len(deleted) > 0 || run.Keyed {
		write = db.write
	}
	return write(ctx, op, run.ID.String(), func(ctx context.Context, c *conn) error {
		if err := db.finishRun(ctx, c, run, finished, log); err != nil {
			return err
		}
		for _, input := range run.Inputs {
			if _, err := c.exec(ctx, touchFile+" AND owner = $3", finished.UnixMicro(), input.ID[:], run.Owner); err != nil {
				return err
			}
		}
		return db.saveFiles(ctx, c, op, run, deleted, finished)
	})
}

// SaveFiles records changes in a session outside of any run, and touches the session. run
// only carries them.
func (db *DB) SaveFiles(ctx context.Context, run *engine.Run, deleted []string, now time.Time) error {
	const op = "save files"
	return db.write(ctx, op, run.Session.String(), func(ctx context.Context, c *conn) error {
		return db.saveFiles(ctx, c, op, run, deleted, now)
	})
}

// saveFiles records the files of a run and updates its session to the state after the run.
func (db *DB) saveFiles(
	ctx context.Context, c *conn, op string, run *engine.Run, deleted []string, now time.Time,
) error {
	for _, file := range run.Files {
		file.Run, file.Owner = run.ID, run.Owner
		if err := insertFile(ctx, c, file); err != nil {
			return err
		}
	}
	if len(run.Files) > 0 {
		if err := db.checkFiles(ctx, c, op, run.Owner); err != nil {
			return err
		}
	}
	return updateSession(ctx, c, run, now, deleted)
}

// updateRun makes a run final.
func updateRun(ctx context.Context, c *conn, r *engine.Run, finished time.Time) error {
	if !r.Status.Final() {
		return fmt.Errorf("a run cannot end as %q", r.Status)
	}
	n, err := c.exec(ctx, `UPDATE runs SET status = $1, exit_code = $2, signal = $3, truncated = $4, duration_us = $5,
		cpu_us = $6, memory_peak = $7, inputs = $8, dropped = $9, message = $10, started_us = $11,
		finished_us = $12, start = $13, wall = $14, hint = $15
		WHERE id = $16 AND owner = $17 AND status IN ('queued', 'running')`,
		r.Status, r.ExitCode, r.Signal, r.Truncated, r.Duration.Microseconds(), r.CPU.Microseconds(),
		r.MemoryPeak, listOf(&r.Inputs), listOf(&r.Dropped), r.Message, timeOrNull(r.StartedAt),
		finished.UnixMicro(), r.Start, r.Wall, r.Hint,
		r.ID[:], r.Owner)
	if err != nil || n > 0 {
		return err
	}
	var status engine.Status
	if err := c.row(ctx, []any{&status}, "SELECT status FROM runs WHERE id = $1 AND owner = $2", r.ID[:],
		r.Owner); err != nil {
		return err
	}
	return &engine.Error{Op: "finish run", Kind: engine.ErrConflict, ID: r.ID.String(),
		Err: fmt.Errorf("the run has ended before, as %q", status)}
}

// updateSession updates a run's session to the state after the run.
func updateSession(ctx context.Context, c *conn, run *engine.Run, finished time.Time, deleted []string) error {
	if run.Session.IsZero() {
		return nil
	}
	n, err := c.exec(ctx, touchSession+" AND owner = $3", finished.UnixMicro(), run.Session[:], run.Owner)
	if err != nil || n == 0 {
		return err // deleted while the run went on: its files stay, in no session
	}
	if run.Generation > 0 {
		if err := checkPlace(ctx, c, run); err != nil {
			return err
		}
	}
	for _, path := range deleted {
		if _, err := c.exec(ctx, "DELETE FROM session_files WHERE session = $1 AND path = $2", run.Session[:],
			path); err != nil {
			return err
		}
	}
	for _, file := range run.Files {
		place := engine.SessionFile{Session: run.Session, File: file.ID, Path: file.Path, Role: engine.RoleOutput}
		if err := link(ctx, c, place, always); err != nil {
			return err
		}
	}
	return nil
}

// Run returns a run with its texts and with those of its files that are still
// there.
func (db *DB) Run(ctx context.Context, owner engine.Owner, id engine.ID) (*engine.Run, error) {
	var run engine.Run
	err := db.read(ctx, "get run", id.String(), func(c *conn) (err error) {
		if run, err = findRun(ctx, c, owner, id); err != nil {
			return err
		}
		text, err := findLog(ctx, c, id)
		if err != nil {
			return err
		}
		run.Stdout, run.Stderr, run.Source = string(text.stdout), string(text.stderr), text.source
		if run.Contacts, err = runContacts(ctx, c, &run); err != nil {
			return err
		}
		run.Files, err = db.runFiles(ctx, c, &run)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &run, nil
}

func findRun(ctx context.Context, c *conn, owner engine.Owner, id engine.ID) (engine.Run, error) {
	return one(ctx, c, scanRun, "SELECT "+runColumns+" FROM runs WHERE id = $1 AND owner = $2", id[:], owner)
}

func (db *DB) runFiles(ctx context.Context, c *conn, run *engine.Run) ([]engine.File, error) {
	return rows(ctx, c, scanFile, "SELECT "+fileColumns+
		" FROM files f WHERE f.run = $1 AND f.owner = $2 AND f.expires_us > $3 ORDER BY f.path, f.id", run.ID[:], run.Owner,
		db.micros())
}

// NameRun sets the name of a run.
func (db *DB) NameRun(ctx context.Context, owner engine.Owner, id engine.ID, name string) error {
	return db.write(ctx, "name run", id.String(), func(ctx context.Context, c *conn) error {
		// The next search indexes its words again, with the name.
		if _, err := c.exec(ctx, "DELETE FROM run_text WHERE rowid = (SELECT doc FROM runs WHERE id = $1 AND owner = $2 "+
			"AND doc > 0)", id[:], owner); err != nil {
			return err
		}
		return changed(c.exec(ctx, "UPDATE runs SET name = $1, doc = CASE WHEN doc > 0 THEN NULL ELSE doc END "+
			"WHERE id = $2 AND owner = $3", name, id[:], owner))
	})
}

// RunLog returns the output of a run as it came, and engine.ErrConflict for a
// run that has not ended.
func (db *DB) RunLog(ctx context.Context, owner engine.Owner, id engine.ID) (log []engine.OutputChunk, err error) {
	err = db.read(ctx, "get output", id.String(), func(c *conn) error {
		run, err := findRun(ctx, c, owner, id)
		if err != nil {
			return err
		}
		if !run.Status.Final() {
			return engine.ErrConflict
		}
		text, err := findLog(ctx, c, id)
		if err != nil {
			return err
		}
		log, err = text.split()
		return err
	})
	return log, err
}

// Runs returns one page of an owner's runs, with as much of their texts as the
// query asks for.
func (db *DB) Runs(ctx context.Context, q engine.RunQuery) (runs []engine.Run, err error) {
	err = db.read(ctx, "list runs", "", func(c *conn) error {
		if q.Text == "" {
			runs, err = db.listRuns(ctx, c, q)
		} else {
			runs, err = db.searchRuns(ctx, c, q)
		}
		for i := range runs {
			if err == nil {
				runs[i].Files, err = db.runFiles(ctx, c, &runs[i])
			}
			if err == nil && q.Output > 0 {
				err = outputHead(ctx, c, &runs[i], q.Output)
			}
			if err == nil && q.Source {
				err = readSource(ctx, c, &runs[i])
			}
		}
		if err == nil && q.Kept {
			err = markKept(ctx, c, runs)
		}
		return err
	})
	return runs, err
}

func (db *DB) listRuns(ctx context.Context, c *conn, q engine.RunQuery) ([]engine.Run, error) {
	from, err := findCursor(ctx, c, "SELECT created_us FROM runs WHERE id = $1 AND owner = $2", q.Owner, q.Page)
	if err != nil {
		return nil, err
	}
	var args arguments
	where := filterRuns(q, &args)
	text := "SELECT " + runColumns + " FROM runs WHERE " + where + " AND (created_us, id) < (" + args.add(from.created) +
		", " + args.add(from.id[:]) + ") ORDER BY created_us DESC, id DESC LIMIT " + args.add(from.limit)
	return rows(ctx, c, scanRun, text, args...)
}

// searchRuns goes from the newest run that has the words to older ones, and ends with
// the page. The subquery keeps the columns of run_text apart from those of runs.
func (db *DB) searchRuns(ctx context.Context, c *conn, q engine.RunQuery) ([]engine.Run, error) {
	words := wordsOf(q.Text)
	if len(words) == 0 {
		return nil, nil
	}
	from, err := findCursor(ctx, c, "SELECT coalesce(doc, 0) FROM runs WHERE id = $1 AND owner = $2", q.Owner, q.Page)
	if err != nil {
		return nil, err
	}
	condition, arg, err := db.words.condition(ctx, c, q.Owner, words)
	if err != nil {
		return nil, err
	}
	args := arguments{arg}
	filter := filterRuns(q, &args)
	before, limit := args.add(from.created), args.add(from.limit)
	if n := db.words.walk(); n > 0 {
		runs, err := rows(ctx, c, scanRun, "SELECT "+runColumns+" FROM (SELECT rowid AS number, words FROM run_text "+
			"WHERE rowid < "+before+" ORDER BY rowid DESC LIMIT "+strconv.Itoa(n)+") AS newest CROSS JOIN runs "+
			"WHERE doc = number AND doc > 0 AND "+condition+" AND "+filter+" ORDER BY number DESC LIMIT "+limit, args...)
		if err != nil || len(runs) == from.limit {
			return runs, err
		}
	}
	return rows(ctx, c, scanRun, "SELECT "+runColumns+" FROM (SELECT rowid AS number FROM run_text WHERE "+condition+
		" AND "+db.words.number()+" < "+before+db.words.order()+") AS found CROSS JOIN runs "+
		"WHERE doc = number AND doc > 0 AND "+filter+" ORDER BY number DESC LIMIT "+limit, args...)
}

// filterRuns returns a condition for runs, as far as it does not depend on their texts, and adds its arguments.
func filterRuns(q engine.RunQuery, args *arguments) string {
	where := "owner = " + args.add(q.Owner)
	if !q.Session.IsZero() {
		where = "session = " + args.add(q.Session[:]) + " AND " + where
	}
	if q.Programs {
		where += " AND origin NOT IN ('live', 'preview')"
	}
	if q.Origin != "" {
		where += " AND origin = " + args.add(q.Origin)
	}
	return where
}

// outputHead reads the beginning of a run's output. Of long output it reads only
// the pages that hold the beginning.
func outputHead(ctx context.Context, c *conn, run *engine.Run, most int) error {
	var stdout, stderr []byte
	err := c.row(ctx, []any{&stdout, &stderr},
		"SELECT substr(stdout, 1, $1), substr(stderr, 1, $1) FROM run_logs WHERE run = $2", most, run.ID[:])
	if errors.Is(err, engine.ErrNotFound) { // it printed nothing
		return nil
	}
	run.Stdout, run.Stderr = strings.ToValidUTF8(string(stdout), ""), strings.ToValidUTF8(string(stderr), "")
	return err
}

// InterruptRuns marks every run that is not final, and that no node alive has, as
// interrupted at now.
func (db *DB) InterruptRuns(ctx context.Context, now time.Time) (int, error) {
	return writing(db.erase).exec(ctx, "interrupt runs", "",
		"UPDATE runs SET status = 'interrupted', finished_us = $1, message = $2 "+
			"WHERE status IN ('queued', 'running') AND node"+isLost, now.UnixMicro(),
		"The service stopped during the run; how the program ended is not known.")
}

// ExpireRuns deletes up to limit runs that ended before a time. The implicit
// session of such a run goes with its last run if nothing is in it, else at
// its own expiry.
func (db *DB) ExpireRuns(ctx context.Context, before time.Time, limit int) (int, error) {
	gone := 0
	err := db.erase(ctx, "expire runs", "", func(ctx context.Context, c *conn) error {
		scan := func(row scanner) (id engine.ID, err error) {
			err = row.Scan(idColumn{&id})
			return id, err
		}
		sessions, err := rows(ctx, c, scan, `DELETE FROM runs WHERE id IN
			(SELECT id FROM runs WHERE finished_us < $1 ORDER BY finished_us LIMIT $2) RETURNING session`,
			before.UnixMicro(), limit)
		if err != nil {
			return err
		}
		for _, session := range sessions {
			if _, err := c.exec(ctx, `DELETE FROM sessions WHERE id = $1 AND implicit = 1
				AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.session = sessions.id)
				AND NOT EXISTS (SELECT 1 FROM session_files l WHERE l.session = sessions.id)`, session[:]); err != nil {
				return err
			}
		}
		gone = len(sessions)
		return nil
	})
	return gone, err
}
