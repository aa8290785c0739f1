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

// target is what a program asked to be connected to.
type target struct {
	host string // a name in its one spelling, or an address
	port uint16
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// isAddress reports whether the host is an address, so that no name is to be compared.
func (t target) isAddress() bool {
	_, err := netip.ParseAddr(t.host)
	return err == nil
}

// refused is an error that the program is told, and the audit log has as its verdict.
type refused struct{ reason string }

func (e *refused) Error() string { return e.reason }

func refuse(format string, args ...any) error { return &refused{fmt.Sprintf(format, args...)} }

// parseTarget reads host:port. Addresses are accepted in one notation only.
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

// hostName returns the one spelling of a name or an address.
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

// permitted reports whether the grant names a target; paths are another matter.
func permitted(g *engine.Grant, t target) error {
	match := func(r engine.NetworkRule) bool { return r.MatchHost(t.host, t.port) }
	switch {
	case !slices.ContainsFunc(g.Allow, match):
		return refuse("%s is not allowed for this run", t)
	case slices.ContainsFunc(g.Deny, match):
		return refuse("%s is denied for this run", t)
	}
	return nil
}

// network is how the process sees names and addresses. Tests have others.
type network struct {
	resolver *net.Resolver
	// public reports whether an address may be connected to without being named.
	public func(netip.Addr) bool
	// own reports whether an address is this machine's.
	own func(netip.Addr) bool
}

func hostNetwork() *network {
	return &network{resolver: &net.Resolver{PreferGo: true}, public: outbound.Public, own: isOwn}
}

// isOwn reports whether an address is this machine's: then the kernel would use it as
// the source of what is sent to it. Nothing is sent.
func isOwn(ip netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 9)))
	if err != nil {
		return false // there is no way to it either
	}
	defer c.Close()
	local, ok := c.LocalAddr().(*net.UDPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip
}

// never are addresses that no operator can open: loopback, link-local with the metadata
// services of clouds, multicast, and none at all.
func never(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() ||
		ip.Is4() && ip.As4()[0] == 0 || ip == metadata6 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// metadata6 is the metadata service of EC2 over IPv6, which is a private address.
var metadata6 = netip.MustParseAddr("fd00:ec2::254")

// check refuses an address that a grant does not reach.
func (n *network) check(g *engine.Grant, ip netip.Addr, port uint16) error {
	named := slices.ContainsFunc(g.Private, func(p netip.Prefix) bool { return p.Contains(ip) }) && !never(ip)
	switch {
	case !named && !n.public(ip):
		return refuse("%s is not a public address", ip)
	case n.own(ip):
		return refuse("%s is this service's own address", ip)
	}
	if t := (target{ip.String(), port}); slices.ContainsFunc(g.Deny, func(r engine.NetworkRule) bool {
		return r.MatchHost(t.host, t.port)
	}) {
		return refuse("%s is denied for this run", t)
	}
	return nil
}

const (
	resolveTime   = 10 * time.Second
	connectTime   = 10 * time.Second
	mostAddresses = 8 // that are tried of one name
)

// resolve returns those addresses of a target that may be connected to.
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
	if len(good) == 0 && why == nil {
		why = fmt.Errorf("%s has no address", t.host)
	}
	if len(good) > 0 {
		why = nil
	}
	return good, why
}

// dial connects to a target: to the addresses that were checked, and no other.
func (n *network) dial(ctx context.Context, g *engine.Grant, t target) (*net.TCPConn, error) {
	addresses, err := n.resolve(ctx, g, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for i, ip := range addresses {
		// What is left of the time is shared by the addresses that are left.
		deadline, _ := ctx.Deadline()
		d := net.Dialer{Timeout: time.Until(deadline) / time.Duration(len(addresses)-i), KeepAlive: time.Minute}
		var c net.Conn
		if c, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip, t.port).String()); err == nil {
			return c.(*net.TCPConn), nil
		}
	}
	return nil, fmt.Errorf("%s cannot be connected to: %w", t, err)
}
