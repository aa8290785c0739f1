package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/page"
)

// ModelKeys stores the keys of providers that are entered in the page.
type ModelKeys interface {
	// Enter checks a key with its provider and saves it: until the service ends, or
	// encrypted on its disk.
	Enter(ctx context.Context, provider, key string, keep bool) error
	Forget(provider string) error
}

// ID returns the form's name of the provider or the server.
func (m Model) ID() string {
	if m.URL != "" {
		return m.Provider + " " + m.URL
	}
	return m.Provider
}

// modelOf returns the model with an ID, if it is available.
func (p *askPage) modelOf(v *page.Request, id string) (Model, error) {
	for _, m := range p.Providers(v.Context()) {
		if m.ID() != id {
			continue
		}
		if m.Missing != "" {
			return m, page.Refuse(http.StatusBadRequest, m.Title+" cannot be asked: "+m.Missing+".", m.Cure)
		}
		return m, nil
	}
	return Model{}, page.Refuse(http.StatusBadRequest, "No provider was chosen.", "Choose one from the list.")
}

// idOf returns the ID of the model of these settings. For a server that is not running it
// returns the provider.
func idOf(models []modelView, s conversation.Settings) string {
	for _, m := range models {
		if m.Provider == s.Provider && m.URL == s.ModelURL {
			return m.ID()
		}
	}
	return s.Provider
}

// models lists the models of a provider, which it asks.
func (p *askPage) models(w http.ResponseWriter, v *page.Request) error {
	m, err := p.modelOf(v, v.URL.Query().Get("provider"))
	if err != nil {
		return err
	}
	names := m.Models
	if names == nil && p.Models != nil {
		if names, err = p.Models(v.Context(), m.Provider, m.URL); err != nil {
			p.Log.InfoContext(v.Context(), "a list of models was not to be had", "provider", m.Provider, "err", err)
		}
	}
	if names == nil {
		names = []string{} // the visitor can type a name
	}
	page.WriteJSON(w, http.StatusOK, map[string][]string{"models": names})
	return nil
}

// maxModelKey is longer than any key.
const maxModelKey = 1024

// enter saves a key of a provider, which no answer has.
func (p *askPage) enter(w http.ResponseWriter, v *page.Request) error {
	name, key := v.PostForm.Get("provider"), strings.TrimSpace(v.PostForm.Get("key"))
	if name == provider.Local {
		return p.enterServer(w, v, key)
	}
	for _, m := range p.Providers(v.Context()) {
		if m.Provider != name {
			continue
		}
		if m.KeyFrom != "" && !m.Entered {
			return page.Refuse(http.StatusConflict, m.Title+" has a key already: "+m.KeyFrom+".", "Change it there.")
		}
		if key == "" || len(key) > maxModelKey || strings.ContainsFunc(key, odd) {
			return page.Refuse(http.StatusBadRequest, "This is not a key.",
				"Copy it whole, without spaces, from its provider's console.")
		}
		if err := p.Keys.Enter(v.Context(), name, key, v.PostForm.Get("keep") != ""); err != nil {
			if problem := conversation.ProblemOf(err); problem != nil {
				return page.Refuse(http.StatusUnprocessableEntity, "The key was not taken: "+problem.Message, problem.Hint)
			}
			return err
		}
		return p.Redirect(w, v, "/ask")
	}
	return page.Refuse(http.StatusBadRequest, "No provider was chosen.", "Choose one from the list.")
}

// enterServer saves the address of a model server, with its key if it needs one.
func (p *askPage) enterServer(w http.ResponseWriter, v *page.Request, key string) error {
	text := strings.TrimSpace(v.PostForm.Get("url"))
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(text) > maxModelKey ||
		strings.ContainsFunc(text+key, odd) || len(key) > maxModelKey {
		return page.Refuse(http.StatusBadRequest, "This is not the address of a model server.",
			"It begins with http:// or https://, such as http://localhost:11434/v1.")
	}
	server := strings.TrimSpace(strings.TrimSuffix(u.String(), "/") + " " + key)
	if err := p.Keys.Enter(v.Context(), provider.Local, server, v.PostForm.Get("keep") != ""); err != nil {
		if problem := conversation.ProblemOf(err); problem != nil {
			return page.Refuse(http.StatusUnprocessableEntity, "The server is not connected: "+problem.Message, problem.Hint)
		}
		return err
	}
	return p.Redirect(w, v, "/ask")
}

// odd reports a character that neither a key nor an address has.
func odd(r rune) bool { return r <= ' ' || r > '~' }

func (p *askPage) forget(w http.ResponseWriter, v *page.Request) error {
	for _, m := range p.Providers(v.Context()) {
		if m.Provider == v.PathValue("provider") && m.Entered {
			if err := p.Keys.Forget(m.Provider); err != nil {
				return err
			}
			return p.Redirect(w, v, "/ask")
		}
	}
	return page.ErrNotFound
}
