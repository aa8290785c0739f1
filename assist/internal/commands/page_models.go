package commands

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/pages"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/page"
)

// Pages returns the pages of the assistant.
func (s *Serving) Pages() page.Part {
	return pages.Part(s.askOptions(), &pages.Review{Scoped: s.inBrowser, Replies: s.replies})
}

// askOptions returns what the pages need to ask models.
func (s *Serving) askOptions() *pages.Ask {
	a := s.assistant
	keys := a.openPageKeys()
	return &pages.Ask{
		Models: a.modelNames, Keys: keys,
		Live: s.live, Client: s.engine.Client, Stored: s.engine.open, Providers: a.askedModels,
		Projects: func(ctx context.Context, owner string) ([]changes.Link, error) {
			return a.pageProjects(ctx, s.folders.Replies, owner)
		},
		Settings: conversation.Settings{
			Provider: a.Config.Provider, Model: a.Config.Model,
			Hints: provider.HintMode(a.Config.Hints), MaxDownload: a.Config.MaxDownload,
		},
	}
}

// pageProjects returns the projects whose folders the settings allow.
func (a *Assistant) pageProjects(ctx context.Context, d *changes.Replies, owner string) ([]changes.Link, error) {
	links, err := d.Store.Links(ctx, owner)
	return slices.DeleteFunc(links, func(l changes.Link) bool {
		return !changes.Within(a.Config.Workspaces, l.Root)
	}), err
}

// askedModels describes all providers for the page.
func (a *Assistant) askedModels(ctx context.Context) []pages.Model {
	var list []pages.Model
	for _, name := range providerNames {
		m := pages.Model{Provider: name, Title: providerTitles[name]}
		if name == provider.Local {
			m.Title = "This machine"
			m.Caps = (&local.Client{}).Caps()
			address, _ := a.modelAddress()
			switch host := command.ModelHostname(address); {
			case host == "":
				m.Missing = "no model"
				m.Cure = "Connect a model server above, or set AIRLOCK_MODEL_URL and start the service again."
			case a.Config.ModelURL == "":
				m.Title = "The model server at " + host
				m.KeyFrom, m.Entered = a.keyFrom(name)
				if !config.IsLoopback(host) {
					m.Destination = "the model at " + host
				}
			}
			list = append(list, m)
			for _, s := range a.detectServers(ctx) {
				list = append(list, pages.Model{Provider: name, Title: s.Title + " on this machine", Caps: m.Caps, URL: s.URL,
					Models: s.Models})
			}
			continue
		}
		m.KeyFrom, m.Entered = a.keyFrom(name)
		p, host, err := a.remoteProvider(ctx, name)
		if err != nil {
			variable := strings.ToUpper(name) + "_API_KEY"
			m.Missing = "no key"
			m.Cure = "Enter one above, or set " + variable + " or " + variable + "_FILE and start the service again."
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
