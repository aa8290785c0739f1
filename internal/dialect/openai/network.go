package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// networkPolicy is what the programs of a container may contact, and the secrets that they use there: the variable Name
// holds a placeholder, and requests to the domain get the value.
type networkPolicy struct {
	Type    string   `json:"type"`
	Domains []string `json:"allowed_domains"`
	Secrets []struct {
		Domain string `json:"domain"`
		Name   string `json:"name"`
		Value  string `json:"value"`
	} `json:"domain_secrets"`
}

// apply adds the policy to the request for a container.
func (p *networkPolicy) apply(req *live.Request) error {
	const param = "network_policy"
	switch {
	case p.Type == "disabled" && len(p.Domains)+len(p.Secrets) > 0:
		return invalid(param, "invalid_value",
			"Invalid value for 'network_policy': the type disabled has no domains and no secrets.")
	case p.Type == "disabled":
		req.Network = &engine.Network{Allow: []string{}}
		return nil
	case p.Type != "allowlist":
		return invalid(param, "invalid_value",
			"Invalid value for 'network_policy': there are the types disabled and allowlist.")
	case len(p.Domains) == 0:
		return invalid(param, "invalid_value", "Invalid value for 'network_policy': an allowlist needs allowed_domains.")
	}
	req.Network = &engine.Network{Allow: p.Domains}
	for _, s := range p.Secrets {
		same := slices.IndexFunc(req.Secrets, func(other engine.Secret) bool {
			return other.Name == s.Name && other.Value.Reveal() == s.Value
		})
		if same >= 0 {
			req.Secrets[same].Hosts = append(req.Secrets[same].Hosts, s.Domain)
			continue
		}
		req.Secrets = append(req.Secrets, engine.Secret{Name: s.Name, Value: engine.NewSecretValue(s.Value),
			Hosts: []string{s.Domain}})
	}
	return nil
}

// hideSecrets returns tools without the values of secrets.
func hideSecrets(tools []json.RawMessage) []json.RawMessage {
	hidden := make([]json.RawMessage, len(tools))
	for i, tool := range tools {
		var members any
		_ = json.Unmarshal(tool, &members) // readTools has decoded it
		hide(members, false)
		hidden[i], _ = json.Marshal(members)
	}
	return hidden
}

// hide replaces the values in each list with the name of the secrets, however it is written: what is decoded above
// ignores the case of names.
func hide(v any, secrets bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			hide(one, secrets)
		}
	case map[string]any:
		for name, member := range v {
			if secrets && strings.EqualFold(name, "value") {
				v[name] = "***"
				continue
			}
			hide(member, strings.EqualFold(name, "domain_secrets"))
		}
	}
}
