package index

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"github.com/airlock-run/airlock/internal/engine"
)

// lexemes are the words of PostgreSQL. We cut them ourselves, so that both databases
// find the same: its own parser takes a path or an address for one word.
type lexemes struct{}

// searchLock is held while runs get their numbers.
const searchLock = migrationLock + 1

func (lexemes) lock(ctx context.Context, c *conn) error {
	_, err := c.exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", searchLock))
	return err
}

func (lexemes) add(ctx context.Context, c *conn, number int64, _ engine.Owner, t runText) error {
	all := folded(wordsOf(strings.Join([]string{t.about, t.code, t.output, t.files}, "\n")))
	slices.Sort(all)
	_, err := c.exec(ctx, "INSERT INTO run_text (rowid, words) VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))",
		number, strings.Join(slices.Compact(all), " "))
	return err
}

// condition needs no owner: that of the run is asked for with it.
func (lexemes) condition(
	_ context.Context, _ *conn, _ engine.Owner, words []string,
) (condition string, arg any, err error) {
	words = folded(words)
	for i, word := range words {
		words[i] = "'" + word + "':*"
	}
	return "words @@ CAST($1 AS tsquery)", strings.Join(words, " & "), nil
}

// An index of words gives all runs with a word, however many, before they are sorted.
func (lexemes) walk() int { return 2000 }

// As an expression it is compared in the runs that have the words. PostgreSQL would else read the index of all numbers
// too, which takes 30 ms of a million.
func (lexemes) number() string { return "rowid + 0" }

// Without it PostgreSQL reads all runs from the newest on, and looks for the words in each, when it expects few to
// have them.
func (lexemes) order() string { return " ORDER BY rowid DESC" }

// longestWord bounds a word in bytes; PostgreSQL takes up to 2,046.
const longestWord = 256

// folded returns words without case and diacritics, as SQLite's tokenizer makes them.
func folded(words []string) []string {
	plain := transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC)
	all := make([]string, 0, len(words))
	for _, word := range words {
		if text, _, err := transform.String(plain, word); err == nil {
			word = text
		}
		word = strings.ToLower(word)
		if word = strings.ToValidUTF8(word[:min(len(word), longestWord)], ""); word != "" {
			all = append(all, word)
		}
	}
	return all
}
