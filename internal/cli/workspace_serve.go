package cli

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/assignment/assignmenttest"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/web"
)

// startProjects gives a service its folders and projects, and a sender that
// delivers reports for as long as the service is there.
func (a *app) startProjects(ctx context.Context, s *service) error {
	d, err := a.openDesk(ctx)
	if err != nil {
		return err
	}
	s.providers = d.db.Uploads().Counts
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { d.sender.Run(sending) })
	s.below = append(s.below, func() error {
		stop()
		group.Wait()
		return d.close()
	})
	if err := a.startConversations(ctx, s, d); err != nil {
		return err
	}
	reach := &conversation.Reach{Desk: d.Desk, Folders: a.cfg.Workspaces, Wake: d.sender.Wake}
	s.work = &native.Work{Reach: reach, Outbox: d.outbox}
	s.review = &web.Review{Reach: reach, Replies: d.db.Projects()}
	return nil
}

// projectMounts are the addresses about folders, projects and conversations. They are a part
// of the native API, but callers from trusted networks need a key there: what
// is changed is no sandbox.
func projectMounts(api httpd.Mount) []httpd.Mount {
	var mounts []httpd.Mount
	for _, path := range []string{"/replies", "/proposals", "/projects", "/outbox", "/conversations"} {
		m := api
		m.Prefix, m.Trusted, m.Open = api.Prefix+path, false, nil
		m.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			below := *r
			address := *r.URL
			if address.Path = path + r.URL.Path; r.URL.Path == "/" {
				address.Path = path
			}
			if r.URL.RawPath != "" {
				address.RawPath = path + r.URL.RawPath
			}
			below.URL = &address
			api.Handler.ServeHTTP(w, &below)
			// The metrics count by the route below the mount's prefix.
			method, route, _ := strings.Cut(below.Pattern, " ")
			r.Pattern = method + " " + strings.TrimPrefix(route, path)
		})
		mounts = append(mounts, m)
	}
	return mounts
}

// demoMount serves the reference API of a project, which keeps everything in
// memory.
func demoMount() httpd.Mount {
	return httpd.Mount{Prefix: "/demo", Handler: &assignmenttest.Project{}, Public: true, MaxBody: 1 << 20}
}
