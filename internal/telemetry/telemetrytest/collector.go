// Package telemetrytest has a collector that keeps what is sent to it by OTLP over HTTP.
package telemetrytest

import (
	"cmp"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is what a collector has of a span.
type Span struct {
	Name, Trace, ID, Parent string
	Node                    string // of the process, as Options.Node
	Start, End              time.Time
	Attributes              map[string]string
}

// Collector receives spans and metrics.
type Collector struct {
	*httptest.Server

	mu      sync.Mutex
	spans   []Span
	metrics []string
}

// Collect starts a collector.
func Collect(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		sent := &traces.ExportTraceServiceRequest{}
		receive(t, w, r, sent)
		c.addSpans(sent)
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		sent := &metrics.ExportMetricsServiceRequest{}
		receive(t, w, r, sent)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range sent.ResourceMetrics {
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.metrics = append(c.metrics, m.Name)
				}
			}
		}
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

// receive reads a message.
func receive(t testing.TB, w http.ResponseWriter, r *http.Request, into proto.Message) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, into)
	}
	if err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) addSpans(sent *traces.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		node := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.instance.id" {
				node = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				more := map[string]string{}
				for _, a := range s.Attributes {
					more[a.Key] = a.Value.GetStringValue()
				}
				c.spans = append(c.spans, Span{s.Name, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId),
					hex.EncodeToString(s.ParentSpanId), node, time.Unix(0, int64(s.StartTimeUnixNano)), //nolint:gosec // a time
					time.Unix(0, int64(s.EndTimeUnixNano)), more}) //nolint:gosec // a time
			}
		}
	}
}

// Spans returns the spans of a trace, all if it is empty.
func (c *Collector) Spans(trace string) (list []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if trace == "" || s.Trace == trace {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End)) })
	return list
}

// Metrics returns the names of metrics.
func (c *Collector) Metrics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.metrics)
}
