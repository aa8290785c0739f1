package httpd

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode"
)

const maxTarget = 8 << 10

// cleanPath refuses ambiguous paths. A path that the router would clean or decode into a
// different path is not found; the mount of its prefix answers in its own format.
func (s *Server) cleanPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(r.RequestURI) > maxTarget:
			refuse(w, r, http.StatusRequestURITooLong, "too_large", "the address is too long")
		case !onePath(r.URL.Path, r.URL.RawPath):
			s.nothingHere(w, r)
		case s.keyInQuery(r):
			refuse(w, r, http.StatusUnauthorized, "unauthorized",
				"a key in the address ends up in logs: send it in the Authorization header")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// nothingHere answers 404.
func (s *Server) nothingHere(w http.ResponseWriter, r *http.Request) {
	setRoute(w, "", "")
	for i := range s.opts.Mounts {
		m := &s.opts.Mounts[i]
		if m.Prefix == "/" || strings.HasPrefix(r.URL.Path, m.Prefix+"/") {
			m.refuse(w, r, http.StatusNotFound, "not_found", "nothing lives at this address")
			return
		}
	}
	notFound(w, r)
}

// onePath reports whether a path is unambiguous: absolute, clean, without control
// characters, and without an encoded dot, slash or backslash.
func onePath(p, raw string) bool {
	if !strings.HasPrefix(p, "/") || strings.ContainsFunc(p, unicode.IsControl) {
		return false
	}
	for i := 0; i+2 < len(raw); i++ {
		if raw[i] == '%' && slices.Contains([]string{"2e", "2f", "5c"}, strings.ToLower(raw[i+1:i+3])) {
			return false
		}
	}
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// keyInQuery reports whether the query has a key, by the name or the form of a parameter,
// other than in the mount's QueryKey.
func (s *Server) keyInQuery(r *http.Request) bool {
	if r.URL.RawQuery == "" {
		return false
	}
	allowed := ""
	for i := range s.opts.Mounts {
		if m := &s.opts.Mounts[i]; m.QueryKey != "" && strings.HasPrefix(r.URL.Path, m.Prefix+"/") {
			allowed = m.QueryKey
		}
	}
	for name, values := range r.URL.Query() {
		if name == allowed && allowed != "" {
			continue
		}
		switch strings.ToLower(name) {
		case "api_key", "api-key", "apikey", "x-api-key", "access_token", "authorization":
			return true
		}
		for _, v := range values {
			if looksLikeKey(v) {
				return true
			}
		}
	}
	return false
}

// looksLikeKey reports whether s has the form of a key: ak_, twelve characters, _, 43 characters.
func looksLikeKey(s string) bool {
	const length = len("ak_") + 12 + len("_") + 43
	return len(s) == length && strings.HasPrefix(s, "ak_")
}
