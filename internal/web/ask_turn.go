package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
)

// begin starts a conversation with its first turn.
func (p *askPage) begin(w http.ResponseWriter, v *webRequest) error {
	f, err := p.readPrompt(v)
	if err != nil {
		return err
	}
	s, err := p.settings(v, f)
	if err != nil {
		return err
	}
	prompt, err := p.prompt(v, f)
	if err != nil {
		return err
	}
	// The conversation stays when the request has ended.
	id, err := p.Live.Begin(context.WithoutCancel(v.Context()), p.owner(v), s)
	if err != nil {
		return err
	}
	return p.ask(w, v, id, prompt)
}

// goOn adds a turn to a conversation, and takes it up again if it is closed.
func (p *askPage) goOn(w http.ResponseWriter, v *webRequest) error {
	f, err := p.readPrompt(v)
	if err != nil {
		return err
	}
	prompt, err := p.prompt(v, f)
	if err != nil {
		return err
	}
	id := v.PathValue("id")
	if open, _ := p.Live.Running(p.owner(v), id); !open {
		c, err := p.find(v)
		if err != nil {
			return err
		}
		if err := p.canAsk(v, c.Settings); err != nil {
			return err
		}
		if err := p.Live.Resume(context.WithoutCancel(v.Context()), p.owner(v), id, nil); err != nil {
			return err
		}
	}
	return p.ask(w, v, id, prompt)
}

func (p *askPage) ask(w http.ResponseWriter, v *webRequest, id string, prompt conversation.Prompt) error {
	if err := p.Live.Turn(p.owner(v), id, prompt); err != nil {
		return err
	}
	return p.to(w, v, id)
}

// to sends the visitor to a conversation; a script is told where it is.
func (p *askPage) to(w http.ResponseWriter, v *webRequest, id string) error {
	return p.at(w, v, id, p.address("/ask/"+id))
}

// at sends the visitor to where something is.
func (p *askPage) at(w http.ResponseWriter, v *webRequest, id, address string) error {
	if v.wants("application/json") {
		writeJSON(w, http.StatusCreated, map[string]string{"id": id, "url": address})
		return nil
	}
	http.Redirect(w, v.Request, address, http.StatusSeeOther)
	return nil
}

// canAsk refuses to go on with who cannot be asked now. A server that went away is left
// to say so itself.
func (p *askPage) canAsk(v *webRequest, s conversation.Settings) error {
	if s.Provider == provider.Local && s.ModelURL != "" {
		return nil
	}
	_, err := p.modelOf(v, s.Provider)
	return err
}

// stop ends the turn that runs.
func (p *askPage) stop(w http.ResponseWriter, v *webRequest) error {
	ctx, cancel := context.WithTimeout(v.Context(), stopTime)
	defer cancel()
	id := v.PathValue("id")
	if err := p.Live.Stop(ctx, p.owner(v), id); err != nil {
		return err
	}
	return p.to(w, v, id)
}

// close ends a conversation: what it has at the provider is deleted now.
func (p *askPage) close(w http.ResponseWriter, v *webRequest) error {
	id := v.PathValue("id")
	if _, err := p.Live.Close(v.Context(), p.owner(v), id); err != nil && !errors.Is(err, conversation.ErrNotFound) {
		return err
	}
	return p.to(w, v, id)
}

// remove forgets a conversation.
func (p *askPage) remove(w http.ResponseWriter, v *webRequest) error {
	id := v.PathValue("id")
	if _, err := p.Live.Close(v.Context(), p.owner(v), id); err != nil && !errors.Is(err, conversation.ErrNotFound) {
		return err
	}
	if err := p.Live.Host().Drop(v.Context(), p.owner(v), id); err != nil {
		return err
	}
	if v.wants("application/json") {
		writeJSON(w, http.StatusOK, map[string]string{"url": p.address("/ask")})
		return nil
	}
	http.Redirect(w, v.Request, p.address("/ask"), http.StatusSeeOther)
	return nil
}
