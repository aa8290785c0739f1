package librechat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/toolcall"
)

const oneTool = `"tools":[{"name":"f"}]`

func (r *rig) pause(headers ...string) string {
	r.t.Helper()
	out := decode[roundReply](r.t, r.send("POST", "/exec/programmatic", `{"code":"call f {}",`+oneTool+`}`, headers...),
		200)
	if out.Token == nil {
		r.t.Fatalf("%+v", out)
	}
	return *out.Token
}

func (r *rig) goOn(token string) *httptest.ResponseRecorder {
	return r.send("POST", "/exec/programmatic", `{"continuation_token":"`+token+
		`","tool_results":[{"call_id":"call_001","result":1}]}`)
}

func (r *rig) eventually(what string, yes func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !yes() {
		if time.Now().After(deadline) {
			r.t.Fatalf("in vain: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (r *rig) lives() int { return int(r.programs.Load()) }

// Paused programs release their slots, and no answers get lost.
func TestPausedProgramsLeaveTheirSlots(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 2}, Options{})
	var tokens []string
	for range 10 {
		tokens = append(tokens, r.pause())
	}
	if got := r.exec(map[string]any{"lang": "py", "code": "print x"}); got.Code != http.StatusOK {
		t.Errorf("beside paused programs: %d", got.Code)
	}
	for _, token := range tokens {
		if out := decode[roundReply](t, r.goOn(token), 200); out.Status != "completed" ||
			*out.Stdout != "[{\"result\":1}]\n" {
			t.Errorf("%+v", out)
		}
	}
	r.eventually("all are gone", func() bool { return r.lives() == 0 })
}

func TestTooManyPausedPrograms(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	for range toolcall.MaxOwnerPrograms {
		r.pause()
	}
	got := r.send("POST", "/exec/programmatic", `{"code":"call f {}",`+oneTool+`}`)
	if got.Code != http.StatusTooManyRequests || !strings.Contains(got.Body.String(), `"rate_limited"`) ||
		got.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	r.pause("X-API-Key", bobKey)
}

// A program that times out in the queue is refused like any other run: with the status, or
// with the same message if spaces have sent the status.
func TestProgramGivenUpInTheQueue(t *testing.T) {
	for _, queueTime := range []time.Duration{200 * time.Millisecond, pulse + pulse/4} {
		t.Run(queueTime.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, engine.Config{Concurrency: 1, QueueTime: queueTime}, Options{})
			ctx, cancel := context.WithCancel(t.Context())
			held := make(chan struct{})
			go func() {
				defer close(held)
				req := httptest.NewRequestWithContext(ctx, "POST", "/exec", strings.NewReader(`{"lang":"py","code":"wait"}`))
				req.Header.Set("X-API-Key", bobKey)
				r.handler.ServeHTTP(httptest.NewRecorder(), req)
			}()
			r.eventually("the slot is taken", func() bool { return r.engine.Stats().Running == 1 })
			got := r.send("POST", "/exec/programmatic", `{"code":"call f {}",`+oneTool+`}`)
			body := got.Body.String()
			if !strings.Contains(body, "Please retry in") {
				t.Errorf("timed out: %d %s", got.Code, body)
			}
			if queueTime < pulse && (got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" ||
				!strings.Contains(body, `"rate_limited"`)) {
				t.Errorf("before a space: %d %v %s", got.Code, got.Header(), body)
			}
			if queueTime > pulse {
				if out := decode[roundReply](t, got, 200); out.Status != "error" || out.Error == nil || out.SessionID == "" ||
					out.Files == nil {
					t.Errorf("after a space: %+v", out)
				}
			}
			r.eventually("nothing of it is left", func() bool { return r.lives() == 0 })
			cancel()
			<-held
			if out := decode[roundReply](t, r.goOn(r.pause()), 200); out.Status != "completed" {
				t.Errorf("the next one: %+v", out)
			}
		})
	}
}

