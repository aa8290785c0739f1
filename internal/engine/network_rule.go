package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// NetworkRule names destinations on the network. In a grant a program may connect to
// them, in an allowance a program may be granted them. Its text is one of
//
//   - every public address, ports 80 and 443
//     api.example.com                  a name, ports 80 and 443
//     api.example.com:8443             a name and a port
//     *.example.com                    every name below a domain, not the domain itself
//     203.0.113.7, 203.0.113.0/24:53   an address or a network
//     https://api.example.com/v1/*     requests below a path; needs inspection
type NetworkRule struct {
	Host   string       `json:"host,omitempty"`   // lower case ASCII; "*" is every host, "*.example.com" all below
	Prefix netip.Prefix `json:"prefix,omitzero"`  // in place of Host
	Port   uint16       `json:"port"`             // never 0
	Scheme string       `json:"scheme,omitempty"` // of a rule with a path: http or https
	Path   string       `json:"path,omitempty"`   // begins with /; empty: every path
	Below  bool         `json:"below,omitempty"`  // Path is a prefix, not the whole
	Set    string       `json:"set,omitempty"`    // a named set that stands for its rules; the rest is empty then
}

// Ports of a rule without a port.
const (
	portHTTP  = 80
	portHTTPS = 443
)

// refusedPort reports whether a port is never granted: programs do not send mail.
func refusedPort(port uint16) bool { return port == 25 || port == 465 || port == 587 }

// PackagesSet is the only named set: the registries of pip and npm.
const PackagesSet = "packages"

// ParseNetworkRule parses a rule. Without a port, it returns two: for 80 and for 443.
func ParseNetworkRule(text string) ([]NetworkRule, error) {
	if text == PackagesSet {
		return []NetworkRule{{Set: PackagesSet}}, nil
	}
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		return parsePathRule(strings.ToLower(scheme), rest)
	}
	host, port, err := splitPort(text)
	if err != nil {
		return nil, err
	}
	rule := NetworkRule{Port: port}
	if err := rule.setHost(host); err != nil {
		return nil, err
	}
	if port != 0 {
		return []NetworkRule{rule}, nil
	}
	plain, secure := rule, rule
	plain.Port, secure.Port = portHTTP, portHTTPS
	return []NetworkRule{plain, secure}, nil
}

// parsePathRule parses host/path, the rest of https://host/path.
func parsePathRule(scheme, rest string) ([]NetworkRule, error) {
	host, path, _ := strings.Cut(rest, "/")
	rule := NetworkRule{Path: "/" + path, Scheme: scheme}
	switch scheme {
	case "http":
		rule.Port = portHTTP
	case "https":
		rule.Port = portHTTPS
	default:
		return nil, fmt.Errorf("%q: a rule with a path begins with https:// or http://", scheme)
	}
	name, port, err := splitPort(host)
	if err != nil {
		return nil, err
	}
	if port != 0 {
		rule.Port = port
	}
	if err := rule.setHost(name); err != nil {
		return nil, err
	}
	switch {
	case rule.Path == "/" || rule.Path == "/*": // the same as the host alone
		rule.Path, rule.Scheme = "", ""
		return []NetworkRule{rule}, nil
	case strings.HasSuffix(rule.Path, "/*"):
		rule.Path, rule.Below = strings.TrimSuffix(rule.Path, "*"), true
	}
	if _, plain := RequestPath(rule.Path); !plain || strings.Contains(rule.Path, "*") {
		return nil, fmt.Errorf("%.100q is not a plain path; only its end may be /*", rule.Path)
	}
	return []NetworkRule{rule}, nil
}

// splitPort splits host:port; port 0: there is none.
func splitPort(text string) (host string, port uint16, err error) {
	host, number, found := text, "", false
	switch {
	case strings.HasPrefix(text, "["): // [2001:db8::1]:443
		var rest string
		if host, rest, found = strings.Cut(text[1:], "]"); !found || rest != "" && rest[0] != ':' {
			return "", 0, fmt.Errorf("%.100q is not an address and a port", text)
		}
		found = rest != ""
		number = strings.TrimPrefix(rest, ":")
	case strings.Count(text, ":") == 1:
		host, number, found = strings.Cut(text, ":")
	case strings.Contains(text, "/") && strings.Contains(text, ":"): // 2001:db8::/32
		if slash := strings.LastIndexByte(text, '/'); strings.Contains(text[slash:], ":") {
			colon := strings.LastIndexByte(text, ':')
			host, number, found = text[:colon], text[colon+1:], true
		}
	}
	if !found {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || number[0] == '0' || number[0] == '+' {
		return "", 0, fmt.Errorf("%.20q is not a port", number)
	}
	if refusedPort(uint16(n)) {
		return "", 0, fmt.Errorf("port %d is for mail, which programs do not send", n)
	}
	return host, uint16(n), nil
}

func (r *NetworkRule) setHost(text string) (err error) {
	if text == "*" {
		r.Host = text
		return nil
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		r.Prefix = prefix.Masked()
		return nil
	}
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		r.Prefix = netip.PrefixFrom(ip, ip.BitLen())
		return nil
	}
	below, isBelow := strings.CutPrefix(text, "*.")
	if r.Host, err = NetworkName(below); err == nil && isBelow {
		r.Host = "*." + r.Host
	}
	return err
}

