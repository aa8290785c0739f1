package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/telemetry"
	"github.com/airlock-run/airlock/internal/telemetry/telemetrytest"
)

// A request has a trace through the processes that it reaches, with the parts of its run.
func TestTrace(t *testing.T) {
	c := telemetrytest.Collect(t)
	sender, err := telemetry.Start(t.Context(), telemetry.Options{Endpoint: c.URL + "/",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	worker := httptest.NewServer(sender.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer worker.Close()
	plain := http.DefaultTransport.(*http.Transport).Clone()
	defer plain.CloseIdleConnections()
	through := sender.Transport(plain)
	ask := func(ctx context.Context) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, worker.URL+"/a-ticket?a-ticket", http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := through.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		answer.Body.Close()
	}
	api := httptest.NewServer(sender.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ask(r.Context())
		sender.Run(r.Context(), &engine.Run{Language: "python", Timings: []engine.Timing{
			{Name: "queue", Took: time.Millisecond}, {Name: "sandbox", Took: time.Second}}})
	})))
	defer api.Close()
	const caller = "0af7651916cd43dd8448eb211c80319c"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL+"/a-ticket?a-ticket", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", "00-"+caller+"-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	ask(t.Context()) // a process asks by itself: its own spans are none, and the worker's is another trace
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "airlock_runs_total"}))
	if err := sender.Gather(t.Context(), registry); err != nil {
		t.Fatal(err)
	}
	if err := sender.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	named := func(name string) telemetrytest.Span {
		t.Helper()
		all := c.Spans(caller)
		i := slices.IndexFunc(all, func(s telemetrytest.Span) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("there is no span %q: %+v", name, all)
		}
		return all[i]
	}
	request, run := named("GET"), named("run python")
	sent, received := named("POST "+worker.Listener.Addr().String()), named("POST")
	for _, one := range []struct {
		what   telemetrytest.Span
		parent string
	}{
		{request, "b7ad6b7169203331"}, {run, request.ID}, {named("queue"), run.ID}, {named("sandbox"), run.ID},
		{sent, request.ID}, {received, sent.ID},
	} {
		if one.what.Parent != one.parent {
			t.Errorf("%+v is not within %s", one.what, one.parent)
		}
	}
	if all := c.Spans(""); len(all) != 7 {
		t.Errorf("%d spans: %+v", len(all), all)
	}
	for _, s := range c.Spans("") {
		for name, value := range s.Attributes {
			if strings.Contains(value, "ticket") {
				t.Errorf("%s of %s has what is in an address: %s", name, s.Name, value)
			}
		}
	}
	if !slices.Contains(c.Metrics(), "airlock_runs_total") {
		t.Errorf("metrics: %v", c.Metrics())
	}
}

// Without an endpoint nothing is wrapped.
func TestNone(t *testing.T) {
	none, err := telemetry.Start(t.Context(), telemetry.Options{})
	if none != nil || err != nil {
		t.Fatal(none, err)
	}
	h := http.NotFoundHandler()
	if got := none.Handler(h); got == nil {
		t.Error("no handler")
	}
	if none.Transport(http.DefaultTransport) != http.DefaultTransport || none.Queries() != nil {
		t.Error("something is wrapped")
	}
	none.Run(t.Context(), &engine.Run{})
	if err := errors.Join(none.Gather(t.Context(), nil), none.Close(t.Context())); err != nil {
		t.Error(err)
	}
}
