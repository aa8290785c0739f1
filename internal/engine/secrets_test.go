package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// silent is an Egress that carries nothing.
type silent struct{}

func (silent) Open(context.Context, engine.Grant, *os.File, func([]engine.Contact)) (io.Closer, error) {
	return io.NopCloser(nil), nil
}
func (silent) Authority() (certificate, key []byte, err error) {
	return []byte("certificate"), []byte("key"), nil
}

const token = "ghp_0123456789abcdef"

func secretOf(hosts ...string) engine.Secret {
	return engine.Secret{Name: "TOKEN", Value: engine.NewSecretValue(token), Hosts: hosts}
}

// A program finds a placeholder, another in each run, and its grant has the value, which nothing prints or encodes.
func TestSecrets(t *testing.T) {
	var placeholders []string
	r := newRig(t, engine.Config{Network: engine.NetworkConfig{Allow: []string{"*.example.com", "api.example.com:8443"},
		Inspect: true, Egress: silent{}}},
		func(_ context.Context, spec *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
			placeholder := spec.Network.Env["TOKEN"]
			placeholders = append(placeholders, placeholder)
			revealed := spec.Network.Grant.Reveal()
			want := []engine.RevealedSecret{{Placeholder: placeholder, Value: token,
				Hosts: []string{"api.example.com:443", "api.example.com:8443"}, Header: "Authorization: Bearer {}"}}
			if fmt.Sprint(revealed) != fmt.Sprint(want) || !strings.HasPrefix(placeholder, engine.PlaceholderPrefix) {
				t.Errorf("the grant has %v, not %v", revealed, want)
			}
			if len(spec.Network.Certificate) == 0 {
				t.Error("the program gets no authority")
			}
			text, err := json.Marshal(spec)
			if err != nil || strings.Contains(string(text), token) {
				t.Errorf("encoded: %s, %v", text, err)
			}
			return sandboxtest.Exit(0), nil
		})
	req := python("1")
	req.Network = &engine.Network{Allow: []string{"api.example.com", "api.example.com:8443"}}
	secret := secretOf("API.example.com", "api.example.com:8443")
	secret.Header = "Authorization: Bearer {}"
	req.Secrets = []engine.Secret{secret}
	for range 2 {
		run, err := r.Run(t.Context(), engine.Caller{Owner: "a"}, req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(run)
		if strings.Contains(string(text), token) {
			t.Errorf("the run has the value: %s", text)
		}
	}
	if len(placeholders) != 2 || placeholders[0] == placeholders[1] {
		t.Errorf("the placeholders are %q", placeholders)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "value", secret.Value, "secret", secret, "request", req)
	hidden := struct{ value engine.SecretValue }{secret.Value}
	printed := fmt.Sprintf("%v %+v %#v %s %q %x %v %+v %#v", secret, secret, secret, secret.Value, secret.Value,
		secret.Value, hidden, hidden, req)
	for _, text := range []string{log.String(), printed} {
		if strings.Contains(text, token) || strings.Contains(text, fmt.Sprintf("%x", token)) {
			t.Errorf("printed: %s", text)
		}
	}
}

// What cannot be kept is refused, in words that say why, and never run without the secret.
func TestSecretsRefused(t *testing.T) {
	ran := false
	config := engine.NetworkConfig{Allow: []string{"*.example.com", "api.example.com:8443"}, Inspect: true,
		Egress: silent{}}
	program := func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		ran = true
		return sandboxtest.Exit(0), nil
	}
	r := newRig(t, engine.Config{Network: config}, program)
	config.Inspect = false
	blind := newRig(t, engine.Config{Network: config}, program)
	good := func() engine.Secret { return secretOf("api.example.com") }
	with := func(change func(*engine.Secret)) []engine.Secret {
		s := good()
		change(&s)
		return []engine.Secret{s}
	}
	value := func(text string) []engine.Secret {
		return with(func(s *engine.Secret) { s.Value = engine.NewSecretValue(text) })
	}
	named := func(name string) []engine.Secret { return with(func(s *engine.Secret) { s.Name = name }) }
	header := func(text string) []engine.Secret { return with(func(s *engine.Secret) { s.Header = text }) }
	at := func(hosts ...string) []engine.Secret { return []engine.Secret{secretOf(hosts...)} }
	var many, large []engine.Secret
	for i := range 65 {
		s := good()
		s.Name = fmt.Sprint("T", i)
		many = append(many, s)
		s.Value = engine.NewSecretValue(strings.Repeat("v", 8<<10))
		large = append(large, s)
	}
	allow := &engine.Network{Allow: []string{"api.example.com", "b.example.com"}, Deny: []string{"b.example.com"}}
	for name, c := range map[string]struct {
		on      *rig
		network *engine.Network
		secrets []engine.Secret
		kind    engine.Kind
		fault   string
	}{
		"control":             {r, allow, at("api.example.com:443"), "", ""},
		"no inspection":       {blind, allow, at("api.example.com"), engine.ErrNetwork, "network_inspect"},
		"no network":          {r, nil, at("api.example.com"), engine.ErrNetwork, "may not contact"},
		"another host":        {r, allow, at("c.example.com"), engine.ErrNetwork, "c.example.com on port 443"},
		"another port":        {r, allow, at("api.example.com:8443"), engine.ErrNetwork, "port 8443"},
		"a denied host":       {r, allow, at("b.example.com"), engine.ErrNetwork, "b.example.com"},
		"plain HTTP":          {r, allow, at("api.example.com:80"), engine.ErrInvalid, "HTTPS alone"},
		"a wildcard":          {r, allow, at("*.example.com"), engine.ErrInvalid, "without wildcards"},
		"an address":          {r, allow, at("127.0.0.1"), engine.ErrInvalid, "not a host name"},
		"no host":             {r, allow, at(), engine.ErrInvalid, "name 1 to 16"},
		"CRLF":                {r, allow, value("aaaaaaaa\r\nX-Other: b"), engine.ErrInvalid, "newline"},
		"a newline":           {r, allow, value("aaaaaaaa\n"), engine.ErrInvalid, "newline"},
		"NUL":                 {r, allow, value("aaaaaaaa\x00"), engine.ErrInvalid, "control character"},
		"a tab":               {r, allow, value("aaaa\taaaa"), engine.ErrInvalid, "control character"},
		"a short value":       {r, allow, value("1234567"), engine.ErrInvalid, "7 bytes"},
		"a long value":        {r, allow, value(strings.Repeat("v", 8<<10+1)), engine.ErrInvalid, "8193 bytes"},
		"a placeholder":       {r, allow, value(engine.PlaceholderPrefix + "x"), engine.ErrInvalid, "placeholder"},
		"PATH":                {r, allow, named("PATH"), engine.ErrInvalid, "choose another"},
		"LD_PRELOAD":          {r, allow, named("LD_PRELOAD"), engine.ErrInvalid, "choose another"},
		"https_proxy":         {r, allow, named("https_proxy"), engine.ErrInvalid, "choose another"},
		"PYTHONPATH":          {r, allow, named("PYTHONPATH"), engine.ErrInvalid, "choose another"},
		"no name":             {r, allow, named("a=b"), engine.ErrInvalid, "no name of a variable"},
		"one name twice":      {r, allow, append(named("A"), named("A")...), engine.ErrInvalid, "another secret"},
		"too many":            {r, allow, many, engine.ErrInvalid, "at most 64"},
		"too large together":  {r, allow, large[:5], engine.ErrTooLarge, "at most 32768"},
		"a header without {}": {r, allow, header("X-Key: x"), engine.ErrInvalid, "no {}"},
		"half a header":       {r, allow, header("Bearer {}"), engine.ErrInvalid, "no header"},
		"CRLF in a header":    {r, allow, header("X-Key: {}\r\nX-B: c"), engine.ErrInvalid, "no header"},
		"Host":                {r, allow, header("Host: {}"), engine.ErrInvalid, "ends or goes"},
		"Proxy-Authorization": {r, allow, header("Proxy-Authorization: {}"), engine.ErrInvalid, "ends or goes"},
	} {
		ran = false
		req := python("1")
		req.Network, req.Secrets = c.network, c.secrets
		_, err := c.on.Run(t.Context(), engine.Caller{Owner: "a"}, req)
		if c.kind == "" {
			if err != nil || !ran {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		e, _ := err.(*engine.Error) //nolint:errorlint // as the service returned it
		if engine.KindOf(err) != c.kind || e == nil || !strings.Contains(e.Error()+e.Hint, c.fault) || ran {
			t.Errorf("%s: %v (%v), want %s with %q", name, err, engine.KindOf(err), c.kind, c.fault)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error has the value: %v", name, err)
		}
	}
}
