package xai_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(tb testing.TB) (*xai.Client, *providertest.XAIServer) {
	s := providertest.NewXAIServer(tb)
	c, err := xai.New(xai.Options{Key: "test", URL: s.URL + "/v1", Clock: s.Clock})
	if err != nil {
		tb.Fatal(err)
	}
	return c, s
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, func(tb testing.TB) providertest.Bench {
		c, s := open(tb)
		return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.XAIModel}
	})
}

func ask(text string, files ...provider.Attachment) provider.RunRequest {
	return provider.RunRequest{Model: providertest.XAIModel, Input: []provider.Turn{{Role: provider.RoleUser, Text: text}},
		Files: files}
}

// Every page has a token, also the last: the list must end all the same.
func TestListEnds(t *testing.T) {
	for _, n := range []int{0, 99, 100, 101, 200} {
		c, _ := open(t)
		for i := range n {
			if _, err := c.Files().Upload(t.Context(), provider.Upload{
				Name: fmt.Sprint(i), Size: 1, Body: strings.NewReader("x")}); err != nil {
				t.Fatal(err)
			}
		}
		got := 0
		for _, err := range c.Files().List(t.Context(), provider.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if got != n {
			t.Errorf("%d of %d files", got, n)
		}
	}
}

func TestLifetimeComesBeforeTheFile(t *testing.T) {
	c, s := open(t)
	info, err := c.Files().Upload(t.Context(), provider.Upload{
		Name: "a.csv", Size: 1, Body: strings.NewReader("x"), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if left := info.Expires.Sub(s.Clock.Now()); left < 59*time.Minute || left > time.Hour {
		t.Errorf("expires in %v", left)
	}
	body, _, err := c.Files().Open(t.Context(), info.Ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if data, err := io.ReadAll(body); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
}

// Small texts go into the prompt as well, and the person is told; large ones and
// other types do not.
func TestPromptCopies(t *testing.T) {
	c, s := open(t)
	var files []provider.Attachment
	for name, f := range map[string]struct{ mime, content string }{
		"small.csv": {"text/csv", "a,b"}, "large.csv": {"text/csv", strings.Repeat("x", 40<<10)},
		"a.png": {"image/png", "png"}, "half.txt": {"text/plain", strings.Repeat("y", 32<<10)},
	} {
		info, err := c.Files().Upload(t.Context(), provider.Upload{
			Name: name, MIME: f.mime, Size: int64(len(f.content)), Body: strings.NewReader(f.content)})
		if err != nil {
			t.Fatal(err)
		}
		if name == "small.csv" { // first, so that the limit of all together is known
			files = append([]provider.Attachment{{File: info}}, files...)
			continue
		}
		files = append(files, provider.Attachment{File: info})
	}
	var told []string
	if _, err := c.Run(t.Context(), ask("go", files...), func(e provider.Event) {
		if n, ok := e.(provider.Notice); ok {
			told = append(told, n.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.Contains(told[0], "small.csv") || s.Count(providertest.OpDownload) != 1 {
		t.Errorf("told %q, %d downloads", told, s.Count(providertest.OpDownload))
	}
}

// What was recorded over REST says nothing of what came of the code.
func TestBareItems(t *testing.T) {
	c, s := open(t)
	s.Bare = true
	s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "print(1)"}}, Text: "1"})
	got, err := c.Run(t.Context(), ask("go"), nil)
	if err != nil || len(got.Steps) != 1 || got.Steps[0].Code != "print(1)" ||
		got.Steps[0].Outcome != provider.OutcomeUnknown {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestErrorShapes(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
		kind       provider.Kind
	}{
		"text":   {429, `{"code":"busy","error":"Too many requests"}`, "Too many requests", provider.RateLimited},
		"object": {400, `{"error":{"message":"bad","type":"x"}}`, "bad", provider.Invalid},
		"key": {400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x"}`,
			"API key", provider.Auth},
		"credits": {403, `{"code":"x","error":"Your team has used all available credits"}`, "credits",
			provider.Quota},
		"page":            {502, `<html>`, "bad gateway", provider.Transient},
		"under a success": {200, `{"code":"x","error":"gone wrong"}`, "gone wrong", provider.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			x, err := xai.New(xai.Options{Key: "k", URL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, err = x.Files().Stat(t.Context(), provider.FileRef{ID: "file_1"})
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q of kind %s", err, c.want, c.kind)
			}
		})
	}
}

func TestRefusalAndConversation(t *testing.T) {
	c, s := open(t)
	s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "a"}}, Text: "one"}, providertest.Turn{Refuse: true})
	first, err := c.Run(t.Context(), ask("go"), nil)
	if err != nil {
		t.Fatal(err)
	}
	next := ask("more")
	next.Input = append(append(ask("go").Input, first.Next...), next.Input...)
	if got, err := c.Run(t.Context(), next, nil); err != nil || got.Stop != provider.StopRefused {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := xai.New(xai.Options{}); !errors.Is(err, provider.Auth) {
		t.Error(err)
	}
}
