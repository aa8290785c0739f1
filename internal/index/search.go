package index

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"

	"github.com/airlock-run/airlock/internal/engine"
)

// words finds the numbers of runs by what is in them.
type words interface {
	// lock keeps other replicas from giving out numbers until the transaction ends.
	lock(ctx context.Context, c *conn) error
	add(ctx context.Context, c *conn, number int64, owner engine.Owner, t runText) error
	// condition is one for run_text: each of the words must be there, or one that
	// begins with it.
	condition(owner engine.Owner, words []string) (condition string, arg any)
}

// runText is what is found of a run.
type runText struct{ about, code, output, files string }

// searchedText is how many bytes of a run's code, and of each of its streams, can be
// found again.
const searchedText = 64 << 10

// IndexRuns puts the words of up to limit runs that have ended where Runs looks for
// them, newest first, and returns how many. It is not part of recording a run: that
// would cost each run what few are ever searched for.
func (db *DB) IndexRuns(ctx context.Context, limit int) (n int, err error) {
	const op = "index runs"
	const waiting = " FROM runs WHERE doc IS NULL AND finished_us IS NOT NULL"
	var some bool
	if err := db.read(ctx, op, "", func(c *conn) error {
		return c.row(ctx, []any{&some}, "SELECT EXISTS (SELECT 1"+waiting+")")
	}); err != nil || !some {
		return 0, err
	}
	err = db.writeNoSync(ctx, op, "", func(ctx context.Context, c *conn) error {
		if err := db.words.lock(ctx, c); err != nil {
			return err
		}
		runs, err := rows(ctx, c, scanRun, "SELECT "+runColumns+waiting+" ORDER BY finished_us DESC LIMIT ?", limit)
		if err != nil {
			return err
		}
		var last int64
		if err := c.row(ctx, []any{&last}, "SELECT coalesce(max(doc), 0) FROM runs"); err != nil {
			return err
		}
		for i := range runs {
			doc := int64(0)
			if isProgram(runs[i].Origin) {
				last++
				doc = last
			}
			if err := db.indexRun(ctx, c, &runs[i], doc); err != nil {
				return err
			}
		}
		n = len(runs)
		return nil
	})
	return n, err
}

func isProgram(o engine.Origin) bool { return o != engine.OriginLive && o != engine.OriginPreview }

// indexRun puts in one run; 0: it is not to be found.
func (db *DB) indexRun(ctx context.Context, c *conn, run *engine.Run, doc int64) error {
	if _, err := c.exec(ctx, "UPDATE runs SET doc = ? WHERE id = ?", doc, run.ID[:]); err != nil || doc == 0 {
		return err
	}
	if err := outputHead(ctx, c, run, searchedText); err != nil {
		return err
	}
	if err := readSource(ctx, c, run); err != nil {
		return err
	}
	files, err := db.runFiles(ctx, c, run)
	if err != nil {
		return err
	}
	about := []string{run.Language, run.Status.Words(), string(run.Origin), run.Message}
	code := ""
	var names []string
	if s := run.Source; s != nil {
		about, names, code = append(about, s.Client), append(names, s.Entry), head(s.Code)
		for _, f := range s.Files {
			names = append(names, f.Path)
		}
	}
	for _, f := range files {
		names = append(names, f.Path)
	}
	return db.words.add(ctx, c, doc, run.Owner, runText{strings.Join(about, "\n"), code, run.Stdout + "\n" + run.Stderr,
		strings.Join(names, "\n")})
}

func head(s string) string { return strings.ToValidUTF8(s[:min(len(s), searchedText)], "") }

// readSource reads what was run.
func readSource(ctx context.Context, c *conn, run *engine.Run) error {
	err := c.row(ctx, []any{sourceColumn{&run.Source}}, "SELECT source FROM run_logs WHERE run = ?", run.ID[:])
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// wordsOf returns what SQLite's tokenizer makes of a text: what is neither letter nor
// digit only separates words (https://sqlite.org/fts5.html#unicode61_tokenizer).
func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !unicode.Is(unicode.Co, r)
	})
}

// fts5 are the words of SQLite. Owners are words, too, so that those of others are not
// read.
type fts5 struct{}

func (fts5) lock(context.Context, *conn) error { return nil } // there is one writer

func (fts5) add(ctx context.Context, c *conn, number int64, owner engine.Owner, t runText) error {
	_, err := c.exec(ctx, "INSERT INTO run_text (rowid, owner, about, code, output, files) VALUES (?, ?, ?, ?, ?, ?)",
		number, hex.EncodeToString([]byte(owner)), t.about, t.code, t.output, t.files)
	return err
}

func (fts5) condition(owner engine.Owner, words []string) (condition string, arg any) {
	terms := []string{`owner : "` + hex.EncodeToString([]byte(owner)) + `"`}
	for _, word := range words {
		terms = append(terms, `{about code output files} : "`+word+`" *`)
	}
	return "run_text MATCH ?", strings.Join(terms, " AND ")
}