// A queue without time refuses a program that cannot begin at once, like any other run, and
// accepts a program that can.
func TestProgramWithoutQueueTime(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1, QueueTime: 1}, Options{}) // wiring maps queue_time 0 to this
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan struct{})
	go func() {
		defer close(held)
		req := httptest.NewRequestWithContext(ctx, "POST", "/exec", strings.NewReader(`{"lang":"py","code":"wait"}`))
		req.Header.Set("X-API-Key", bobKey)
		r.handler.ServeHTTP(httptest.NewRecorder(), req)
	}()
	r.eventually("the slot is taken", func() bool { return r.engine.Stats().Running == 1 })
	for route, body := range map[string]string{"/exec": `{"lang":"py","code":"print 1"}`,
		"/exec/programmatic": `{"code":"call f {}",` + oneTool + `}`} {
		got := r.send("POST", route, body)
		if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" ||
			!strings.Contains(got.Body.String(), `"rate_limited"`) {
			t.Errorf("%s: %d %v %s", route, got.Code, got.Header(), got.Body)
		}
	}
	r.eventually("nothing of it is left", func() bool { return r.lives() == 0 })
	cancel()
	<-held
	r.eventually("the slot is free", func() bool { return r.engine.Stats().Running == 0 })
	if out := decode[roundReply](t, r.goOn(r.pause()), 200); out.Status != "completed" {
		t.Errorf("the next one: %+v", out)
	}
}

func TestTokenExpires(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{TokenTTL: 50 * time.Millisecond})
	token := r.pause()
	r.eventually("the program is gone", func() bool { return r.lives() == 0 })
	if got := r.goOn(token); got.Code != http.StatusNotFound {
		t.Errorf("an expired token: %d %s", got.Code, got.Body)
	}
	for token, status := range map[string]int{ // tokens of the official server are the base64 of an object
		"eyJleGVjdXRpb25faWQiOiJ4IiwidHMiOjF9": 404, "eyJpZCI6ICJ4In0=": 404, "e30": 400, "W10": 400, "x": 400, "": 400,
	} {
		if got := r.goOn(token); got.Code != status {
			t.Errorf("the token %q: %d, want %d: %s", token, got.Code, status, got.Body)
		}
	}
	if foreign := r.pause(); r.send("POST", "/exec/programmatic",
		`{"continuation_token":"`+foreign+`","tool_results":[{"call_id":"call_001","result":1}]}`, "X-API-Key",
		bobKey).Code != http.StatusForbidden {
		t.Error("a foreign token is good")
	}
}

// Of two concurrent requests that continue one program, one succeeds.
func TestParallelContinuations(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	out := decode[roundReply](t, r.send("POST", "/exec/programmatic", `{"code":"call f {}\nwait",`+oneTool+`}`), 200)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	body := `{"continuation_token":"` + *out.Token + `","tool_results":[{"call_id":"call_001","result":1}]}`
	go func() {
		req := httptest.NewRequestWithContext(ctx, "POST", "/exec/programmatic", strings.NewReader(body))
		req.Header.Set("X-API-Key", aliceKey)
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		done <- w.Code
	}()
	r.eventually("the first one waits", func() bool { return r.answered.Load() == 1 })
	if got := r.goOn(*out.Token); got.Code != http.StatusConflict {
		t.Errorf("the second: %d %s", got.Code, got.Body)
	}
	cancel() // the first client disconnects
	<-done
	r.eventually("its program is gone", func() bool { return r.lives() == 0 })
}

func TestCancel(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	stop := func(id string, headers ...string) int {
		return r.send("POST", "/exec/programmatic/cancel", `{"request_id":"`+id+`"}`, headers...).Code
	}
	r.pause("X-LibreChat-Code-Request-ID", "one")
	if got := stop("one", "X-API-Key", bobKey); got != http.StatusForbidden {
		t.Errorf("a stranger: %d", got)
	}
	if got := stop("one"); got != http.StatusAccepted {
		t.Errorf("a paused program: %d", got)
	}
	r.eventually("it is gone", func() bool { return r.lives() == 0 })
	if got := stop("one"); got != http.StatusOK {
		t.Errorf("twice: %d", got)
	}
	done := make(chan int)
	go func() {
		done <- r.send("POST", "/exec/programmatic", `{"code":"wait"}`, "X-LibreChat-Code-Request-ID", "two").Code
	}()
	r.eventually("a running program is cancelled", func() bool { return stop("two") == http.StatusAccepted })
	<-done
	r.eventually("it is gone", func() bool { return r.lives() == 0 })
	if got := stop("never"); got != http.StatusOK {
		t.Errorf("an unknown id: %d", got)
	}
}

func TestPeerErrors(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{PeerErrors: true})
	for _, body := range []string{`{"tools":[]}`, `{"continuation_token":"x","tool_results":[{"call_id":"call_001"}]}`} {
		out := decode[roundReply](t, r.send("POST", "/exec/programmatic", body), 200)
		if out.Status != "error" || out.Error == nil {
			t.Errorf("%s: %+v", body, out)
		}
	}
}

