package pytool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/pytool"
)

// serve returns a service whose answers a test writes.
func serve(t *testing.T, handler http.HandlerFunc) *pytool.Service {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s, err := pytool.NewService(server.URL+"/onyx/", pytool.ServiceOptions{HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServiceHealth(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   pytool.Health
	}{
		{200, `{"status":"ok","message":null,"version":"0.4.7"}`, pytool.Health{Connected: true, Version: "0.4.7"}},
		{200, `{"status":"ok"}`, pytool.Health{Connected: true, Version: "0.0.0"}},
		{200, `{"status":"error","message":"Docker daemon not responding","version":"0.4.4"}`,
			pytool.Health{Connected: true, Error: "Docker daemon not responding", Version: "0.4.4"}},
		{200, `{"status":"error","message":null}`, pytool.Health{Connected: true, Error: "Unknown error", Version: "0.0.0"}},
		{502, `bad gateway`, pytool.Health{Connected: true, Error: "Code Interpreter service returned HTTP 502",
			Version: "0.0.0"}},
		{200, `<html>`, pytool.Health{Error: "Unable to reach the Code Interpreter service", Version: "0.0.0"}},
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/onyx/health" && r.URL.Path != "/onyx/v1/execute" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		if diff := cmp.Diff(test.want, s.Health(t.Context())); diff != "" {
			t.Errorf("%s: %s", test.body, diff)
		}
	}
	nobody, err := pytool.NewService("http://127.0.0.1:1", pytool.ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := nobody.Health(t.Context()); got.Connected || got.Error != "Unable to reach the Code Interpreter service" {
		t.Errorf("nobody there: %+v", got)
	}
}

// A good health is not enough: where runs are not to be had, the tool is not
// offered, and its operator is told what to set.
func TestServiceWithoutRuns(t *testing.T) {
	for _, test := range []struct {
		name, health string
		runs         int // status of GET /v1/execute
		available    bool
		cure         string
	}{
		{"the service itself", `{"status":"ok","message":null,"version":"0.4.7"}`, 405, true, ""},
		{"the first versions", `{"status":"ok"}`, 405, true, ""},
		{"another service's health", `{"status":"ok","version":"0.4.7"}`, 404, false, "/onyx"},
		{"no more than a health", `{"status":"ok"}`, 404, false, "/onyx"},
		{"a key is needed", `{"status":"ok"}`, 401, false, "key"},
		{"a proxy says no", `{"status":"ok"}`, 403, false, "key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/onyx/health" {
					fmt.Fprint(w, test.health)
					return
				}
				w.WriteHeader(test.runs)
			})
			tool, err := pytool.New(pytool.Options{Store: newStore(nil), Runner: s})
			if err != nil {
				t.Fatal(err)
			}
			at := tool.Available(t.Context())
			if at.Available != test.available || !at.Connected || !strings.Contains(at.Cure, test.cure) ||
				at.Available != (at.Reason == "") {
				t.Errorf("%+v", at)
			}
		})
	}
}

func TestServiceRequests(t *testing.T) {
	var got []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := fmt.Sprintf("%s %s %s %d\n%s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.ContentLength, body)
		if _, boundary, ok := strings.Cut(r.Header.Get("Content-Type"), "boundary="); ok {
			request = strings.ReplaceAll(request, boundary, "BOUNDARY")
		}
		got = append(got, request)
		switch {
		case r.URL.Path == "/onyx/v1/execute/stream":
			fmt.Fprint(w, "event: result\ndata: {\"exit_code\":0,\"timed_out\":false,\"duration_ms\":1,\"files\":[]}\n\n")
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"file_id":"f1","filename":"x","size_bytes":3}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprint(w, "bytes")
		}
	})
	ctx := t.Context()
	if id, err := s.Upload(ctx, `日"x.csv`, 3, strings.NewReader("1,2")); err != nil || id != "f1" {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := s.Execute(ctx, pytool.Request{Code: "a<b", Timeout: time.Minute}, nil); err != nil {
		t.Error(err)
	}
	if _, err := s.Execute(ctx, pytool.Request{Code: "x", Timeout: time.Second,
		Files: []pytool.StagedFile{{Path: "p", ID: "f1"}}}, nil); err != nil {
		t.Error(err)
	}
	content, err := s.Download(ctx, "f/1")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(content); err != nil || string(text) != "bytes" {
		t.Errorf("%q, %v", text, err)
	}
	content.Close()
	if err := s.Delete(ctx, "f1"); err != nil {
		t.Error(err)
	}
	golden(t, "requests.txt", strings.ReplaceAll(strings.Join(got, "\n----\n"), "\r\n", "\n")+"\n")
}

