package engine

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// A Lease serves a grant once its sandbox has a socket for it.
type Lease struct {
	egress Egress
	grant  *Grant
	report func([]Contact)

	mu    sync.Mutex
	open  io.Closer
	ended bool
	fault error
}

// NewLease returns a lease, which hands what was contacted to report.
func NewLease(egress Egress, grant *Grant, report func([]Contact)) *Lease {
	return &Lease{egress: egress, grant: grant, report: report}
}

// egressTime is how long the egress process may take to accept a grant, or to say the
// last of one.
const egressTime = 5 * time.Second

// Listener serves the grant at a socket; see Host.
func (l *Lease) Listener(file *os.File) {
	defer file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), egressTime)
	defer cancel()
	open, err := l.egress.Open(ctx, *l.grant, file, l.report)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.fault = err
	case l.ended:
		open.Close()
	default:
		if l.open != nil { // of a sandbox that did not start
			l.open.Close()
		}
		l.open = open
	}
}

// End ends the grant, and returns when all that was contacted was reported. The error
// says why the grant was not served.
func (l *Lease) End() error {
	l.mu.Lock()
	l.ended = true
	open := l.open
	l.mu.Unlock()
	if open != nil {
		open.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// Accept bounds the grant that another machine gives a program by what this one allows:
// nothing, unless it has rules of its own.
func (c *NetworkConfig) Accept(ctx context.Context, asked *ProxySettings) (*ProxySettings, error) {
	const hint = "The operator allows it with network_allow (AIRLOCK_NETWORK_ALLOW) on workers, too."
	if c.Egress == nil || len(c.Allow) == 0 || asked.Grant == nil {
		return nil, denied("programs on this worker have no network", hint)
	}
	g := *asked.Grant
	if len(g.Certificate) > 0 && !c.Inspect {
		return nil, denied("this worker does not inspect what programs say inside of TLS",
			"The operator sets network_inspect (AIRLOCK_NETWORK_INSPECT) on workers, too.")
	}
	allowed, err := ParseNetworkRules(c.Allow)
	if err != nil {
		return nil, err
	}
	for i := range g.Allow {
		if coveredBy(allowed, &g.Allow[i]) {
			continue
		}
		if allowed, err = c.expandAllowed(ctx, allowed); err != nil {
			return nil, err
		}
		if !coveredBy(allowed, &g.Allow[i]) {
			return nil, denied(fmt.Sprintf("%.100q is not allowed on this worker; what is allowed there is %s",
				g.Allow[i].String(), joinRules(allowed)), hint)
		}
	}
	if c.MaxBytes > 0 {
		g.MaxBytes = min(g.MaxBytes, c.MaxBytes)
	}
	g.Private = intersect(g.Private, c.Private)
	return &ProxySettings{Env: asked.Env, Certificate: g.Certificate, Grant: &g}, nil
}

func coveredBy(allowed []NetworkRule, asked *NetworkRule) bool {
	return slices.ContainsFunc(allowed, func(a NetworkRule) bool { return a.covers(asked) })
}

// expandAllowed replaces the named sets among rules by their rules.
func (c *NetworkConfig) expandAllowed(ctx context.Context, rules []NetworkRule) ([]NetworkRule, error) {
	g := &Grant{Allow: withSet(slices.Clone(rules))}
	err := c.expand(ctx, g)
	return g.Allow, err
}

// intersect returns the networks that are in both lists.
func intersect(a, b []netip.Prefix) (both []netip.Prefix) {
	for _, one := range a {
		for _, other := range b {
			if one.Overlaps(other) && one.Bits() >= other.Bits() {
				both = append(both, one)
			} else if one.Overlaps(other) {
				both = append(both, other)
			}
		}
	}
	return both
}
