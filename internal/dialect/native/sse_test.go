package native

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

const accept = "Content-Type: application/json\nAccept: text/event-stream"

// nasty is output that breaks careless framing.
const nasty = "a\u0085b\u2028c\u2029d\r\ne\n\nevent: result\ndata: {}\n\n💥\x7f"

func TestStream(t *testing.T) {
	r := newRig(t, func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte(nasty))
		host.Output(engine.Stderr, []byte("warning"))
		return sandboxtest.Exit(3), nil
	})
	w := r.send("POST", "/runs", accept, `{"language":"python","code":"x"}`)
	check(t, w, 200)
	if w.Header().Get("Content-Type") != "text/event-stream; charset=utf-8" || !w.Flushed {
		t.Errorf("headers %v, flushed %v", w.Header(), w.Flushed)
	}
	raw := w.Body.String()
	for i := range len(raw) {
		if raw[i] >= 0x7f || raw[i] < ' ' && raw[i] != '\n' {
			t.Fatalf("byte %x in %q", raw[i], raw)
		}
	}
	events := parseEvents(t, strings.NewReader(raw))
	var last map[string]any
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.id, " ", e.event, " ", e.data["stream"], " ", e.data["data"], " ", e.data["status"]))
		last = e.data
	}
	want := []string{
		"1 started <nil> <nil> running", "2 output stdout " + nasty + " <nil>", "3 output stderr warning <nil>",
		"4 result <nil> <nil> error",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// The log of the run says the same, from wherever one wants.
	id := last["id"].(string)
	if location := w.Header().Get("Location"); location != "/api/v1/runs/"+id {
		t.Errorf("Location %q", location)
	}
	for header, n := range map[string]int{"": 4, "Last-Event-ID: 2": 2, "Last-Event-ID: 4": 0, "Last-Event-ID: 900": 0} {
		if got := parseEvents(t, r.send("GET", "/runs/"+id+"/events", header, "").Body); len(got) != n {
			t.Errorf("%q gives %d events", header, len(got))
		}
	}
	if got := parseEvents(t, r.send("GET", "/runs/"+id+"/events?after=3", "", "").Body); len(got) != 1 || got[0].id != 4 {
		t.Errorf("after=3 gives %v", got)
	}
}

type parsed struct {
	id    int
	event string
	data  map[string]any
}

// parseEvents follows the standard of Server-Sent Events to the letter.
func parseEvents(t *testing.T, r io.Reader) (events []parsed) {
	t.Helper()
	var e parsed
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			e.id, _ = strconv.Atoi(value)
		case "event":
			e.event = value
		case "data":
			if e.data != nil {
				t.Fatalf("two lines of data: %q", value)
			}
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				t.Fatalf("%v in %q", err, value)
			}
		case "":
			if e.event != "" {
				events = append(events, e)
			}
			e = parsed{}
		default:
			t.Fatalf("line %q", lines.Text())
		}
	}
	return events
}

// TestClientLeaves checks that a run ends with the client that waits for it,
// and not with one that only looks on.
func TestClientLeaves(t *testing.T) {
	started := make(chan struct{})
	killed := make(chan struct{})
	r := newRig(t, func(ctx context.Context, spec *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		started <- struct{}{}
		outcome := sandboxtest.UntilKilled(ctx)
		killed <- struct{}{}
		return outcome, nil
	})
	server := httptest.NewServer(r.handler)
	defer server.Close()

	request := func(ctx context.Context, method, path, accept, body string) error {
		req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", accept)
		resp, err := server.Client().Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for _, accept := range []string{"application/json", "text/event-stream"} {
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- request(ctx, "POST", "/runs", accept, `{"language":"python","code":"x"}`) }()
		<-started
		leave()
		<-killed
		if err := <-done; err == nil {
			t.Errorf("%s: the client got an answer", accept)
		}
	}

	run, err := r.engine.Start(t.Context(), r.caller, engine.RunRequest{Language: "python", Code: "x"})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- request(ctx, "GET", "/runs/"+run.ID.String()+"/events", "", "") }()
	leave()
	<-done
	if now, err := r.engine.GetRun(t.Context(), r.caller, run.ID); err != nil || now.Status != engine.StatusRunning {
		t.Errorf("the run is %v, %v", now.Status, err)
	}
	go func() { done <- request(t.Context(), "DELETE", "/runs/"+run.ID.String(), "", "") }()
	<-killed
	if err := <-done; err != nil {
		t.Error(err)
	}
	if now, err := r.engine.GetRun(t.Context(), r.caller, run.ID); err != nil || now.Status != engine.StatusCancelled {
		t.Errorf("the run is %v, %v", now.Status, err)
	}
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent iter.Seq[engine.Event] = func(yield func(engine.Event) bool) {
			time.Sleep(40 * time.Second) // of the bubble's clock
			yield(engine.Event{Seq: 1, Type: engine.EventResult, Run: &engine.Run{}})
		}
		w := httptest.NewRecorder()
		q := &request{Request: &rest.Request{W: w, Request: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)}}
		finished := sendFrames(q, silent, appendEvent)
		if got := strings.Count(w.Body.String(), ": keep-alive\n\n"); got != 2 || !finished {
			t.Errorf("%d signs of life in 40 s, finished %v", got, finished)
		}
	})
}

