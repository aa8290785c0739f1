package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// waitTime is for what must happen.
const waitTime = 2 * time.Minute

// fake is an engine with interpreters of a language of one word and an argument a line:
// print, file (a name), show (a picture), fail, and wait (until it is cancelled).
type fake struct {
	created []live.Request

	mu       sync.Mutex
	files    []*fakeFile // newest first
	sessions map[engine.ID]*fakeSession
	looks    int           // calls of UseSession
	started  chan struct{} // gets one for each wait
	canceled chan struct{} // and one for each wait that was cancelled
}

type fakeFile struct {
	engine.File
	data []byte
}

type fakeSession struct {
	engine.Session
	caller engine.Caller
	places map[string]*fakeFile
	fresh  []*fakeFile // written since the last cell
	stored uint64      // as in live.Info
	cells  map[engine.ID]*fakeCell
}

type fakeCell struct {
	live.Cell
	stop chan struct{}
}

// interpreters is a fake as live.Sessions.
type interpreters struct {
	*fake
	uncalled
}

type uncalled struct{ live.Sessions }

func (i interpreters) ListFiles(
	ctx context.Context, caller engine.Caller, id engine.ID, at string, depth int,
) ([]engine.Entry, bool, error) {
	return i.Sessions.ListFiles(ctx, caller, id, at, depth)
}

func (i interpreters) OpenFile(
	ctx context.Context, caller engine.Caller, id engine.ID, at string,
) (engine.Entry, *os.File, error) {
	return i.Sessions.OpenFile(ctx, caller, id, at)
}

func newFake() *fake {
	return &fake{sessions: map[engine.ID]*fakeSession{}, started: make(chan struct{}, 100),
		canceled: make(chan struct{}, 100)}
}

func gone() error { return &engine.Error{Op: "find", Kind: engine.ErrNotFound} }

func (f *fake) put(owner engine.Owner, name string, data []byte, run engine.ID) *fakeFile {
	made := &fakeFile{engine.File{
		ID: engine.NewID(), Owner: owner, Name: name, Path: name, Origin: engine.OriginOpenAI, Size: int64(len(data)),
		MIME: "text/plain", Run: run,
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
	}, data}
	f.files = append([]*fakeFile{made}, f.files...)
	return made
}

func (f *fake) find(owner engine.Owner, id engine.ID) (*fakeFile, error) {
	for _, file := range f.files {
		if file.ID == id && file.Owner == owner {
			return file, nil
		}
	}
	return nil, gone()
}

func (f *fake) PutFile(_ context.Context, caller engine.Caller, up engine.Upload, content io.Reader) (engine.File,
	error) {
	data, err := io.ReadAll(content)
	if err != nil {
		return engine.File{}, &engine.Error{Op: "put file", Kind: engine.ErrInvalid, Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	made := f.put(caller.Owner, up.Name, data, engine.ID{})
	made.Origin = up.Origin
	if !up.ID.IsZero() {
		made.ID = up.ID
	}
	return made.File, nil
}

func (f *fake) GetFile(_ context.Context, caller engine.Caller, id engine.ID) (engine.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.find(caller.Owner, id)
	if err != nil {
		return engine.File{}, err
	}
	return file.File, nil
}

type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

func (f *fake) OpenFile(_ context.Context, caller engine.Caller, id engine.ID) (engine.File, engine.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.find(caller.Owner, id)
	if err != nil {
		return engine.File{}, nil, err
	}
	return file.File, content{bytes.NewReader(file.data)}, nil
}

func (f *fake) ListFiles(_ context.Context, caller engine.Caller, q engine.FileQuery) (all []engine.File, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		if file.Owner == caller.Owner && file.Origin == q.Origin {
			all = append(all, file.File)
		}
	}
	return all, nil
}

func (f *fake) DeleteFile(_ context.Context, caller engine.Caller, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.find(caller.Owner, id)
	f.files = slices.DeleteFunc(f.files, func(file *fakeFile) bool { return err == nil && file.ID == id })
	return err
}

func (f *fake) session(caller engine.Caller, id engine.ID) (*fakeSession, error) {
	s := f.sessions[id]
	if s == nil || s.Owner != caller.Owner {
		return nil, gone()
	}
	return s, nil
}

func (f *fake) ListSessions(_ context.Context, caller engine.Caller, _ engine.SessionQuery) (all []engine.Session,
	_ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.Owner == caller.Owner {
			all = append(all, s.Session)
		}
	}
	return all, nil
}

func (f *fake) UseSession(
	_ context.Context, caller engine.Caller, id engine.ID,
) (engine.Session, []engine.File, []engine.SessionFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	s, err := f.session(caller, id)
	if err != nil {
		return engine.Session{}, nil, nil, err
	}
	var files []engine.File
	var places []engine.SessionFile
	for at, file := range s.places {
		files, places = append(files, file.File), append(places, engine.SessionFile{Path: at})
	}
	return s.Session, files, places, nil
}