// NetworkName returns the canonical spelling of a host name: lower case ASCII without a
// dot at its end. It refuses text that a resolver or a library could parse as an address
// in another notation, such as 0x7f.1 or 2130706433.
func NetworkName(text string) (string, error) {
	notName := fmt.Errorf("%.100q is not a host name", text)
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(text, "."))
	if err != nil || name == "" || len(name) > 253 {
		// Names with an underscore exist, but IDNA refuses them.
		name = strings.ToLower(strings.TrimSuffix(text, "."))
		if !strings.Contains(name, "_") || len(name) > 253 {
			return "", notName
		}
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", notName
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" ||
		strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return "", fmt.Errorf("%.100q is not a host name, but an address in an unusual notation", text)
	}
	return name, nil
}

// RequestPath returns a request's path as servers read it, and false if they could read
// it differently: with dots, empty parts, encoded slashes or dots, backslashes.
func RequestPath(path string) (string, bool) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\;\x00\r\n ?#") {
		return "", false
	}
	lower := strings.ToLower(path)
	for _, bad := range []string{"%2f", "%2e", "%5c", "%00", "%25", "//"} {
		if strings.Contains(lower, bad) {
			return "", false
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return "", false
		}
	}
	return path, true
}

// MatchHost reports whether the rule is for a port and a host name or literal address.
// It ignores the path of the rule.
func (r *NetworkRule) MatchHost(host string, port uint16) bool {
	if r.Port != port {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return r.Host == "*" || r.Prefix.IsValid() && r.Prefix.Contains(ip.Unmap())
	}
	below, isBelow := strings.CutPrefix(r.Host, "*.")
	return r.Host == "*" || r.Host == host && host != "" || isBelow && strings.HasSuffix(host, "."+below)
}

// MatchPath reports whether the rule is for a path, which RequestPath returned.
func (r *NetworkRule) MatchPath(path string) bool {
	return r.Path == "" || r.Path == path || r.Below && strings.HasPrefix(path, r.Path)
}

// covers reports whether r allows every destination that asked allows.
func (r *NetworkRule) covers(asked *NetworkRule) bool {
	if asked.Set != "" || r.Set != "" {
		return asked.Set == r.Set
	}
	if r.Port != asked.Port || r.Path != "" && (r.Scheme != asked.Scheme || asked.Path == "" || !r.coversPath(asked)) {
		return false
	}
	switch {
	case r.Host == "*":
		return true
	case asked.Prefix.IsValid() || r.Prefix.IsValid():
		return r.Prefix.IsValid() && asked.Prefix.IsValid() && r.Prefix.Bits() <= asked.Prefix.Bits() &&
			r.Prefix.Contains(asked.Prefix.Addr())
	case asked.Host == "*":
		return false
	}
	if r.Host == asked.Host {
		return true
	}
	return strings.HasPrefix(r.Host, "*.") && strings.HasSuffix(asked.Host, r.Host[1:])
}

func (r *NetworkRule) coversPath(asked *NetworkRule) bool {
	return r.MatchPath(asked.Path) && (r.Below || !asked.Below)
}

// String returns the rule as it is written.
func (r *NetworkRule) String() string {
	if r.Set != "" {
		return r.Set
	}
	host := r.Host
	if r.Prefix.IsValid() {
		host = r.Prefix.String()
		if r.Prefix.IsSingleIP() {
			host = r.Prefix.Addr().String()
		}
		if r.Prefix.Addr().Is6() {
			host = "[" + host + "]"
		}
	}
	host += ":" + strconv.Itoa(int(r.Port))
	if r.Path == "" {
		return host
	}
	path := r.Path
	if r.Below {
		path += "*"
	}
	return r.Scheme + "://" + host + path
}

// errTooManyRules bounds the rules of one request that the service parses.
var errTooManyRules = errors.New("has too many rules")

const (
	mostNetworkRules = 256
	longestRule      = 2048
)

// ParseNetworkRules reads a list of rules.
func ParseNetworkRules(texts []string) (rules []NetworkRule, err error) {
	if len(texts) > mostNetworkRules {
		return nil, errTooManyRules
	}
	for _, text := range texts {
		if len(text) > longestRule {
			return nil, fmt.Errorf("%.40q… is too long", text)
		}
		parsed, err := ParseNetworkRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, parsed...)
	}
	return rules, nil
}
