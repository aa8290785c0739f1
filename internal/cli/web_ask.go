package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/local"
)

// pageAsk is what the page asks models with; nil: this service holds no
// conversations.
func (a *app) pageAsk(s *service) *web.Ask {
	if s.live == nil {
		return nil
	}
	return &web.Ask{
		Live: s.live, Providers: a.askedModels,
		Projects: func(ctx context.Context, owner string) ([]conversation.Link, error) {
			return a.pageProjects(ctx, s.work.Replies, owner)
		},
		Settings: conversation.Settings{
			Provider: a.cfg.Provider, Model: a.cfg.Model,
			Hints: provider.HintMode(a.cfg.Hints), MaxDownload: a.cfg.MaxDownload,
		},
	}
}

// pageProjects are the projects whose folders this service was given.
func (a *app) pageProjects(ctx context.Context, d *conversation.Replies, owner string) ([]conversation.Link, error) {
	links, err := d.Store.Links(ctx, owner)
	if err != nil {
		return nil, err
	}
	var given []conversation.Link
	for _, l := range links {
		for _, folder := range a.cfg.Workspaces {
			if real, err := filepath.EvalSymlinks(folder); err == nil {
				folder = real
			}
			if below, err := filepath.Rel(folder, l.Root); err == nil && filepath.IsLocal(below) {
				given = append(given, l)
				break
			}
		}
	}
	return given, nil
}

// askedModels are all providers, in words for the page.
func (a *app) askedModels(ctx context.Context) []web.Model {
	client := a.webClient(a.providerAddresses()...)
	defer client.CloseIdleConnections()
	var list []web.Model
	for _, name := range providerNames {
		m := web.Model{Provider: name, Title: providerTitles[name]}
		if name == provider.Local {
			m.Title = "This machine"
			m.Caps = (&local.Client{}).Caps()
			if host := modelHostname(a.cfg.ModelURL); host == "" {
				m.Missing, m.Cure = "no model", "Set AIRLOCK_MODEL_URL (or model_url in airlock.yaml) to an endpoint that speaks "+
					"OpenAI's API, such as http://localhost:11434/v1 for Ollama, and start the service again."
			}
			list = append(list, m)
			continue
		}
		p, host, err := a.remoteProvider(ctx, name, client)
		if err != nil {
			variable := strings.ToUpper(name) + "_API_KEY"
			m.Missing, m.Cure = "no key", "Set "+variable+", or "+variable+"_FILE, and start the service again."
			if !errors.Is(err, provider.Auth) {
				m.Missing, m.Cure = "not set up", err.Error()
			}
			list = append(list, m)
			continue
		}
		m.Caps, m.Destination = p.Caps(), m.Title+" ("+host+")"
		list = append(list, m)
	}
	return list
}
