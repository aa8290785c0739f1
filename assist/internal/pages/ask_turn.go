package pages

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/page"
)

// startConversation starts a conversation with its first turn.
func (p *askPage) startConversation(w http.ResponseWriter, v *page.Request) error {
	f, prompt, err := p.readPrompt(v)
	if err != nil {
		return err
	}
	s, err := p.settings(v, f)
	if err != nil {
		return err
	}
	// The conversation outlives the request.
	id, err := p.Live.Begin(context.WithoutCancel(v.Context()), v.Owner(), s)
	if err != nil {
		return err
	}
	return p.startTurn(w, v, id, prompt)
}

// goOn adds a turn to a conversation. It resumes the conversation if it is closed.
func (p *askPage) goOn(w http.ResponseWriter, v *page.Request) error {
	_, prompt, err := p.readPrompt(v)
	if err != nil {
		return err
	}
	id := v.PathValue("id")
	if open, _ := p.Live.Running(v.Owner(), id); !open {
		c, err := p.find(v)
		if err != nil {
			return err
		}
		if err := p.canAsk(v, c.Settings); err != nil {
			return err
		}
		if err := p.Live.Resume(context.WithoutCancel(v.Context()), v.Owner(), id, nil); err != nil {
			return err
		}
	}
	return p.startTurn(w, v, id, prompt)
}

func (p *askPage) startTurn(w http.ResponseWriter, v *page.Request, id string, prompt conversation.Prompt) error {
	if err := p.Live.Turn(v.Owner(), id, prompt); err != nil {
		return err
	}
	return p.created(w, v, id, "/ask/"+id)
}

// created sends the visitor to a conversation, or to a path of it; a script is told where it is.
func (p *askPage) created(w http.ResponseWriter, v *page.Request, id, path string) error {
	return p.Done(w, v, path, http.StatusCreated, map[string]string{"id": id, "url": p.URL(path)})
}

// canAsk returns an error if the provider is not available. A local server is not checked:
// the turn reports if it is not running.
func (p *askPage) canAsk(v *page.Request, s conversation.Settings) error {
	if s.Provider == provider.Local && s.ModelURL != "" {
		return nil
	}
	_, err := p.modelOf(v, s.Provider)
	return err
}

// stopTime is how long a visitor waits for a turn to end.
const stopTime = 20 * time.Second

// stop stops the running turn.
func (p *askPage) stop(w http.ResponseWriter, v *page.Request) error {
	ctx, cancel := context.WithTimeout(v.Context(), stopTime)
	defer cancel()
	id := v.PathValue("id")
	if err := p.Live.Stop(ctx, v.Owner(), id); err != nil {
		return err
	}
	return p.created(w, v, id, "/ask/"+id)
}

// close closes a conversation, and cleans up at the provider.
func (p *askPage) close(w http.ResponseWriter, v *page.Request) error {
	id := v.PathValue("id")
	if err := p.end(v, id); err != nil {
		return err
	}
	return p.created(w, v, id, "/ask/"+id)
}

// end closes a conversation, if it is open.
func (p *askPage) end(v *page.Request, id string) error {
	_, err := p.Live.Close(v.Context(), v.Owner(), id)
	if errors.Is(err, conversation.ErrNotFound) {
		return nil
	}
	return err
}

// remove deletes a conversation.
func (p *askPage) remove(w http.ResponseWriter, v *page.Request) error {
	id := v.PathValue("id")
	if err := p.end(v, id); err != nil {
		return err
	}
	if err := p.Live.Host.Drop(v.Context(), v.Owner(), id); err != nil {
		return err
	}
	return p.Done(w, v, "/ask", http.StatusOK, map[string]string{"url": p.URL("/ask")})
}
