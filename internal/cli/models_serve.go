package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/provider"
)

// startConversations gives a service its conversations with models, and
// deletes what crashed processes have left at providers.
func (a *app) startConversations(ctx context.Context, s *service, d *desk) error {
	host, err := a.newHost(d, func(ctx context.Context, owner string, settings conversation.Settings) (
		*conversation.Backend, error) {
		if settings.Provider != provider.Local {
			return a.connectRemote(ctx, settings)
		}
		address := a.cfg.ModelURL
		if usualServer(settings.ModelURL) {
			address = settings.ModelURL
		}
		if address == "" {
			return nil, errNoModel()
		}
		return a.localBackend(&toolRunner{s.engine, engine.Caller{Owner: engine.Owner(owner)}}, address,
			func() error { return nil })
	})
	if err != nil {
		return err
	}
	host.Stored = web.Stored(s.engine)
	s.live = conversation.NewLive(host, 0)
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { s.live.Run(going) })
	group.Go(func() { a.sweepAtStart(going, host) })
	s.below = append(s.below, func() error {
		stop()
		group.Wait()
		closing, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		return errors.Join(s.live.Shutdown(closing), host.Close())
	})
	return nil
}

// sweepAtStart does what airlock files gc does, with the providers that there
// are keys for.
func (a *app) sweepAtStart(ctx context.Context, host *conversation.Host) {
	web := a.webClient(a.providerAddresses()...)
	defer web.CloseIdleConnections()
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	accounts, err := a.accountsOf(bounded, "", web)
	if err != nil {
		a.log.Warn("what earlier processes left at providers was not looked for", "err", err)
		return
	}
	swept, err := host.Sweep(bounded, accounts...)
	a.logSwept(swept, err)
}

// logSwept tells of a clean-up that nobody watches.
func (a *app) logSwept(swept provider.Swept, err error) {
	if err != nil || len(swept.Deleted)+len(swept.Left) > 0 {
		a.log.Info("what earlier processes left at providers", "deleted", len(swept.Deleted), "left", len(swept.Left), "err",
			err)
	}
	for _, f := range swept.Others {
		a.log.Warn("a file at a provider may be ours: it was made while a turn of ours ran whose reply got lost, and stays",
			"provider", f.Ref.Provider, "id", f.Ref.ID, "name", f.Name)
	}
}
