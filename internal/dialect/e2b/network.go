package e2b

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// networkBody is what a client asks of the network of a sandbox, in both directions.
type networkBody struct {
	AllowPublicTraffic *bool           `json:"allowPublicTraffic"`
	MaskRequestHost    string          `json:"maskRequestHost"`
	HTTPSPorts         []int           `json:"httpsPorts"`
	AllowOut           []string        `json:"allowOut"`
	DenyOut            []string        `json:"denyOut"`
	Rules              networkRules    `json:"rules"`
	EgressProxy        json.RawMessage `json:"egressProxy"`
	DNSServers         json.RawMessage `json:"dnsServers"`
}

// networkInfo is what a client is told of it.
type networkInfo struct {
	AllowPublicTraffic bool   `json:"allowPublicTraffic"`
	MaskRequestHost    string `json:"maskRequestHost,omitempty"`
	HTTPSPorts         []int  `json:"httpsPorts,omitempty"`
}

// networkRules are headers for requests to hosts.
type networkRules map[string][]struct {
	Transform struct {
		Headers map[string]string `json:"headers"`
	} `json:"transform"`
}

func (b *networkBody) check() error {
	if mask := b.MaskRequestHost; !maskPattern.MatchString(mask) {
		return invalid("network.maskRequestHost " + strconv.Quote(mask) + " is no host: give a name, and a port or " +
			maskPort)
	}
	for _, port := range b.HTTPSPorts {
		if port < 1 || port > 65535 || port == portEnvd || port == portCode {
			return invalid(fmt.Sprintf("network.httpsPorts: %d is no port of a server in the sandbox", port))
		}
	}
	return nil
}

// maskPort stands in network.maskRequestHost for the port that a request is for.
const maskPort = "${PORT}"

var maskPattern = regexp.MustCompile(`^([A-Za-z0-9._-]|\$\{PORT\})*(:(\d{1,5}|\$\{PORT\}))?$`)

// filled begins what E2B replaces in the value of a header: a secret of its own store, a token.
const filled = "${e2b."

// secrets returns the headers of rules as secrets, which programs do not see either.
func (rules networkRules) secrets() (list []engine.Secret, err error) {
	for _, host := range slices.Sorted(maps.Keys(rules)) {
		for _, rule := range rules[host] {
			for _, header := range slices.Sorted(maps.Keys(rule.Transform.Headers)) {
				value := rule.Transform.Headers[header]
				if strings.Contains(value, filled) {
					return nil, invalid(fmt.Sprintf("network.rules: the value of %s is to be filled in with %.100q, and Airlock "+
						"stores no secrets and signs no tokens: give the value itself", header, value))
				}
				list = append(list, engine.Secret{
					Name:  fmt.Sprintf("E2B_RULE_%d", len(list)+1),
					Value: engine.NewSecretValue(value), Hosts: []string{host}, Header: header + ": " + engine.SecretMark,
				})
			}
		}
	}
	return list, nil
}

// contacts returns the network that a client asks for; nil: that of its key. With E2B the default
// is everything.
func (b *createBody) contacts() *engine.Network {
	everything := func(rule string) bool { return rule == "0.0.0.0/0" || rule == "::/0" }
	closed := b.Internet != nil && !*b.Internet || slices.ContainsFunc(b.Network.DenyOut, everything)
	n := &engine.Network{Allow: b.Network.AllowOut, Deny: slices.DeleteFunc(slices.Clone(b.Network.DenyOut), everything)}
	if n.Allow == nil && !closed && len(n.Deny) == 0 {
		return nil
	}
	if closed && n.Allow == nil {
		n.Allow = []string{}
	}
	return n
}