// A long answer begins with a space after some seconds, and is still valid JSON.
func TestKeepAlive(t *testing.T) {
	release := make(chan struct{})
	slow := sandboxtest.NewFake(func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return sandboxtest.Exit(0), nil
	})
	r := newRigOn(t, slow)
	server := httptest.NewServer(r.handler)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/exec",
		strings.NewReader(`{"lang":"py","code":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", aliceKey)
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var first [1]byte
	if _, err := io.ReadFull(resp.Body, first[:]); err != nil || first[0] != ' ' || time.Since(began) < pulse/2 {
		t.Errorf("first byte %q after %v, %v", first, time.Since(began), err)
	}
	close(release)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(strings.TrimSpace(string(rest)), `{"session_id"`) {
		t.Errorf("%s, %v", rest, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFunctionNames(t *testing.T) {
	for _, test := range []struct{ name, python, bash string }{
		{"add-one", "add_one", "add_one"}, {"get weather", "get_weather", "get_weather"}, {"a.b", "ab", "a_b"},
		{"2x", "_2x", "_2x"},
		{"class", "class_tool", "class"}, {"done", "done", "done_tool"}, {"_ptc_x", "_ptc_x", "_ptc_x_tool"},
		{"größe", "gre", "gre"}, {"é", "_", "_"},
	} {
		if got := functionName(test.name, false); got != test.python {
			t.Errorf("%s is %s in Python", test.name, got)
		}
		if got := functionName(test.name, true); got != test.bash {
			t.Errorf("%s is %s in bash", test.name, got)
		}
	}
}

// A program that fails after it asked a person is told that there is none.
func TestInputHasNobody(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	for code, want := range map[string]bool{`exit 1\n# n = int(input("n? "))`: false, `exit 1\nn = int(input("n? "))`: true,
		`exit 0\ninput()`: false, "exit 1": false} {
		got := r.send("POST", "/exec", fmt.Sprintf(`{"lang":"py","code":%q}`, strings.ReplaceAll(code, `\n`, "\n")))
		if said := strings.Contains(got.Body.String(), "Nobody answers input()"); said != want {
			t.Errorf("%q: %s", code, got.Body)
		}
	}
}

// A hint and an entity lead back to their workspace after a restart of the service, and those of
// others do not.
func TestWorkspaceAfterRestart(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{State: StateOn})
	run := func(key, user, name, value string) *runReply {
		body := fmt.Sprintf(`{"code":"print x","lang":"bash","user_id":%q,%q:%q}`, user, name, value)
		got := r.send("POST", "/exec", body, "X-API-Key", key)
		if got.Code != http.StatusOK {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		out := &runReply{}
		if err := json.Unmarshal(got.Body.Bytes(), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, name := range []string{"runtime_session_hint", "entity_id"} {
		first := run(aliceKey, "u", name, "h")
		_ = r.handler.Close()
		r.restart()
		if again := run(aliceKey, "u", name, "h"); again.SessionID != first.SessionID || again.RuntimeStatus != "reused" {
			t.Errorf("%s: %+v, then %+v", name, first, again)
		}
		for _, other := range []*runReply{run(aliceKey, "u2", name, "h"), run(bobKey, "u", name, "h"),
			run(aliceKey, "u", name, "h2")} {
			if other.SessionID == first.SessionID || other.RuntimeStatus != "new" {
				t.Errorf("%s: of another one: %+v", name, other)
			}
		}
	}
}

// A client that expects state learns whether the server has any.
func TestProfile(t *testing.T) {
	for state, want := range map[State]int{StateOff: http.StatusConflict, StateHint: http.StatusOK,
		StateOn: http.StatusOK} {
		r := newRig(t, engine.Config{}, Options{State: state})
		for _, path := range []string{"/exec", "/exec/programmatic"} {
			got := r.send("POST", path, `{"code":"print x","lang":"bash"}`, "X-CodeAPI-Expected-Profile", "stateful")
			actual := map[int]string{http.StatusConflict: "default", http.StatusOK: "stateful"}[want]
			if got.Code != want || got.Header().Get("X-CodeAPI-Execution-Profile") != actual {
				t.Errorf("%s %s: %d %v %s", state, path, got.Code, got.Header(), got.Body)
			}
		}
	}
}
