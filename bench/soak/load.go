package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// clients work at once.
const clients = 6

// load is the mix of clients, and what they have seen.
type load struct {
	service *service
	options options
	tenants []tenant
	bag     []act
	began   time.Time
	samples []sample
	ended   atomic.Int64 // runs

	mu      sync.Mutex
	done    map[string]int // how often each act was done
	faults  map[string]int // what was wrong, and how often
	honest  lab.Sample
	overdue lab.Sample // beyond their time limit
}

// prepare makes the tenants, and does every honest act, so that what the service keeps ready is there before it is
// looked at. Without packages it leaves out the acts that need some.
func (l *load) prepare(ctx context.Context) error {
	for _, owner := range []string{"alice", "bob", "mallory"} {
		who, err := l.service.tenant(ctx, owner)
		if err != nil {
			return err
		}
		l.tenants = append(l.tenants, who)
	}
	for _, a := range acts {
		var err error
		for range 2 {
			if !a.hostile && err == nil {
				err = a.do(ctx, l, l.tenants[0])
			}
		}
		if err != nil && (!a.optional || l.options.runtimes != "") {
			return fmt.Errorf("before the load, %s: %w", a.name, err)
		}
		if err != nil {
			fmt.Fprintf(l.options.say, "without %s: %.200v\n", a.name, err)
			continue
		}
		l.bag = append(l.bag, slices.Repeat([]act{a}, a.weight)...)
	}
	l.ended.Store(0)
	l.honest, l.overdue = nil, nil
	return nil
}

// run lets the clients work for a part of the whole, and watches the service: until its share of the time is over, or
// the runs up to the end of it are done.
func (l *load) run(ctx context.Context, from, to float64) {
	end := time.Now().Add(time.Duration(float64(l.options.duration) * (to - from)))
	runs := int64(float64(l.options.runs) * to)
	watching, stop := context.WithCancel(ctx)
	var watch, working sync.WaitGroup
	watch.Go(func() { l.watch(watching) })
	for i := range clients {
		working.Go(func() {
			for ctx.Err() == nil && (runs == 0 && time.Now().Before(end) || l.ended.Load() < runs) {
				a, who := l.bag[rand.IntN(len(l.bag))], l.tenants[i%2]
				if a.hostile {
					who = l.tenants[2]
				}
				l.perform(a, who)
			}
		})
	}
	working.Wait()
	stop()
	watch.Wait()
}

// perform does one act to its end, also when the time is over meanwhile.
func (l *load) perform(a act, who tenant) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitTime)
	defer cancel()
	err := a.do(ctx, l, who)
	turnedAway := isTurnedAway(ctx, who, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[a.name]++
	if err != nil && !turnedAway {
		l.faults[fmt.Sprintf("%s: %.600s", a.name, err)]++
	}
}

// isTurnedAway reports whether a client was turned away for now, which is no fault: by the queue, or by its own quota,
// which differs from a full disk in that the service is ready.
func isTurnedAway(ctx context.Context, who tenant, err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != http.StatusInsufficientStorage {
		return ok && e.Status == http.StatusTooManyRequests
	}
	health, err := who.Health(ctx)
	return err == nil && health.Status == client.HealthOK
}

// execute runs a program and counts it.
func (l *load) execute(ctx context.Context, who tenant, req client.RunRequest) (*client.Run, error) {
	began := time.Now()
	run, err := who.Run(ctx, req)
	took := time.Since(began)
	if err != nil {
		return nil, err
	}
	l.ended.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch run.Status {
	case client.StatusTimeout: // waiting for a slot is not running
		l.overdue = append(l.overdue, took-req.Timeout-run.StartedAt.Sub(run.CreatedAt))
	case client.StatusOK:
		l.honest = append(l.honest, took)
	}
	return run, nil
}

// verdict lists what failed for the clients.
func (l *load) verdict() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for fault, count := range l.faults {
		err = errors.Join(err, fmt.Errorf("%d times %s", count, fault))
	}
	if l.ended.Load() == 0 {
		err = errors.Join(err, errors.New("not one program ran"))
	}
	return err
}

// report says in words and rows what a soak found.
func (l *load) report(before, warm, after rest) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := lab.NewTable("", "least under load", "most", "at rest before", "warm", "after")
	for gauge, r := range rules {
		cells := []string{r.name}
		for _, v := range []int{quantile(l.samples, gauge, 0), quantile(l.samples, gauge, 1),
			before.of[gauge], warm.of[gauge], after.of[gauge]} {
			cells = append(cells, strconv.FormatFloat(math.Round(float64(v)/float64(r.unit)*10)/10, 'f', -1, 64))
		}
		t.Add(cells...)
	}
	var done []string
	for _, name := range slices.SortedFunc(maps.Keys(l.done), func(a, b string) int {
		return cmp.Compare(l.done[b], l.done[a])
	}) {
		done = append(done, fmt.Sprint(name, " ", l.done[name]))
	}
	return fmt.Sprintf("%d runs in %v; honest answers p50 %.0f ms, p99 %.0f ms; time limits overrun p99 %.0f ms of %d."+
		"\n\n%s\nDone: %s.\n", l.ended.Load(), time.Since(l.began).Round(time.Second), l.honest.P50(), l.honest.P99(),
		l.overdue.P99(), len(l.overdue), t, strings.Join(done, ", "))
}
