package index

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
)

// words finds the numbers of runs by their words.
type words interface {
	// lock keeps other replicas from giving out numbers until the transaction ends.
	lock(ctx context.Context, c *conn) error
	add(ctx context.Context, c *conn, number int64, owner engine.Owner, t runText) error
	// condition returns a condition for run_text: each of the words must match a
	// word or its beginning.
	condition(ctx context.Context, c *conn, owner engine.Owner, words []string) (condition string, arg any, err error)
	// walk returns how many of the newest runs are searched one by one first. Frequent
	// words are found there, and other words are rare.
	walk() int
	// number is the number of a run in the condition of a page.
	number() string
	// order returns how the runs that have the words are ordered for the database to look for the words first.
	order() string
}

// runText holds the searchable texts of a run.
type runText struct{ about, code, output, files string }

// searchedText is how many bytes of a run's code, and of each of its streams, can be
// found again.
const searchedText = 64 << 10

// IndexRuns indexes the words of up to limit runs that have ended, newest first, and
// returns how many. It is not part of recording a run: few runs are ever searched for.
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
		runs, err := rows(ctx, c, scanRun, "SELECT "+runColumns+waiting+" ORDER BY finished_us DESC LIMIT $1", limit)
		if err != nil {
			return err
		}
		for i := range runs {
			doc := int64(0)
			if isProgram(runs[i].Origin) {
				if doc, err = nextDoc(ctx, c, runs[i].CreatedAt); err != nil {
					return err
				}
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

// docsInstant is how many numbers each microsecond has.
const docsInstant = 1 << 10

// nextDoc returns a number for a run that was made at an instant: later runs have
// larger ones, so that the newest that have some words are found without looking at all.
func nextDoc(ctx context.Context, c *conn, made time.Time) (doc int64, err error) {
	first := max(made.UnixMicro(), 1) * docsInstant
	// The last one below an end is found at once; below it and from a beginning on, all would be read.
	err = c.row(ctx, []any{&doc}, "SELECT coalesce(max(doc), 0) + 1 FROM runs WHERE doc > 0 AND doc < $1",
		first+docsInstant)
	if err == nil && doc >= first+docsInstant {
		err = fmt.Errorf("%d runs were made at %v", docsInstant, made)
	}
	return max(doc, first), err
}

func isProgram(o engine.Origin) bool { return o != engine.OriginLive && o != engine.OriginPreview }

// indexRun indexes one run under its number doc; 0: no search finds it.
func (db *DB) indexRun(ctx context.Context, c *conn, run *engine.Run, doc int64) error {
	if _, err := c.exec(ctx, "UPDATE runs SET doc = $1 WHERE id = $2", doc, run.ID[:]); err != nil || doc == 0 {
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
	about := []string{run.Name, run.Language, run.Status.Words(), string(run.Origin), run.Message}
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

// readSource reads the source of a run.
func readSource(ctx context.Context, c *conn, run *engine.Run) error {
	err := c.row(ctx, []any{sourceColumn{&run.Source}}, "SELECT source FROM run_logs WHERE run = $1", run.ID[:])
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// markKept marks the runs whose source is stored.
func markKept(ctx context.Context, c *conn, runs []engine.Run) error {
	if len(runs) == 0 {
		return nil
	}
	var args arguments
	places, at := make([]string, len(runs)), make(map[engine.ID]int, len(runs))
	for i := range runs {
		places[i], at[runs[i].ID] = args.add(runs[i].ID[:]), i
	}
	scan := func(row scanner) (id engine.ID, err error) {
		err = row.Scan(idColumn{&id})
		return id, err
	}
	kept, err := rows(ctx, c, scan, "SELECT run FROM run_logs WHERE source IS NOT NULL AND run IN ("+
		strings.Join(places, ", ")+")", args...)
	for _, id := range kept {
		runs[at[id]].SourceKept = true
	}
	return err
}

// wordsOf splits a text as SQLite's tokenizer does: a character that is neither letter nor
// digit separates words (https://sqlite.org/fts5.html#unicode61_tokenizer).
func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !unicode.Is(unicode.Co, r)
	})
}

// fts5 implements words with SQLite. Owners are words, too, so that other owners' words
// are not read.
type fts5 struct{}

func (fts5) walk() int      { return 0 } // it searches from the newest on by itself
func (fts5) number() string { return "rowid" }
func (fts5) order() string  { return "" } // the same

func (fts5) lock(context.Context, *conn) error { return nil } // there is one writer

func (fts5) add(ctx context.Context, c *conn, number int64, owner engine.Owner, t runText) error {
	_, err := c.exec(ctx, "INSERT INTO run_text (rowid, owner, about, code, output, files) "+
		"VALUES ($1, $2, $3, $4, $5, $6)",
		number, hex.EncodeToString([]byte(owner)), t.about, t.code, t.output, t.files)
	return err
}

// mostBeginnings is how many words may begin with a searched word. Above that, SQLite
// merges their lists, which takes time for each run in a list.
const mostBeginnings = 50

func (fts5) condition(
	ctx context.Context, c *conn, owner engine.Owner, words []string,
) (condition string, arg any, err error) {
	terms := []string{`owner : "` + hex.EncodeToString([]byte(owner)) + `"`}
	for _, word := range words {
		longer, err := beginnings(ctx, c, word)
		if err != nil {
			return "", nil, err
		}
		term := `"` + word + `" *`
		if longer != nil {
			term = `("` + strings.Join(longer, `" OR "`) + `")`
		}
		terms = append(terms, `{about code output files} : `+term)
	}
	return "run_text MATCH $1", strings.Join(terms, " AND "), nil
}

// beginnings returns a word and all words that begin with it. It returns nil if they are
// many, if a short word has a separate list for them, or if SQLite may spell it differently.
func beginnings(ctx context.Context, c *conn, word string) (list []string, err error) {
	isASCII := !strings.ContainsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf })
	if len(word) <= 2 || !isASCII {
		return nil, nil
	}
	word = strings.ToLower(word)
	list = []string{word}
	for next := word + "\x01"; ; {
		var found string
		err := c.row(ctx, []any{&found}, "SELECT term FROM run_text_words WHERE term >= $1 LIMIT 1", next)
		if errors.Is(err, engine.ErrNotFound) || err == nil && !strings.HasPrefix(found, word) {
			return list, nil
		}
		if err != nil || len(list) == mostBeginnings {
			return nil, err
		}
		list, next = append(list, found), found+"\x01"
	}
}
