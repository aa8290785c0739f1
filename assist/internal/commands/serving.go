package commands

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/api"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/metrics"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/pytool"
)

// Engine is a service in this process, as far as the assistant in it needs it.
type Engine struct {
	// Client returns a client that acts for one owner. The caller closes it.
	Client func(owner string) *client.Client
	// Ready returns why the service cannot run code, nil if it can.
	Ready func(context.Context) error
	// Stored returns an uploaded file, whose content a turn opens later, and its SHA-256.
	Stored func(ctx context.Context, owner, id string) (file provider.Source, sha256 string, err error)
	// Local reports whether only users of this machine reach the service, without keys.
	Local func() bool
}

// open implements conversation.HostOptions.Stored.
func (e Engine) open(ctx context.Context, owner, id string) (conversation.File, error) {
	file, sha256, err := e.Stored(ctx, owner, id)
	return conversation.File{Stored: id, SHA256: sha256, Source: file}, err
}

// Serving is the assistant in a service.
type Serving struct {
	Counts metrics.Source // counters of providers

	folders   *changes.Scoped // links and replies, in the folders that the settings allow
	inBrowser *changes.Scoped // the same with folders on the users' own computers, for the page
	outbox    *assignment.Outbox
	replies   *state.Projects
	live      *conversation.Live

	assistant *Assistant
	engine    Engine
	below     []func() error // closers, called in reverse order
}

// Serve starts the assistant in a service: its conversations, and the sending of reports to
// projects. The caller closes it.
func (a *Assistant) Serve(ctx context.Context, e Engine) (_ *Serving, err error) {
	s := &Serving{assistant: a, engine: e}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	d, err := a.openState(ctx)
	if err != nil {
		return nil, err
	}
	s.below = append(s.below, d.Close)
	// Loopback is allowed while only this machine can reach the service and there are no keys.
	policy, err := outbound.New(a.Config.ProjectAPIs, e.Local)
	if err != nil {
		return nil, command.Fail(command.ExitUsage, "", "--project-api: %w", err)
	}
	d.sender = a.newSender(d.db, outbound.Guard(http.Client{
		Transport: policy.Transport(http.DefaultTransport.(*http.Transport))}))
	s.Counts = d.db.Uploads().Counts
	stop := command.InBackground(context.WithoutCancel(ctx), d.sender.Run)
	s.below = append(s.below, func() error { stop(); return nil })
	if err := s.startConversations(ctx, d, e); err != nil {
		return nil, err
	}
	s.folders = &changes.Scoped{Replies: d.Replies, Folders: a.Config.Workspaces, Wake: d.sender.Wake,
		CheckAPI: policy.Check}
	s.outbox, s.replies = d.Outbox, d.db.Projects()
	inBrowser := *s.folders
	if dir, err := a.stateDir(); err == nil {
		inBrowser.Mirrors = filepath.Join(dir, "mirrors")
	}
	s.inBrowser = &inBrowser
	return s, nil
}

// Routes returns the assistant's routes in Airlock's own API. Without an assistant (s is nil) they
// answer that there is none. oneMachine returns why nothing is available when several nodes answer,
// or "".
func (s *Serving) Routes(oneMachine func() (why string)) []rest.Route {
	work := &api.Work{OneMachine: oneMachine}
	if s != nil {
		work.Scoped, work.Outbox, work.Conversations = s.folders, s.outbox, s.live.Host
	}
	return work.Routes()
}

// Close ends the conversations and closes the state.
func (s *Serving) Close() error {
	var errs []error
	for _, end := range slices.Backward(s.below) {
		errs = append(errs, end())
	}
	s.below = nil
	return errors.Join(errs...)
}

// endTimeout bounds how long the end of the conversations may take.
const endTimeout = 10 * time.Second

// startConversations starts the conversations with models, and deletes what crashed processes
// have left at providers.
func (s *Serving) startConversations(ctx context.Context, d *localState, e Engine) error {
	a := s.assistant
	host, err := a.newHost(d, func(ctx context.Context, owner string, settings conversation.Settings) (
		*conversation.Backend, error) {
		if settings.Provider != provider.Local {
			return a.connectRemote(ctx, settings)
		}
		address, _ := a.modelAddress()
		if usualServer(settings.ModelURL) {
			address = settings.ModelURL
		}
		if address == "" {
			return nil, errNoModel()
		}
		c := e.Client(owner)
		b, err := a.localBackend(engineRunner{local.NewServiceRunner(c), e.Ready}, address, c.Close)
		if err == nil {
			b.Shares = true // host.Stored opens files of the same engine
		}
		return b, err
	})
	if err != nil {
		return err
	}
	host.Stored = e.open
	s.live = conversation.NewLive(host, 0)
	stop := command.InBackground(context.WithoutCancel(ctx), s.live.Run,
		func(ctx context.Context) { a.sweepAtStart(ctx, host) })
	s.below = append(s.below, func() error {
		stop()
		closing, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		return errors.Join(s.live.Shutdown(closing), host.Close())
	})
	return nil
}

// engineRunner is a ServiceRunner on a service in this process, whose API has no route for Health.
type engineRunner struct {
	*local.ServiceRunner
	ready func(context.Context) error
}

// Health implements pytool.Runner.
func (r engineRunner) Health(ctx context.Context) pytool.Health {
	h := pytool.Health{Connected: true, Version: "in process"}
	if err := r.ready(ctx); err != nil {
		h.Error = cmp.Or(command.Explain(err).Hint, err.Error())
	}
	return h
}
