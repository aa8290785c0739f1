package live

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// silent is an Egress that carries nothing.
type silent struct{}

func (silent) Open(context.Context, engine.Grant, *os.File, func([]engine.Contact)) (io.Closer, error) {
	return io.NopCloser(nil), nil
}
func (silent) Authority() (certificate, key []byte, err error) {
	return []byte("certificate\n"), []byte("key"), nil
}

// A session's programs find placeholders. A copy has no secrets, and says so; after a restart of the service nothing
// runs before they are given again.
func TestSecrets(t *testing.T) {
	first := open(t, Config{})
	blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
	config := engine.Config{Network: engine.NetworkConfig{Allow: []string{"api.example.com"}, Inspect: true, Egress: silent{}}}
	start := func() *place {
		return openOver(t, Config{}, enginetest.StartOn(t, config, first.sandbox, blobs, index), first.sandbox)
	}
	p := start()
	const token = "ghp_0123456789abcdef"
	secret := engine.Secret{Name: "TOKEN", Value: engine.NewSecretValue(token), Hosts: []string{"api.example.com"}}
	req := Request{Network: &engine.Network{Allow: secret.Hosts}, Secrets: []engine.Secret{secret}}
	made, err := p.Create(t.Context(), p.caller, req)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(made.Live, token) || len(Secrets(made.Live)) != 1 {
		t.Errorf("it is recorded with %s", made.Live)
	}
	const look = "import os; os.environ['TOKEN']"
	placeholder := plain(t, p.want(p.run(made.ID, look), StatusOK))
	if !strings.Contains(placeholder, engine.PlaceholderPrefix) || strings.Contains(placeholder, token) {
		t.Errorf("the program finds %s", placeholder)
	}
	process, err := p.StartProcess(t.Context(), p.caller, made.ID, ProcessRequest{Shell: "echo \"'$TOKEN'\""})
	if err != nil {
		t.Fatal(err)
	}
	events, err := p.WatchProcess(t.Context(), p.caller, made.ID, process.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var printed string
	for e := range events {
		printed += string(e.Data)
	}
	if strings.TrimSpace(printed) != placeholder {
		t.Errorf("a process finds %q, the interpreter %s", printed, placeholder)
	}
	if err := p.Restart(t.Context(), p.caller, made.ID); err != nil {
		t.Fatal(err)
	}
	if again := plain(t, p.want(p.run(made.ID, look), StatusOK)); again == placeholder {
		t.Error("another interpreter has the same placeholder")
	}
	both := req
	both.Setup.Env = map[string]string{"TOKEN": "mine"}
	if _, err := p.Create(t.Context(), p.caller, both); engine.KindOf(err) != engine.ErrInvalid {
		t.Errorf("a variable of both: %v", err)
	}

	copies, _, err := p.Copy(t.Context(), p.caller, engine.CopySource{Session: made.ID}, CopyRequest{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := p.want(p.run(copies[0].ID, "import os; 'TOKEN' in os.environ"), StatusOK)
	if plain(t, c) != "False" || !strings.Contains(c.Message, "no secrets of what it was copied from: TOKEN") {
		t.Errorf("a copy: %s, %q", plain(t, c), c.Message)
	}
	given := CopyRequest{Count: 1, Secrets: []engine.Secret{secret}}
	if copies, _, err = p.Copy(t.Context(), p.caller, engine.CopySource{Session: made.ID}, given); err != nil {
		t.Fatal(err)
	}
	if got := plain(t, p.want(p.run(copies[0].ID, look), StatusOK)); !strings.Contains(got, engine.PlaceholderPrefix) {
		t.Errorf("a copy that was given them: %s", got)
	}

	p.Close()
	p = start()
	_, err = p.Start(t.Context(), p.caller, made.ID, CellRequest{Code: look})
	if engine.KindOf(err) != engine.ErrConflict || !strings.Contains(err.Error(), "are gone: TOKEN") {
		t.Errorf("after a restart: %v", err)
	}
	values := map[string]engine.SecretValue{"OTHER": engine.NewSecretValue(token)}
	if err := p.SetSecrets(t.Context(), p.caller, made.ID, values); engine.KindOf(err) != engine.ErrInvalid {
		t.Errorf("another name: %v", err)
	}
	stranger := engine.Caller{Owner: "eve"}
	values = map[string]engine.SecretValue{"TOKEN": engine.NewSecretValue(token)}
	if err := p.SetSecrets(t.Context(), stranger, made.ID, values); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("somebody else's: %v", err)
	}
	if err := p.SetSecrets(t.Context(), p.caller, made.ID, values); err != nil {
		t.Fatal(err)
	}
	if got := plain(t, p.want(p.run(made.ID, look), StatusOK)); !strings.Contains(got, engine.PlaceholderPrefix) {
		t.Errorf("given again: %s", got)
	}
}
