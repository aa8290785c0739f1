package native

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// fakeLive is one live session of alice, with one cell and one process, that
// answers the same to every call and notes what was asked.
type fakeLive struct {
	live.Sessions // what no test calls

	session, cell, process engine.ID

	asked []any
	file  string // what OpenFile opens
	serve string // where DialPort connects to
}

// unexported lets cells be compared that are made by their package alone.
var unexported = cmp.AllowUnexported(live.CellRequest{})

var someTime = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

func newFakeLive(t *testing.T) *fakeLive {
	t.Helper()
	f := &fakeLive{session: engine.NewID(), cell: engine.NewID(), process: engine.NewID(),
		file: filepath.Join(t.TempDir(), "f")}
	if err := os.WriteFile(f.file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fakeLive) find(caller engine.Caller, session engine.ID, within ...engine.ID) error {
	if caller.Owner != "alice" || session != f.session {
		return &engine.Error{Op: "test", Kind: engine.ErrNotFound, ID: session.String()}
	}
	for _, id := range within {
		if id != f.cell && id != f.process {
			return &engine.Error{Op: "test", Kind: engine.ErrNotFound, ID: id.String()}
		}
	}
	return nil
}

func (f *fakeLive) note(caller engine.Caller, session engine.ID, asked any, within ...engine.ID) error {
	if err := f.find(caller, session, within...); err != nil {
		return err
	}
	f.asked = append(f.asked, asked)
	return nil
}

func (f *fakeLive) Create(_ context.Context, caller engine.Caller, req live.Request) (engine.Session, error) {
	f.asked = append(f.asked, req)
	return engine.Session{ID: f.session, Owner: caller.Owner, Kind: engine.SessionLive, Live: `{"language":"python"}`,
		CreatedAt: someTime, ExpiresAt: someTime}, nil
}

func (f *fakeLive) Info(_ context.Context, caller engine.Caller, session engine.ID) (live.Info, error) {
	return live.Info{State: live.StateBusy, Cell: f.cell, Queued: 1, Count: 2, LastUse: someTime}, f.find(caller, session)
}

func (f *fakeLive) Interrupt(_ context.Context, caller engine.Caller, session engine.ID) error {
	return f.note(caller, session, "interrupt")
}

func (f *fakeLive) Restart(_ context.Context, caller engine.Caller, session engine.ID) error {
	return f.note(caller, session, "restart")
}

func (f *fakeLive) SetSecrets(
	_ context.Context, caller engine.Caller, session engine.ID, values map[string]engine.SecretValue,
) error {
	return f.note(caller, session, values["TOKEN"].Reveal())
}

func (f *fakeLive) Answer(_ context.Context, caller engine.Caller, session engine.ID, text string) error {
	return f.note(caller, session, text)
}

func (f *fakeLive) Counts() live.Counts {
	return live.Counts{Interpreters: 2, Busy: 1, Total: 40, PerOwner: 16, Cells: 9, Lost: 1, Evicted: 2, Expired: 3}
}

func (f *fakeLive) snapshot() live.Cell {
	return live.Cell{
		ID: f.cell, Session: f.session, ExecutionCount: 2, Status: live.StatusError, ExitCode: new(1), Outputs: f.outputs(),
		Files: []engine.File{{ID: engine.NewID(), Path: "a", Name: "a", MIME: "text/plain", CreatedAt: someTime,
			ExpiresAt: someTime}},
		Deleted: []string{"b"}, Dropped: []engine.DroppedFile{{Path: "c", Reason: "too large"}},
		Usage: live.Usage{Duration: time.Second, CPU: time.Millisecond, MemoryPeak: 5}, Restarted: true, Message: "because",
		CreatedAt: someTime, FinishedAt: someTime,
	}
}

func (f *fakeLive) outputs() []live.Output {
	return []live.Output{
		{Type: live.Stdout, Text: nasty},
		{Type: live.Stderr},
		{Type: live.Display, Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"x"`),
			"image/png": json.RawMessage(`"AAAA"`)}, Metadata: json.RawMessage(`{"a":1}`), DisplayID: "d", Update: true},
		{Type: live.Result, Data: map[string]json.RawMessage{"application/json": json.RawMessage(`{"a":[1]}`)}},
		{Type: live.Error, Name: "ValueError", Value: "no", Traceback: []string{"one", "two"}},
	}
}

func (f *fakeLive) Start(
	_ context.Context, caller engine.Caller, session engine.ID, req live.CellRequest,
) (live.Cell, error) {
	return live.Cell{ID: f.cell, Session: session, Status: live.StatusQueued, CreatedAt: someTime},
		f.note(caller, session, req)
}

func (f *fakeLive) Wait(_ context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error) {
	return f.snapshot(), f.find(caller, session, cell)
}

func (f *fakeLive) Cell(_ context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error) {
	return f.snapshot(), f.find(caller, session, cell)
}

func (f *fakeLive) Cells(_ context.Context, caller engine.Caller, session engine.ID) ([]live.Cell, error) {
	return []live.Cell{f.snapshot()}, f.find(caller, session)
}

func (f *fakeLive) Watch(
	_ context.Context, caller engine.Caller, session, cell engine.ID, after int,
) (iter.Seq[live.Event], error) {
	whole := f.snapshot()
	events := []live.Event{{Output: live.Output{Type: live.StartedEvent}, Cell: &whole},
		{Output: live.Output{Type: live.InputEvent}, Prompt: "Name? ", Password: true}}
	for _, o := range f.outputs() {
		events = append(events, live.Event{Output: o})
	}
	events = append(events, live.Event{Output: live.Output{Type: live.DoneEvent}, Cell: &whole})
	for i := range events {
		events[i].Seq = i + 1
	}
	return slices.Values(events[min(after, len(events)):]), f.find(caller, session, cell)
}

func (f *fakeLive) CancelCell(_ context.Context, caller engine.Caller, session, cell engine.ID) error {
	return f.note(caller, session, "cancel", cell)
}

func (f *fakeLive) Complete(
	_ context.Context, caller engine.Caller, session engine.ID, code string, cursor int,
) (live.Completion, error) {
	return live.Completion{Matches: []string{"print"}, Start: 0, End: cursor},
		f.note(caller, session, fmt.Sprint(code, " ", cursor))
}

func (f *fakeLive) Inspect(
	_ context.Context, caller engine.Caller, session engine.ID, code string, cursor, detail int,
) (live.Inspection, error) {
	return live.Inspection{}, f.note(caller, session, fmt.Sprint(code, " ", cursor, " ", detail))
}

func (f *fakeLive) IsComplete(
	_ context.Context, caller engine.Caller, session engine.ID, code string,
) (status, indent string, err error) {
	return "incomplete", "    ", f.note(caller, session, code)
}

func (f *fakeLive) Frame(
	_ context.Context, caller engine.Caller, session engine.ID, q live.FrameQuery,
) (live.FrameAnswer, error) {
	return live.FrameAnswer{Rows: 1, Total: 2, Columns: 1, Index: 1,
		Fields: json.RawMessage(`[{"name":"a","type":"integer","dtype":"int64","missing":"<NA>"}]`),
		Data:   json.RawMessage(`[[1]]`)}, f.note(caller, session, q)
}

func (f *fakeLive) Variables(_ context.Context, caller engine.Caller, session engine.ID) ([]live.Variable, error) {
	return []live.Variable{{Name: "x", Type: "int", Repr: "1", Size: 28}}, f.find(caller, session)
}

func (f *fakeLive) one() live.Process {
	return live.Process{
		ID: f.process, Session: f.session, Argv: []string{"sh"}, Dir: "/workspace",
		Terminal: &engine.TerminalSize{Columns: 80, Rows: 24},
		ExitCode: new(137), Signal: "SIGKILL", StartedAt: someTime, EndedAt: someTime, CPU: time.Second, Output: 9,
	}
}

func (f *fakeLive) StartProcess(
	_ context.Context, caller engine.Caller, session engine.ID, req live.ProcessRequest,
) (live.Process, error) {
	return f.one(), f.note(caller, session, req)
}

func (f *fakeLive) Process(_ context.Context, caller engine.Caller, session, process engine.ID) (live.Process, error) {
	return f.one(), f.find(caller, session, process)
}

func (f *fakeLive) Processes(_ context.Context, caller engine.Caller, session engine.ID) ([]live.Process, error) {
	return []live.Process{f.one()}, f.find(caller, session)
}

func (f *fakeLive) WatchProcess(
	_ context.Context, caller engine.Caller, session, process engine.ID, from int64,
) (iter.Seq[live.ProcessEvent], error) {
	end := f.one()
	all := []live.ProcessEvent{
		{Type: live.ProcessDropped, Offset: 0, Dropped: 2}, {Type: "terminal", Offset: 2, Data: []byte("a\n\nb")},
		{Type: "terminal", Offset: 6, Data: []byte{0xff}}, {Type: live.ProcessExit, Offset: 7, Process: &end},
	}
	at := slices.IndexFunc(all, func(e live.ProcessEvent) bool { return e.Offset >= from })
	return slices.Values(all[max(at, 0):]), f.find(caller, session, process)
}

func (f *fakeLive) WriteProcess(
	_ context.Context, caller engine.Caller, session, process engine.ID, data []byte, eof bool,
) error {
	return f.note(caller, session, fmt.Sprintf("%q %v", data, eof), process)
}

func (f *fakeLive) SignalProcess(
	_ context.Context, caller engine.Caller, session, process engine.ID, signal string,
) error {
	return f.note(caller, session, signal, process)
}

func (f *fakeLive) ResizeProcess(
	_ context.Context, caller engine.Caller, session, process engine.ID, size engine.TerminalSize,
) error {
	return f.note(caller, session, size, process)
}

func (f *fakeLive) KillProcess(_ context.Context, caller engine.Caller, session, process engine.ID) error {
	return f.note(caller, session, "kill", process)
}

var someEntry = engine.Entry{Path: "d/\xff", Kind: engine.EntryFile, Size: 10, Mode: 0o640, Modified: someTime}

func (f *fakeLive) ListFiles(
	_ context.Context, caller engine.Caller, session engine.ID, path string, depth int,
) ([]engine.Entry, bool, error) {
	return []engine.Entry{someEntry}, true, f.note(caller, session, fmt.Sprintf("%q %d", path, depth))
}

func (f *fakeLive) StatFile(
	_ context.Context, caller engine.Caller, session engine.ID, path string,
) (engine.Entry, error) {
	return someEntry, f.note(caller, session, path)
}

func (f *fakeLive) OpenFile(
	_ context.Context, caller engine.Caller, session engine.ID, _ string,
) (engine.Entry, *os.File, error) {
	if err := f.find(caller, session); err != nil {
		return engine.Entry{}, nil, err
	}
	file, err := os.Open(f.file)
	return engine.Entry{Path: "d/index.html", Modified: someTime}, file, err
}

func (f *fakeLive) WatchFiles(
	_ context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
) (iter.Seq[engine.FileEvent], error) {
	events := []engine.FileEvent{{Kind: engine.FileMoved, Path: "d/b", From: "d/\xff"}, {Kind: engine.FileOverflow}}
	return slices.Values(events), f.note(caller, session, fmt.Sprintf("%q %v", path, recursive))
}

func (f *fakeLive) WriteFile(
	_ context.Context, caller engine.Caller, session engine.ID, path string, content io.Reader,
) (engine.Entry, error) {
	if err := f.find(caller, session); err != nil {
		return engine.Entry{}, err
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return engine.Entry{}, err
	}
	return someEntry, f.note(caller, session, fmt.Sprintf("%q %d", path, len(text)))
}

func (f *fakeLive) MakeFolder(
	_ context.Context, caller engine.Caller, session engine.ID, path string,
) (engine.Entry, error) {
	return someEntry, f.note(caller, session, path)
}

func (f *fakeLive) MoveFile(
	_ context.Context, caller engine.Caller, session engine.ID, from, to string, replace bool,
) (engine.Entry, error) {
	return someEntry, f.note(caller, session, fmt.Sprintf("%q %q %v", from, to, replace))
}

func (f *fakeLive) RemoveFile(
	_ context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
) error {
	return f.note(caller, session, fmt.Sprintf("%q %v", path, recursive))
}

func (f *fakeLive) Ports(_ context.Context, caller engine.Caller, session engine.ID) ([]int, error) {
	return []int{80, 8000}, f.find(caller, session)
}

func (f *fakeLive) DialPort(ctx context.Context, caller engine.Caller, session engine.ID, port int) (net.Conn, error) {
	if err := f.note(caller, session, port); err != nil {
		return nil, err
	}
	if f.serve == "" {
		return nil, &engine.Error{Op: "dial", Kind: engine.ErrConflict, Hint: "Nothing listens on this port."}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", f.serve)
}

// liveRig is the dialect over a fake of live sessions.
func liveRig(t *testing.T) (*rig, *fakeLive) {
	t.Helper()
	f := newFakeLive(t)
	r := newRig(t, hello)
	r.live = f
	r.handler = r.over(r.engine)
	return r, f
}

// aboutLive reports whether a route is one of live sessions.
func aboutLive(path string) bool {
	rest, within := strings.CutPrefix(path, "/sessions/{id}/")
	return within && rest != "files" && rest != "archive"
}

// spell puts ids into a route.
func (f *fakeLive) spell(path string) string {
	return strings.NewReplacer("{id}", f.session.String(), "{cell}", f.cell.String(), "{process}", f.process.String(),
		"{port}", "8000", "{member}", "3-51", "{frame}", "f7", "{path...}", "x").Replace(path)
}

// TestLiveDocument calls every operation of live sessions, and holds each answer
// against its schema.
func TestLiveDocument(t *testing.T) {
	r, f := liveRig(t)
	doc := loadDocument(t)
	const asJSON = "Content-Type: application/json"
	called := map[string]bool{}
	for _, c := range []struct {
		method, path, query, header, body string
		status                            int
		asked                             any
	}{
		{"POST", "/sessions", "", asJSON,
			`{"kind":"live","language":"python","ttl_seconds":60,"python_packages":"onyx","limits":{"memory_bytes":5}}`, 201,
			live.Request{Language: "python", Packages: "onyx", TTL: time.Minute, Limits: engine.Limits{Memory: 5},
				Origin: engine.OriginNative}},
		{"POST", "/sessions/{id}/cells", "", asJSON, `{"code":"1","timeout_ms":5,"input":true,"silent":true}`, 200,
			live.CellRequest{Code: "1", Timeout: 5 * time.Millisecond, AllowInput: true, Silent: true}},
		{"POST", "/sessions/{id}/cells", "", accept, `{"code":"1"}`, 200, live.CellRequest{Code: "1"}},
		{"POST", "/sessions/{id}/cells", "", asJSON, `{"code":"","wait":false}`, 202, live.CellRequest{}},
		{"POST", "/sessions/{id}/cells", "", accept, `{"code":"1","wait":false}`, 400, nil},
		{"POST", "/sessions/{id}/cells", "", "", `{"code":"1"}`, 415, nil},
		{"GET", "/sessions/{id}/cells", "", "", "", 200, nil},
		{"GET", "/sessions/{id}/cells/{cell}", "", "", "", 200, nil},
		{"DELETE", "/sessions/{id}/cells/{cell}", "", "", "", 204, "cancel"},
		{"GET", "/sessions/{id}/cells/{cell}/events", "", "", "", 200, nil},
		{"GET", "/sessions/{id}/cells/{cell}/events", "?after=x", "", "", 400, nil},
		{"POST", "/sessions/{id}/interrupt", "", "", "", 204, "interrupt"},
		{"POST", "/sessions/{id}/restart", "", "", "", 204, "restart"},
		{"POST", "/sessions/{id}/input", "", asJSON, `{"text":"me"}`, 204, "me"},
		{"POST", "/sessions/{id}/complete", "", asJSON, `{"code":"日本","cursor":1}`, 200, "日本 1"},
		{"POST", "/sessions/{id}/complete", "", asJSON, `{"code":"日本"}`, 200, "日本 2"},
		{"POST", "/sessions/{id}/complete", "", asJSON, `{"code":"日本","cursor":3}`, 400, nil},
		{"POST", "/sessions/{id}/inspect", "", asJSON, `{"code":"x","cursor":0,"detail":1}`, 200, "x 0 1"},
		{"POST", "/sessions/{id}/is_complete", "", asJSON, `{"code":"if x:"}`, 200, "if x:"},
		{"GET", "/sessions/{id}/variables", "", "", "", 200, nil},
		{"POST", "/sessions/{id}/frames/{frame}", "", asJSON,
			`{"offset":5,"limit":2,"column":1,"columns":3,"sort":[{"column":2,"descending":true}],` +
				`"filters":[{"column":1,"op":">","value":"5"}],"search":"x"}`, 200,
			live.FrameQuery{Frame: "f7", Want: live.FrameWindow, Rows: [2]int{5, 7}, Columns: [2]int{1, 4},
				Sort:    []live.FrameSort{{Column: 2, Descending: true}},
				Filters: []live.FrameFilter{{Column: 1, Op: ">", Value: "5"}}, Search: "x"}},
		{"POST", "/sessions/{id}/frames/{frame}", "", asJSON, `{"want":"all"}`, 400, nil},
		{"POST", "/sessions/{id}/frames/{frame}", "", asJSON, `{"filters":[{"column":1}]}`, 400, nil},
		{"POST", "/sessions/{id}/frames/{frame}", "", asJSON, `{"sort":[{"column":1,"by":"x"}]}`, 400, nil},
		{"GET", "/sessions/{id}/ports", "", "", "", 200, nil},

		{"POST", "/sessions/{id}/processes", "", asJSON,
			`{"argv":["sh"],"env":{"A":"b"},"cwd":"d","pty":{"cols":80,"rows":24}}`, 201,
			live.ProcessRequest{Argv: []string{"sh"}, Env: map[string]string{"A": "b"}, Dir: "d",
				Terminal: &engine.TerminalSize{Columns: 80, Rows: 24}}},
		{"POST", "/sessions/{id}/processes", "", asJSON, `{"shell":"ls","pty":null}`, 201,
			live.ProcessRequest{Shell: "ls", Env: map[string]string{}, Whole: true}},
		{"POST", "/sessions/{id}/processes", "", asJSON, `{"shell":"ls","pty":{"cols":1}}`, 400, nil},
		{"GET", "/sessions/{id}/processes", "", "", "", 200, nil},
		{"GET", "/sessions/{id}/processes/{process}", "", "", "", 200, nil},
		{"DELETE", "/sessions/{id}/processes/{process}", "", "", "", 204, "kill"},
		{"GET", "/sessions/{id}/processes/{process}/events", "", "", "", 200, nil},
		{"POST", "/sessions/{id}/processes/{process}/input", "?eof=true", "", "a\x00\xff", 204, `"a\x00\xff" true`},
		{"POST", "/sessions/{id}/processes/{process}/input", "?eof=1", "", "", 400, nil},
		{"POST", "/sessions/{id}/processes/{process}/signal", "", asJSON, `{"signal":"TERM"}`, 204, "TERM"},
		{"POST", "/sessions/{id}/processes/{process}/resize", "", asJSON, `{"cols":5,"rows":6}`, 204,
			engine.TerminalSize{Columns: 5, Rows: 6}},

		{"GET", "/sessions/{id}/tree", "", "", "", 200, nil},
		{"DELETE", "/sessions/{id}/tree/{member}", "", "", "", 204, "end 3-51"},
		{"GET", "/sessions/{id}/comms", "?target=jupyter.widget", "", "", 200, nil},
		{"POST", "/sessions/{id}/comms", "", accept,
			`{"msg_type":"comm_msg","parent":"7","content":{"n":12345678901234567890},"metadata":{},"buffers":["AP8="]}`, 200,
			sentComm{"7", live.CommMessage{Kind: "comm_msg", Content: json.RawMessage(`{"n":12345678901234567890}`),
				Metadata: json.RawMessage(`{}`), Buffers: [][]byte{{0, 255}}}}},
		{"POST", "/sessions/{id}/comms", "", accept, `{"msg_type":"comm_msg","content":{},"buffers":["?"]}`, 400, nil},
		{"POST", "/sessions/{id}/comms", "", accept, `{"msg_type":"comm_msg","content":[]}`, 400, nil},
		{"POST", "/sessions/{id}/cells", "", accept, `{"code":"1","parent":"` + strings.Repeat("x", 101) + `"}`, 400, nil},

		{"POST", "/sessions/{id}/pause", "", asJSON, `{"memory":false}`, 204, "pause"},
		{"POST", "/sessions/{id}/pause", "", asJSON, `{}`, 400, nil},
		{"PUT", "/sessions/{id}/secrets", "", asJSON, `{"values":{"TOKEN":"12345678"}}`, 204, "12345678"},
		{"PUT", "/sessions/{id}/secrets", "", asJSON, `{"values":{"TOKEN":5}}`, 400, nil},
		{"GET", "/sessions/{id}/network", "", "", "", 200, nil},
		{"PUT", "/sessions/{id}/network", "", asJSON, `{"allow":["a.example.com"],"max_bytes":9}`, 200,
			engine.Network{Allow: []string{"a.example.com"}, MaxBytes: 9}},
		{"PUT", "/sessions/{id}/network", "", asJSON, `{}`, 200, engine.Network{Allow: []string{}}}, // nothing, not what the key has
		{"PUT", "/sessions/{id}/network", "", asJSON, `{"allow":1}`, 400, nil},
		{"POST", "/sessions/{id}/packages", "", asJSON, `{"names":["a","b==1"]}`, 200, []string{"a", "b==1"}},
		{"POST", "/sessions/{id}/packages", "", accept, `{"names":["a"]}`, 200, []string{"a"}},
		{"POST", "/sessions/{id}/packages", "", asJSON, `{"names":"a"}`, 400, nil},
		{"POST", "/sessions/{id}/snapshots", "", asJSON, `{"name":"v1"}`, 201, "v1"},
		{"POST", "/sessions/{id}/snapshots", "", asJSON, `{}`, 201, ""},
		{"POST", "/sessions/{id}/snapshots", "", asJSON, `{"memory":true}`, 400, nil},
		{"POST", "/sessions/{id}/fork", "", asJSON, `{"count":2}`, 201,
			live.CopyRequest{Count: 2, Origin: engine.OriginNative}},
		{"POST", "/sessions/{id}/fork", "", asJSON, `{}`, 201, live.CopyRequest{Count: 1, Origin: engine.OriginNative}},
		{"POST", "/sessions/{id}/fork", "", asJSON, `{"count":0}`, 400, nil},
		{"POST", "/sessions/{id}/fork", "", asJSON, `{"count":10000}`, 400, nil},
		{"POST", "/sessions/{id}/fork", "", asJSON, `{"memory":true}`, 400, nil},

		{"GET", "/sessions/{id}/fs/stat", "?path=d/%ff", "", "", 200, "d/\xff"},
		{"GET", "/sessions/{id}/fs/list", "?path=d&depth=2", "", "", 200, `"d" 2`},
		{"GET", "/sessions/{id}/fs/list", "?depth=0", "", "", 400, nil},
		{"GET", "/sessions/{id}/fs/read", "?path=x", "", "", 200, nil},
		{"GET", "/sessions/{id}/fs/read", "?path=x", "Range: bytes=2-4", "", 206, nil},
		{"GET", "/sessions/{id}/fs/watch", "?recursive=true", "", "", 200, `"" true`},
		{"POST", "/sessions/{id}/fs/write", "?path=x", "", "12345", 200, `"x" 5`},
		{"POST", "/sessions/{id}/fs/mkdir", "?path=a/b", "", "", 200, "a/b"},
		{"POST", "/sessions/{id}/fs/move", "?from=a&to=b&replace=true", "", "", 200, `"a" "b" true`},
		{"POST", "/sessions/{id}/fs/remove", "?path=a&recursive=true", "", "", 204, `"a" true`},

		{"GET", "/sessions/{id}/ports/{port}/{path...}", "", "", "", 409, 8000},
		{"POST", "/sessions/{id}/ports/{port}/{path...}", "", "", "", 409, 8000},
		{"PUT", "/sessions/{id}/ports/{port}/{path...}", "", "", "", 409, 8000},
		{"PATCH", "/sessions/{id}/ports/{port}/{path...}", "", "", "", 409, 8000},
		{"DELETE", "/sessions/{id}/ports/{port}/{path...}", "", "", "", 409, 8000},
		{"OPTIONS", "/sessions/{id}/ports/{port}/{path...}", "", "", "", 409, 8000},
	} {
		called[c.method+" "+c.path] = true
		t.Run(fmt.Sprint(c.method, " ", c.path, c.query, " ", c.body, " ", c.status), func(t *testing.T) {
			f.asked = nil
			w := r.send(c.method, f.spell(c.path)+c.query, c.header, c.body)
			check(t, w, c.status)
			checkAnswer(t, doc, doc.Paths.Find(strings.Replace(c.path, "...", "", 1)).GetOperation(c.method), w)
			if c.asked == nil && len(f.asked) > 0 || c.asked != nil && !cmp.Equal(f.asked, []any{c.asked}, unexported) {
				t.Errorf("asked for %v, want %v", f.asked, c.asked)
			}
		})
	}
	for _, route := range routes {
		if name := route.method + " " + route.path; !called[name] && aboutLive(route.path) {
			t.Errorf("%s is not called", name)
		}
	}
}

// TestLiveOtherOwner walks all routes below a session: another owner's data is answered
// like missing data.
func TestLiveOtherOwner(t *testing.T) {
	r, f := liveRig(t)
	r.caller = engine.Caller{Owner: "bob"}
	bodies := map[string]string{
		"cells": `{"code":"1"}`, "input": `{"text":"x"}`, "complete": `{"code":"1"}`, "inspect": `{"code":"1"}`,
		"is_complete": `{"code":"1"}`, "pause": `{"memory":false}`, "snapshots": `{}`, "fork": `{}`,
		"comms": `{"msg_type":"comm_msg","content":{}}`, "secrets": `{"values":{"TOKEN":"12345678"}}`,
		"network": `{"allow":[]}`, "packages": `{"names":["a"]}`,
		"{frame}": `{}`, "processes": `{"shell":"ls"}`, "signal": `{"signal":"TERM"}`, "resize": `{"cols":1,"rows":1}`,
	}
	for _, route := range routes {
		if !aboutLive(route.path) {
			continue
		}
		send := func(f *fakeLive) (int, string) {
			w := r.json(route.method, f.spell(route.path), bodies[route.path[strings.LastIndex(route.path, "/")+1:]])
			return w.Code, strings.ReplaceAll(w.Body.String(), f.session.String(), "")
		}
		unknown := &fakeLive{session: engine.NewID(), cell: engine.NewID(), process: engine.NewID()}
		theirs, said := send(f)
		none, saidNone := send(unknown)
		if theirs != 404 || theirs != none || said != saidNone {
			t.Errorf("%s %s: %d %s, and for an unknown id %d %s", route.method, route.path, theirs, said, none, saidNone)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("something was done: %v", f.asked)
	}
}

// TestLiveOddIDs asks for what cannot be an id.
func TestLiveOddIDs(t *testing.T) {
	r, f := liveRig(t)
	for _, path := range []string{
		"/sessions/x/variables", "/sessions/" + f.session.String() + "/cells/x",
		"/sessions/" + f.session.String() + "/cells/%00/events",
		"/sessions/" + f.session.String() + "/processes/1", "/sessions/" + f.session.String() + "/ports/0/",
		"/sessions/" + f.session.String() + "/ports/65536/",
		"/sessions/" + f.session.String() + "/ports/08/", "/sessions/" + f.session.String() + "/ports/-1/",
		"/sessions/" + f.session.String() + "/ports/ssh/",
	} {
		check(t, r.send("GET", path, "", ""), 404, "not_found", "there is no such object: ")
	}
}

func TestLiveBodies(t *testing.T) {
	r, f := liveRig(t)
	cells := f.spell("/sessions/{id}/cells")
	for body, contains := range map[string]string{
		`{}`: "code is missing", `{"code":1}`: "code must be a string",
		`{"code":"x","timeout_ms":"5"}`: "timeout_ms must be a whole number",
		`{"code":"x","input":"yes"}`:    "input must be true or false", `{"code":"x","store":true}`: "store is not a field",
		`{"code":"x","code":"y"}`: "twice",
		`{"code":"\ud800"}`:       "surrogate", `[]`: "must be a JSON object", `{"code":"` + "\xff" + `"}`: "UTF-8",
	} {
		check(t, r.json("POST", cells, body), 400, contains)
	}
	for path, body := range map[string]string{
		"/sessions/{id}/processes": `{"argv":"ls"}`, "/sessions/{id}/input": `{"text":null}`,
		"/sessions/{id}/complete": `{"code":"x","cursor":-1}`,
		"/sessions/{id}/inspect":  `{"code":"x","detail":2}`, "/sessions/{id}/is_complete": `{"code":"x","cursor":1}`,
		"/sessions/{id}/processes/{process}/signal": `{"signal":15}`,
		"/sessions/{id}/processes/{process}/resize": `{"cols":0,"rows":1}`,
	} {
		check(t, r.json("POST", f.spell(path), body), 400)
	}
	check(t, r.json("POST", f.spell("/sessions/{id}/processes"), `{"shell":"x","env":{"A":1}}`), 400,
		"env.A must be a string")
	check(t, r.json("POST", "/sessions", `{"kind":"live","code":"x"}`), 400, "code is not a field")
	check(t, r.json("POST", "/sessions", `{"language":"python"}`), 400,
		`kind must be \"live\" for a session with a language`)
	if len(f.asked) > 0 {
		t.Errorf("something was done: %v", f.asked)
	}
	large := strings.Repeat("#", 10<<20)
	check(t, r.json("POST", cells, `{"code":"`+large+`"}`), 200)
	check(t, r.json("POST", cells, `{"code":"`+strings.Repeat(`\u0000`, 1000)+`"}`), 200)
	want := []any{live.CellRequest{Code: large}, live.CellRequest{Code: strings.Repeat("\x00", 1000)}}
	if !cmp.Equal(f.asked, want, unexported) {
		t.Error("code did not arrive as it was sent")
	}
	r.handler = New(r.engine, Options{Caller: func(*http.Request) engine.Caller { return r.caller }, Live: f,
		MaxUpload: 10})
	check(t, r.send("POST", f.spell("/sessions/{id}/fs/write?path=x"), "", "12345678901"), 413, "too_large")
	r.handler = New(r.engine, Options{Caller: func(*http.Request) engine.Caller { return r.caller }, Live: readOnly{f}})
	check(t, r.send("POST", f.spell("/sessions/{id}/fs/write?path=/usr/x"), "", "1"), 403, "forbidden",
		"/usr/x cannot be changed: it is read-only in the sandbox; /workspace and /tmp are not")
}

// readOnly has files that cannot be changed.
type readOnly struct{ live.Sessions }

func (readOnly) WriteFile(
	_ context.Context, _ engine.Caller, _ engine.ID, path string, _ io.Reader,
) (engine.Entry, error) {
	return engine.Entry{}, &engine.Error{Op: "change", Kind: engine.ErrForbidden, ID: path,
		Err: &live.ReadOnlyError{Path: path}}
}
