package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// growthSections are measured by make bench-growth, apart from the others.
var growthSections = []section{
	{"rows", "runs and files in the index: start, lists, one by its id, search in outputs", (*bench).measureRows},
	{"crowd", "a run in one of ten thousand sessions, a thousand clients at once, load beyond the most",
		(*bench).measureCrowd},
}

// unlimited are the options of a service whose one owner has everything.
var unlimited = []string{"--owner-files", "100000000", "--owner-sessions", "1000000", "--owner-rate", "100000"}

func (b *bench) measureRows(ctx context.Context) error {
	stores := []func() (*database, error){b.inSQLite}
	if b.database != "" {
		stores = append(stores, b.inPostgres)
	} else {
		b.missing("PostgreSQL", errors.New("no database was named"))
	}
	for _, open := range stores {
		f, err := open()
		if err == nil {
			err = b.rowsIn(ctx, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rowsIn measures a service on a database that grows.
func (b *bench) rowsIn(ctx context.Context, f *database) error {
	s, err := b.serve(ctx, f.data, f.env, unlimited...) // makes the tables
	if err != nil {
		return err
	}
	_, err = since(ctx, s, &printing)
	if err = errors.Join(err, s.Stop()); err != nil {
		return err
	}
	names := []string{"list", "get", "search"}
	curves := make([]lab.Curve, len(names))
	for n := 1000; n <= b.full(1_000_000, 100_000); n *= 10 {
		began := time.Now()
		if err := f.fill(ctx, n); err != nil {
			return fmt.Errorf("%s: fill: %w", f.name, err)
		}
		fmt.Fprintf(os.Stderr, "   %s: filled to %d rows in %.0f s\n", f.name, n, time.Since(began).Seconds())
		times, err := b.rowsOf(ctx, f, n)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		for i := range names {
			curves[i].Name = f.name + ", " + names[i]
			curves[i].Points = append(curves[i].Points, [2]float64{float64(n), times[i].P99()})
		}
		if n < 1_000_000 {
			continue
		}
		must := []float64{20, 5, 100}
		if f.driver == "pgx" {
			must = []float64{50, 50, 50}
		}
		for i, name := range names {
			b.goal(fmt.Sprintf("a million runs and files in %s: p99 of %s", f.name, name), "ms", must[i], must[i]/4,
				times[i].P99())
		}
	}
	if len(b.results.Curves) == 0 {
		b.results.Curves = []lab.Chart{{Title: "99th percentile in ms against runs and files in the index", LogX: true,
			LogY: true}}
	}
	b.results.Curves[0].Curves = append(b.results.Curves[0].Curves, curves...)
	return nil
}

// lookups are how many of each kind are timed.
const lookups = 300

// rowsOf measures a service on a database of n rows: lists, single ones and searches.
func (b *bench) rowsOf(ctx context.Context, f *database, n int) ([3]lab.Sample, error) {
	var times [3]lab.Sample
	s, err := b.serve(ctx, f.data, f.env, unlimited...)
	if err != nil {
		return times, err
	}
	defer func() { _ = s.Stop() }() // nothing is measured any more
	took, err := since(ctx, s, &printing)
	if s, err = warmed(ctx, s, err); err != nil {
		return times, err
	}
	of := fmt.Sprintf("%s with %d runs and files", f.name, n)
	b.row(of, "start to the first print(1)", lab.Sample{took})
	c := newCaller(s.URL)
	defer c.close()
	for _, path := range []string{runsPath, filesPath, historyPath} { // statements are compiled
		if _, err := c.do(ctx, "GET", path, nil); err != nil {
			return times, err
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range lookups {
		path, at := []string{runsPath, filesPath}[i%2], madeID(1+random.IntN(n))
		page := path + "?limit=50"
		if i%4 > 1 {
			page += "&after=" + at
		}
		words, found := searched(i, 1+random.IntN(n))
		wanted := map[bool]string{true: "past-title", false: "No run has these words"}[found]
		for kind, one := range [][2]string{{page, `"id"`}, {path + "/" + at, at},
			{historyPath + "?q=" + url.QueryEscape(words), wanted}} {
			took, err := c.do(ctx, "GET", one[0], nil, one[1])
			if err != nil {
				return times, fmt.Errorf("%w\n%s", err, s.Log)
			}
			times[kind] = append(times[kind], took)
		}
	}
	for kind, name := range []string{"list", "get", "search"} {
		b.row(of, name, times[kind])
	}
	if size := f.size(); size > 0 { // of PostgreSQL it is not looked at
		b.value(of, "size of the database", "MB", size)
	}
	b.value(of, "memory of the service", "MB", lab.Private(s.Server()))
	return times, nil
}

const historyPath = "/ui/runs"

// searched are words as people type them, for the run of a number: that of one run, of one in a thousand, of one in
// eight, of all, several of them, and beginnings of words.
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

func (b *bench) measureCrowd(ctx context.Context) error {
	if err := b.manySessions(ctx); err != nil {
		return err
	}
	s, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // nothing is measured any more
	if err := b.rush(ctx, s); err != nil {
		return err
	}
	return b.beyond(ctx)
}

// manySessions compares services with one session and with many, each with a file.
func (b *bench) manySessions(ctx context.Context) error {
	many := b.full(10_000, 1000)
	var both []contestant
	for _, count := range []int{1, many} {
		f, err := b.inSQLite()
		if err != nil {
			return err
		}
		s, err := b.serve(ctx, f.data, f.env, unlimited...)
		if s, err = warmed(ctx, s, err); err != nil {
			return err
		}
		_, err = newCaller(s.URL).do(ctx, "POST", filesPath+"?name=in.csv", []byte("a,b\n1,2\n"))
		if err = errors.Join(err, s.Stop()); err != nil {
			return err
		}
		if err := f.fillSessions(ctx, count); err != nil {
			return err
		}
		s, err = b.serve(ctx, f.data, f.env, unlimited...)
		if s, err = warmed(ctx, s, err); err != nil {
			return err
		}
		defer func() { _ = s.Stop() }() // nothing is measured any more
		c, random := newCaller(s.URL), rand.New(rand.NewPCG(2, 2))
		both = append(both, ready(fmt.Sprintf("one of %d", count), func(ctx context.Context) (time.Duration, error) {
			return c.do(ctx, "POST", runsPath, map[string]string{"language": "python",
				"code": "print(len(open('in.csv').read()))", "session": madeID(1 + random.IntN(count))}, `"stdout":"8\n"`)
		}))
	}
	took, err := b.compare(ctx, "a run in a session with a file", 2*lookups, both...)
	b.goal(fmt.Sprintf("a run in one of %d sessions with files, against the only one", many), "x", 1.1, 1, took[1]/took[0])
	return err
}

// rush has each of a thousand clients send one request.
func (b *bench) rush(ctx context.Context, s *lab.Service) error {
	const many = 1000
	watched, stop := context.WithCancel(ctx)
	var watching, all sync.WaitGroup
	most := 0.0
	watching.Go(func() {
		for ; watched.Err() == nil; lab.Pause(watched, 10*time.Millisecond) {
			most = max(most, lab.Private(s.Server()))
		}
	})
	times, failures := make(lab.Sample, many), make([]error, many)
	for i := range many {
		all.Go(func() {
			c := newCaller(s.URL)
			defer c.close()
			began := time.Now()
			_, failures[i] = c.do(ctx, "POST", runsPath, `{"language":"python","code":"print(1)"}`)
			times[i] = time.Since(began)
		})
	}
	all.Wait()
	stop()
	watching.Wait()
	refused := 0
	for _, err := range failures {
		e, failed := errors.AsType[*statusError](err)
		if failed && (e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable) {
			refused++
		} else if err != nil {
			return err
		}
	}
	b.row("1,000 clients with one print(1) each at once", "until answered or refused", times)
	b.value("1,000 clients with one print(1) each at once", "refused", "clients", float64(refused))
	b.value("1,000 clients with one print(1) each at once", "memory of the service", "MB", most)
	b.goal("1,000 clients with one request each: p99 until answered or refused", "s", 3, 1, times.P99()/1000)
	b.goal("1,000 clients with one request each: memory of the service", "MB", 150, 80, most)
	return nil
}

// beyond asks for print(1) at fixed rates, up to twice the most there is.
func (b *bench) beyond(ctx context.Context) error {
	s, err := b.startWarm(ctx, "--owner-rate=100000")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // nothing is measured any more
	var most span
	one := airlock(nameWarm, s, &printing)
	if err := most.add(ctx, one, 4, 5*time.Second); err != nil {
		return err
	}
	half, tail := lab.Curve{Name: "median"}, lab.Curve{Name: "99th percentile"}
	for _, part := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2} {
		lab.Pause(ctx, time.Second)
		rate := part / most.pace()
		times, _, err := atRate(ctx, one, rate, 4*time.Second) // beyond the most some are refused
		if err != nil {
			return err
		}
		b.row(fmt.Sprintf("print(1) at %.2f of the most", part), fmt.Sprintf("%.0f a second", rate), times)
		half.Points = append(half.Points, [2]float64{rate, times.P50()})
		tail.Points = append(tail.Points, [2]float64{rate, times.P99()})
	}
	b.results.Curves = append(b.results.Curves, lab.Chart{LogY: true, Curves: []lab.Curve{half, tail},
		Title: "print(1): ms from when it was due, against requests a second"})
	return nil
}
