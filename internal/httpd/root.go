package httpd

import "net/http"

// atRoot serves an address without a prefix for several mounts: the first mount that claims
// a request answers it.
type atRoot struct {
	claims   []Claim
	handlers []http.Handler
	other    http.HandlerFunc // for an unclaimed request; nil: notFound
}

func (a *atRoot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for i, claim := range a.claims {
		if claim == nil || claim(r) {
			a.handlers[i].ServeHTTP(w, r)
			return
		}
	}
	if a.other != nil {
		a.other(w, r)
		return
	}
	notFound(w, r)
}

// openRoot registers the mounts' patterns at the root, beside those of the server.
func (s *Server) openRoot(mux *http.ServeMux, door func(Mount) http.Handler) {
	shared := map[string]*atRoot{"GET /health": {other: s.health}, "GET /ready": {other: s.ready}}
	for _, m := range s.opts.Mounts {
		m.Prefix = "/"
		var h http.Handler
		for pattern, claim := range m.AtRoot {
			if h == nil {
				h = door(m)
			}
			at := shared[pattern]
			if at == nil {
				at = &atRoot{}
				shared[pattern] = at
			}
			at.claims, at.handlers = append(at.claims, claim), append(at.handlers, h)
		}
	}
	for pattern, at := range shared {
		mux.Handle(pattern, at)
	}
	mux.HandleFunc("/", notFound)
	if s.opts.Home != "" {
		mux.Handle("GET /{$}", http.RedirectHandler(s.opts.Home, http.StatusSeeOther))
	}
}
