package cli

import (
	"context"
	"errors"
	"net/url"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/dialect"
	"github.com/airlock-run/airlock/internal/dialect/dify"
	"github.com/airlock-run/airlock/internal/dialect/e2b"
	"github.com/airlock-run/airlock/internal/dialect/jupyter"
	"github.com/airlock-run/airlock/internal/dialect/librechat"
	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/dialect/onyx"
	"github.com/airlock-run/airlock/internal/dialect/openai"
	"github.com/airlock-run/airlock/internal/dialect/openterminal"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
)

// dialects lists the protocols of a service, Airlock's own first.
func (a *app) dialects(s *service) []dialect.Dialect {
	own := native.Options{Nodes: s.nodes, Routes: s.assistant.Routes(a.oneMachine(s))}
	return []dialect.Dialect{
		native.Dialect(own), onyx.Dialect, librechat.Dialect, dify.Dialect, openterminal.Dialect, openai.Dialect,
		jupyter.Dialect, e2b.Dialect, mcp.Dialect,
	}
}

// eitherSpelling has a key in E2B's spelling open what the ordinary one does: the protocols and the page.
func eitherSpelling(authenticate func(context.Context, string) (engine.Caller, error)) func(
	context.Context, string) (engine.Caller, error) {
	return func(ctx context.Context, key string) (engine.Caller, error) {
		return authenticate(ctx, e2b.Ordinary(key))
	}
}

// mountDialects returns the mounts of all protocols.
func (a *app) mountDialects(s *service, metrics *httpd.Metrics) (mounts []httpd.Mount, err error) {
	for _, each := range a.dialects(s) {
		made, end, err := each.Mount(dialect.Deps{
			Config: a.Config, Engine: s.engine, Live: s.interpreters, Bodies: &s.bodies, Metrics: metrics,
			Version: readVersion(a.release).Version, Log: a.Log,
			Authenticate: eitherSpelling(s.engine.AuthenticateFor(each.Name)), Gather: s.peers.Gather, Client: a.WebClient,
		})
		if e, ok := errors.AsType[*dialect.SettingError](err); ok {
			return nil, &command.Failure{Code: command.Kinds[e.Kind], Hint: e.Hint, Err: e.Err}
		}
		if err != nil {
			return nil, err
		}
		if end != nil {
			s.below = append(s.below, end.Close)
		}
		mounts = append(mounts, made...)
	}
	return mounts, nil
}

// ownHosts returns the host names of the service.
func (a *app) ownHosts() []string {
	if u, err := url.Parse(a.Config.PublicURL); err == nil && u.Hostname() != "" {
		return append([]string{u.Hostname()}, a.Config.AllowHosts...)
	}
	return a.Config.AllowHosts
}
