package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/airlock-run/airlock/assignment/assignmenttest"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/web"
)

// startProjects gives a service its folders and projects, and a sender that
// delivers reports for as long as the service is there.
func (a *app) startProjects(ctx context.Context, s *service) error {
	d, err := a.openDesk(ctx)
	if err != nil {
		return err
	}
	policy, err := a.outbound(s, a.cfg.ProjectAPIs)
	if err != nil {
		return errors.Join(err, d.close())
	}
	d.sender = a.newSender(d.db, &http.Client{Transport: policy.Transport(http.DefaultTransport.(*http.Transport))})
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
	reach := &conversation.Scoped{Replies: d.Replies, Folders: a.cfg.Workspaces, Wake: d.sender.Wake,
		CheckAPI: policy.Check}
	s.work = &native.Work{Scoped: reach, Outbox: d.Outbox}
	inBrowser := *reach // folders on the users' own computers are for the page alone
	if dir, err := a.stateDir(); err == nil {
		inBrowser.Mirrors = filepath.Join(dir, "mirrors")
	}
	s.review = &web.Review{Scoped: &inBrowser, Replies: d.db.Projects()}
	return nil
}

// outbound returns where a service connects to for its callers. A service that
// only this machine can reach, and that has no keys, is its user's own: there
// loopback is allowed as well.
func (a *app) outbound(s *service, allowed []string) (*outbound.Policy, error) {
	host, _, err := net.SplitHostPort(a.cfg.Listen)
	if err != nil {
		return nil, err
	}
	policy, err := outbound.New(allowed, func() bool { return isLoopback(host) && !s.engine.Stats().HasKeys })
	if err != nil {
		return nil, fail(exitUsage, "", "--project-api: %w", err)
	}
	return policy, nil
}

// demoMount serves the reference API of a project, which keeps everything in
// memory.
func demoMount() httpd.Mount {
	return httpd.Mount{Prefix: "/demo", Handler: &assignmenttest.Project{}, Public: true, MaxBody: 1 << 20}
}
