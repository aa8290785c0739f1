package cli

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/outbound"
)

// What is asked of providers, of a model and of a run_python service goes to the
// addresses that the operator set, and to no other that is not public.
func TestServicesAreReachedWhereTheOperatorSaid(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status": "ok"}`))
	}))
	defer inside.Close()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL+r.URL.Path, http.StatusFound)
	}))
	defer away.Close()
	a := &app{App: &command.App{Config: &config.Config{Data: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}}

	for _, c := range []struct {
		name    string
		set     []string
		address string
		want    bool
	}{
		{"what is set", []string{inside.URL + "/v1"}, inside.URL, true},
		{"what is set, by name", []string{strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)},
			strings.Replace(inside.URL, "127.0.0.1", "localhost", 1), true},
		{"another port", []string{away.URL}, inside.URL, false},
		{"with a user", []string{strings.Replace(inside.URL, "//", "//me:secret@", 1)}, inside.URL, true},
		{"nothing set", nil, inside.URL, false},
	} {
		web := a.WebClient(c.set...)
		resp, err := web.Get(c.address)
		if err == nil {
			resp.Body.Close()
		}
		web.CloseIdleConnections()
		refused := new(outbound.RefusedError)
		if (err == nil) != c.want || !c.want && !errors.As(err, &refused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	for address, want := range map[string]bool{inside.URL: true, away.URL: false} {
		a.Config.CodeInterpreter = address
		tool, err := a.pageTool(nil)
		if err != nil {
			t.Fatal(err)
		}
		if health := tool.service.Health(t.Context()); health.Connected != want {
			t.Errorf("a run_python service at %s: %+v", address, health)
		}
	}
}
