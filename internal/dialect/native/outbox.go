package native

import (
	"context"

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
	return postBody{p.ID, p.Kind, p.Project, p.Assignment, p.State, p.Summary(), append([]assignment.Hold{}, p.Holds...),
		p.Problem, p.Attempts,
		timeOf(p.Created), timeOf(p.NotBefore), timeOf(p.Done)}
}

func (q *request) listPosts(work *Work) (any, error) {
	all, err := readFlag(q.Request, "all")
	if err != nil {
		return nil, err
	}
	posts := []postBody{}
	err = work.eachPost(q.Context(), q.owner(), func(p *assignment.Post) {
		if all || !p.State.Final() {
			posts = append(posts, postOf(p))
		}
	})
	if err != nil {
		return nil, err
	}
	return struct {
		Posts []postBody `json:"posts"`
	}{posts}, nil
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
func (q *request) changePost(work *Work) (any, error) {
	body := q.object()
	actions := map[string]func(context.Context, string) error{
		"retry": work.Outbox.Retry, "confirm": work.Outbox.Confirm, "drop": work.Outbox.Drop}
	do := actions[body.needText("action")]
	if do == nil {
		body.fail("action", "must be retry, confirm or drop")
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	id, found := q.PathValue("id"), false
	if err := work.eachPost(q.Context(), q.owner(), func(p *assignment.Post) { found = found || p.ID == id }); err != nil {
		return nil, err
	}
	if !found {
		return nil, workError(assignment.ErrNotFound)
	}
	if err := do(q.Context(), id); err != nil {
		return nil, workError(err)
	}
	work.Wake()
	p, err := work.Outbox.Post(q.Context(), id)
	if err != nil {
		return nil, workError(err)
	}
	return postOf(&p), nil
}
