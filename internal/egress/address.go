package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
)

// target is the server that a program wants to connect to.
type target struct {
	host string // a canonical name or an address
	port uint16
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// isAddress reports whether the host is an address.
func (t target) isAddress() bool {
	_, err := netip.ParseAddr(t.host)
	return err == nil
}

// refused is an error for the program, and a verdict in the audit log.
type refused struct{ reason string }

func (e *refused) Error() string { return e.reason }

func refuse(format string, args ...any) error { return &refused{fmt.Sprintf(format, args...)} }

// parseTarget parses host:port. It accepts addresses in one notation only.
func parseTarget(text string) (target, error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return target{}, refuse("%.100q is not HOST:PORT", text)
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 {
		return target{}, refuse("%.20q is not a port", number)
	}
	host, err = hostName(host)
	return target{host, uint16(port)}, err
}

// hostName returns the canonical form of a name or an address.
func hostName(text string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		if ip.Zone() != "" {
			return "", refuse("%.100q has a zone", text)
		}
		return ip.Unmap().String(), nil
	}
	name, err := engine.NetworkName(text)
	if err != nil {
		return "", refuse("%v", err)
	}
	return name, nil
}

// in reports whether one of the rules matches the target, whatever their paths are.
func (t target) in(rules []engine.NetworkRule) bool {
	return slices.ContainsFunc(rules, func(r engine.NetworkRule) bool { return r.MatchHost(t.host, t.port) })
}

// permitted returns an error if the grant does not allow a target. It ignores paths.
func permitted(g *engine.Grant, t target) error {
	switch {
	case !t.in(g.Allow):
		return refuse("%s is not allowed for this run", t)
	case t.in(g.Deny):
		return refuse("%s is denied for this run", t)
	}
	return nil
}

// network resolves names and classifies addresses. Tests replace it.
type network struct {
	resolver *net.Resolver
	public   func(netip.Addr) bool // allowed without being named
	own      func(netip.Addr) bool // of this machine
}

func hostNetwork() *network {
	return &network{resolver: &net.Resolver{PreferGo: true}, public: outbound.Public, own: isOwn}
}

// isOwn reports whether an address is this machine's: then the kernel uses it as the
// source of packets to it. It sends none.
func isOwn(ip netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 9)))
	if err != nil {
		return false // it cannot be reached either
	}
	defer c.Close()
	local, ok := c.LocalAddr().(*net.UDPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip
}

// never reports whether no operator can allow an address: loopback, link-local with the
// metadata services of clouds, multicast, unspecified.
func never(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() ||
		ip.Is4() && ip.As4()[0] == 0 || ip == metadata6 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// metadata6 is the metadata service of EC2 over IPv6, which is a private address.
var metadata6 = netip.MustParseAddr("fd00:ec2::254")

// check refuses an address that the grant does not allow.
func (n *network) check(g *engine.Grant, ip netip.Addr, port uint16) error {
	named := slices.ContainsFunc(g.Private, func(p netip.Prefix) bool { return p.Contains(ip) }) && !never(ip)
	switch {
	case !named && !n.public(ip):
		return refuse("%s is not a public address", ip)
	case n.own(ip):
		return refuse("%s is this service's own address", ip)
	}
	if t := (target{ip.String(), port}); t.in(g.Deny) {
		return refuse("%s is denied for this run", t)
	}
	return nil
}

const (
	resolveTime   = 10 * time.Second
	connectTime   = 10 * time.Second
	mostAddresses = 8 // tried for one name
)

// resolve returns the allowed addresses of a target.
func (n *network) resolve(ctx context.Context, g *engine.Grant, t target) ([]netip.Addr, error) {
	ip, err := netip.ParseAddr(t.host)
	if err == nil {
		return []netip.Addr{ip}, n.check(g, ip, t.port)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	all, err := n.resolver.LookupNetIP(ctx, "ip", strings.TrimSuffix(t.host, ".")+".")
	if err != nil {
		if found, ok := errors.AsType[*net.DNSError](err); ok && found.IsNotFound {
			return nil, fmt.Errorf("%s: no such name", t.host)
		}
		return nil, fmt.Errorf("%s cannot be resolved", t.host)
	}
	var good []netip.Addr
	var why error
	for _, ip := range all {
		ip = ip.Unmap()
		if bad := n.check(g, ip, t.port); bad != nil {
			why = refuse("%s is %s: %v", t.host, ip, bad)
		} else if len(good) < mostAddresses {
			good = append(good, ip)
		}
	}
	switch {
	case len(good) > 0:
		return good, nil
	case why == nil:
		return nil, fmt.Errorf("%s has no address", t.host)
	}
	return nil, why
}

// dial connects to one of the checked addresses of a target.
func (n *network) dial(ctx context.Context, g *engine.Grant, t target) (*net.TCPConn, error) {
	addresses, err := n.resolve(ctx, g, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for i, ip := range addresses {
		// The remaining addresses share the remaining time.
		deadline, _ := ctx.Deadline()
		d := net.Dialer{Timeout: time.Until(deadline) / time.Duration(len(addresses)-i), KeepAlive: time.Minute}
		var c net.Conn
		if c, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip, t.port).String()); err == nil {
			return c.(*net.TCPConn), nil
		}
	}
	return nil, fmt.Errorf("%s cannot be connected to: %w", t, err)
}
