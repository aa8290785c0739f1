package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// Traces is what it costs to send traces: print(1) in a service that sends none, and in one that sends them.
type Traces struct {
	Print Beside `json:"print"`
	Sent  int64  `json:"sent"` // requests to the collector
}

const nameTraced = "airlock, traced"

// measureTraces compares two services. The collector is in this process, and reads nothing.
func (b *bench) measureTraces(ctx context.Context) error {
	r := &Traces{}
	var sent atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	defer collector.Close()
	plain, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer plain.stop()
	traced, err := b.startWarm(ctx, "--otlp-endpoint", collector.URL)
	if err != nil {
		return err
	}
	defer traced.stop()
	r.Print, err = b.compare(ctx, &printing, 5*b.plan.prints, airlock(nameWarm, plain), airlock(nameTraced, traced))
	if r.Sent = sent.Load(); err == nil && r.Sent == 0 {
		return fmt.Errorf("the service that is to send traces sends none")
	}
	b.results.Traces = r
	fmt.Fprint(b.progress, "   "+r.text())
	return err
}

func (r *Traces) goals() []Goal {
	g := Goal{Name: "traces: print(1) while they are sent, against a service that sends none", Unit: "x",
		Must: 1.03, Aim: 1}
	if r != nil {
		g.Measured = new(r.Print.Theirs.P50 / r.Print.Native.P50)
	}
	return []Goal{g}
}

func (r *Traces) text() string {
	if r == nil {
		return "Not measured in this run.\n"
	}
	return fmt.Sprintf("print(1) takes %s ms in a service that sends no traces, and %s in one that sends them: %.2fx.\n",
		ms(r.Print.Native.P50), ms(r.Print.Theirs.P50), r.Print.Theirs.P50/r.Print.Native.P50)
}
