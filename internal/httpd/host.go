package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// checkHost refuses names that are not ours. A page whose name has been
// pointed at this machine (DNS rebinding) reaches us with that name, and its
// browser takes our answers for its own.
//
// Loopback names are ours where the connection itself is on loopback, the
// listener's own address is, and what AllowHosts says. A unix socket has no
// name to check.
func (s *Server) checkHost(next http.Handler) http.Handler {
	allowed := make([]string, 0, len(s.opts.AllowHosts))
	for _, h := range s.opts.AllowHosts {
		allowed = append(allowed, hostName(h))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := originOf(r.Context())
		host := hostName(r.Host)
		if from.unix || slices.Contains(allowed, host) && host != "" || ownAddress(host, from) {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, r, http.StatusMisdirectedRequest, "misdirected",
			"this service is not known by that host name: call it by its address, or start it with --allow-host NAME")
	})
}

func ownAddress(host string, from connOrigin) bool {
	if host == "localhost" {
		return from.local.IsLoopback()
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap().WithZone("")
	return ip == from.local || ip.IsLoopback() && from.local.IsLoopback()
}

// hostName takes a Host header apart: no port, no brackets, lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
