package e2b

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// endingLive runs one cell and one process, which end with their session.
type endingLive struct {
	fakeLive
	ended chan struct{}
	begun chan struct{} // closed when a file is looked at
}

func (f *endingLive) Delete(context.Context, engine.Caller, engine.ID) error {
	close(f.ended)
	return nil
}

func (f *endingLive) Start(context.Context, engine.Caller, engine.ID, live.CellRequest) (live.Cell, error) {
	return live.Cell{ID: engine.NewID()}, nil
}

func (f *endingLive) CancelCell(context.Context, engine.Caller, engine.ID, engine.ID) error {
	return nil
}

func (f *endingLive) Watch(
	context.Context, engine.Caller, engine.ID, engine.ID, int,
) (iter.Seq[live.Event], error) {
	return func(yield func(live.Event) bool) {
		if yield(live.Event{Output: live.Output{Type: live.StartedEvent}, Cell: &live.Cell{ExecutionCount: 1}}) {
			<-f.ended
			yield(live.Event{Output: live.Output{Type: live.DoneEvent}, Cell: &live.Cell{Status: live.StatusLost}})
		}
	}, nil
}

func (f *endingLive) StartProcess(
	_ context.Context, _ engine.Caller, _ engine.ID, req live.ProcessRequest,
) (live.Process, error) {
	return live.Process{ID: engine.NewID(), Running: true, Note: req.Note}, nil
}

func (f *endingLive) FollowProcess(
	context.Context, engine.Caller, engine.ID, engine.ID, bool,
) (iter.Seq[live.ProcessEvent], error) {
	return func(yield func(live.ProcessEvent) bool) {
		<-f.ended
		yield(live.ProcessEvent{Type: live.ProcessExit, Process: &live.Process{}})
	}, nil
}

func (f *endingLive) StatFile(ctx context.Context, _ engine.Caller, _ engine.ID, _ string) (engine.Entry, error) {
	close(f.begun)
	<-f.ended
	return engine.Entry{}, errors.New("the sandbox is gone")
}

// A sandbox that ends during a request cuts its connection, before anything is told of what the end
// does to code and processes: SDKs then ask whether it still runs, and raise their TimeoutException.
func TestEndCutsRequests(t *testing.T) {
	const frame = "\x00\x00\x00\x00"
	start := `{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 99"]},"stdin":true}`
	for name, c := range map[string]struct {
		port             int
		path, kind, body string
		first            string // of the answer; empty: there is none before the end
	}{
		"code":    {portCode, "/execute", "application/json", `{"code":"x"}`, "number_of_executions"},
		"process": {portEnvd, "/process.Process/Start", "application/connect+json", frame + string(rune(len(start))) + start, "start"},
		"file":    {portEnvd, "/filesystem.Filesystem/Stat", "application/json", `{"path":"a"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHandler(t, "")
			f := &endingLive{ended: make(chan struct{}), begun: make(chan struct{})}
			h.Live = f
			server := httptest.NewServer(h)
			defer server.Close()
			made := create(t, h, `{"templateID":"base"}`)
			r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range map[string]string{"Content-Type": c.kind, "E2b-Sandbox-Id": made.SandboxID,
				"E2b-Sandbox-Port": strconv.Itoa(c.port), "X-Access-Token": made.EnvdToken} {
				r.Header.Set(key, value)
			}
			end := func() {
				if w := ask(h, "DELETE", "/sandboxes/"+made.SandboxID, ""); w.Code != http.StatusNoContent {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
			if c.first == "" {
				go func() {
					<-f.begun
					end()
				}()
			}
			answer, err := http.DefaultClient.Do(r)
			if c.first == "" {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%+v %v", answer, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			buffer := make([]byte, 4096)
			n, err := answer.Body.Read(buffer)
			if err != nil || !strings.Contains(string(buffer[:n]), c.first) {
				t.Fatalf("%d %q %v", answer.StatusCode, buffer[:n], err)
			}
			end()
			if rest, err := io.ReadAll(answer.Body); len(rest) > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q %v", rest, err)
			}
			if w := ask(h, "GET", "/health", "", "E2b-Sandbox-Id", made.SandboxID, "E2b-Sandbox-Port", strconv.Itoa(portEnvd)); w.Code != http.StatusBadGateway {
				t.Errorf("health: %d", w.Code)
			}
		})
	}
}

// The server in a sandbox sees the Host that was asked for at its creation.
func TestMaskRequestHost(t *testing.T) {
	for mask, want := range map[string]string{"localhost:${PORT}": "localhost:8000", "app.internal": "app.internal",
		"${PORT}.local": "8000.local"} {
		h, _ := newHandler(t, "")
		inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Host)
		}))
		defer inside.Close()
		h.Live = &portLive{address: inside.Listener.Addr().String()}
		made := create(t, h, `{"templateID":"base","network":{"maskRequestHost":"`+mask+`"}}`)
		for _, target := range []string{"/", "http://8000-" + made.SandboxID + ".localhost/"} {
			headers := []string{}
			if target == "/" {
				headers = []string{"E2b-Sandbox-Id", made.SandboxID, "E2b-Sandbox-Port", "8000"}
			}
			if w := ask(h, "GET", target, "", headers...); w.Body.String() != want {
				t.Errorf("%s, %s: %q, not %q", mask, target, w.Body, want)
			}
		}
	}
	h, _ := newHandler(t, "")
	for _, mask := range []string{"a b", "http://x", "x/y", "x:y", "\u0000"} {
		body := `{"templateID":"base","network":{"maskRequestHost":"` + mask + `"}}`
		if w := ask(h, "POST", "/v2/sandboxes", body); w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", mask, w.Code)
		}
	}
}

// portLive connects to one server.
type portLive struct {
	fakeLive
	address string
}

func (f *portLive) DialPort(ctx context.Context, _ engine.Caller, _ engine.ID, _ int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", f.address)
}
