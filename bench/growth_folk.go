package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

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
	if _, err := zygotesReady(ctx, s); err != nil { // earlier requests may be cut off
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
	s, err = b.serve(f.data, f.env, unlimited...)
	return s.warmed(ctx, err)
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
	s, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	r := &Rush{Clients: 1000}
	request, err := (*connection)(nil).runRequest(s.address, &printing)
	if err != nil {
		return err
	}
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.Service = peak(watched, s) })
	times, failures := make(sample, r.Clients), make([]error, r.Clients)
	var all sync.WaitGroup
	for i := range r.Clients {
		all.Go(func() {
			began := time.Now()
			c, err := dial(s.address)
			if err == nil {
				defer c.close()
				err = c.do(request)
			}
			failures[i], times[i] = err, time.Since(began)
		})
	}
	all.Wait()
	stop()
	watching.Wait()
	for _, err := range failures {
		e, failed := errors.AsType[*statusError](err)
		switch {
		case err == nil:
			r.Answered++
		case failed && (e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable):
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
	s, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
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
	s, err := b.startWarm(ctx, "--owner-live", "200", "--live", "200")
	if err != nil {
		return err
	}
	defer s.stop()
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