func TestServiceStream(t *testing.T) {
	const result = "event: result\ndata: " +
		"{\"exit_code\":1,\"timed_out\":false,\"duration_ms\":1,\"files\":" +
		"[{\"path\":\"a\",\"kind\":\"file\",\"file_id\":\"1\"},{\"path\":\"d\",\"kind\":\"directory\",\"file_id\":null}]}\n\n"
	for _, test := range []struct{ name, stream, printed, problem string }{
		{"output", "event: output\ndata: {\"stream\":\"stdout\",\"data\":\"a\"}\n\nevent: output\n" +
			"data: {\"stream\":\"stderr\",\"data\":\"b\"}\n\n" + result, "[stdout a][stderr b]", ""},
		{"CR LF, comments, unknown events", ": hello\r\n\r\nevent: later\r\ndata: {}\r\n\r\nevent: output\r\n" +
			"data: {\"stream\":\"stdout\",\r\ndata: \"data\":\"a\"}\r\n\r\n" + result, "[stdout a]", ""},
		{"raw line separators", "event: output\ndata: {\"stream\":\"stdout\",\"data\":\"a\u0085\u2028\u2029b\"}\n\n" + result,
			"[stdout a\u0085\u2028\u2029b]", ""},
		{"error", "event: error\ndata: {\"message\":\"no capacity\"}\n\n", "", "Code interpreter error: no capacity"},
		{"no result", "event: output\ndata: {\"stream\":\"stdout\",\"data\":\"a\"}\n\n", "[stdout a]", "without a result"},
		{"a tail that is not complete", strings.TrimSuffix(result, "\n"), "", "without a result"},
		{"nonsense", "event: result\ndata: nonsense\n\n", "", "cannot be read"},
		{"empty", "", "", "without a result"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, test.stream) })
			var printed strings.Builder
			outcome, err := s.Execute(t.Context(), pytool.Request{Timeout: time.Second},
				func(stream pytool.Stream, text string) {
					fmt.Fprintf(&printed, "[%s %s]", stream, text)
				})
			if printed.String() != test.printed {
				t.Errorf("printed %q", printed.String())
			}
			switch {
			case test.problem == "" && err == nil:
				if diff := cmp.Diff(exit(1, pytool.OutputFile{Path: "a", ID: "1"}), outcome); diff != "" {
					t.Error(diff)
				}
			case test.problem == "" || err == nil || !strings.Contains(err.Error(), test.problem):
				t.Errorf("error %v, want %q", err, test.problem)
			}
		})
	}
}

// A service that knows no streams is asked again without; one that misses a
// file is not.
func TestServiceOfAnEarlierDay(t *testing.T) {
	var asked []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/stream") {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"Not Found"}`)
			return
		}
		fmt.Fprint(w, `{"stdout":"o","stderr":"e","exit_code":null,"timed_out":true,"duration_ms":5,"files":[]}`)
	})
	printed := ""
	outcome, err := s.Execute(t.Context(), pytool.Request{Timeout: time.Second},
		func(stream pytool.Stream, text string) { printed += string(stream) + text })
	if err != nil || !outcome.TimedOut || outcome.ExitCode != nil || printed != "stdoutostderre" || len(asked) != 2 {
		t.Errorf("%+v, %v, %q, %v", outcome, err, printed, asked)
	}

	asked = nil
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail":"File with ID 'x' not found for path 'p'."}`)
	})
	if _, err = s.Execute(t.Context(), pytool.Request{Timeout: time.Second}, nil); !errors.Is(err, pytool.ErrFileGone) ||
		len(asked) != 1 {
		t.Errorf("%v after %v", err, asked)
	}
}

