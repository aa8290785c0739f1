package commands

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

// The address of a provider may end in a slash.
func TestModelNames(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data": [{"id": "one"}]}`)
	})
	mux.HandleFunc("GET /v1beta/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"models": [{"name": "models/one"}]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, end := range []string{"", "/"} {
		account := config.Account{URL: server.URL + end}
		a := &Assistant{App: &command.App{Log: slog.New(slog.DiscardHandler), Config: &config.Config{Anthropic: account,
			Gemini: account,
			OpenAI: config.Account{URL: server.URL + "/v1" + end}}}}
		for _, name := range []string{provider.OpenAI, provider.Anthropic, provider.Gemini} {
			if names, err := a.modelNames(t.Context(), name, ""); err != nil || !slices.Equal(names, []string{"one"}) {
				t.Errorf("%s at %s: %v, %v", name, account.URL, names, err)
			}
		}
	}
}

// --model-url names a server that speaks OpenAI's API, whose models count.
func TestModelNamesOfServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"data": [{"id": "`+r.URL.Path+`"}]}`)
	}))
	defer server.Close()
	cfg, err := config.Load(config.Input{File: config.NoFile, Home: t.TempDir(),
		Flags:  map[string][]string{"model_url": {server.URL + "/own"}},
		Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	a := &Assistant{App: &command.App{Log: slog.New(slog.DiscardHandler), Config: cfg}}
	names, err := a.modelNames(t.Context(), provider.OpenAI, "")
	if err != nil || !slices.Equal(names, []string{"/own/models"}) {
		t.Errorf("got %v, %v", names, err)
	}
}
