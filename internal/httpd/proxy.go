package httpd

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// Proxy is a reverse proxy that has people sign in, and says in a header who they are.
type Proxy struct {
	Header   string         // such as X-Forwarded-User
	Networks []netip.Prefix // where the proxy is: from elsewhere the header counts for nothing
	Admins   []string       // of its people; they have admin rights
}

// maxPerson bounds the name of a person.
const maxPerson = 256

// caller returns whom the proxy names.
func (p *Proxy) caller(h http.Header, from connOrigin) (engine.Caller, bool) {
	if p == nil || !within(p.Networks, from.remote) {
		return engine.Caller{}, false
	}
	all := h.Values(p.Header)
	// Of several, one may be the visitor's.
	if len(all) != 1 || strings.TrimSpace(all[0]) == "" || len(all[0]) > maxPerson {
		return engine.Caller{}, false
	}
	name := strings.TrimSpace(all[0])
	return engine.Caller{Owner: engine.SubjectOwner("proxy", name), Key: "proxy", Name: name,
		Admin: slices.Contains(p.Admins, name)}, true
}
