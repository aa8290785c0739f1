package native

import (
	"context"
	"net/http"

	"github.com/airlock-run/airlock/assignment"
)

type postBody struct {
	ID         string            `json:"id"`
	Kind       assignment.Kind   `json:"kind"`
	Project    string            `json:"project"`
	Assignment string            `json:"assignment"`
	State      assignment.State  `json:"state"`
	Summary    string            `json:"summary"`
	Holds      []assignment.Hold `json:"holds"`
	Problem    string            `json:"problem"`
	Attempts   int               `json:"attempts"`
	CreatedAt  string            `json:"created_at"`
	NotBefore  string            `json:"not_before,omitempty"`
	DoneAt     string            `json:"done_at,omitempty"`
}

func postOf(p *assignment.Post) postBody {
	return postBody{p.ID, p.Kind, p.Project, p.Assignment, p.State, p.Summary(), append([]assignment.Hold{}, p.Holds...), p.Problem, p.Attempts,
		timeOf(p.Created), timeOf(p.NotBefore), timeOf(p.Done)}
}

func (a *api) listPosts(w http.ResponseWriter, r *http.Request) error {
	work, owner, err := a.work(r)
	if err != nil {
		return err
	}
	all, err := readFlag(r, "all")
	if err != nil {
		return err
	}
	posts := []postBody{}
	err = work.eachPost(r.Context(), owner, func(p *assignment.Post) {
		if all || !p.State.Final() {
			posts = append(posts, postOf(p))
		}
	})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Posts []postBody `json:"posts"`
	}{posts})
	return nil
}

// eachPost visits the posts of the projects of an owner.
func (w *Work) eachPost(ctx context.Context, owner string, visit func(*assignment.Post)) error {
	links, err := w.links(ctx, owner)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.API == "" {
			continue
		}
		lanes, err := w.Outbox.Lanes(ctx, assignment.Query{API: l.API, Project: l.Project})
		if err != nil {
			return err
		}
		for i := range lanes {
			for j := range lanes[i].Posts {
				visit(&lanes[i].Posts[j])
			}
		}
	}
	return nil
}

// changePost does with a post what somebody has decided.
func (a *api) changePost(w http.ResponseWriter, r *http.Request) error {
	work, owner, err := a.work(r)
	if err != nil {
		return err
	}
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	actions := map[string]func(context.Context, string) error{"retry": work.Outbox.Retry, "confirm": work.Outbox.Confirm, "drop": work.Outbox.Drop}
	do := actions[body.needText("action")]
	if do == nil {
		body.fail("action", "must be retry, confirm or drop")
	}
	if err := body.done(); err != nil {
		return err
	}
	id, found := r.PathValue("id"), false
	if err := work.eachPost(r.Context(), owner, func(p *assignment.Post) { found = found || p.ID == id }); err != nil {
		return err
	}
	if !found {
		return workError(assignment.ErrNotFound)
	}
	if err := do(r.Context(), id); err != nil {
		return workError(err)
	}
	work.Wake()
	p, err := work.Outbox.Post(r.Context(), id)
	if err != nil {
		return workError(err)
	}
	writeJSON(w, http.StatusOK, postOf(&p))
	return nil
}
