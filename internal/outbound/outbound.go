// Package outbound decides which addresses the service connects to.
//
// A caller may name the API that a project reports to. Without a check such an
// address makes the service a proxy into the operator's network: to metadata
// services, databases, other services on loopback. So a Policy allows only public
// addresses and those that the operator names. It checks an address when it is set,
// for a helpful error, and on each connection after the name was resolved, since a
// name may then resolve differently. The operator sets the addresses of providers,
// models and run_python services; their redirects and links lead to no other address
// that is not public.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Policy decides which addresses the service may connect to.
type Policy struct {
	hosts    map[string]bool // "host" or "host:port", lower case
	networks []netip.Prefix
	loopback func() bool
}

// New returns a policy that allows public addresses and the named ones, each an
// address such as https://projects.example.com, a host name with or without a
// port, or a network such as 10.1.2.0/24. Loopback addresses are allowed while
// loopback reports true; nil: never.
func New(allowed []string, loopback func() bool) (*Policy, error) {
	p := &Policy{hosts: map[string]bool{}, loopback: loopback}
	for _, entry := range allowed {
		if network, err := netip.ParsePrefix(entry); err == nil {
			p.networks = append(p.networks, network.Masked())
			continue
		}
		host, err := hostOf(entry)
		if err != nil {
			return nil, err
		}
		p.hosts[host] = true
	}
	return p, nil
}

func hostOf(entry string) (string, error) {
	rest := entry
	if u, err := url.Parse(entry); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		if u.User != nil {
			return "", fmt.Errorf("%q holds a user: name the host alone", entry)
		}
		if rest = u.Host; u.Port() == "" && u.Hostname() != "" {
			rest = net.JoinHostPort(u.Hostname(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
		}
	}
	if rest == "" || strings.ContainsAny(rest, "/ @?#") {
		return "", fmt.Errorf("%q is not an address (https://host), a host name or a network (10.1.2.0/24)", entry)
	}
	return strings.ToLower(strings.Trim(rest, "[]")), nil
}

// RefusedError is the error of an address that the policy does not allow.
type RefusedError struct {
	Host string
	IP   netip.Addr
}

// Error names the setting that allows the address.
func (e *RefusedError) Error() string {
	where := e.Host
	if where != e.IP.String() {
		where += " (" + e.IP.String() + ")"
	}
	return fmt.Sprintf("%s is not a public address, and the service connects to such an address only if its operator "+
		"names it (for projects with --project-api)", where)
}

// Check resolves the host of an address and returns a *RefusedError if the
// policy does not allow one of its IP addresses. A name that does not resolve
// passes: each connection is checked again.
func (p *Policy) Check(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%q is not an address", address)
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	if p.named(host, port) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, ip := range ips {
		if !p.allows(ip) {
			return &RefusedError{host, ip.Unmap()}
		}
	}
	return nil
}

func (p *Policy) named(host, port string) bool {
	return p.hosts[host] || p.hosts[net.JoinHostPort(host, port)]
}

func (p *Policy) allows(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, network := range p.networks {
		if network.Contains(ip) {
			return true
		}
	}
	if ip.IsLoopback() {
		return p.loopback != nil && p.loopback()
	}
	return Public(ip)
}

// Transport returns a copy of base whose connections the policy checks.
func (p *Policy) Transport(base *http.Transport) http.RoundTripper {
	direct, proxied := base.Clone(), base.Clone()
	direct.Proxy = nil
	direct.DialContext = p.dial
	return &transport{p, direct, proxied}
}

func (p *Policy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host = strings.ToLower(host); p.named(host, port) {
		return d.DialContext(ctx, network, address)
	}
	d.Control = func(_, resolved string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		if !p.allows(to.Addr()) {
			return &RefusedError{host, to.Addr().Unmap()}
		}
		return nil
	}
	return d.DialContext(ctx, network, address)
}

// transport sends requests through the proxy of the environment, if any. The proxy makes the
// connection, so that transport checks the address before.
type transport struct {
	policy          *Policy
	direct, proxied *http.Transport
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.proxied.Proxy == nil {
		return t.direct.RoundTrip(r)
	}
	proxy, err := t.proxied.Proxy(r)
	switch {
	case err != nil:
		return nil, err
	case proxy == nil:
		return t.direct.RoundTrip(r)
	}
	if err := t.policy.Check(r.Context(), r.URL.String()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return t.proxied.RoundTrip(r)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (t *transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}
