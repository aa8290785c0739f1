package e2b

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/airlock-run/airlock/internal/dialect/e2b/envd"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/live"
)

// fakeLive creates and deletes sessions. Its other methods are not called.
type fakeLive struct {
	live.Sessions
	deleted chan engine.ID
	created live.Request
	speaks  string // language of the image
}

func (f *fakeLive) Create(_ context.Context, _ engine.Caller, req live.Request) (engine.Session, error) {
	f.created = req
	return engine.Session{ID: engine.NewID(), Live: fmt.Sprintf(`{"language":%q}`, f.speaks)}, nil
}

func (f *fakeLive) Fork(_ context.Context, _ engine.Caller, _ engine.ID, req live.ForkRequest) (engine.ID, error) {
	if f.created.Image != "" && req.Language == "javascript" {
		return engine.ID{}, &engine.Error{Kind: engine.ErrNoLanguage}
	}
	return engine.NewID(), nil
}

func (f *fakeLive) Delete(_ context.Context, _ engine.Caller, session engine.ID) error {
	f.deleted <- session
	return nil
}

func newHandler(t *testing.T, domain string) (*Handler, *fakeLive) {
	f := &fakeLive{deleted: make(chan engine.ID, 8)}
	h := New(Options{
		Live: f, Domain: domain, Log: slog.New(slog.DiscardHandler),
		Caller: func(r *http.Request) engine.Caller {
			return engine.Caller{Owner: engine.Owner(r.Header.Get("X-API-KEY"))}
		},
		Limits: func() (defaults, maxima engine.Limits) {
			return engine.Limits{Memory: 1 << 30}, engine.Limits{Timeout: time.Minute}
		},
		Images: func(caller engine.Caller) ([]engine.Image, error) {
			if caller.Owner == "bob" {
				return nil, nil
			}
			return enginetest.SomeImages().List()
		},
	})
	t.Cleanup(h.Close)
	return h, f
}

func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(body))
	r.Header.Set("X-API-KEY", "ann")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func create(t *testing.T, h http.Handler, body string, headers ...string) (made madeBody) {
	t.Helper()
	w := ask(h, "POST", "/v2/sandboxes", body, headers...)
	if err := json.Unmarshal(w.Body.Bytes(), &made); w.Code != http.StatusCreated || err != nil || !sandboxName.MatchString("1-"+made.SandboxID) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return made
}

func TestKeys(t *testing.T) {
	token := "ak_abcdefghijkm_" + strings.Repeat("-_Az", 10) + "09x"
	token = token[:len(token)-1] + "0" // two bits of the last character do not count
	key := Key(token)
	if !strings.HasPrefix(key, "e2b_") || strings.Trim(key[4:], "0123456789abcdef") != "" || Ordinary(key) != token {
		t.Errorf("%s, back %s, want %s", key, Ordinary(key), token)
	}
	for _, other := range []string{"", "e2b_", "e2b_00", "e2b_zz", "x" + key, key + "00", token} {
		if got := Ordinary(other); got != other {
			t.Errorf("%q is taken for %q", other, got)
		}
	}
	if got := Key("nonsense"); got != "" {
		t.Errorf("nonsense is spelled %q", got)
	}
}

