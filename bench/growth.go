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
	{"crowd", "a thousand clients at once, load beyond the most", (*bench).measureCrowd},
}

// unlimited are the options of a service whose one owner has everything.
var unlimited = []string{"--owner-files", "100000000", "--owner-sessions", "1000000", "--owner-rate", "100000"}

func (b *bench) measureRows(ctx context.Context) {
	b.rowsIn(ctx, b.inSQLite(), 20, 5, 100)
	if b.database == "" {
		b.Missing("PostgreSQL", errors.New("no database was named"))
		return
	}
	b.rowsIn(ctx, b.inPostgres(), 50, 50, 50)
}

// What is asked of the index.
var lookups = []string{"list", "get", "search"}

// rowsIn measures a service on a database that grows, with what lookups must take of a million.
func (b *bench) rowsIn(ctx context.Context, f *database, must ...float64) {
	s := b.serve(ctx, f.data, f.env, unlimited...) // makes the tables
	since(ctx, s, &printing)
	lab.Check(s.Stop())
	curves := make([]lab.Curve, len(lookups))
	for n := 1000; n <= b.full(1_000_000, 100_000); n *= 10 {
		began := time.Now()
		f.fill(ctx, n)
		fmt.Fprintf(os.Stderr, "   %s: filled to %d rows in %.0f s\n", f.name, n, time.Since(began).Seconds())
		for i, times := range b.rowsOf(ctx, f, n) {
			curves[i].Name = f.name + ", " + lookups[i]
			curves[i].Points = append(curves[i].Points, [2]float64{float64(n), times.P99()})
			if n == 1_000_000 {
				b.Goal(fmt.Sprintf("a million runs and files in %s: p99 of %s", f.name, lookups[i]), "ms", must[i], must[i]/4,
					times.P99())
			}
		}
	}
	if len(b.curves) == 0 {
		b.curves = []lab.Chart{{Title: "99th percentile in ms against runs and files in the index", LogX: true, LogY: true}}
	}
	b.curves[0].Curves = append(b.curves[0].Curves, curves...)
}

// rowsOf measures a service on a database of n rows: lists, single ones and searches.
func (b *bench) rowsOf(ctx context.Context, f *database, n int) [3]lab.Sample {
	s := b.serve(ctx, f.data, f.env, unlimited...)
	defer func() { _ = s.Stop() }() // nothing is measured any more
	of := fmt.Sprintf("%s with %d runs and files", f.name, n)
	b.Row(of, "start to the first print(1)", lab.Sample{since(ctx, s, &printing)})
	warmed(ctx, s)
	c := b.caller(s)
	for _, path := range []string{runsPath, filesPath, historyPath} { // statements are compiled
		lab.Must(c.do(ctx, "GET", path, nil))
	}
	var times [3]lab.Sample
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range 300 {
		path, at := []string{runsPath, filesPath}[i%2], madeID(1+random.IntN(n))
		page := path + "?limit=50"
		if i%4 > 1 {
			page += "&after=" + at
		}
		words, found := searched(i, 1+random.IntN(n))
		wanted := map[bool]string{true: "past-title", false: "No run has these words"}[found]
		for kind, one := range [][2]string{{page, `"id"`}, {path + "/" + at, at},
			{historyPath + "?q=" + url.QueryEscape(words), wanted}} {
			times[kind] = append(times[kind], lab.Must(c.do(ctx, "GET", one[0], nil, one[1])))
		}
	}
	for kind, name := range lookups {
		b.Row(of, name, times[kind])
	}
	if size := f.size(); size > 0 { // of PostgreSQL it is not looked at
		b.Value(of, "size of the database", "MB", size)
	}
	b.Value(of, "memory of the service", "MB", lab.Private(s.Server()))
	return times
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

// measureCrowd has each of a thousand clients send one request.
func (b *bench) measureCrowd(ctx context.Context) {
	const crowd, of = 1000, "1,000 clients with one print(1) each at once"
	s := b.startWarm(ctx)
	watched, stop := context.WithCancel(ctx)
	var watching, all sync.WaitGroup
	most := 0.0
	watching.Go(func() {
		for ; watched.Err() == nil; lab.Pause(watched, 10*time.Millisecond) {
			most = max(most, lab.Private(s.Server()))
		}
	})
	times, failures := make(lab.Sample, crowd), make([]error, crowd)
	for i := range crowd {
		all.Go(func() {
			c := newCaller(s.URL)
			defer c.close()
			began := time.Now()
			_, failures[i] = c.do(ctx, "POST", runsPath, printRun)
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
		} else {
			lab.Check(err)
		}
	}
	b.Row(of, "until answered or refused", times)
	b.Value(of, "refused", "clients", float64(refused))
	b.Value(of, "memory of the service", "MB", most)
	b.Goal("1,000 clients with one request each: p99 until answered or refused", "s", 3, 1, times.P99()/1000)
	b.Goal("1,000 clients with one request each: memory of the service", "MB", 150, 80, most)
	b.beyond(ctx)
}

// beyond asks for print(1) at fixed rates, up to twice the most there is.
func (b *bench) beyond(ctx context.Context) {
	one := airlock(nameWarm, b.startWarm(ctx, "--owner-rate=100000"), &printing)
	var most lab.Load
	most.Saturate(ctx, one, 4, 5*time.Second)
	half, tail := lab.Curve{Name: "median"}, lab.Curve{Name: "99th percentile"}
	for _, part := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2} {
		lab.Pause(ctx, time.Second)
		rate := part * most.Rate()
		times := lab.AtRate(ctx, one, rate, 4*time.Second).Times // beyond the most some are refused
		b.Row(fmt.Sprintf("print(1) at %.2f of the most", part), fmt.Sprintf("%.0f a second", rate), times)
		half.Points = append(half.Points, [2]float64{rate, times.P50()})
		tail.Points = append(tail.Points, [2]float64{rate, times.P99()})
	}
	b.curves = append(b.curves, lab.Chart{LogY: true, Curves: []lab.Curve{half, tail},
		Title: "print(1): ms from when it was due, against requests a second"})
}
