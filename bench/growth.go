package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

// growthSections are measured by make bench-growth, apart from the others.
var growthSections = []section{
	{"rows", "runs and files in the index: start, lists, one by its id, search in outputs", (*bench).measureRows},
	{"upgrade", "an index of an earlier version is brought up to date", (*bench).measureUpgrade},
	{"folk", "a run in one of ten thousand sessions, a thousand clients at once, load beyond the most",
		(*bench).measureFolk},
}

// Grown is what make bench-growth finds.
type Grown struct {
	Rows     []Rows  `json:"rows"`
	Sessions *Many   `json:"sessions,omitempty"`
	Crowd    *Rush   `json:"crowd,omitempty"`
	Overload []Load  `json:"overload,omitempty"` // of print(1), at fixed rates
	Most     float64 `json:"most,omitempty"`     // of print(1) in a second
	Live     []Held  `json:"live,omitempty"`

	Upgrades []Upgraded `json:"upgrades,omitempty"`
}

// Rows is what a service with so many runs and as many files takes.
type Rows struct {
	Database string  `json:"database"`
	Count    int     `json:"count"`
	Size     float64 `json:"size_mb"` // of the database; 0: not known
	Start    Summary `json:"start"`   // to the first answer to print(1)
	List     Summary `json:"list"`    // a page of runs or of files, anywhere
	Get      Summary `json:"get"`     // a run or a file, any
	Search   Summary `json:"search"`  // a page of the runs with some words
	Slowest  string  `json:"slowest"` // search
	Service  float64 `json:"service_mb"`
}

const (
	nameSQLite   = "SQLite"
	namePostgres = "PostgreSQL"
)

// largest is how many rows there are in the end.
func (b *bench) largest() int {
	if b.options.quick {
		return 100_000
	}
	return 1_000_000
}

// unlimited are the options of a service whose one owner has everything.
var unlimited = []string{"--owner-files", "100000000", "--owner-sessions", "1000000"}

