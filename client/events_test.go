package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/sse"
)

func eventText(seq int, name, data string) string {
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", seq, name, data)
}

var (
	startedText = eventText(1, "started", `{"id":"r","status":"running"}`)
	outputText  = eventText(2, "output", `{"stream":"stdout","data":"a\nb\u2028"}`)
	resultText  = eventText(3, "result", `{"id":"r","status":"ok","exit_code":0}`)
)

func summary(e Event, err error) string {
	s := fmt.Sprint(e.Seq, " ", e.Type, " ", e.Stream, e.Data)
	if e.Run != nil {
		s += string(e.Run.Status)
	}
	if err != nil {
		s = "error: " + err.Error()
	}
	return s
}

var whole = []string{"1 started running", "2 output stdouta\nb\u2028", "3 result ok"}

func TestStream(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"whole":        {": hello\n\n" + startedText + ": keep-alive\n\n" + outputText + resultText, whole},
		"CRLF":         {strings.ReplaceAll(startedText+outputText+resultText, "\n", "\r\n"), whole},
		"newer event":  {eventText(1, "progress", "{}") + resultText, []string{"1 progress ", whole[2]}},
		"cut between":  {startedText, []string{whole[0], "error: unexpected EOF"}},
		"cut inside":   {startedText + outputText[:30], []string{whole[0], "error: unexpected EOF"}},
		"cut at a gap": {startedText + strings.TrimSuffix(outputText, "\n"), []string{whole[0], "error: unexpected EOF"}},
		"not numbered": {"event: output\ndata: {}\n\n", []string{`error: airlock: an event has the number ""`}},
		"not JSON": {eventText(1, "output", "x"),
			[]string{"error: airlock: event 1 cannot be read: invalid character 'x' looking for beginning of value"}},
		"more": {resultText + startedText, []string{whole[2]}},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") != "text/event-stream" || r.Method != "POST" {
					t.Errorf("%s with Accept %q", r.Method, r.Header.Get("Accept"))
				}
				io.WriteString(w, tc.text)
			})
			var got []string
			for e, err := range c.Stream(t.Context(), RunRequest{}) {
				got = append(got, summary(e, err))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStreamLeft checks that leaving the loop tells the service.
func TestStreamLeft(t *testing.T) {
	left := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, startedText)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	for range c.Stream(t.Context(), RunRequest{}) {
		break
	}
	<-left
}

// TestEventsResume breaks the connection after every event, in the middle of
// one, and by an error of the moment.
func TestEventsResume(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from := r.Header.Get("Last-Event-ID")
		asked = append(asked, from)
		switch len(asked) {
		case 1:
			io.WriteString(w, startedText+outputText[:20])
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			io.WriteString(w, startedText+outputText) // one that was seen comes again
		case 4:
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(w, resultText)
		}
	})
	var got []string
	for e, err := range c.Events(t.Context(), "r", 0) {
		got = append(got, summary(e, err))
	}
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "1", "1", "2", "2"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestEventsGiveUp(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		status int
		calls  int
	}{
		"not found": {func(w http.ResponseWriter) { w.WriteHeader(404) }, 404, 1},
		"forbidden": {func(w http.ResponseWriter) { w.WriteHeader(401) }, 401, 1},
		"nonsense":  {func(w http.ResponseWriter) { io.WriteString(w, "event: output\ndata: 1\n\n") }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { calls++; tc.answer(w) })
			var last error
			for _, err := range c.Events(t.Context(), "r", 0) {
				last = err
			}
			refused, _ := errors.AsType[*Error](last)
			if last == nil || calls != tc.calls || tc.status != 0 && (refused == nil || refused.Status != tc.status) {
				t.Errorf("%d calls, %v", calls, last)
			}
		})
	}
}

func TestEventsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, startedText)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	var last error
	for e, err := range c.Events(ctx, "r", 0) {
		if e.Seq == 1 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("error %v", last)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(startedText + outputText + resultText)
	f.Add("data\n\nid\n\n: x\n\n")
	f.Add("id: 1\r\nevent: output\r\ndata: {}\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for f, err := range sse.Read(strings.NewReader(text), maxEvent) {
			var e Event
			if err == nil {
				e, _, err = runEvent(f)
			}
			if n++; n > len(text) {
				t.Fatal("more events than bytes")
			}
			if err == nil && (e.Type == EventStarted || e.Type == EventResult) && e.Run == nil {
				t.Errorf("%q has no run", e.Type)
			}
		}
	})
}
