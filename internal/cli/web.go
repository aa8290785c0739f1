package cli

import (
	"context"
	"net/http"

	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/web"
)

// page mounts what people see in a browser. It asks for a key itself, with a
// form.
func (a *app) page(s *service, api http.Handler) (httpd.Mount, error) {
	tool, err := a.pageTool(s.engine)
	if err != nil {
		return httpd.Mount{}, err
	}
	var interpreters func() web.Live
	if s.interpreters == nil {
		api = nil // a notebook is a live session
	} else {
		interpreters = showLive(s.interpreters.Counts)
	}
	site, err := web.New(web.Options{
		Engine:       s.engine,
		Caller:       func(r *http.Request) (engine.Caller, bool) { return httpd.CallerFrom(r.Context()) },
		Authenticate: s.engine.Authenticate,
		Review:       s.review,
		OneMachine:   a.oneMachine(s),
		Self:         s.engine.Self,
		Nodes:        s.nodes,
		Drain:        s.drain,
		Languages:    languages(),
		Network:      a.cfg.NetworkAllow,
		Prefix:       "/ui",
		MaxUpload:    a.cfg.MaxUpload,
		Disk:         a.disk,
		Live:         interpreters,
		API:          api,
		Tool:         tool,
		Ask:          a.pageAsk(s),
		Log:          a.log,
	})
	if err != nil {
		return httpd.Mount{}, err
	}
	s.below = append(s.below, site.Close)
	return httpd.Mount{
		Prefix: "/ui", Handler: site, Public: true, SignedIn: site.SignedIn, Refuse: site.Refuse, Holder: web.Holder,
		AnyOrigin: web.AnyOrigin(),
	}, nil
}

// languages tells the page which languages there are, and which of them are
// installed.
func languages() func(context.Context) []web.Language {
	versions := &language.Versions{}
	return func(ctx context.Context) []web.Language {
		installed := versions.Get(ctx)
		var list []web.Language
		for _, l := range language.All() {
			_, ok := installed[l.Name]
			list = append(list, web.Language{Name: l.Name, Title: l.Title, Installed: ok})
		}
		return list
	}
}

// disk is the room where the service keeps its data.
func (a *app) disk() web.Disk {
	room, err := disk.Look(a.cfg.Data, a.cfg.MinFree)
	if err != nil {
		return web.Disk{}
	}
	return web.Disk{Free: room.Free, Total: room.Total, Low: room.Low}
}
