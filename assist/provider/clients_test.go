package provider_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

// opening makes the client of a provider as most programs do: without an HTTP client.
type opening struct {
	name string
	make func(tb testing.TB, url string) (provider.Provider, error)
}

func clients(tb testing.TB) []opening {
	const key = "test"
	runner := providertest.NewLocalServer(tb).Runner
	return []opening{
		{provider.OpenAI, func(_ testing.TB, url string) (provider.Provider, error) {
			return openai.New(openai.Options{Key: key, URL: url})
		}},
		{provider.Anthropic, func(_ testing.TB, url string) (provider.Provider, error) {
			return anthropic.New(anthropic.Options{Key: key, URL: url})
		}},
		{provider.Gemini, func(tb testing.TB, url string) (provider.Provider, error) {
			return gemini.New(gemini.Options{Key: key, URL: url})
		}},
		{provider.XAI, func(_ testing.TB, url string) (provider.Provider, error) {
			return xai.New(xai.Options{Key: key, URL: url})
		}},
		{provider.Local, func(_ testing.TB, url string) (provider.Provider, error) {
			return local.New(local.Options{URL: url, Runner: runner})
		}},
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range clients(t) {
		for address, want := range map[string]string{
			"ftp://models.example":               "http://",
			"models.example/v1":                  "http://",
			"localhost:11434/v1":                 "http://",
			"http:///v1":                         "host",
			"http://models.example/v1?key=abc":   "query",
			"http://models.example/v1#models":    "fragment",
			"http://user:secret@ho st.example":   "not a URL",
			"ftp://user:secret@models.example/x": "http://",
		} {
			_, err := c.make(t, address)
			if provider.KindOf(err) != provider.Invalid || !strings.Contains(err.Error(), want) ||
				provider.HintOf(err) == "" || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s at %q: %v, want an error of kind invalid with %q and a hint", c.name, address, err, want)
			}
		}
		if _, err := c.make(t, "https://proxy.example:8443/models/v1/"); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Clients without an HTTP client of their own share connections, as those of net/http do.
func TestClientsShareConnections(t *testing.T) {
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"id":"m","name":"models/m","data":[{"id":"m"}]}`) // a model, and a list of models
			}))
			defer server.Close()
			before, most := runtime.NumGoroutine(), 0
			opened := goleak.IgnoreCurrent()
			for range 50 {
				p, err := c.make(t, server.URL)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Check(t.Context(), "m"); err != nil {
					t.Fatal(err)
				}
				most = max(most, runtime.NumGoroutine()-before)
			}
			if most > 20 {
				t.Errorf("%d goroutines more than before 50 clients", most)
			}
			provider.DefaultHTTPClient.CloseIdleConnections()
			if err := goleak.Find(opened); err != nil {
				t.Errorf("after CloseIdleConnections: %v", err)
			}
		})
	}
}

// A size of 0 is what a caller leaves out.
func TestUploadSize(t *testing.T) {
	const content = "a,b\n1,2\n"
	for _, b := range benches() {
		for name, body := range map[string]io.Reader{
			"reader in memory": strings.NewReader(content),
			"seeker":           struct{ io.ReadSeeker }{strings.NewReader(content)},
			"stream":           io.MultiReader(strings.NewReader(content)),
			"empty":            new(bytes.Buffer),
		} {
			want := len(content)
			if name == "empty" {
				want = 0
			}
			bench := b.make(t)
			info, err := bench.Provider.Files().Upload(t.Context(), provider.Upload{Name: "a.csv", Body: body})
			if err != nil || info.Size != int64(want) {
				t.Errorf("%s: %s: stored %d bytes of %d: %v", b.name, name, info.Size, want, err)
			}
		}
	}
}

func TestUploadArguments(t *testing.T) {
	body := func() io.Reader { return strings.NewReader("a,b\n") }
	for _, b := range benches() {
		bench := b.make(t)
		for want, u := range map[string]provider.Upload{
			"Body":     {Name: "a.csv"},
			"negative": {Name: "a.csv", Body: body(), TTL: -time.Second},
			"3 bytes":  {Name: "a.csv", Body: body(), Size: 3},
		} {
			_, err := bench.Provider.Files().Upload(t.Context(), u)
			if provider.KindOf(err) != provider.Invalid || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error of kind invalid with %q", b.name, err, want)
			}
		}
		if left := bench.Server.Objects(); len(left) > 0 || bench.Server.Count(providertest.OpUpload) > 0 {
			t.Errorf("%s: refused uploads left %v after %d requests", b.name, left,
				bench.Server.Count(providertest.OpUpload))
		}
	}
}

// A fraction of a second counts as one, and a lifetime that a provider does not have becomes the nearest.
func TestUploadLifetime(t *testing.T) {
	for _, b := range benches() {
		bench := b.make(t)
		caps := bench.Provider.Caps()
		if !caps.UploadTTL {
			continue
		}
		for ttl, want := range map[time.Duration]time.Duration{
			1:                                  caps.TTLMin,
			2*time.Hour + time.Millisecond:     2*time.Hour + time.Second,
			caps.TTLMax + 365*24*time.Hour:     caps.TTLMax,
			caps.TTLMax - 500*time.Millisecond: caps.TTLMax,
		} {
			info, err := bench.Provider.Files().Upload(t.Context(), provider.Upload{Name: "a.csv",
				Body: strings.NewReader("a"), TTL: ttl})
			// Some services count whole seconds.
			if got := info.Expires.Sub(bench.Clock.Now()).Round(time.Second); err != nil || got != want {
				t.Errorf("%s: a lifetime of %v became %v, want %v: %v", b.name, ttl, got, want, err)
			}
		}
	}
}

func TestSessionLifetime(t *testing.T) {
	for _, b := range benches() {
		bench := b.make(t)
		if !bench.Provider.Caps().SessionCreate {
			continue
		}
		sessions := bench.Provider.Sessions()
		if _, err := sessions.Create(t.Context(), provider.SessionSpec{IdleTTL: -time.Minute}); provider.KindOf(
			err) != provider.Invalid || !strings.Contains(err.Error(), "negative") {
			t.Errorf("%s: a negative lifetime: %v", b.name, err)
		}
		made, err := sessions.Create(t.Context(), provider.SessionSpec{IdleTTL: 90 * time.Second})
		if err != nil || made.IdleTTL < 90*time.Second {
			t.Errorf("%s: a lifetime of 90 s became %v: %v", b.name, made.IdleTTL, err)
		}
	}
}

// Sizes of parts below 1 are what a caller leaves out.
func TestPartSizes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	web := provider.HTTPClient(provider.HTTPOptions{})
	defer web.CloseIdleConnections()
	o, g := providertest.NewOpenAI(t), providertest.NewGeminiServer(t)
	first, err := openai.New(openai.Options{Key: providertest.OpenAIKey, URL: o.URL + "/v1", HTTP: web, PartsOver: -1,
		PartSize: -1})
	if err != nil {
		t.Fatal(err)
	}
	second, err := gemini.New(gemini.Options{Key: "test", URL: g.URL, HTTP: web, PartSize: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []provider.Provider{first, second} {
		u := provider.Upload{Name: "a.csv", Size: 1, Body: strings.NewReader("a")}
		if _, err := p.Files().Upload(ctx, u); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
	}
}
