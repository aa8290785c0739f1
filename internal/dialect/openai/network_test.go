package openai

import (
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// A container gets the network that its policy names, and its secrets, which no answer repeats.
func TestNetworkPolicy(t *testing.T) {
	r := newRig(t, Options{}, says("ok"))
	const allow = `"network_policy":{"type":"allowlist","allowed_domains":["api.example.com","b.example.com"],"domain_secrets":[` +
		`{"domain":"api.example.com","name":"TOKEN","value":"hunter2-hunter2"},` +
		`{"domain":"b.example.com","name":"TOKEN","value":"hunter2-hunter2"}]}`
	want := engine.Secret{Name: "TOKEN", Value: engine.NewSecretValue("hunter2-hunter2"),
		Hosts: []string{"api.example.com", "b.example.com"}}
	for path, body := range map[string]string{
		"/containers": `{"name":"c",` + allow + `}`,
		"/responses":  `{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto",` + allow + `}}]}`,
		"/responses?other": `{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto",` +
			strings.NewReplacer("domain_secrets", `Domain\u005fSecrets`, `"value"`, `"Value"`).Replace(allow) + `}}]}`,
	} {
		r.created = nil
		status, text := r.ask("ann", "POST", strings.TrimSuffix(path, "?other"), body)
		if status != 200 || strings.Contains(text, "hunter2") || !strings.Contains(text, `"allowlist"`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if path != "/containers" { // it is made when code runs
			continue
		}
		if len(r.created) != 1 {
			t.Errorf("%s: %d containers", path, len(r.created))
			continue
		}
		got := r.created[0]
		if fmt.Sprint(got.Network.Allow) != "[api.example.com b.example.com]" || len(got.Secrets) != 1 ||
			fmt.Sprint(got.Secrets) != fmt.Sprint([]engine.Secret{want}) || got.Secrets[0].Value.Reveal() != "hunter2-hunter2" {
			t.Errorf("%s: %+v, %+v", path, got.Network, got.Secrets)
		}
	}
	r.created = nil
	if status, text := r.ask("ann", "POST", "/containers", `{"name":"c","network_policy":{"type":"disabled"}}`); status != 200 ||
		r.created[0].Network == nil || r.created[0].Network.Allow == nil {
		t.Errorf("disabled: %d %s", status, text)
	}
	for _, policy := range []string{`{"type":"open"}`, `{"type":"allowlist"}`, `{"type":"disabled","allowed_domains":["a.example"]}`} {
		status, text := r.ask("ann", "POST", "/containers", `{"name":"c","network_policy":`+policy+`}`)
		if status != 400 || !strings.Contains(text, `"param":"network_policy"`) {
			t.Errorf("%s: %d %s", policy, status, text)
		}
	}
	status, p := describe(&engine.Error{Op: "check", Kind: engine.ErrNetwork, Err: fmt.Errorf("no"), Hint: "Ask."})
	if status != 403 || p.Code != "network_denied" || !strings.Contains(p.Message, "no. Ask.") {
		t.Errorf("%d %+v", status, p)
	}
}