// TestStuckReader checks that a client which takes nothing ends its stream,
// and that the goroutine behind it ends too.
func TestStuckReader(t *testing.T) {
	var events iter.Seq[engine.Event] = func(yield func(engine.Event) bool) {
		for i := 1; yield(engine.Event{Seq: i, Type: engine.EventOutput, Stream: engine.Stdout, Data: "x"}); i++ {
		}
	}
	w := &brokenWriter{ResponseRecorder: httptest.NewRecorder(), after: 3}
	q := &request{Request: &rest.Request{W: w, Request: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)}}
	if sendFrames(q, events, appendEvent) {
		t.Error("it finished")
	}
}

type brokenWriter struct {
	*httptest.ResponseRecorder
	after int
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(p)
}

func FuzzEvent(f *testing.F) {
	f.Add(nasty)
	f.Add("id: 7\n\n")
	f.Add("\x00\ufffd\U0010ffff\ue000\ud7ff")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		frame, _ := appendEvent(nil, engine.Event{Seq: 9, Type: engine.EventOutput, Stream: engine.Stdout, Data: text})
		for _, b := range frame {
			if b >= 0x7f || b < ' ' && b != '\n' {
				t.Fatalf("byte %x in %q", b, frame)
			}
		}
		events := parseEvents(t, strings.NewReader(string(frame)))
		if len(events) != 1 || events[0].id != 9 || events[0].data["data"] != text {
			t.Errorf("%q comes out as %v", text, events)
		}
	})
}

// A stream with all output has what the run leaves out, and bytes that are no text; a client that
// leaves it does not keep the program waiting.
func TestStreamAllOutput(t *testing.T) {
	long := strings.Repeat("0123456789\n", 400_000)
	r := newRig(t, func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		for text := long; text != ""; text = text[min(len(text), 1<<16):] {
			host.Output(engine.Stdout, []byte(text[:min(len(text), 1<<16)]))
		}
		host.Output(engine.Stderr, []byte("\xff"))
		return sandboxtest.Exit(0), nil
	})
	w := r.send("POST", "/runs", accept, `{"language":"python","code":"x","all_output":true}`)
	check(t, w, 200)
	var out strings.Builder
	var base string
	var last map[string]any
	for _, block := range strings.Split(w.Body.String(), "\n\n") {
		_, data, _ := strings.Cut(block, "data: ")
		if strings.Contains(block, "id: ") {
			t.Fatalf("an event has an id: %.60q", block)
		}
		var body map[string]any
		if json.Unmarshal([]byte(data), &body) != nil {
			continue
		}
		if text, ok := body["data"].(string); ok {
			out.WriteString(text)
		}
		if text, ok := body["base64"].(string); ok {
			base = text
		}
		last = body
	}
	if out.String() != long || base != "/w==" || last["truncated"] != true || len(last["files"].([]any)) != 0 {
		t.Errorf("%d bytes, %q, truncated %v, files %v", out.Len(), base, last["truncated"], last["files"])
	}
	check(t, r.send("POST", "/runs", accept+"\nIdempotency-Key: k", `{"language":"python","code":"x","all_output":true}`), 400)
	check(t, r.send("POST", "/runs", "Content-Type: application/json", `{"language":"python","code":"x","all_output":true}`), 400)
}
