package outbound

import "net/netip"

// special are the blocks of addresses that lead to no server of the public internet. They are
// those of IANA's special-purpose address registries, and multicast. A block within one of them
// is refused even if the registries call it globally reachable: these are identifiers, and anycast
// addresses to which the nearest router answers, which may be the operator's.
var special = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private use
	"100.64.0.0/10",   // carrier-grade NAT
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local, with the metadata services of clouds
	"172.16.0.0/12",   // private use
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4
	"192.168.0.0/16",  // private use
	"198.18.0.0/15",   // benchmarking
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, with the limited broadcast
	"2001::/23",       // protocol assignments: Teredo, benchmarking, ORCHID
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4, which carries an IPv4 address
	"3fff::/20",       // documentation
)

// global6 has all public addresses of IPv6: IANA assigns no others. So what is special elsewhere
// needs no row: loopback, IPv4 within IPv6, discard, segment routing, unique-local, link-local,
// site-local, multicast.
var global6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Public reports whether an address is one of the public internet.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, block := range special {
		if block.Contains(ip) {
			return false
		}
	}
	return ip.Is4() || global6.Contains(ip)
}
