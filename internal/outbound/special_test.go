package outbound_test

import (
	"encoding/csv"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/outbound"
)

// registries are copies of IANA's special-purpose address registries of 2026-07-18, from
// https://www.iana.org/assignments/iana-ipv4-special-registry/iana-ipv4-special-registry-1.csv and
// https://www.iana.org/assignments/iana-ipv6-special-registry/iana-ipv6-special-registry-1.csv.
var registries = []string{"testdata/iana-ipv4-special-registry-1.csv", "testdata/iana-ipv6-special-registry-1.csv"}

// stricter are globally reachable by the registry, and refused all the same: the nearest router of
// the service answers to anycast addresses of protocols, identifiers are no hosts, and
// translation carries an IPv4 address of any kind.
var stricter = []string{"192.0.0.9/32", "192.0.0.10/32", "64:ff9b::/96", "2001:1::1/128", "2001:1::2/128",
	"2001:1::3/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28"}

// No address of a block that the registries do not call globally reachable is public.
func TestSpecialPurposeAddresses(t *testing.T) {
	want := map[netip.Prefix]bool{}
	for _, name := range registries {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil || len(rows) < 25 || rows[0][0] != "Address Block" || rows[0][8] != "Globally Reachable" {
			t.Fatalf("%s: %v, %d rows", name, err, len(rows))
		}
		for _, row := range rows[1:] {
			for block := range strings.SplitSeq(row[0], ",") {
				block, _, _ = strings.Cut(strings.TrimSpace(block), " ") // a footnote follows
				prefix, err := netip.ParsePrefix(block)
				if err != nil {
					t.Fatalf("%s: %q: %v", name, block, err)
				}
				want[prefix] = row[8] == "True"
			}
		}
	}
	for _, block := range stricter {
		prefix := netip.MustParsePrefix(block)
		if !want[prefix] {
			t.Errorf("%s is not globally reachable anyway", block)
		}
		want[prefix] = false
	}
	for prefix, public := range want {
		for _, ip := range []netip.Addr{prefix.Addr(), last(prefix)} {
			if got := outbound.Public(ip); got != public {
				t.Errorf("%s of %s is public: %v", ip, prefix, got)
			}
		}
	}
	for text, public := range map[string]bool{
		"1.1.1.1": true, "9.255.255.255": true, "100.63.255.255": true, "100.128.0.0": true, "172.32.0.0": true,
		"192.0.1.255": true, "198.20.0.0": true, "223.255.255.255": true, "224.0.0.1": false, "239.255.255.255": false,
		"2606:4700::1111": true, "2001:200::": true, "2001:db7:ffff::": true, "2003::": true, "3ffe::": true,
		"3fff:1000::": true, "1fff:ffff::": false, "4000::": false, "ff0e::1": false, "fec0::1": false, "::7f00:1": false,
		"::ffff:127.0.0.1": false, "::ffff:1.1.1.1": true, "2606:4700::1%eth0": true, "fe80::1%eth0": false,
	} {
		if got := outbound.Public(netip.MustParseAddr(text)); got != public {
			t.Errorf("%s is public: %v", text, got)
		}
	}
	if outbound.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// last returns the last address of a block.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}
