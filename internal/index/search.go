package index

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"

	"github.com/airlock-run/airlock/internal/engine"
)

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
	_, err = c.exec(ctx, "INSERT INTO run_text (rowid, owner, about, code, output, files) VALUES (?, ?, ?, ?, ?, ?)",
		doc, hex.EncodeToString([]byte(run.Owner)), strings.Join(about, "\n"), code, run.Stdout+"\n"+run.Stderr,
		strings.Join(names, "\n"))
	return err
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

// match is what FTS5 is asked for words of an owner's: each must be there, or a word
// that begins with it. "": nothing can match. What is neither letter nor digit only
// separates words (https://sqlite.org/fts5.html#unicode61_tokenizer).
func match(owner engine.Owner, text string) string {
	terms := []string{`owner : "` + hex.EncodeToString([]byte(owner)) + `"`}
	for _, word := range strings.Fields(text) {
		word = strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || unicode.Is(unicode.Co, r) {
				return r
			}
			return ' '
		}, word)
		if strings.TrimSpace(word) != "" {
			terms = append(terms, `{about code output files} : "`+word+`" *`)
		}
	}
	if len(terms) == 1 {
		return ""
	}
	return strings.Join(terms, " AND ")
}