func TestServiceRefusals(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail":"saturated"}`:                        "Code Interpreter service returned HTTP 429: saturated",
		`{"detail":[{"type":"missing","loc":["a"]}]}`:   `Code Interpreter service returned HTTP 429: [{"type":"missing","loc":["a"]}]`,
		`Too Many Requests`:                             "Code Interpreter service returned HTTP 429",
		`{"detail":"` + strings.Repeat("x", 70_000):     "Code Interpreter service returned HTTP 429",
		`{"error":{"code":"busy","message":"come on"}}`: "Code Interpreter service returned HTTP 429",
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, body)
		})
		_, err := s.Execute(t.Context(), pytool.Request{Timeout: time.Second}, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

// An error names no address: it is shown to models and users.
func TestServiceThatIsCut(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "event: output\ndata: {\"stream\":\"stdout\",\"data\":\"a\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := s.Execute(t.Context(), pytool.Request{Timeout: time.Second}, func(pytool.Stream, string) {})
	if err == nil || !strings.Contains(err.Error(), "was cut") || strings.Contains(err.Error(), "127.0.0.1") {
		t.Error(err)
	}
	nobody, err := pytool.NewService("http://127.0.0.1:1", pytool.ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Execute(t.Context(), pytool.Request{Timeout: time.Second}, nil); err == nil ||
		strings.Contains(err.Error(), "127.0.0.1") {
		t.Error(err)
	}
}

func TestCallerWhoLeaves(t *testing.T) {
	left := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("the user pressed stop")) })
	wire, result := callWith(ctx, newTool(t, s, newStore(nil), pytool.Config{}),
		pytool.Call{Arguments: []byte(`{"code":"x"}`)})
	<-left
	if *result.ExitCode != -1 || !strings.Contains(result.Stderr, "pressed stop") ||
		!strings.HasSuffix(wire, "{\"type\":\"section_end\"}}\n") {
		t.Errorf("%s\n%s", result.JSON(), wire)
	}
}

// A redirect to another server gets it neither code nor files.
func TestRedirectsStayWithTheService(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the other server was asked")
	}))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		s := serve(t, http.RedirectHandler(other.URL, status).ServeHTTP)
		_, err := s.Execute(t.Context(), pytool.Request{Code: "1", Timeout: time.Minute}, nil)
		if err == nil || !strings.Contains(err.Error(), "redirects to another address") ||
			strings.Contains(err.Error(), other.URL) {
			t.Errorf("a run, answered with %d: %v", status, err)
		}
		if got := s.Health(t.Context()); got.Connected || !strings.Contains(got.Error, "redirects to another address") {
			t.Errorf("its health, answered with %d: %+v", status, got)
		}
	}
}

// Services share connections, which a program can close.
func TestServicesShareConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"status":"ok"}`)
	}))
	defer server.Close()
	before, most := runtime.NumGoroutine(), 0
	opened := goleak.IgnoreCurrent()
	for range 50 {
		service, err := pytool.NewService(server.URL, pytool.ServiceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if health := service.Health(t.Context()); !health.Connected {
			t.Fatalf("%+v", health)
		}
		most = max(most, runtime.NumGoroutine()-before)
	}
	if most > 20 {
		t.Errorf("%d goroutines more than before 50 services", most)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(opened); err != nil {
		t.Errorf("after CloseIdleConnections: %v", err)
	}
}
