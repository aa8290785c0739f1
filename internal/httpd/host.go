package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// checkHost refuses unknown host names. With DNS rebinding, a page from a name that was
// pointed at this machine sends requests with that name, and its browser lets it read the
// answers.
//
// Known names are the names of loopback if the connection is on loopback, the address of
// the listener, and those of AllowHosts and of mounts. A unix socket has no name to check.
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

// anyHost reports whether a request is for a mount with AnyHost.
func (s *Server) anyHost(r *http.Request) bool {
	return slices.ContainsFunc(s.opts.Mounts, func(m Mount) bool { return m.AnyHost && r.URL.Path == m.Prefix })
}

// mountOf returns the index of the mount of a host name, or -1.
func (s *Server) mountOf(host string) int {
	return slices.IndexFunc(s.opts.Mounts, func(m Mount) bool { return m.Hosts != nil && m.Hosts(host) })
}

// byHost passes requests to the mounts that have host names of their own.
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

// hostName returns the host of a Host header in lower case, without port and brackets.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