func TestHosts(t *testing.T) {
	h, _ := newHandler(t, "sb.example.com:8443")
	id := strings.Repeat("a1", 10)
	for host, want := range map[string]bool{
		"49999-" + id + ".sb.example.com": true, "api.sb.example.com": true, "8000-" + id + ".localhost": true, "sb.example.com": false,
		"49999-" + id + ".evil.example": false, "api.evil.example": false, "www.sb.example.com": false, "49999-short.sb.example.com": false, "": false,
	} {
		if got := h.Hosts(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://8000-"+id+".sb.example.com:8443/x", http.NoBody)
	if got, port, ok := h.address(r); got != id || port != 8000 || !ok {
		t.Errorf("%s %d %v", got, port, ok)
	}
	if made := create(t, h, `{"templateID":"base"}`); made.Domain == nil || *made.Domain != "sb.example.com:8443" {
		t.Errorf("%+v", made)
	}
}

// A template is an image, but for the two that E2B's SDKs ask for by themselves.
func TestTemplates(t *testing.T) {
	for _, test := range []struct{ template, speaks, image, contexts string }{
		{"base", "", "", "python javascript"},
		{"code-interpreter-v1", "python", "", "python javascript"},
		{"py313", "python", "py313", "python"},
		{"ir", "bash", "ir", "bash"},
	} {
		h, f := newHandler(t, "")
		f.speaks = test.speaks
		made := create(t, h, `{"templateID":"`+test.template+`"}`)
		sb := h.sandboxes.find(made.SandboxID)
		var contexts []string
		for _, c := range sb.contexts {
			contexts = append(contexts, c.Language)
		}
		if got := strings.Join(contexts, " "); made.TemplateID != test.template || made.Alias != test.template ||
			f.created.Image != test.image || f.created.Language != "" || got != test.contexts || sb.language() != contexts[0] {
			t.Errorf("%s: image %q, contexts %q, want %q, %q", test.template, f.created.Image, got, test.image, test.contexts)
		}
	}
	h, _ := newHandler(t, "")
	for caller, want := range map[string]string{
		"ann": `{"code":404,"message":"there is no template \"nosuch\". There are base, code-interpreter-v1, ir, old and py313."}`,
		"bob": `{"code":404,"message":"there is no template \"nosuch\". There are base and code-interpreter-v1."}`,
	} {
		w := ask(h, "POST", "/v2/sandboxes", `{"templateID":"nosuch"}`, "X-API-KEY", caller)
		if w.Code != http.StatusNotFound || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s, want %s", caller, w.Code, w.Body, want)
		}
	}
}

// Ten thousand sandboxes of one owner, whose sessions may be gone, take the memory of maxSandboxes.
func TestTenThousandSandboxes(t *testing.T) {
	h, f := newHandler(t, "")
	f.deleted = make(chan engine.ID, 10_000)
	refused := 0
	for range 10_000 {
		switch w := ask(h, "POST", "/sandboxes", `{"templateID":"base","timeout":3600}`); w.Code {
		case http.StatusCreated:
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := len(h.sandboxes.all()); n != maxSandboxes || refused != 10_000-n || len(f.deleted) != refused {
		t.Errorf("%d sandboxes, %d refused, %d of their sessions deleted", n, refused, len(f.deleted))
	}
	large := `{"templateID":"base","metadata":{"x":"` + strings.Repeat("y", maxFields) + `"}}`
	if w := ask(h, "POST", "/sandboxes", large); w.Code != http.StatusBadRequest {
		t.Errorf("metadata of %d bytes: %d %s", maxFields+1, w.Code, w.Body)
	}
	user := string(engine.Caller{Owner: "ann"}.User("z").Owner)
	if w := ask(h, "POST", "/sandboxes", `{"templateID":"base"}`, "X-API-KEY", user); w.Code != http.StatusTooManyRequests {
		t.Errorf("a user of the same key: %d %s", w.Code, w.Body)
	}
	if w := ask(h, "POST", "/sandboxes", `{"templateID":"base"}`, "X-API-KEY", "bob"); w.Code != http.StatusCreated {
		t.Errorf("another owner: %d %s", w.Code, w.Body)
	}
}

// The test signs requests like the SDKs.
func TestSignatures(t *testing.T) {
	h, _ := newHandler(t, "")
	create(t, h, `{"templateID":"base"}`)
	sb := h.sandboxes.find(create(t, h, `{"templateID":"base"}`).SandboxID)
	sign := func(path, operation, token string, expires int64) string {
		text, more := fmt.Sprintf("%s:%s::%s", path, operation, token), ""
		if expires > 0 {
			text, more = fmt.Sprintf("%s:%d", text, expires), fmt.Sprintf("&signature_expiration=%d", expires)
		}
		sum := sha256.Sum256([]byte(text))
		return "/files?path=" + url.QueryEscape(path) + "&signature=" + url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:])) + more
	}
	refused := map[string]string{sign("a", "read", sb.token, time.Now().Unix()-9): "signature is already expired",
		sign("a", "read", "other", time.Now().Unix()-9): "invalid signature"}
	for target, want := range refused {
		for _, headers := range [][]string{nil, {"E2b-Sandbox-Id", sb.id, "E2b-Sandbox-Port", "49983"}} {
			w := ask(h, "GET", target, "", headers...)
			if w.Code != http.StatusUnauthorized || !strings.HasPrefix(w.Body.String(), `{"code":401,"message":"`+want) {
				t.Errorf("%s %v: %d %s", target, headers, w.Code, w.Body)
			}
		}
	}
	soon, before := time.Now().Add(time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()
	for target, want := range map[string]bool{
		sign("a b", "read", sb.token, 0): true, sign("a", "read", sb.token, soon): true, sign("a", "read", sb.token, before): false,
		sign("a", "write", sb.token, 0): false, sign("a", "read", "other", 0): false, sign("a", "read", sb.token, 0) + "&path=b": true,
		strings.Replace(sign("a", "read", sb.token, 0), "path=a", "path=b", 1): false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", target, http.NoBody)
		if got, expired := signed(r, sb.token); got && !expired != want {
			t.Errorf("%s: %v", target, got)
		}
		if w := ask(h, "POST", target, ""); want && w.Code != http.StatusUnauthorized {
			t.Errorf("a signature to read lets write: %d", w.Code)
		}
	}
}

func TestLife(t *testing.T) {
	h, f := newHandler(t, "")
	made := create(t, h, `{"templateID":"base","timeout":1}`)
	<-f.deleted
	if w := ask(h, "GET", "/sandboxes/"+made.SandboxID, ""); w.Code != http.StatusNotFound {
		t.Errorf("its time is over: %d", w.Code)
	}
	made = create(t, h, `{"templateID":"base"}`, "Idempotency-Key", "k")
	if again := create(t, h, `{"templateID":"base"}`, "Idempotency-Key", "k"); again != made && again.SandboxID != made.SandboxID {
		t.Errorf("%+v, again %+v", made, again)
	}
	if other := create(t, h, `{"templateID":"base"}`, "Idempotency-Key", "k", "X-API-KEY", "bob"); other.SandboxID == made.SandboxID {
		t.Error("another owner's key gives the same sandbox")
	}
	sb := h.sandboxes.find(made.SandboxID)
	for _, step := range []struct {
		path, body string
		status     int
		left       time.Duration
	}{
		{"/timeout", `{"timeout":1000}`, 204, 1000 * time.Second}, {"/connect", `{"timeout":10}`, 200, 1000 * time.Second},
		{"/refreshes", `{"duration":2000}`, 204, 2000 * time.Second}, {"/timeout", `{"timeout":100}`, 204, 100 * time.Second}, {"/timeout", `{"timeout":-1}`, 400, 100 * time.Second},
		{"/connect", `{"timeout":0}`, 200, 100 * time.Second}, {"/refreshes", `{"duration":0}`, 400, 100 * time.Second},
	} {
		w := ask(h, "POST", "/sandboxes/"+made.SandboxID+step.path, step.body)
		if left := time.Until(sb.end()); w.Code != step.status || left > step.left || left < step.left-time.Minute {
			t.Errorf("%s %s: %d, %v left", step.path, step.body, w.Code, left)
		}
	}
	if first, second := ask(h, "DELETE", "/sandboxes/"+made.SandboxID, ""), ask(h, "DELETE", "/sandboxes/"+made.SandboxID, ""); first.Code != 204 || second.Code != 404 {
		t.Errorf("%d, then %d", first.Code, second.Code)
	}
}

// A time of nothing ends a sandbox before the answer.
func TestNoTime(t *testing.T) {
	h, f := newHandler(t, "")
	made := create(t, h, `{"templateID":"base"}`)
	if w := ask(h, "POST", "/sandboxes/"+made.SandboxID+"/timeout", `{"timeout":0}`); w.Code != http.StatusNoContent {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	select {
	case <-f.deleted:
	default:
		t.Error("its session is still there")
	}
	if w := ask(h, "POST", "/v2/sandboxes", `{"templateID":"base","timeout":0}`); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The instant that a list begins at belongs to it.
func TestListStartedAfter(t *testing.T) {
	h, _ := newHandler(t, "")
	sb := h.sandboxes.find(create(t, h, `{"templateID":"base"}`).SandboxID)
	for after, want := range map[time.Time]int{sb.started: 1, sb.started.Add(-time.Second): 1, sb.started.Add(precision): 0} {
		w := ask(h, "GET", "/v2/sandboxes?startedAfter="+url.QueryEscape(after.UTC().Format(time.RFC3339Nano)), "")
		if got := strings.Count(w.Body.String(), "sandboxID"); got != want {
			t.Errorf("%v: %s", after.Sub(sb.started), w.Body)
		}
	}
}

// A new sandbox has the contexts that E2B's has.
func TestStandardContexts(t *testing.T) {
	h, _ := newHandler(t, "")
	made := create(t, h, `{"templateID":"base"}`)
	w := ask(h, "GET", "/contexts", "", "E2b-Sandbox-Id", made.SandboxID, "E2b-Sandbox-Port", "49999", "X-Access-Token",
		made.EnvdToken)
	var list []codeContext
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != 2 || list[0].Language != "python" ||
		list[1].Language != "javascript" || list[1].Dir != home {
		t.Errorf("%s", w.Body)
	}
	for spelled, want := range map[string]string{"NodeJS": "javascript", "py": "python", "sh": "bash", "ts": "typescript",
		"java": ""} {
		if got := live.Named(spelled); got != want {
			t.Errorf("%s is %q, want %q", spelled, got, want)
		}
		w := ask(h, "POST", "/contexts", `{"language":"`+spelled+`"}`, "E2b-Sandbox-Id", made.SandboxID, "E2b-Sandbox-Port",
			"49999", "X-Access-Token", made.EnvdToken)
		var c codeContext
		if err := json.Unmarshal(w.Body.Bytes(), &c); (err != nil || c.Language != want) && want != "" {
			t.Errorf("a context of %s: %s, want %s", spelled, w.Body, want)
		}
	}
}

func TestList(t *testing.T) {
	h, _ := newHandler(t, "")
	other, _ := newHandler(t, "")
	for i := range 7 {
		create(t, []http.Handler{h, other}[i%3%2], fmt.Sprintf(`{"templateID":"base","metadata":{"n":"%d","a b":"c&d"}}`, i))
	}
	create(t, h, `{"templateID":"base"}`, "X-API-KEY", "bob")
	create(t, other, `{"templateID":"base"}`, "X-API-KEY", "bob")
	both := func(_ http.ResponseWriter, r *http.Request) [][]byte {
		w := httptest.NewRecorder()
		other.ServeHTTP(w, r)
		return [][]byte{w.Body.Bytes()}
	}
	for _, c := range []struct {
		order, want string
		gather      func(http.ResponseWriter, *http.Request) [][]byte
	}{
		{"asc", "02356", nil}, {"desc", "65320", nil}, {"asc", "0123456", both}, {"desc", "6543210", both},
	} {
		h.Gather = c.gather
		var seen []string
		for next := ""; ; {
			w := ask(h, "GET", "/v2/sandboxes?limit=2&order="+c.order+"&nextToken="+next, "")
			var page []detailBody
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page) > 2 {
				t.Fatalf("%s", w.Body)
			}
			for _, one := range page {
				seen = append(seen, one.Metadata["n"])
			}
			if next = w.Header().Get("X-Next-Token"); next == "" {
				break
			}
		}
		if got := strings.Join(seen, ""); got != c.want {
			t.Errorf("%s: %s, not %s", c.order, got, c.want)
		}
	}
	h.Gather = nil
	encoded := url.Values{url.PathEscape("a b"): {url.PathEscape("c&d")}, "n": {"3"}}.Encode()
	w := ask(h, "GET", "/v2/sandboxes?metadata="+url.QueryEscape(encoded), "")
	if strings.Count(w.Body.String(), "sandboxID") != 1 || !strings.Contains(w.Body.String(), `"n":"3"`) {
		t.Errorf("%s", w.Body)
	}
	for _, query := range []string{"limit=0", "limit=x", "nextToken=x", "startedAfter=x"} {
		if w := ask(h, "GET", "/v2/sandboxes?"+query, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
}

// The lines are recorded from E2B's template server.
func TestLines(t *testing.T) {
	data := map[string]json.RawMessage{
		"text/plain": json.RawMessage(`"'h\u2028i'"`), "image/png": json.RawMessage(`"iVB\nOR"`), "application/json": json.RawMessage(`{"a":1}`),
		"e2b/data": json.RawMessage(`{"a":[null]}`), "application/x-own": json.RawMessage(`"own"`),
	}
	for want, e := range map[string]live.Event{
		`{"execution_count":3,"type":"number_of_executions"}`: {Output: live.Output{Type: live.StartedEvent}, Cell: &live.Cell{ExecutionCount: 3}},
		`{"data":{"a":[null]},"extra":{"application/x-own":"own"},"is_main_result":true,"json":{"a":1},"png":"iVBOR","text":"h\u2028i","type":"result"}`: {Output: live.Output{Type: live.Result, Data: data}},
		`{"name":"N","traceback":"a\nb","type":"error","value":"v"}`:                                                                                     {Output: live.Output{Type: live.Error, Name: "N", Value: "v", Traceback: []string{"a", "b"}}},
		`{"type":"end_of_execution"}`: {Output: live.Output{Type: live.DoneEvent}, Cell: &live.Cell{Status: live.StatusOK}},
		"{\"name\":\"ContextRestarting\",\"traceback\":\"m\",\"type\":\"error\",\"value\":\"Context was restarted\"}\n{\"type\":\"end_of_execution\"}": {Output: live.Output{Type: live.DoneEvent}, Cell: &live.Cell{Status: live.StatusLost, Message: "m"}},
		"": {Output: live.Output{Type: live.Display, Update: true, Data: data}},
	} {
		if got := strings.TrimSuffix(string(appendEvent(nil, &e)), "\n"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// The bytes of the binary form are those of envd, and JSON has its names.
func TestMessages(t *testing.T) {
	end := &envd.EventResponse{Event: &envd.ProcessEvent{End: &envd.EndEvent{ExitCode: -1, Status: "signal: killed"}}}
	got, err := proto.Marshal(end)
	if want := "\x0a\x14\x1a\x12\x08\x01\x1a\x0esignal: killed"; err != nil || string(got) != want {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
	var signal envd.SignalRequest
	if err := proto.Unmarshal([]byte("\x0a\x02\x08\x05\x10\x09"), &signal); err != nil || signal.Process.Pid != 5 ||
		signal.Signal != envd.Signal_SIGNAL_SIGKILL {
		t.Errorf("%v %v", &signal, err)
	}
	body, err := protojson.Marshal(&envd.EntryInfo{Name: text("n\xff\xfe"), Type: envd.FileType_FILE_TYPE_FILE, Size: 5,
		ModifiedTime: timestamppb.New(time.Unix(1, 0)), SymlinkTarget: new("")})
	var compact bytes.Buffer
	if err := errors.Join(err, json.Compact(&compact, body)); err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"n��","type":"FILE_TYPE_FILE","size":"5","modifiedTime":"1970-01-01T00:00:01Z",` +
		`"symlinkTarget":""}`; compact.String() != want {
		t.Errorf("%s, want %s", &compact, want)
	}
}
