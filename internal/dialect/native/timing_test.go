package native

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// An answer says where its run's time went: every part once, in order, and
// together what the caller waited for.
func TestServerTiming(t *testing.T) { synctest.Test(t, testServerTiming) }

func testServerTiming(t *testing.T) {
	const program = 30 * time.Millisecond
	r := newRig(t, func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		time.Sleep(program)
		o := sandboxtest.Exit(0)
		o.Duration = program
		return o, nil
	})
	began := time.Now()
	answer := r.json("POST", "/runs", `{"language":"python","code":"x"}`)
	waited := time.Since(began)
	header := answer.Header().Get("Server-Timing")
	form := regexp.MustCompile(`^([a-z]+);dur=([0-9]+\.[0-9]{3})$`)
	var names []string
	var sum, ran time.Duration
	for part := range strings.SplitSeq(header, ", ") {
		m := form.FindStringSubmatch(part)
		if m == nil {
			t.Fatalf("Server-Timing: %q", header)
		}
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, m[1])
		took := time.Duration(ms * float64(time.Millisecond))
		sum += took
		if m[1] == "program" {
			ran = took
		}
	}
	if got := strings.Join(names, " "); got != "admit queue stage sandbox program collect record" {
		t.Errorf("the parts are %q", got)
	}
	if ran != program || sum != waited {
		t.Errorf("the program took %v, all of it %v of %v: %q", ran, sum, waited, header)
	}
	stream := r.send("POST", "/runs", "Content-Type: application/json\nAccept: text/event-stream",
		`{"language":"python","code":"x"}`)
	if got := stream.Header().Get("Server-Timing"); got != "" {
		t.Errorf("a stream, which begins before the run, says %q", got)
	}
}
