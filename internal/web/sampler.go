package web

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// sampler samples the counters of the service every few seconds, for the charts of the
// status page.
type sampler struct {
	stats func() engine.Stats
	every time.Duration
	done  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	last  engine.Stats
	ticks []tick // oldest first
}

// tick is what happened between two samples.
type tick struct {
	Rate          float64       // runs that ended, a second
	Median, Worst time.Duration // of how long programs ran, 50 and 95 of 100; 0: none ended
	Running       int
	Queued        int
}

const (
	sampleEvery = 5 * time.Second
	keptTicks   = 180 // a quarter of an hour
)

func newSampler(stats func() engine.Stats, every time.Duration) *sampler {
	s := &sampler{stats: stats, every: every, done: make(chan struct{}), last: stats()}
	s.ended.Go(func() {
		clock := time.NewTicker(every)
		defer clock.Stop()
		for {
			select {
			case <-s.done:
				return
			case <-clock.C:
				s.sample()
			}
		}
	})
	return s
}

func (s *sampler) stop() {
	close(s.done)
	s.ended.Wait()
}

func (s *sampler) sample() {
	now := s.stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tick{Running: now.Running, Queued: now.Queued}
	ended := ran(now) - ran(s.last)
	t.Rate = float64(ended) / s.every.Seconds()
	between := engine.Histogram{Bounds: now.Duration.Bounds, Counts: make([]int64, len(now.Duration.Counts))}
	for i := range between.Counts {
		between.Counts[i] = now.Duration.Counts[i]
		if i < len(s.last.Duration.Counts) {
			between.Counts[i] -= s.last.Duration.Counts[i]
		}
		between.Count += between.Counts[i]
	}
	t.Median, t.Worst = percentile(between, 0.5), percentile(between, 0.95)
	s.last = now
	s.ticks = append(s.ticks, t)
	if len(s.ticks) > keptTicks {
		s.ticks = s.ticks[len(s.ticks)-keptTicks:]
	}
}

func ran(s engine.Stats) (n int64) {
	for _, ended := range s.Runs {
		n += ended
	}
	return n
}

// percentile estimates a percentile from a histogram. It assumes that values within a
// bucket are evenly spread, and that values beyond the last bound equal it.
func percentile(h engine.Histogram, part float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	want := part * float64(h.Count)
	var below float64
	var from time.Duration
	for i, bound := range h.Bounds {
		in := float64(h.Counts[i])
		if below+in >= want && in > 0 {
			return from + time.Duration(float64(bound-from)*(want-below)/in)
		}
		below, from = below+in, bound
	}
	return from
}

func (s *sampler) history() []tick {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ticks)
}

// chart is a line over the sampled time, with its latest and its highest value in words.
type chart struct {
	Title       string
	Now, Most   string            // "3.2", "at most 4"
	Line, Area  template.HTMLAttr // d attributes of SVG paths
	Description string
}

const chartWidth, chartHeight = 360.0, 72.0

func newChart(title string, ticks []tick, value func(tick) float64, words func(float64) string) chart {
	values := make([]float64, len(ticks))
	var most float64
	for i, t := range ticks {
		values[i] = value(t)
		most = max(most, values[i])
	}
	c := chart{Title: title, Now: "none yet"}
	if len(values) == 0 {
		c.Description = title + ": nothing measured yet"
		return c
	}
	c.Now, c.Most = words(values[len(values)-1]), "at most "+words(most)
	if most == 0 {
		c.Most = words(0) + " so far"
	}
	c.Description = fmt.Sprintf("%s over the last %s: now %s, %s", title,
		page.Rough(time.Duration(len(ticks))*sampleEvery), c.Now, c.Most)
	scale := math.Max(most, 1e-9)
	var line strings.Builder
	x := func(i int) float64 { return chartWidth - float64(len(values)-1-i)*chartWidth/(keptTicks-1) }
	before := x(0) - chartWidth/(keptTicks-1)
	for i, v := range values {
		y := chartHeight - 1 - v/scale*(chartHeight-6)
		if i == 0 { // a first value by itself is a short line
			fmt.Fprintf(&line, "M%.1f %.1f", before, y)
		}
		fmt.Fprintf(&line, "L%.1f %.1f", x(i), y)
	}
	area := fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fZ", line.String(), chartWidth, chartHeight, before, chartHeight)
	c.Line, c.Area = template.HTMLAttr(`d="`+line.String()+`"`), template.HTMLAttr(`d="`+area+`"`) //nolint:gosec // ours
	return c
}

// charts returns the charts of the status page.
func charts(ticks []tick) []chart {
	took := func(v float64) string {
		if v == 0 {
			return "no runs"
		}
		return engine.DurationText(time.Duration(v))
	}
	return []chart{
		newChart("Runs a second", ticks, func(t tick) float64 { return t.Rate },
			func(v float64) string { return page.TrimZero(fmt.Sprintf("%.1f", v)) }),
		newChart("Run time, median", ticks, func(t tick) float64 { return float64(t.Median) }, took),
		newChart("Run time, 95 of 100 within", ticks, func(t tick) float64 { return float64(t.Worst) }, took),
		newChart("Runs that wait", ticks, func(t tick) float64 { return float64(t.Queued) },
			func(v float64) string { return fmt.Sprint(int(v)) }),
	}
}
