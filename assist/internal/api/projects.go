package api

import (
	"cmp"
	"context"
	"errors"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/internal/rest"
)

type projectBody struct {
	Project     string           `json:"project"`
	Folder      string           `json:"folder"`
	API         string           `json:"api"`
	CreatedAt   string           `json:"created_at"`
	Assignments []assignmentBody `json:"assignments"`
	Escalations []escalationBody `json:"escalations"`
}

type assignmentBody struct {
	Assignment string          `json:"assignment"`
	Percent    int             `json:"percent"`
	Accepted   int             `json:"accepted_percent"`
	Work       assignment.Work `json:"work"`
	UpdatedAt  string          `json:"updated_at,omitempty"`
}

type escalationBody struct {
	changes.Question
	AskedAt string      `json:"asked_at"`
	Posted  bool        `json:"posted"`
	Answer  *answerBody `json:"answer"`
}

type answerBody struct {
	Verdict assignment.Verdict `json:"verdict"`
	Choice  string             `json:"choice"`
	Note    string             `json:"note"`
	By      string             `json:"decided_by"`
	At      string             `json:"decided_at"`
	Posted  bool               `json:"posted"`
}

func (w *Work) listProjects(q *rest.Request) (any, error) {
	links, err := w.links(q.Context(), q.Owner())
	if err != nil {
		return nil, err
	}
	list := []projectBody{}
	for _, l := range links {
		b, err := w.project(q.Context(), l)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return struct {
		Projects []projectBody `json:"projects"`
	}{list}, nil
}

// links returns an owner's links to folders that the service may use.
func (w *Work) links(ctx context.Context, owner string) ([]changes.Link, error) {
	links, err := w.Store.Links(ctx, owner)
	var allowed []changes.Link
	for _, l := range links {
		if w.Allows(l.Root) {
			allowed = append(allowed, l)
		}
	}
	return allowed, err
}

// project describes a project with its assignments.
func (w *Work) project(ctx context.Context, l changes.Link) (projectBody, error) {
	b := projectBody{Project: l.Project, Folder: l.Root, API: l.API, CreatedAt: rest.TimeOf(l.Created),
		Assignments: []assignmentBody{}, Escalations: []escalationBody{}}
	if l.API == "" {
		return b, nil
	}
	lanes, err := w.Outbox.Lanes(ctx, assignment.Query{API: l.API, Project: l.Project})
	for _, lane := range lanes {
		if s := lane.Status; lane.Assignment != "" {
			work := cmp.Or(s.Work, assignment.Open)
			b.Assignments = append(b.Assignments, assignmentBody{lane.Assignment, s.Percent, s.Accepted, work,
				rest.TimeOf(s.Updated)})
		}
		for i := range lane.Escalations {
			b.Escalations = append(b.Escalations, escalationOf(&lane.Escalations[i]))
		}
	}
	return b, err
}

func escalationOf(e *assignment.Escalation) escalationBody {
	b := escalationBody{Question: changes.QuestionOf(e), AskedAt: rest.TimeOf(e.Asked), Posted: e.Posted}
	if n := e.Answer; n != nil {
		b.Answer = &answerBody{n.Verdict, n.Choice, n.Note, n.By, rest.TimeOf(n.At), n.Posted}
	}
	return b
}

func (w *Work) putProject(q *rest.Request) (any, error) {
	body := q.Object()
	l := changes.Link{Owner: q.Owner(), Project: q.PathValue("id"), Root: body.NeedText("folder"),
		API: body.Text("api")}
	if err := body.Done(); err != nil {
		return nil, err
	}
	l, err := w.LinkFolder(q.Context(), l)
	if errors.Is(err, changes.ErrOutside) {
		return nil, rest.Forbidden("%s", err.Error())
	}
	if err != nil {
		return nil, workError(err)
	}
	return w.project(q.Context(), l)
}

func (w *Work) deleteProject(q *rest.Request) (any, error) {
	l, err := w.Linked(q.Context(), q.Owner(), q.PathValue("id"))
	if err == nil {
		err = w.Store.DropLink(q.Context(), q.Owner(), l.Project)
	}
	return nil, workError(err)
}

// projectPrompt returns the text for the next prompt. It marks the decisions in it as told, so it
// is a POST.
func (w *Work) projectPrompt(q *rest.Request) (any, error) {
	l, err := w.Linked(q.Context(), q.Owner(), q.PathValue("id"))
	if err != nil {
		return nil, workError(err)
	}
	var told []assignment.Escalation
	if l.API != "" {
		if told, err = w.Outbox.Decisions(q.Context(), assignment.Query{API: l.API, Project: l.Project},
			true); err != nil {
			return nil, err
		}
	}
	return struct {
		Version   string `json:"version"`
		Prompt    string `json:"prompt"`
		Decisions string `json:"decisions"`
	}{reply.PromptVersion, reply.Prompt(), assignment.DecisionText(told)}, nil
}

func (w *Work) answerEscalation(q *rest.Request) (any, error) {
	body := q.Object()
	answer := assignment.Answer{Verdict: assignment.Chosen, Choice: body.Text("choice"), Note: body.Text("note"),
		By: q.Owner()}
	if body.Flag("reject", false) {
		answer.Verdict = assignment.Rejected
	}
	if (answer.Choice == "") != (answer.Verdict == assignment.Rejected) {
		body.Fail("choice", "or reject must be there, not both")
	}
	if err := body.Done(); err != nil {
		return nil, err
	}
	l, err := w.Linked(q.Context(), q.Owner(), q.PathValue("id"))
	if err != nil {
		return nil, workError(err)
	}
	e, err := w.Outbox.Escalation(q.Context(), q.PathValue("escalation"))
	if err == nil && (e.Project != l.Project || e.API != l.API) {
		err = assignment.ErrNotFound
	}
	if err == nil {
		e, err = w.Outbox.Answer(q.Context(), e.ID, answer)
	}
	if err != nil {
		return nil, workError(err)
	}
	w.Wake()
	return escalationOf(&e), nil
}

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
		rest.TimeOf(p.Created), rest.TimeOf(p.NotBefore), rest.TimeOf(p.Done)}
}

func (w *Work) listPosts(q *rest.Request) (any, error) {
	all, err := rest.ReadFlag(q.Request, "all")
	if err != nil {
		return nil, err
	}
	posts := []postBody{}
	err = w.eachPost(q.Context(), q.Owner(), func(p *assignment.Post) {
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

// changePost retries, confirms or drops a post.
func (w *Work) changePost(q *rest.Request) (any, error) {
	body := q.Object()
	actions := map[string]func(context.Context, string) error{
		"retry": w.Outbox.Retry, "confirm": w.Outbox.Confirm, "drop": w.Outbox.Drop}
	do := actions[body.NeedText("action")]
	if do == nil {
		body.Fail("action", "must be retry, confirm or drop")
	}
	if err := body.Done(); err != nil {
		return nil, err
	}
	id, found := q.PathValue("id"), false
	if err := w.eachPost(q.Context(), q.Owner(), func(p *assignment.Post) { found = found || p.ID == id }); err != nil {
		return nil, err
	}
	if !found {
		return nil, workError(assignment.ErrNotFound)
	}
	if err := do(q.Context(), id); err != nil {
		return nil, workError(err)
	}
	w.Wake()
	p, err := w.Outbox.Post(q.Context(), id)
	if err != nil {
		return nil, workError(err)
	}
	return postOf(&p), nil
}
