package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/rest"
)

// Conversations stores the conversations with models.
type Conversations interface {
	Conversation(ctx context.Context, owner, id string) (*conversation.Conversation, error)
	Conversations(ctx context.Context, owner string, p conversation.Page) ([]*conversation.Conversation, error)
	Drop(ctx context.Context, owner, id string) error
	// Output opens a file that a model's code made, by its SHA-256.
	Output(sha256 string) (*os.File, error)
}

type conversationBody struct {
	ID        string       `json:"id"`
	Title     string       `json:"title"`
	Provider  string       `json:"provider"`
	Model     string       `json:"model"`
	Tool      string       `json:"tool"`
	Project   string       `json:"project"`
	Phase     string       `json:"phase"`
	Keep      bool         `json:"keep"`
	CreatedAt string       `json:"created_at"`
	UpdatedAt string       `json:"updated_at"`
	Cleaned   *cleanedBody `json:"cleaned"`
	Turns     []turnBody   `json:"turns,omitempty"`
}

type cleanedBody struct {
	At      string   `json:"at"`
	Deleted int      `json:"deleted"`
	Kept    int      `json:"kept"`
	Left    []string `json:"left"`
}

type turnBody struct {
	Number    int                   `json:"number"`
	State     string                `json:"state"`
	StartedAt string                `json:"started_at"`
	EndedAt   string                `json:"ended_at,omitempty"`
	Prompt    string                `json:"prompt"`
	Inputs    []inputBody           `json:"inputs"`
	Text      string                `json:"text"`
	Answer    json.RawMessage       `json:"answer"`
	Steps     []stepBody            `json:"steps"`
	Outputs   []madeBody            `json:"outputs"`
	Missing   []string              `json:"missing"`
	Notices   []string              `json:"notices"`
	Decisions []decisionBody        `json:"decisions"`
	Receipts  []*workspace.Receipt  `json:"receipts"`
	Reply     string                `json:"reply"`
	Result    *changes.Result       `json:"result"`
	Model     string                `json:"model"`
	Stop      string                `json:"stop"`
	Usage     usageBody             `json:"usage"`
	Problem   *conversation.Problem `json:"problem"`
}

type usageBody struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached"`
}

type inputBody struct {
	Path    string                `json:"path"`
	Name    string                `json:"name"`
	Size    int64                 `json:"size"`
	MIME    string                `json:"mime"`
	SHA256  string                `json:"sha256"`
	See     bool                  `json:"see"`
	Asked   bool                  `json:"asked"`
	Problem *conversation.Problem `json:"problem"`
}

