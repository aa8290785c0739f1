package httpd

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestProxy(t *testing.T) {
	p := &Proxy{Header: "X-Forwarded-User", Networks: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/32")},
		Admins: []string{"ada"}}
	long := string(make([]byte, maxPerson+1))
	tests := []struct {
		from   string
		values []string
		name   string
	}{
		{"10.1.2.3", []string{"ada"}, "ada"},
		{"10.1.2.3", []string{" bob "}, "bob"},
		{"10.1.2.4", []string{"ada"}, ""},
		{"10.1.2.3", []string{"ada", "bob"}, ""},
		{"10.1.2.3", []string{" "}, ""},
		{"10.1.2.3", nil, ""},
		{"10.1.2.3", []string{long}, ""},
		{"", []string{"ada"}, ""},
	}
	for _, test := range tests {
		from := connOrigin{}
		if test.from != "" {
			from.remote = netip.MustParseAddr(test.from)
		}
		got, ok := p.caller(http.Header{"X-Forwarded-User": test.values}, from)
		if ok != (test.name != "") || got.Name != test.name || got.Admin != (test.name == "ada") ||
			ok && got.Owner != engine.SubjectOwner("proxy", test.name) {
			t.Errorf("%.20q from %s: %+v, %v", test.values, test.from, got, ok)
		}
	}
	if _, ok := (*Proxy)(nil).caller(http.Header{"X-Forwarded-User": {"ada"}}, connOrigin{}); ok {
		t.Error("a header counts without a proxy")
	}
}
