package provider_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

// A redirect to another server gets it neither a key nor a prompt, whoever made the HTTP client,
// and the error names both servers.
func TestRedirectsStayWithTheProvider(t *testing.T) {
	const key, prompt = "sk-secret", "a private prompt"
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("the other server got %v with %q", r.Header, body)
	}))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusPermanentRedirect))
	defer away.Close()
	for whose, web := range map[string]*http.Client{
		"ours": provider.HTTPClient(provider.HTTPOptions{}), "the caller's": {}} {
		defer web.CloseIdleConnections()
		for name, open := range map[string]func() (provider.Provider, error){
			"openai": func() (provider.Provider, error) {
				return openai.New(openai.Options{Key: key, URL: away.URL, HTTP: web})
			},
			"anthropic": func() (provider.Provider, error) {
				return anthropic.New(anthropic.Options{Key: key, URL: away.URL, HTTP: web})
			},
			"gemini": func() (provider.Provider, error) {
				return gemini.New(gemini.Options{Key: key, URL: away.URL, HTTP: web})
			},
			"xai": func() (provider.Provider, error) {
				return xai.New(xai.Options{Key: key, URL: away.URL, HTTP: web})
			},
			"local": func() (provider.Provider, error) {
				return local.New(local.Options{Key: key, URL: away.URL, HTTP: web,
					Runner: providertest.NewLocalServer(t).Runner})
			},
		} {
			p, err := open()
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Run(t.Context(), provider.RunRequest{Model: "m", Tool: provider.ToolNone,
				Input: []provider.Turn{{Role: provider.RoleUser, Text: prompt}}}, nil)
			if err == nil || !strings.Contains(err.Error(), away.URL+" redirects to "+other.URL) {
				t.Errorf("%s with %s HTTP client: %v", name, whose, err)
			}
		}
	}
}
