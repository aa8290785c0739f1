package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// growthSections are measured by make bench-growth, apart from the others.
var growthSections = []section{
	{"rows", "runs and files in the index: start, lists, one by its id, search in outputs", (*bench).measureRows},
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
		if err := os.RemoveAll(f.data); err != nil {
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

// Many is a run in a session with a file, of a service with one and with many such.
type Many struct {
	Count  int     `json:"count"`
	Alone  Summary `json:"alone"`
	Beside Summary `json:"beside"`
}

// Rush is many clients that send one request each at the same time.
type Rush struct {
	Clients  int     `json:"clients"`
	Answered int     `json:"answered"`
	Refused  int     `json:"refused"`
	Service  float64 `json:"service_mb"` // at most, meanwhile
	Summary
}

// Held is the memory that so many live sessions take, all processes together.
type Held struct {
	Sessions int     `json:"sessions"`
	Memory   float64 `json:"memory_mb"`
}

func (b *bench) measureFolk(ctx context.Context) error {
	for _, measure := range []func(context.Context) error{b.manySessions, b.rush, b.beyond, b.liveMemory} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// withSessions starts a service on data that has sessions with a file each. The caller stops it.
func (b *bench) withSessions(ctx context.Context, count int) (*server, error) {
	f, err := b.inSQLite()
	if err != nil {
		return nil, err
	}
	s, err := b.serve(f.data, f.env, unlimited...)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	if _, err := zygotesReady(ctx, s); err != nil { // who asks earlier may be cut off
		return nil, err
	}
	c, err := dial(s.address)
	if err != nil {
		return nil, err
	}
	if _, err := c.upload(s.address, &workload{input: "in.csv", data: []byte("a,b\n1,2\n")}); err != nil {
		return nil, err
	}
	c.close()
	s.stop()
	if err := f.fillSessions(ctx, count); err != nil {
		return nil, err
	}
	if s, err = b.serve(f.data, f.env, unlimited...); err != nil {
		return nil, err
	}
	if err = s.await(ctx); err == nil {
		_, err = zygotesReady(ctx, s)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// manySessions compares two services.
func (b *bench) manySessions(ctx context.Context) error {
	m := &Many{Count: 10_000}
	if b.options.quick {
		m.Count = 1000
	}
	var clients [2]*client
	var services [2]*server
	counts := []int{1, m.Count}
	for i, count := range counts {
		s, err := b.withSessions(ctx, count)
		if err != nil {
			return err
		}
		defer s.stop()
		services[i] = s
	}
	// Not earlier: a connection without a request is closed after some seconds.
	for i, count := range counts {
		c, err := inSessions(services[i], count)
		if err != nil {
			return err
		}
		defer c.close()
		clients[i] = c
	}
	var times [2]sample
	for round := range 4 * lookups {
		pause(ctx, rest/5)
		took, err := clients[round%2].time(ctx)
		if err != nil {
			return err
		}
		if round > 20 {
			times[round%2] = append(times[round%2], took)
		}
	}
	m.Alone, m.Beside = times[0].summary(), times[1].summary()
	b.grown().Sessions = m
	fmt.Fprintf(b.progress, "   a run in one of %d sessions %.2f ms, in the only one %.2f ms\n", m.Count, m.Beside.P50,
		m.Alone.P50)
	return ctx.Err()
}

// inSessions runs a program in another session each time.
func inSessions(s *server, count int) (*client, error) {
	c, err := dial(s.address)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(2, 2))
	return &client{close: c.close, attempt: func(context.Context) error {
		body := fmt.Sprintf(`{"language":"python","code":"print(len(open('in.csv').read()))","session":%q}`,
			madeID(1+random.IntN(count)))
		if err := c.do(newRequest("POST", runsPath, s.address, []byte(body), asJSON)); err != nil {
			return err
		}
		if !strings.Contains(string(c.body), `"stdout":"8\n"`) {
			return fmt.Errorf("the answer is %.300s", c.body)
		}
		return nil
	}}, nil
}

// rush has each of a thousand clients send one request.
func (b *bench) rush(ctx context.Context) error {
	s, err := b.startAirlock()
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.await(ctx); err != nil {
		return err
	}
	if _, err := zygotesReady(ctx, s); err != nil {
		return err
	}
	r := &Rush{Clients: 1000}
	connections := make([]*connection, r.Clients)
	for i := range connections {
		if connections[i], err = dial(s.address); err != nil {
			return err
		}
		defer connections[i].close()
	}
	request, err := connections[0].runRequest(s.address, &printing)
	if err != nil {
		return err
	}
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.Service = peak(watched, s) })
	times, failures := make(sample, r.Clients), make([]error, r.Clients)
	var all sync.WaitGroup
	for i, c := range connections {
		all.Go(func() {
			began := time.Now()
			failures[i] = c.do(request)
			times[i] = time.Since(began)
		})
	}
	all.Wait()
	stop()
	watching.Wait()
	for _, err := range failures {
		switch {
		case err == nil:
			r.Answered++
		case strings.HasPrefix(err.Error(), "status 429"), strings.HasPrefix(err.Error(), "status 503"):
			r.Refused++
		default:
			return err
		}
	}
	r.Summary = times.summary()
	b.grown().Crowd = r
	fmt.Fprintf(b.progress, "   %d clients at once: %d answered, %d refused; p50 %.0f ms, p99 %.0f ms; service %.1f MB\n",
		r.Clients, r.Answered, r.Refused, r.P50, r.P99, r.Service)
	return ctx.Err()
}

// peak looks at a service's memory until ctx ends.
func peak(ctx context.Context, s *server) (most float64) {
	f := familyOf(s.cmd.Process.Pid, processes())
	service := f.service
	if len(service) == 0 {
		service = f.parent
	}
	for ctx.Err() == nil {
		if now, _, err := memoryOf(service); err == nil {
			most = max(most, now)
		}
		pause(ctx, 10*time.Millisecond)
	}
	return most
}

// beyond asks for print(1) at fixed rates, up to twice the most there is.
func (b *bench) beyond(ctx context.Context) error {
	s, err := b.startAirlock()
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.await(ctx); err != nil {
		return err
	}
	if _, err := zygotesReady(ctx, s); err != nil {
		return err
	}
	var most span
	if err := most.add(ctx, airlock(nameWarm, s), &printing, 4, 5*time.Second); err != nil {
		return err
	}
	b.grown().Most = float64(len(most.times)) / most.length.Seconds()
	for _, part := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2} {
		pause(ctx, time.Second)
		c, err := constantRate(ctx, airlock(nameWarm, s), &printing, part*b.grown().Most, 4*time.Second)
		if err != nil {
			return err
		}
		b.grown().Overload = append(b.grown().Overload, Load{Workload: printing.name, Contestant: nameWarm,
			PerSecond: c.Rate, Failed: c.Failed, Summary: c.Summary})
		fmt.Fprintf(b.progress, "   %4.0f a second, %.2f of the most: p50 %.2f ms, p99 %.2f ms, %d refused\n", c.Rate, part,
			c.P50, c.P99, c.Failed)
	}
	return ctx.Err()
}

// liveMemory is what live sessions take.
func (b *bench) liveMemory(ctx context.Context) error {
	s, err := b.startAirlock("--owner-live", "200", "--live", "200")
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.await(ctx); err != nil {
		return err
	}
	if _, err := zygotesReady(ctx, s); err != nil {
		return err
	}
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.close()
	made := 0
	for _, count := range []int{0, 10, 25, 50, 100, 150} {
		for ; made < count; made++ {
			session, err := c.createSession(s.address)
			if err != nil {
				return err
			}
			if err := session.run(session.cell("1+1", ""), `"text/plain":"2"`); err != nil {
				return err
			}
		}
		pause(ctx, 2*time.Second)
		_, share, err := memoryOf(familyOf(s.cmd.Process.Pid, processes()).all())
		if err != nil {
			return err
		}
		b.grown().Live = append(b.grown().Live, Held{count, share})
		fmt.Fprintf(b.progress, "   %d live sessions: %.0f MB\n", count, share)
	}
	return ctx.Err()
}