func (f *fake) SessionFile(
	_ context.Context, caller engine.Caller, session, id engine.ID,
) (engine.Session, engine.File, engine.SessionFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.session(caller, session)
	if err == nil {
		for at, file := range s.places {
			if file.ID == id {
				return s.Session, file.File, engine.SessionFile{Path: at}, nil
			}
		}
	}
	return engine.Session{}, engine.File{}, engine.SessionFile{}, gone()
}

func (f *fake) Limits() (defaults, maxima engine.Limits) {
	l := engine.Limits{Timeout: time.Minute, Memory: 1 << 30}
	return l, l
}

func (f *fake) Create(_ context.Context, caller engine.Caller, req live.Request) (engine.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created = append(f.created, req)
	s := &fakeSession{Session: engine.Session{
		ID: engine.NewID(), Owner: caller.Owner, Origin: req.Origin, Kind: engine.SessionLive, Scope: req.Scope,
		TTL:  req.TTL,
		Live: `{"language":"python"}`, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(req.TTL),
	}, caller: caller, places: map[string]*fakeFile{}, cells: map[engine.ID]*fakeCell{}}
	for _, ref := range req.Files {
		file, err := f.find(caller.Owner, ref.ID)
		if err != nil {
			return engine.Session{}, err
		}
		s.places[ref.Path] = file
	}
	f.sessions[s.ID] = s
	return s.Session, nil
}

func (f *fake) Info(_ context.Context, caller engine.Caller, id engine.ID) (live.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.session(caller, id)
	if err != nil || len(s.cells) == 0 {
		return live.Info{State: live.StateNone}, err
	}
	return live.Info{Session: s.Session, State: live.StateIdle, Stored: s.stored}, nil
}

func (f *fake) Delete(_ context.Context, caller engine.Caller, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.session(caller, id)
	if err == nil {
		delete(f.sessions, id)
	}
	return err
}

func (f *fake) Start(_ context.Context, caller engine.Caller, id engine.ID, req live.CellRequest) (live.Cell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.session(caller, id)
	if err != nil {
		return live.Cell{}, err
	}
	c := &fakeCell{Cell: live.Cell{ID: engine.NewID(), Session: id, Status: live.StatusOK}}
	say := func(o live.Output) { c.Outputs = append(c.Outputs, o) }
	for line := range strings.Lines(req.Code) {
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "print":
			say(live.Output{Type: live.Stdout, Text: rest + "\n"})
		case "big":
			var size int
			_, _ = fmt.Sscan(rest, &size)
			say(live.Output{Type: live.Stdout, Text: strings.Repeat("é", size/2)})
		case "file":
			f.write(s, rest, []byte("made"))
		case "show":
			picture, _ := json.Marshal(base64.StdEncoding.EncodeToString([]byte("a picture")))
			say(live.Output{Type: live.Display, Data: map[string]json.RawMessage{"image/png": picture, "text/plain": []byte(`"<Figure>"`)}})
		case "fail":
			c.Status = live.StatusError
			say(live.Output{Type: live.Error, Name: "E", Value: rest,
				Traceback: []string{"Traceback (most recent call last)", "E: " + rest}})
		case "wait":
			c.stop = make(chan struct{})
			f.started <- struct{}{}
		}
	}
	for _, file := range s.fresh {
		c.Files = append(c.Files, file.File)
	}
	s.fresh = nil
	s.cells[c.ID] = c
	return c.Cell, nil
}

func (f *fake) write(s *fakeSession, at string, data []byte) *fakeFile {
	file := f.put(s.Owner, at, data, engine.NewID())
	s.places[at] = file
	s.fresh = append(s.fresh, file)
	s.stored++
	return file
}

func (f *fake) Wait(ctx context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error) {
	f.mu.Lock()
	s, err := f.session(caller, session)
	if err != nil {
		f.mu.Unlock()
		return live.Cell{}, err
	}
	c := s.cells[cell]
	f.mu.Unlock()
	if c.stop != nil {
		select {
		case <-c.stop:
		case <-ctx.Done():
			return live.Cell{}, &engine.Error{Op: "wait", Kind: engine.ErrCanceled, Err: ctx.Err()}
		}
	}
	return c.Cell, nil
}

func (f *fake) Cell(ctx context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error) {
	return f.Wait(ctx, caller, session, cell)
}

func (f *fake) CancelCell(_ context.Context, caller engine.Caller, session, cell engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.session(caller, session)
	if err == nil && s.cells[cell].stop != nil {
		close(s.cells[cell].stop)
		f.canceled <- struct{}{}
	}
	return err
}

