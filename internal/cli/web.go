package cli

import (
	"net/http"
	"syscall"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/web"
)

// page mounts what people see in a browser. It asks for a key itself, with a
// form.
func (a *app) page(s *service) (httpd.Mount, error) {
	site, err := web.New(web.Options{
		Engine:       s.engine,
		Caller:       func(r *http.Request) (engine.Caller, bool) { return httpd.CallerFrom(r.Context()) },
		Authenticate: s.engine.Authenticate,
		Review:       s.review,
		Prefix:       "/ui",
		MaxUpload:    a.cfg.MaxUpload,
		Disk:         a.disk,
		Log:          a.log,
	})
	if err != nil {
		return httpd.Mount{}, err
	}
	s.below = append(s.below, site.Close)
	return httpd.Mount{
		Prefix: "/ui", Handler: site, Public: true, SignedIn: site.SignedIn, Refuse: site.Refuse,
	}, nil
}

// disk is the room where the service keeps its data.
func (a *app) disk() web.Disk {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(a.cfg.Data, &fs); err != nil {
		return web.Disk{}
	}
	return web.Disk{Free: int64(fs.Bavail) * fs.Bsize, Total: int64(fs.Blocks) * fs.Bsize}
}
