package engine

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nowhere is an Egress that serves nothing.
type nowhere struct{}

func (nowhere) Open(context.Context, Grant, *os.File, func([]Contact)) (io.Closer, error) {
	return nil, errors.New("not to be used")
}
func (nowhere) Authority() (certificate, key []byte, err error) { return nil, nil, nil }

// A worker serves the part of a grant that its own settings allow too. It adds no private
// addresses, no bytes and no TLS inspection.
func TestAccept(t *testing.T) {
	rules := func(texts ...string) []NetworkRule {
		list, err := ParseNetworkRules(texts)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	prefixes := func(texts ...string) (list []netip.Prefix) {
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	inspected := Grant{Allow: rules("https://a.example/v1/*"), Certificate: []byte("certificate"), Key: []byte("key"),
		Inject: []Injection{{Host: "a.example", Header: "X-Secret", Value: "secret"}}}
	registries := func(context.Context) (Registries, error) {
		return Registries{Allow: []string{"index.example:8443"}}, nil
	}
	index, path := Grant{Allow: rules("index.example:8443")}, []string{"https://a.example/v2/*"}
	all, packages, deny := []string{"*"}, []string{"packages"}, Grant{Deny: rules("b.example")}
	for name, c := range map[string]struct {
		own   NetworkConfig
		asked Grant
		want  Grant
		fault string
	}{
		"private networks of both": {
			NetworkConfig{Allow: []string{"10.0.0.0/8:80"}, Private: prefixes("10.1.0.0/16", "10.3.0.0/16", "fd00::/8")},
			Grant{Allow: rules("10.1.2.3:80"), Private: prefixes("10.1.2.0/24", "10.2.0.0/16", "10.0.0.0/14")},
			Grant{Allow: rules("10.1.2.3:80"), Private: prefixes("10.1.2.0/24", "10.1.0.0/16", "10.3.0.0/16")}, "",
		},
		"private networks of the api alone": {
			NetworkConfig{Allow: []string{"10.0.0.0/8:80"}}, Grant{Allow: rules("10.1.2.3:80"), Private: prefixes("10.0.0.0/8")},
			Grant{Allow: rules("10.1.2.3:80")}, "",
		},
		"fewer bytes": {NetworkConfig{Allow: all, MaxBytes: 5}, Grant{Allow: rules("a.example"), MaxBytes: 7},
			Grant{Allow: rules("a.example"), MaxBytes: 5}, ""},
		"its own bytes":  {NetworkConfig{Allow: all}, Grant{MaxBytes: 7}, Grant{MaxBytes: 7}, ""},
		"inspected":      {NetworkConfig{Allow: all, Inspect: true}, inspected, inspected, ""},
		"not inspected":  {NetworkConfig{Allow: all}, inspected, Grant{}, "does not inspect"},
		"another path":   {NetworkConfig{Allow: path, Inspect: true}, inspected, Grant{}, "/v1/*"},
		"a registry":     {NetworkConfig{Allow: packages}, index, index, ""},
		"no registry":    {NetworkConfig{Allow: packages}, Grant{Allow: rules("a.example:8443")}, Grant{}, "a.example:8443"},
		"wider":          {NetworkConfig{Allow: path[:1]}, Grant{Allow: rules("a.example")}, Grant{}, "a.example:80"},
		"deny is kept":   {NetworkConfig{Allow: all}, deny, deny, ""},
		"nothing of own": {NetworkConfig{}, Grant{Allow: rules("a.example")}, Grant{}, "this worker have no network"},
	} {
		c.own.Egress, c.own.Registries = nowhere{}, registries
		got, err := c.own.Accept(t.Context(), &ProxySettings{Grant: &c.asked, Certificate: []byte("what the api says")})
		if c.fault != "" {
			if !errors.Is(err, ErrNetwork) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		if diff := cmp.Diff(c.want, *got.Grant, cmp.AllowUnexported(Grant{}), same); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if string(got.Certificate) != string(c.want.Certificate) {
			t.Errorf("%s: the program trusts %q", name, got.Certificate)
		}
	}
	own := &NetworkConfig{Allow: all, Egress: nowhere{}}
	if _, err := own.Accept(t.Context(), &ProxySettings{}); err == nil {
		t.Error("settings without a grant are accepted")
	}
}
