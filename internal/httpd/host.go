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
		named := host != "" && slices.Contains(allowed, host) || ownAddress(host, from) || s.mountOf(host) >= 0 ||
			s.anyHost(r)
		if from.unix || forwardOf(r.Context()) != nil || named {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, r, http.StatusMisdirectedRequest, "misdirected",
			"this service is not known by that host name: call it by its address, or start it with --allow-host NAME")
	})
}

// anyHost reports whether a request is for a mount that is called by any name.
func (s *Server) anyHost(r *http.Request) bool {
	return slices.ContainsFunc(s.opts.Mounts, func(m Mount) bool { return m.AnyHost && r.URL.Path == m.Prefix })
}

// mountOf returns the index of the mount that is called by a host name, or -1.
func (s *Server) mountOf(host string) int {
	return slices.IndexFunc(s.opts.Mounts, func(m Mount) bool { return m.Hosts != nil && m.Hosts(host) })
}

// byHost hands requests to the mounts that have names of hosts for their own.
func (s *Server) byHost(door func(Mount) http.Handler, next http.Handler) http.Handler {
	handlers := make([]http.Handler, len(s.opts.Mounts))
	for i, m := range s.opts.Mounts {
		if m.Hosts != nil {
			m.Prefix = "/"
			handlers[i] = door(m)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i := s.mountOf(hostName(r.Host)); i >= 0 {
			handlers[i].ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
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
