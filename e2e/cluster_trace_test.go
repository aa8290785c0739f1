package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"html"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/telemetry/telemetrytest"
)

var tracePicture = flag.String("trace-picture", "", "file to draw the trace of TestClusterTrace in, as SVG")

// TestClusterTrace follows one run through an api, its database and its bucket, and a worker.
func TestClusterTrace(t *testing.T) {
	t.Parallel()
	collector := telemetrytest.Collect(t)
	d := newDeployment(t)
	r := &roles{deployment: d}
	to := "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL
	api := r.addAPI(to, "OTEL_BSP_SCHEDULE_DELAY=100", "AIRLOCK_NODE_NAME=api")
	r.addWorker(to, "OTEL_BSP_SCHEDULE_DELAY=100", "AIRLOCK_NODE_NAME=worker")
	r.work()
	in := api.upload("in.txt", rand.Text())
	var id [16]byte
	rand.Read(id[:])
	trace := hex.EncodeToString(id[:])
	got := api.do("POST", runs, `{"language":"bash","code":"cat in.txt in.txt > out.txt","files":[{"id":"`+in.ID+`"}]}`,
		"Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	run := find(object(t, got), "id")
	if got.status != http.StatusOK || run == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var all []telemetrytest.Span
	named := func(node, name string) *telemetrytest.Span {
		i := slices.IndexFunc(all, func(s telemetrytest.Span) bool {
			return s.Node == node && strings.HasPrefix(s.Name, name)
		})
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	eventually(t, waitTime, "the collector has the trace", func() bool {
		all = collector.Spans(trace)
		return named("api", "run bash") != nil && named("worker", "POST") != nil && named("api", "POST /api/v1/runs") != nil
	})
	t.Log(waterfall(all))
	if *tracePicture != "" {
		if err := os.WriteFile(*tracePicture, []byte(draw(all)), 0o600); err != nil {
			t.Error(err)
		}
	}
	request, of := named("api", "POST /api/v1/runs"), named("api", "run bash")
	if of.Parent != request.ID || of.Attributes["airlock.run.id"] != run || request.Parent != "b7ad6b7169203331" {
		t.Errorf("%+v is not the run %s within %+v", of, run, request)
	}
	for _, part := range []string{"queue", "stage", "sandbox", "collect", "record"} {
		if s := named("api", part); s == nil || s.Parent != of.ID {
			t.Errorf("the part %s: %+v", part, s)
		}
	}
	if !slices.ContainsFunc(all, func(s telemetrytest.Span) bool {
		return s.Attributes["db.system.name"] == "postgresql" ||
			s.Attributes["db.system"] == "postgresql"
	}) {
		t.Error("no query of the database has a span")
	}
	if !slices.ContainsFunc(all, func(s telemetrytest.Span) bool {
		return strings.HasSuffix(s.Name, " "+d.bucket.Address)
	}) {
		t.Error("no request to the bucket has a span")
	}
	api.logged("trace_id=" + trace)
}

// depths returns how deep spans are within each other.
func depths(all []telemetrytest.Span) map[string]int {
	depth := map[string]int{}
	for _, s := range all { // a span comes after its parent
		depth[s.ID] = depth[s.Parent] + 1
	}
	return depth
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// waterfall draws spans as text.
func waterfall(all []telemetrytest.Span) string {
	var b strings.Builder
	depth := depths(all)
	for _, s := range all {
		fmt.Fprintf(&b, "\n%8.2f ms %8.2f ms  %-7s%s%s", milliseconds(s.Start.Sub(all[0].Start)),
			milliseconds(s.End.Sub(s.Start)), s.Node, strings.Repeat("  ", depth[s.ID]), s.Name)
	}
	return b.String()
}

// draw draws spans as a picture.
func draw(all []telemetrytest.Span) string {
	const left, width, line, right = 290, 560, 21, 80
	var b strings.Builder
	whole := milliseconds(all[0].End.Sub(all[0].Start))
	at := func(ms float64) float64 { return left + width*ms/whole }
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+
		`<style>text{fill:#1f2328}.n{fill:#59636e}.api{fill:#0f6e66}.worker{fill:#b35900}.db{fill:#7aa7a2}`+
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9198a1}}</style>`,
		left+width+right, line*(len(all)+1))
	depth := depths(all)
	for i, s := range all {
		y, begin, took := line*i+line, milliseconds(s.Start.Sub(all[0].Start)), milliseconds(s.End.Sub(s.Start))
		class := s.Node
		if s.Attributes["db.system.name"] != "" || s.Attributes["db.system"] != "" || strings.HasPrefix(s.Name, "HEAD") {
			class = "db"
		}
		fmt.Fprintf(&b, `<text class="n" x="4" y="%d">%s</text><text x="%d" y="%d">%s</text>`+
			`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="11" rx="2"/><text class="n" x="%.1f" y="%d">%.1f ms</text>`,
			y, s.Node, 40+12*depth[s.ID], y, html.EscapeString(s.Name), class, at(begin), y-10, max(width*took/whole, 1.5),
			at(begin+took)+5, y, took)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
