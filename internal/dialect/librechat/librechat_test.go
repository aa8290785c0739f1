package librechat

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the dialect over a real engine, whose programs are scripts.
type rig struct {
	t       *testing.T
	engine  *engine.Service
	sandbox *sandboxtest.Fake
	index   *enginetest.Index
	blobs   *enginetest.Blobs
	handler *Handler
	clock   *clock
	restart func() // makes the handler anew

	programs atomic.Int32 // running, with access to tools
	answered atomic.Int32 // of their calls
}

// clock is an adjustable time offset.
type clock struct{ ahead time.Duration }

func (c *clock) now() time.Time { return time.Now().Add(c.ahead) }

const (
	aliceKey = "key-of-alice"
	bobKey   = "key-of-bob"
)

// authenticate accepts two keys, and the owners "jwt/..." by their names.
func authenticate(_ context.Context, token string) (engine.Caller, error) {
	switch {
	case token == aliceKey:
		return engine.Caller{Owner: "alice", Key: "a"}, nil
	case token == bobKey:
		return engine.Caller{Owner: "bob", Key: "b"}, nil
	case strings.HasPrefix(token, "jwt/"):
		return engine.Caller{Owner: engine.Owner(token), Key: "j"}, nil
	}
	return engine.Caller{}, engine.ErrUnauthorized
}

func newRig(t *testing.T, cfg engine.Config, o Options) *rig {
	t.Helper()
	r := &rig{}
	return r.build(t, cfg, o, sandboxtest.NewFake(r.script))
}

func newRigOn(t *testing.T, sandbox *sandboxtest.Fake) *rig {
	t.Helper()
	return (&rig{}).build(t, engine.Config{}, Options{}, sandbox)
}

func (r *rig) build(t *testing.T, cfg engine.Config, o Options, sandbox *sandboxtest.Fake) *rig {
	t.Helper()
	r.t, r.sandbox, r.index, r.blobs, r.clock = t, sandbox, enginetest.NewIndex(), enginetest.NewBlobs(), &clock{}
	if cfg.Now == nil {
		cfg.Now = r.clock.now
	}
	r.engine = enginetest.StartOn(t, cfg, r.sandbox, r.blobs, r.index)
	o.Authenticate = authenticate
	o.Caller = func(r *http.Request) engine.Caller {
		for _, token := range []string{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
			r.Header.Get("X-API-Key")} {
			if c, err := authenticate(r.Context(), token); err == nil {
				return c
			}
		}
		return engine.Caller{}
	}
	o.Language = func(name string) (Language, bool) {
		l, ok := language.Find(name)
		return Language{l.Name, l.Entry, l.Source}, ok
	}
	o.Version = "1.2.3"
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	r.restart = func() { r.handler = New(r.engine, o) }
	r.restart()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.engine.Shutdown(ctx)
		_ = r.handler.Close()
	})
	return r
}

// script is dialecttest.Script with one more line: "call NAME INPUT | NAME
// INPUT" calls tools, all at once, and prints the answers.
func (r *rig) script(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	if !spec.Calls {
		return dialecttest.Script(ctx, spec, host)
	}
	r.programs.Add(1)
	defer r.programs.Add(-1)
	var p program
	if err := json.Unmarshal(spec.Stdin, &p); err != nil {
		return nil, err
	}
	var plain strings.Builder
	for line := range strings.Lines(p.Source) {
		calls, ok := strings.CutPrefix(strings.TrimSpace(line), "call ")
		if !ok {
			plain.WriteString(line)
			continue
		}
		var sent []string
		for one := range strings.SplitSeq(calls, " | ") {
			name, input, _ := strings.Cut(one, " ")
			sent = append(sent, `{"name":"`+name+`","input":`+input+`}`)
		}
		answer, err := host.Call(ctx, "calls", []byte(`{"calls":[`+strings.Join(sent, ",")+`]}`))
		if err != nil {
			if ctx.Err() != nil {
				return sandboxtest.UntilKilled(ctx), nil
			}
			return nil, err
		}
		r.answered.Add(1)
		host.Output(engine.Stdout, append(answer, '\n'))
	}
	rest := *spec
	rest.Code = plain.String()
	return dialecttest.Script(ctx, &rest, host)
}

// send sends a request with alice's key, unless headers override it.
func (r *rig) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	req.Header.Set("X-API-Key", aliceKey)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

// decode reads an answer that must have a status.
func decode[T any](t *testing.T, w *httptest.ResponseRecorder, status int) (body T) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return body
}

// uploaded is the answer to an upload.
type uploaded struct {
	Session string `json:"storage_session_id"`
	Files   []struct {
		ID       string `json:"fileId"`
		Filename string `json:"filename"`
		Error    string `json:"error"`
	} `json:"files"`
	Message   string `json:"message"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
}

// formOf writes a form: a field is "name=value", a file "name<content".
func formOf(parts ...string) (body, contentType string) {
	var b strings.Builder
	for _, part := range parts {
		if name, content, isFile := strings.Cut(part, "<"); isFile {
			b.WriteString("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
				"\"\r\nContent-Type: text/plain\r\n\r\n" + content + "\r\n")
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n")
	}
	return b.String() + "--b--\r\n", "multipart/form-data; boundary=b"
}

func (r *rig) upload(path string, parts []string, headers ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	body, contentType := formOf(parts...)
	return r.send("POST", path, body, append([]string{"Content-Type", contentType}, headers...)...)
}

// putAs is put on behalf of a user.
func (r *rig) putAs(user, name, content string, more ...string) (ref map[string]any) {
	r.t.Helper()
	up := decode[uploaded](r.t, r.upload("/upload", append(more, name+"<"+content), userHeader, user), 200)
	return map[string]any{"id": up.Files[0].ID, "storage_session_id": up.Session, "name": up.Files[0].Filename}
}

// put uploads one file, and returns its reference in a program's request.
func (r *rig) put(name, content string, more ...string) (ref map[string]any) {
	r.t.Helper()
	up := decode[uploaded](r.t, r.upload("/upload", append(more, name+"<"+content)), 200)
	return map[string]any{"id": up.Files[0].ID, "storage_session_id": up.Session, "name": up.Files[0].Filename}
}

func (r *rig) exec(body map[string]any, headers ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send("POST", "/exec", string(text), headers...)
}

func TestRecordings(t *testing.T) {
	dialecttest.Replay(t, "testdata/*.txtar", func(t *testing.T) http.Handler {
		return newRig(t, engine.Config{}, Options{MaxUpload: 1 << 20}).handler
	})
}
