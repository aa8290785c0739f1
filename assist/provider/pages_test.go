package provider_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

// TestListsEnd has a service that says of every page that another one follows,
// and sends the same again: each list ends, and says why.
func TestListsEnd(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked > 50 {
			t.Error("the list goes on for ever")
			http.Error(w, "enough", http.StatusTeapot)
			return
		}
		var items []string
		for i := range 100 {
			if r.Header.Get("Anthropic-Version") != "" {
				items = append(items,
					fmt.Sprintf(`{"id":"f%d","type":"file","filename":"a.csv","size_bytes":1,"mime_type":"text/csv","created_at":"2026-11-21T00:00:00Z","downloadable":true}`, i))
				continue
			}
			items = append(items,
				fmt.Sprintf(`{"id":"f%d","object":"file","name":"files/f%d","path":"f%d","filename":"a.csv","bytes":1,"created_at":1790000000,"status":"running"}`, i, i, i))
		}
		data := "[" + strings.Join(items, ",") + "]"
		w.Header().Set("Content-Type", "application/json")
		part := `"object":"list","has_more":true,"last_id":"f99","next_page":"page_1","pagination_token":"t","nextPageToken":"t","next_page_token":"t"`
		switch {
		case r.Header.Get("Anthropic-Version") != "" || strings.HasPrefix(r.Header.Get("Authorization"), "Bearer"):
			_, _ = io.WriteString(w, `{"data":`+data+`,`+part+`}`)
		default:
			data = strings.ReplaceAll(strings.ReplaceAll(data, `,"created_at":1790000000`, ""), `"bytes":1,`, "")
			_, _ = io.WriteString(w, `{"files":`+data+`,`+part+`}`)
		}
	}))
	defer server.Close()
	web := provider.HTTPClient(provider.HTTPOptions{})
	defer web.CloseIdleConnections()
	open := map[string]func() (provider.Provider, error){
		"openai": func() (provider.Provider, error) {
			return openai.New(openai.Options{Key: "k", URL: server.URL, HTTP: web})
		},
		"anthropic": func() (provider.Provider, error) {
			return anthropic.New(anthropic.Options{Key: "k", URL: server.URL, HTTP: web})
		},
		"gemini": func() (provider.Provider, error) {
			return gemini.New(gemini.Options{Key: "k", URL: server.URL, HTTP: web})
		},
		"xai": func() (provider.Provider, error) { return xai.New(xai.Options{Key: "k", URL: server.URL, HTTP: web}) },
	}
	for name, open := range open {
		p, err := open()
		if err != nil {
			t.Fatal(err)
		}
		asked = 0
		n, err := 0, error(nil)
		for _, failed := range p.Files().List(t.Context(), provider.Filter{}) {
			if err = failed; err == nil {
				n++
			}
		}
		// xAI gives a token with every page: that it comes again is the end there.
		if said := err != nil && strings.Contains(err.Error(), "repeat"); n < 100 || said == (name == "xai") {
			t.Errorf("%s: %d files, %v", name, n, err)
		}
		if !p.Caps().SessionFiles {
			continue
		}
		asked = 0
		sessions, inside := 0, 0
		for range p.Sessions().List(t.Context(), provider.Filter{}) {
			sessions++
		}
		for range p.Sessions().Files(t.Context(), "s") {
			inside++
		}
		if sessions < 101 || inside < 101 {
			t.Errorf("%s: %d sessions, %d files, the last of each an error", name, sessions, inside)
		}
	}
}