func (f *fake) WriteFile(_ context.Context, caller engine.Caller, session engine.ID, at string,
	from io.Reader) (engine.Entry, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return engine.Entry{}, &engine.Error{Op: "write", Kind: engine.ErrInvalid, Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.session(caller, session)
	if err == nil {
		f.write(s, at, data)
	}
	return engine.Entry{Path: at}, err
}

func (f *fake) RemoveFile(_ context.Context, caller engine.Caller, session engine.ID, at string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.session(caller, session)
	if err == nil {
		delete(s.places, at)
		s.stored++
	}
	return err
}

// model is a server of chat completions that answers as a test says.
type model struct {
	*httptest.Server
	asked []map[string]any
	left  chan struct{} // gets a value when the client cancels a request
	mu    sync.Mutex
}

func newModel(t *testing.T, answers ...func(http.ResponseWriter, map[string]any)) *model {
	t.Helper()
	m := &model{left: make(chan struct{}, 100)}
	n := 0
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			writeJSON(w, 200, map[string]any{"object": "list", "data": []any{map[string]any{"id": "org/tiny",
				"object": "model"}}})
			return
		}
		var q map[string]any
		if r.Header.Get("Authorization") != "Bearer secret" || json.NewDecoder(r.Body).Decode(&q) != nil {
			t.Errorf("the model was asked with %v", r.Header)
		}
		m.mu.Lock()
		m.asked = append(m.asked, q)
		answer := answers[min(n, len(answers)-1)]
		n++
		m.mu.Unlock()
		answer(w, q)
		if r.Context().Err() != nil {
			m.left <- struct{}{}
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// chunks answers with a stream of deltas and a reason.
func chunks(reason string, deltas ...string) func(http.ResponseWriter, map[string]any) {
	return func(w http.ResponseWriter, _ map[string]any) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range deltas {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", d)
		}
		if reason != "" {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", reason)
		}
		fmt.Fprint(w,
			"data: {\"choices\":[],"+
				"\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\n\ndata: [DONE]\n\n")
	}
}

func says(text string) func(http.ResponseWriter, map[string]any) {
	return chunks("stop", string(encode(map[string]string{"role": "assistant", "content": text})))
}

// calls answers with a call, its arguments in pieces.
func calls(name, arguments string) func(http.ResponseWriter, map[string]any) {
	deltas := []string{string(encode(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "call_1",
		"function": map[string]string{"name": name}}}}))}
	for len(arguments) > 0 {
		n := min(len(arguments), 1+len(arguments)/3)
		deltas = append(deltas, string(encode(map[string]any{"tool_calls": []any{map[string]any{"index": 0,
			"function": map[string]string{"arguments": arguments[:n]}}}})))
		arguments = arguments[n:]
	}
	return chunks("tool_calls", deltas...)
}

func runs(code string) func(http.ResponseWriter, map[string]any) {
	return calls("python", string(encode(map[string]string{"code": code})))
}

// rig is the API over a fake engine, and a model.
type rig struct {
	t *testing.T
	*fake
	model *model
	api   *api
	*httptest.Server
}

func newRig(t *testing.T, o Options, answers ...func(http.ResponseWriter, map[string]any)) *rig {
	t.Helper()
	r := &rig{t: t, fake: newFake()}
	o.Engine, o.Live, o.HTTP, o.Key = r.fake, interpreters{fake: r.fake}, http.DefaultClient, "secret"
	o.Caller = func(r *http.Request) engine.Caller {
		return engine.Caller{Owner: engine.Owner(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))}
	}
	if len(answers) > 0 {
		r.model = newModel(t, answers...)
		o.Upstream = r.model.URL + "/v1"
	}
	r.api = newAPI(o)
	r.Server = httptest.NewServer(r.api.routes())
	t.Cleanup(r.Close)
	return r
}

// ask makes a request of an owner.
func (r *rig) ask(owner, method, path, body string, headers ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+owner)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(text)
}

const auto = `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}],"include":["code_interpreter_call.outputs"]`

// reply is a response, as far as tests look at it.
type reply struct {
	Status     string
	Incomplete struct{ Reason string } `json:"incomplete_details"`
	Error      struct{ Message, Code string }
	Usage      struct {
		Total int `json:"total_tokens"`
	}
	Output []struct {
		Type, ID, Status, Code, Name, Arguments string
		Container                               string `json:"container_id"`
		Outputs                                 []output
		Content                                 []struct {
			Text        string
			Annotations []struct {
				File  string `json:"file_id"`
				Name  string `json:"filename"`
				Start int    `json:"start_index"`
				End   int    `json:"end_index"`
			}
		}
	}
}

// respond asks for a response.
func (r *rig) respond(more string) (got reply) {
	r.t.Helper()
	status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go",`+more+`}`)
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		r.t.Fatalf("%d %s", status, text)
	}
	return got
}

func await(t *testing.T, what <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(waitTime):
		t.Fatal(errors.New(why))
	}
}
