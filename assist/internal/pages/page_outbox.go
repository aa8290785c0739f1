package pages

import (
	"context"
	"net/http"
	"slices"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/internal/page"
)

// outboxView lists the reports of the visitor's projects.
type outboxView struct {
	Waiting []outboxEntry
	Done    []outboxEntry
	Retry   bool // something can be sent now
}

type outboxEntry struct {
	*assignment.Post
	Words, Class                  string
	CanRetry, CanConfirm, CanDrop bool
}

func (p *reviewPage) outbox(w http.ResponseWriter, v *page.Request) error {
	body := outboxView{}
	err := p.eachPost(v, func(post *assignment.Post) error {
		e := outboxEntryOf(post)
		if post.State.Final() {
			body.Done = append(body.Done, e)
		} else {
			body.Waiting = append(body.Waiting, e)
			body.Retry = body.Retry || e.CanRetry
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(body.Done, func(a, b outboxEntry) int { return b.Done.Compare(a.Done) })
	body.Done = body.Done[:min(len(body.Done), mostListed)]
	p.Render(w, v, http.StatusOK, "outbox", "Outbox", body)
	return nil
}

func outboxEntryOf(p *assignment.Post) outboxEntry {
	words := postWords[p.State]
	return outboxEntry{Post: p, Words: words.words, Class: words.class,
		CanRetry: p.State == assignment.Pending || p.State == assignment.DeadLetter,
		CanConfirm: p.State == assignment.Held && !slices.ContainsFunc(p.Holds,
			func(h assignment.Hold) bool { return h.Reason == assignment.HoldEscalation }),
		CanDrop: !p.State.Final() && p.State != assignment.Sending}
}

// eachPost visits the posts of the projects of an owner.
func (p *reviewPage) eachPost(v *page.Request, do func(*assignment.Post) error) error {
	links, err := p.links(v)
	if err != nil {
		return err
	}
	for _, l := range links {
		lanes, err := p.lanes(v, l)
		if err != nil {
			return err
		}
		for i := range lanes {
			for j := range lanes[i].Posts {
				if err := do(&lanes[i].Posts[j]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// retryAll has all waiting reports sent now.
func (p *reviewPage) retryAll(w http.ResponseWriter, v *page.Request) error {
	err := p.eachPost(v, func(post *assignment.Post) error {
		if post.State != assignment.Pending && post.State != assignment.DeadLetter {
			return nil
		}
		return p.Outbox.Retry(v.Context(), post.ID)
	})
	if err != nil {
		return err
	}
	p.Wake()
	return p.Redirect(w, v, "/outbox")
}

// changePost retries, confirms or drops a report.
func (p *reviewPage) changePost(w http.ResponseWriter, v *page.Request) error {
	actions := map[string]func(context.Context, string) error{
		"retry": p.Outbox.Retry, "confirm": p.Outbox.Confirm, "drop": p.Outbox.Drop}
	do := actions[v.PostForm.Get("action")]
	if do == nil {
		return page.Refuse(http.StatusBadRequest, "This is nothing that can be done with a report.", "Load the page again.")
	}
	id, found := v.PathValue("id"), false
	if err := p.eachPost(v, func(post *assignment.Post) error { found = found || post.ID == id; return nil }); err != nil {
		return err
	}
	if !found {
		return assignment.ErrNotFound
	}
	if err := do(v.Context(), id); err != nil {
		return err
	}
	p.Wake()
	return p.Redirect(w, v, page.OwnPath(v.PostForm.Get("back")))
}
