package native

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
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
	session, cell, process engine.ID

	asked []any
	file  string // what OpenFile opens
}

var someTime = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

func newFakeLive(t *testing.T) *fakeLive {
	t.Helper()
	f := &fakeLive{session: engine.NewID(), cell: engine.NewID(), process: engine.NewID(), file: filepath.Join(t.TempDir(), "f")}
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
	return engine.Session{ID: f.session, Owner: caller.Owner, Kind: engine.SessionLive, Live: `{"language":"python"}`, CreatedAt: someTime, ExpiresAt: someTime}, nil
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

func (f *fakeLive) Answer(_ context.Context, caller engine.Caller, session engine.ID, text string) error {
	return f.note(caller, session, text)
}

func (f *fakeLive) Counts() live.Counts {
	return live.Counts{Interpreters: 2, Busy: 1, Total: 40, PerOwner: 16, Cells: 9, Lost: 1, Evicted: 2, Expired: 3}
}

func (f *fakeLive) snapshot() live.Cell {
	return live.Cell{
		ID: f.cell, Session: f.session, ExecutionCount: 2, Status: live.StatusError, Outputs: f.outputs(),
		Files:   []engine.File{{ID: engine.NewID(), Path: "a", Name: "a", MIME: "text/plain", CreatedAt: someTime, ExpiresAt: someTime}},
		Deleted: []string{"b"}, Dropped: []engine.DroppedFile{{Path: "c", Reason: "too large"}},
		Usage: live.Usage{Duration: time.Second, CPU: time.Millisecond, MemoryPeak: 5}, Restarted: true, Message: "because", CreatedAt: someTime, FinishedAt: someTime,
	}
}

func (f *fakeLive) outputs() []live.Output {
	return []live.Output{
		{Type: live.Stdout, Text: nasty},
		{Type: live.Stderr},
		{Type: live.Display, Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"x"`), "image/png": json.RawMessage(`"AAAA"`)}, Metadata: json.RawMessage(`{"a":1}`), DisplayID: "d", Update: true},
		{Type: live.Result, Data: map[string]json.RawMessage{"application/json": json.RawMessage(`{"a":[1]}`)}},
		{Type: live.Error, Name: "ValueError", Value: "no", Traceback: []string{"one", "two"}},
	}
}

func (f *fakeLive) Start(_ context.Context, caller engine.Caller, session engine.ID, req live.CellRequest) (live.Cell, error) {
	return live.Cell{ID: f.cell, Session: session, Status: live.StatusQueued, CreatedAt: someTime}, f.note(caller, session, req)
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

func (f *fakeLive) Watch(_ context.Context, caller engine.Caller, session, cell engine.ID, after int) (iter.Seq[live.Event], error) {
	whole := f.snapshot()
	events := []live.Event{{Output: live.Output{Type: live.StartedEvent}, Cell: &whole}, {Output: live.Output{Type: live.InputEvent}, Prompt: "Name? ", Password: true}}
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

func (f *fakeLive) Complete(_ context.Context, caller engine.Caller, session engine.ID, code string, cursor int) (live.Completion, error) {
	return live.Completion{Matches: []string{"print"}, Start: 0, End: cursor}, f.note(caller, session, fmt.Sprint(code, " ", cursor))
}

func (f *fakeLive) Inspect(_ context.Context, caller engine.Caller, session engine.ID, code string, cursor, detail int) (live.Inspection, error) {
	return live.Inspection{}, f.note(caller, session, fmt.Sprint(code, " ", cursor, " ", detail))
}

func (f *fakeLive) IsComplete(_ context.Context, caller engine.Caller, session engine.ID, code string) (status, indent string, err error) {
	return "incomplete", "    ", f.note(caller, session, code)
}

func (f *fakeLive) Variables(_ context.Context, caller engine.Caller, session engine.ID) ([]live.Variable, error) {
	return []live.Variable{{Name: "x", Type: "int", Repr: "1", Size: 28}}, f.find(caller, session)
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
	return strings.NewReplacer("{id}", f.session.String(), "{cell}", f.cell.String(), "{process}", f.process.String(), "{port}", "8000", "{path...}", "x").Replace(path)
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
		{"POST", "/sessions", "", asJSON, `{"kind":"live","language":"python","ttl_seconds":60,"python_packages":"onyx","limits":{"memory_bytes":5}}`, 201,
			live.Request{Language: "python", Packages: "onyx", TTL: time.Minute, Limits: engine.Limits{Memory: 5}, Origin: engine.OriginNative}},
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
	} {
		called[c.method+" "+c.path] = true
		t.Run(fmt.Sprint(c.method, " ", c.path, c.query, " ", c.body, " ", c.status), func(t *testing.T) {
			f.asked = nil
			w := r.send(c.method, f.spell(c.path)+c.query, c.header, c.body)
			check(t, w, c.status)
			checkAnswer(t, doc, doc.Paths.Find(strings.Replace(c.path, "...", "", 1)).GetOperation(c.method), w)
			if c.asked == nil && len(f.asked) > 0 || c.asked != nil && !cmp.Equal(f.asked, []any{c.asked}) {
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

// TestLiveOtherOwner walks all routes below a session: what belongs to somebody else
// looks like what is not there.
func TestLiveOtherOwner(t *testing.T) {
	r, f := liveRig(t)
	r.caller = engine.Caller{Owner: "bob"}
	bodies := map[string]string{
		"cells": `{"code":"1"}`, "input": `{"text":"x"}`, "complete": `{"code":"1"}`, "inspect": `{"code":"1"}`, "is_complete": `{"code":"1"}`,
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
		"/sessions/x/variables", "/sessions/" + f.session.String() + "/cells/x", "/sessions/" + f.session.String() + "/cells/%00/events",
	} {
		check(t, r.send("GET", path, "", ""), 404, "not_found")
	}
}

func TestLiveBodies(t *testing.T) {
	r, f := liveRig(t)
	cells := f.spell("/sessions/{id}/cells")
	for body, contains := range map[string]string{
		`{}`: "code is missing", `{"code":1}`: "code must be a string", `{"code":"x","timeout_ms":"5"}`: "timeout_ms must be a whole number",
		`{"code":"x","input":"yes"}`: "input must be true or false", `{"code":"x","store":true}`: "store is not a field", `{"code":"x","code":"y"}`: "twice",
		`{"code":"\ud800"}`: "surrogate", `[]`: "must be a JSON object", `{"code":"` + "\xff" + `"}`: "UTF-8",
	} {
		check(t, r.json("POST", cells, body), 400, contains)
	}
	for path, body := range map[string]string{
		"/sessions/{id}/input": `{"text":null}`, "/sessions/{id}/complete": `{"code":"x","cursor":-1}`,
		"/sessions/{id}/inspect": `{"code":"x","detail":2}`, "/sessions/{id}/is_complete": `{"code":"x","cursor":1}`,
	} {
		check(t, r.json("POST", f.spell(path), body), 400)
	}
	check(t, r.json("POST", "/sessions", `{"kind":"live","code":"x"}`), 400, "code is not a field")
	if len(f.asked) > 0 {
		t.Errorf("something was done: %v", f.asked)
	}
	large := strings.Repeat("#", 10<<20)
	check(t, r.json("POST", cells, `{"code":"`+large+`"}`), 200)
	check(t, r.json("POST", cells, `{"code":"`+strings.Repeat(`\u0000`, 1000)+`"}`), 200)
	want := []any{live.CellRequest{Code: large}, live.CellRequest{Code: strings.Repeat("\x00", 1000)}}
	if !cmp.Equal(f.asked, want) {
		t.Error("code did not arrive as it was sent")
	}
}

// TestCellEvents checks that events come as they are and that a client comes back.
func TestCellEvents(t *testing.T) {
	r, f := liveRig(t)
	whole := parseEvents(t, r.send("POST", f.spell("/sessions/{id}/cells"), accept, `{"code":"1"}`).Body)
	events := f.spell("/sessions/{id}/cells/{cell}/events")
	var names []string
	for i, e := range whole {
		names = append(names, e.event)
		if e.id != i+1 {
			t.Errorf("event %d has the id %d", i+1, e.id)
		}
	}
	if diff := cmp.Diff([]string{"started", "input", "stdout", "stderr", "display", "result", "error", "done"}, names); diff != "" {
		t.Fatal(diff)
	}
	if whole[2].data["text"] != nasty || whole[3].data["text"] != "" || len(whole[7].data["outputs"].([]any)) > 0 {
		t.Errorf("%v", whole)
	}
	for _, from := range []string{"Last-Event-ID: 5", ""} {
		query := ""
		if from == "" {
			query = "?after=5"
		}
		rest := parseEvents(t, r.send("GET", events+query, from, "").Body)
		if diff := cmp.Diff(whole[5:], rest, cmp.AllowUnexported(parsed{}), cmp.FilterPath(func(p cmp.Path) bool {
			return strings.Contains(p.String(), "files") || p.Last().String() == `["files"]`
		}, cmp.Ignore())); diff != "" {
			t.Error(diff)
		}
	}
}

func TestStatus(t *testing.T) {
	r, _ := liveRig(t)
	for caller, status := range map[engine.Caller]int{
		{Owner: "alice", Admin: true}: 200, {Owner: engine.Local}: 200, {Owner: "alice"}: 403, {Owner: engine.Local, Key: "k"}: 403,
	} {
		r.caller = caller
		w := r.send("GET", "/status", "", "")
		check(t, w, status)
		if status == 200 {
			check(t, w, 200, `"running":0`, `"live":{"interpreters":2,"busy":1,"limit":40,"owner_limit":16,"cells":9,"lost":1,"evicted":2,"expired":3}`)
		}
	}
}

// TestNoLive checks a service without interpreters.
func TestNoLive(t *testing.T) {
	r := newRig(t, hello)
	check(t, r.json("POST", "/sessions", `{"kind":"live"}`), 503, "no live sessions")
	check(t, r.json("POST", "/sessions/"+engine.NewID().String()+"/cells", `{"code":"1"}`), 503, "no live sessions")
}