type stepBody struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Code     string `json:"code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode *int   `json:"exit_code"`
	Outcome  string `json:"outcome"`
	Detail   string `json:"detail"`
}

type madeBody struct {
	ID      string                `json:"id"`
	Name    string                `json:"name"`
	Size    int64                 `json:"size"`
	MIME    string                `json:"mime"`
	SHA256  string                `json:"sha256"`
	State   string                `json:"state"`
	Saved   string                `json:"saved"`
	Step    string                `json:"step"`
	Problem *conversation.Problem `json:"problem"`
}

type decisionBody struct {
	Kind  string   `json:"kind"`
	Text  string   `json:"text"`
	OK    bool     `json:"ok"`
	Picks []string `json:"picks"`
	At    string   `json:"at"`
}

// conversations returns the conversations and their owner. They are private to their users
// and to the operator of the machine.
func (w *Work) conversations(q *rest.Request) (Conversations, string, error) {
	switch {
	case w.Conversations == nil:
		return nil, "", rest.Unavailable("This service keeps no conversations.", nil)
	// Without a key they are on the machine: these routes are keyed.
	case !q.Operator():
		return nil, "", rest.Denied("An admin key is needed, or a connection from the machine itself.")
	case w.OneMachine() != "":
		return nil, "", rest.Conflict("%s", w.OneMachine())
	}
	return w.Conversations, q.Owner(), nil
}

func conversationError(err error) error {
	switch {
	case errors.Is(err, conversation.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return rest.ErrNotFound
	case errors.Is(err, conversation.ErrTurn):
		return rest.ErrConflict
	}
	return err
}

func (w *Work) listConversations(q *rest.Request) (any, error) {
	all, owner, err := w.conversations(q)
	if err != nil {
		return nil, err
	}
	page := conversation.Page{Limit: 50, Before: q.URL.Query().Get("after")}
	if s := q.URL.Query().Get("limit"); s != "" {
		if page.Limit, err = strconv.Atoi(s); err != nil || page.Limit < 1 || page.Limit > 200 {
			return nil, rest.Invalid("limit must be a whole number from 1 to 200")
		}
	}
	list, err := all.Conversations(q.Context(), owner, page)
	if err != nil {
		return nil, err
	}
	body := struct {
		Conversations []conversationBody `json:"conversations"`
		Next          string             `json:"next"`
	}{Conversations: rest.Each(list, conversationOf)}
	if n := len(list); n == page.Limit {
		body.Next = list[n-1].ID
	}
	return body, nil
}

// conversation returns the conversation in the path.
func (w *Work) conversation(q *rest.Request) (Conversations, *conversation.Conversation, error) {
	all, owner, err := w.conversations(q)
	if err != nil {
		return nil, nil, err
	}
	c, err := all.Conversation(q.Context(), owner, q.PathValue("id"))
	return all, c, conversationError(err)
}

func (w *Work) getConversation(q *rest.Request) (any, error) {
	_, c, err := w.conversation(q)
	if err != nil {
		return nil, err
	}
	body := conversationOf(c)
	body.Turns = rest.Each(c.Turns, turnOf)
	return body, nil
}

func (w *Work) deleteConversation(q *rest.Request) (any, error) {
	all, owner, err := w.conversations(q)
	if err != nil {
		return nil, err
	}
	return nil, conversationError(all.Drop(q.Context(), owner, q.PathValue("id")))
}

// conversationOutput sends an output of the conversation, if it is still held.
func (w *Work) conversationOutput(q *rest.Request) (any, error) {
	all, c, err := w.conversation(q)
	if err != nil {
		return nil, err
	}
	sha := q.PathValue("sha256")
	for _, t := range c.Turns {
		for _, o := range t.Outputs {
			if o.SHA256 == "" || o.SHA256 != sha {
				continue
			}
			f, err := all.Output(sha)
			if err != nil {
				return nil, conversationError(err)
			}
			defer f.Close()
			rest.AsDownload(q.W.Header(), o.Name, o.MIME)
			q.W.Header().Set("ETag", `"`+sha+`"`)
			http.ServeContent(q.W, q.Request, "", t.Started, f)
			return rest.Answer{}, nil
		}
	}
	return nil, rest.ErrNotFound
}

func conversationOf(c *conversation.Conversation) conversationBody {
	s := c.Settings
	b := conversationBody{ID: c.ID, Title: c.Title, Provider: s.Provider, Model: s.Model, Tool: string(s.Tool),
		Project: s.Project, Phase: s.Phase, Keep: s.Keep,
		CreatedAt: rest.TimeOf(c.Created), UpdatedAt: rest.TimeOf(c.Updated)}
	if d := c.Cleaned; d != nil {
		b.Cleaned = &cleanedBody{rest.TimeOf(d.At), d.Deleted, d.Kept, append([]string{}, d.Left...)}
	}
	return b
}

func turnOf(t *conversation.Turn) turnBody {
	b := turnBody{
		Number: t.Number, State: string(t.State), StartedAt: rest.TimeOf(t.Started), EndedAt: rest.TimeOf(t.Ended),
		Prompt: t.Prompt,
		Text:   t.Text, Answer: t.Answer,
		Inputs: []inputBody{}, Steps: []stepBody{}, Outputs: []madeBody{}, Decisions: []decisionBody{},
		Missing: append([]string{}, t.Missing...), Notices: append([]string{}, t.Notices...),
		Receipts: append([]*workspace.Receipt{}, t.Receipts...),
		Reply:    t.Reply, Result: t.Result, Model: t.Model, Stop: string(t.Stop),
		Usage: usageBody{t.Usage.Input, t.Usage.Output, t.Usage.Cached}, Problem: t.Problem,
	}
	for _, in := range t.Inputs {
		b.Inputs = append(b.Inputs, inputBody{in.Path, in.Name, in.Size, in.MIME, in.SHA256, in.See, in.Asked, in.Problem})
	}
	for _, s := range t.Steps {
		b.Steps = append(b.Steps, stepBody{s.ID, s.Language, s.Code, s.Stdout, s.Stderr, s.ExitCode, string(s.Outcome),
			s.Detail})
	}
	for _, o := range t.Outputs {
		b.Outputs = append(b.Outputs, madeBody{o.ID, o.Name, o.Size, o.MIME, o.SHA256, string(o.State), o.Saved, o.Step,
			o.Problem})
	}
	for _, d := range t.Decisions {
		made := decisionBody{Kind: string(d.Ask.Kind), Text: d.Ask.Text, OK: d.Answer.OK, Picks: []string{},
			At: rest.TimeOf(d.At)}
		for _, p := range d.Answer.Picks {
			made.Picks = append(made.Picks, p.ID)
		}
		b.Decisions = append(b.Decisions, made)
	}
	return b
}
