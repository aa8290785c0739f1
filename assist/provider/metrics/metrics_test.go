package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/metrics"
)

func TestCollector(t *testing.T) {
	var c provider.Counters
	c.Turn(provider.OpenAI, "gpt-5.1", 1500*time.Millisecond, nil)
	c.Turn(provider.OpenAI, "gpt-5.1", 500*time.Millisecond, errors.New("broke off"))
	c.Count(provider.OpenAI, "gpt-5.1", func(row *provider.Counts) { row.Files[provider.ByListing] = 3 })
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.New(metrics.Counting(&c)))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			if v := m.GetCounter().GetValue(); v != 0 {
				got[line] = v
			}
		}
	}
	want := map[string]float64{
		"airlock_provider_turns_total model=gpt-5.1 provider=openai":                  2,
		"airlock_provider_turn_errors_total model=gpt-5.1 provider=openai":            1,
		"airlock_provider_turn_seconds_total model=gpt-5.1 provider=openai":           2,
		"airlock_provider_files_total evidence=listing model=gpt-5.1 provider=openai": 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Names of models come from the caller: they must not become labels without end.
func TestLabelsAreBounded(t *testing.T) {
	var c provider.Counters
	for i := range 500 {
		c.Turn(provider.Local, fmt.Sprintf("model-%03d", i), time.Second, nil)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.New(metrics.Counting(&c)))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "airlock_provider_turns_total" {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		if n := len(f.GetMetric()); n != 101 || sum != 500 {
			t.Errorf("%d rows that add up to %v", n, sum)
		}
	}
	failing := prometheus.NewPedanticRegistry()
	failing.MustRegister(metrics.New(func(context.Context) (
		[]provider.Counts, error) {
		return nil, errors.New("no disk")
	}))
	if _, err := failing.Gather(); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("the source failed, the scrape says %v", err)
	}
}

func TestDrain(t *testing.T) {
	var c provider.Counters
	c.Turn(provider.Local, "m", time.Second, nil)
	first := c.Drain()
	c.Turn(provider.Local, "m", time.Second, nil)
	second := c.Drain()
	if len(first) != 1 || len(second) != 1 || first[0].Turns != 1 || second[0].Turns != 1 || c.Drain() != nil {
		t.Errorf("%+v, then %+v", first, second)
	}
	sum := first[0]
	sum.Add(second[0])
	if sum.Turns != 2 || sum.TurnTime != 2*time.Second {
		t.Errorf("%+v", sum)
	}
}
