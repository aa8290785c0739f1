package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
	"github.com/airlock-run/airlock/internal/redact"
)

// Forms of keys, made up.
var someKeys = []string{
	"sk-proj-Ab3dEf6hIj9kLmN0pQrStUvWxYz-_12345678901234567890",
	"sk-ant-api03-Ab3dEf6hIj9kLmN0pQrStUvWxYz_AA",
	"xai-Ab3dEf6hIj9kLmN0pQrStUvWxYzAb3dEf6hIj9k",
	"AIzaSyAb3dEf6hIj9kLmN0pQrStUvWxYz12345",
	"AQ.Ab8RN6Ab3dEf6hIj9kLmN0pQrStUvWxYz",
	"ghp_Ab3dEf6hIj9kLmN0pQrStUvWxYz123456",
	"github_pat_11ABCDEFG0abcdefghij_klmnopqrstuvwxyz",
	"gsk_Ab3dEf6hIj9kLmN0pQrStUvWxYz",
	"hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
	"ak_0123456789ab_Ab3dEf6hIj9kLmN0pQrStUvWxYz",
}

func TestRedact(t *testing.T) {
	r := redact.New("hunter2-and-more-of-it", "short1", "lm-studio", "x")
	for _, key := range append(someKeys, "hunter2-and-more-of-it") {
		for _, around := range []string{"%s", "key: %s.", "\"%s\"", "Bearer %s\n", "https://x.example/?key=%s&alt=sse",
			"(%s)"} {
			text := fmt.Sprintf(around, key)
			want := fmt.Sprintf(around, redact.Removed)
			if around == "key: %s." { // a key may end in no dot
				want = strings.TrimSuffix(want, ".") + "."
			}
			if got := r.Text(text); got != want {
				t.Errorf("%q: %q", text, got)
			}
			if got := r.Error(text); strings.Contains(got, key) {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
	for _, text := range []string{"", "risk-assessment-of-the-whole-thing-1", "sk-learn-contrib-packages-and-more",
		"the server lm-studio", "short1", "xai-model", "data:image/png;base64,AIzaA==", "sk-short"} {
		if got := r.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := r.Error("short1 and lm-studio"); strings.Contains(got, "short1") || strings.Contains(got, "lm-studio") {
		t.Errorf("an error keeps a secret: %q", got)
	}
	if got := (*redact.Redactor)(nil).Text("plain " + someKeys[0]); got != "plain "+redact.Removed {
		t.Errorf("%q", got)
	}
}

// However a text is divided, no secret comes through, and all else does, in time.
func TestRedactStream(t *testing.T) {
	const secret = "hunter2-and-more-of-it"
	r := redact.New(secret)
	text := "So says the server: " + secret + ", hunter2, and " + someKeys[0] + " and " + someKeys[3] +
		"; sk-learn is fine.\nThe end is s"
	want := r.Text(text)
	for size := 1; size < 60; size++ {
		s := redact.Stream{Redactor: r}
		got := ""
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			got += s.Add(rest[:n])
			rest = rest[n:]
		}
		if got += s.Rest(); got != want {
			t.Fatalf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
	s := redact.Stream{Redactor: r}
	if got := s.Add("Hello world, this is plain. "); got != "Hello world, this is plain. " {
		t.Errorf("plain text waits: %q", got)
	}
	if got := s.Add("sk-" + strings.Repeat("a", 5000)); len(got) == 0 {
		t.Error("what is too long for a key waits for ever")
	}
}

// A key that a server repeats, in whichever way, is in no error, no answer and no
// header of one.
func TestKeysAreNotRepeated(t *testing.T) {
	const key = "a-key-of-no-known-form-0815"
	answers := map[string]func(w http.ResponseWriter){
		"JSON": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Request-Id", key)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","code":%q,"message":"wrong key %s"},"message":%q}`, key, key, key)
		},
		"a page": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<html>%s</html>", key)
		},
		"as a success": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"error":{"message":"wrong key %s"}}`, key)
		},
		"in a stream": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"wrong key %s\",\"type\":%q}}\n\n",
				key[:], key)
		},
	}
	for how, answer := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		web := provider.HTTPClient(provider.HTTPOptions{})
		clients := map[string]func() (provider.Provider, error){
			"openai": func() (provider.Provider, error) {
				return openai.New(openai.Options{Key: key, URL: server.URL, HTTP: web})
			},
			"anthropic": func() (provider.Provider, error) {
				return anthropic.New(anthropic.Options{Key: key, URL: server.URL, HTTP: web})
			},
			"gemini": func() (provider.Provider, error) {
				return gemini.New(gemini.Options{Key: key, URL: server.URL, HTTP: web})
			},
			"xai": func() (provider.Provider, error) { return xai.New(xai.Options{Key: key, URL: server.URL, HTTP: web}) },
			"local": func() (provider.Provider, error) {
				return local.New(local.Options{Key: key, URL: server.URL, HTTP: web, Runner: providertest.NewLocalServer(t).Runner})
			},
		}
		for name, open := range clients {
			p, err := open()
			if err != nil {
				t.Fatal(err)
			}
			r := provider.RunRequest{Model: "m", Input: []provider.Turn{{Role: provider.RoleUser, Text: "Hello"}},
				Tool: provider.ToolAuto}
			result, failed := p.Run(t.Context(), r, nil)
			if failed == nil {
				t.Errorf("%s, %s: no error", name, how)
				continue
			}
			for _, err := range []error{failed, p.Check(t.Context(), "m")} {
				e, _ := errors.AsType[*provider.Error](err)
				all, _ := json.Marshal([]any{fmt.Sprint(err), fmt.Sprintf("%+v", e), result})
				if bytes.Contains(all, []byte(key)) {
					t.Errorf("%s, %s: %s", name, how, all)
				}
			}
		}
		web.CloseIdleConnections()
		server.Close()
	}
}

// Content of files comes as it is, also when it has the key in it; an answer comes
// byte by byte without it.
func TestMaskedBodies(t *testing.T) {
	const key = "a-key-of-no-known-form-0815"
	body := strings.Repeat("a-key-of-"+key+" a-key", 3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	web := provider.HTTPClient(provider.HTTPOptions{})
	defer web.CloseIdleConnections()
	get := func(path string, wrap func(io.Reader) io.Reader) string {
		t.Helper()
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(wrap(resp.Body))
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := get("/files/1/content", iotest.OneByteReader); got != body {
		t.Errorf("a file is changed: %q", got)
	}
	if got := get("/v1/models", iotest.OneByteReader); got != strings.ReplaceAll(
		body, key, strings.Repeat("*", len(key))) {
		t.Errorf("%q", got)
	}
}
