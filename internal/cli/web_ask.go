package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	keys := a.openPageKeys()
	return &web.Ask{
		Models: a.modelNames, Keys: keys,
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
	return slices.DeleteFunc(links, func(l conversation.Link) bool {
		return !conversation.Within(a.cfg.Workspaces, l.Root)
	}), err
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
			for _, s := range a.detectServers(ctx) {
				list = append(list, web.Model{Provider: name, Title: s.Title + " on this machine", Caps: m.Caps, URL: s.URL,
					Models: s.Models})
			}
			continue
		}
		m.KeyFrom, m.Entered = a.keyFrom(name)
		p, host, err := a.remoteProvider(ctx, name, client)
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

// pageKeys are the keys that are entered in the page.
type pageKeys struct{ *app }

// openPageKeys reads the keys that the page has kept. Without them it works all the same.
func (a *app) openPageKeys() web.ModelKeys {
	dir, err := a.stateDir()
	if err == nil {
		a.modelKeys, err = openModelKeys(dir)
	}
	if err != nil {
		a.log.Warn("keys that were entered in the page are left out", "err", err)
	}
	if a.modelKeys == nil {
		return nil
	}
	for _, key := range a.modelKeys.entered {
		a.redact.Learn(key)
	}
	return pageKeys{a}
}

// Enter implements web.ModelKeys.
func (p pageKeys) Enter(ctx context.Context, name, key string, keep bool) error {
	p.redact.Learn(key)
	trial := *p.app
	trial.modelKeys = &modelKeys{entered: map[string]string{name: key}}
	client := p.webClient(p.providerAddresses()...)
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	asked, _, err := trial.remoteProvider(ctx, name, client)
	if err == nil {
		err = asked.Check(ctx, "")
	}
	if err != nil {
		return err
	}
	return p.modelKeys.set(name, key, keep)
}

// Forget implements web.ModelKeys.
func (p pageKeys) Forget(name string) error { return p.modelKeys.set(name, "", false) }

// keyFrom says where the key for a provider is from.
func (a *app) keyFrom(name string) (words string, entered bool) {
	if a.configured(name).Key != "" {
		return "from " + cmp.Or(a.cfg.Origin(name+"_api_key"), "the configuration"), false
	}
	switch key, kept := a.modelKeys.key(name); {
	case key == "":
		return "", false
	case kept:
		return "entered here, kept encrypted", true
	}
	return "entered here, until the service ends", true
}