func (b *bench) measureRows(ctx context.Context) error {
	stores := []func() (*filled, error){b.inSQLite}
	if b.options.database != "" {
		stores = append(stores, b.inPostgres)
	} else {
		b.results.Missing[namePostgres] = "no database was named"
	}
	for _, open := range stores {
		f, err := open()
		if err != nil {
			return err
		}
		if err := b.rowsIn(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if err := f.empty(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) rowsIn(ctx context.Context, f *filled) error {
	var err error
	if b.warm, err = b.serve(f.data, f.env, unlimited...); err != nil { // makes the tables
		return err
	}
	_, err = b.firstAnswer(ctx)
	b.warm.stop()
	b.warm = nil
	if err != nil {
		return err
	}
	for n := 1000; n <= b.largest(); n *= 10 {
		began := time.Now()
		if err := f.fill(ctx, n); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		fmt.Fprintf(b.progress, "   %s: filled to %d rows in %.1f s\n", f.name, n, time.Since(began).Seconds())
		row, err := b.rows(ctx, f, n)
		if err != nil {
			return err
		}
		b.grown().Rows = append(b.grown().Rows, *row)
		fmt.Fprintf(b.progress, "   %s, %d rows, %.0f MB: start %.0f ms; p99 list %.2f, get %.2f, search %.1f ms (%s)\n",
			f.name, n, row.Size, row.Start.P50, row.List.P99, row.Get.P99, row.Search.P99, row.Slowest)
	}
	return nil
}

func (b *bench) grown() *Grown {
	if b.results.Grown == nil {
		b.results.Grown = &Grown{}
	}
	return b.results.Grown
}

// rows measures a service on a database of n rows.
func (b *bench) rows(ctx context.Context, f *filled, n int) (_ *Rows, err error) {
	row := &Rows{Database: f.name, Count: n, Size: f.size()}
	var starts sample
	for range 3 {
		if b.warm != nil {
			b.warm.stop()
		}
		if b.warm, err = b.serve(f.data, f.env, unlimited...); err != nil {
			return nil, err
		}
		took, err := b.firstAnswer(ctx)
		if err != nil {
			return nil, err
		}
		starts = append(starts, took)
	}
	row.Start = starts.summary()
	defer func() {
		b.warm.stop()
		b.warm = nil
	}()
	if _, err := zygotesReady(ctx, b.warm); err != nil {
		return nil, err
	}
	c, err := dial(b.warm.address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := row.measure(ctx, c, b.warm.address, n); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, b.warm.log)
	}
	family := familyOf(b.warm.cmd.Process.Pid, processes())
	service := family.service
	if len(service) == 0 {
		service = family.parent
	}
	row.Service, _, err = memoryOf(service)
	return row, err
}

// lookups are how many of each kind are timed.
const lookups = 300

func (r *Rows) measure(ctx context.Context, c *connection, host string, n int) error {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	ask := func(times *sample, path, wanted string) error {
		began := time.Now()
		err := c.do(newRequest("GET", path, host, nil))
		*times = append(*times, time.Since(began))
		if err == nil && !strings.Contains(string(c.body), wanted) {
			err = fmt.Errorf("the answer to %s has no %s", path, wanted)
		}
		return errors.Join(err, ctx.Err())
	}
	var list, get, search, nothing sample
	for _, path := range []string{runsPath, filesPath, historyPath} { // statements are compiled
		if err := ask(&nothing, path, ""); err != nil {
			return err
		}
	}
	for i := range lookups {
		path := []string{runsPath, filesPath}[i%2]
		at := madeID(1 + random.IntN(n))
		page := path + "?limit=50"
		if i%4 > 1 {
			page += "&after=" + at
		}
		if err := ask(&list, page, `"id"`); err != nil {
			return err
		}
		if err := ask(&get, path+"/"+at, at); err != nil {
			return err
		}
	}
	slowest := time.Duration(0)
	for i := range lookups {
		words, found := searched(i, 1+random.IntN(n))
		wanted := "Nothing matches."
		if found {
			wanted = "past-title"
		}
		if err := ask(&search, historyPath+"?q="+url.QueryEscape(words), wanted); err != nil {
			return err
		}
		if last := search[len(search)-1]; last > slowest {
			slowest, r.Slowest = last, words
		}
	}
	r.List, r.Get, r.Search = list.summary(), get.summary(), search.summary()
	return nil
}

const historyPath = "/ui/runs"

// searched are words as people type them, for the run of a number: that of one run, of
// one in a thousand, of one in eight, of all, several of them, and beginnings of words.
func searched(i, number int) (words string, found bool) {
	kinds := []string{
		fmt.Sprintf("total%d", number), fmt.Sprintf("batch%d", number%1000), regions[number%len(regions)], "print",
		"groupby " + regions[number%len(regions)], fmt.Sprintf("sales%d batch%d", number%1000, number%1000), "reg", "p",
		fmt.Sprintf("report%d", number), "norrth", fmt.Sprint(1 + number%9), "python ok sum",
	}
	return kinds[i%len(kinds)], kinds[i%len(kinds)] != "norrth"
}

var regions = []string{"north", "south", "east", "west", "centre", "coast", "islands", "abroad"}

// madeID is how an id that fill made is spelled: 122 bits, six to a character.
func madeID(number int) string {
	raw, _ := hex.DecodeString(fmt.Sprintf("%08x000040008000%012x", uint32(number)*scatter, number))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	front, back := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	hi, lo := front>>16<<10|front&0xfff>>2, front&0xfff<<62|back&(1<<62-1)
	var digits [21]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = alphabet[lo&63]
		lo, hi = lo>>6|hi<<58, hi>>6
	}
	return string(digits[:])
}

// scatter makes neighbours' ids begin differently, as random ones do.
const scatter = 2654435761
