package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/page"
)

// Ask configures the pages about conversations with models. Live, Client, Stored,
// Providers and Projects are required.
type Ask struct {
	Live *conversation.Live
	// Client returns a client of the service that acts for an owner. The page closes it.
	Client func(owner string) *client.Client
	// Stored opens an uploaded file. See conversation.HostOptions.
	Stored func(ctx context.Context, owner, id string) (conversation.File, error)
	// Providers returns all providers, including those that are not available.
	Providers func(ctx context.Context) []Model
	// Projects returns the projects whose folders an owner may use.
	Projects func(ctx context.Context, owner string) ([]changes.Link, error)
	// Settings are the settings of a new conversation. The page proposes their provider and
	// model.
	Settings conversation.Settings
	// Models asks a provider for its models; address is that of a server on this machine.
	// nil: not available.
	Models func(ctx context.Context, provider, address string) ([]string, error)
	Keys   ModelKeys // nil: keys cannot be entered in the page
}

// A Model is a provider, or a server of models on this machine.
type Model struct {
	Provider    string // its name: "openai"
	Title       string // "OpenAI"
	Destination string // where files go; empty: they stay on this machine
	Caps        provider.Capabilities
	// Missing says why it is not available, and Cure what to do; empty: it is available.
	Missing, Cure string

	URL     string   // of a model server on this machine, in addition to the configured one
	Models  []string // of a server; nil: see Ask.Models
	KeyFrom string   // the source of its key: "OPENAI_API_KEY"; empty: it has none
	Entered bool     // in the page
}

// askPage shows conversations with models.
type askPage struct {
	*page.Site
	*Ask
}

// add adds the pages to a site.
func (ask *Ask) add(s *page.Site) {
	p := &askPage{s, ask}
	s.Nav = append(s.Nav, page.Entry{Name: "ask", Title: "Ask", Path: "/ask", Operators: true, Machine: true})
	look := map[string]page.Handler{
		"/ask":                   p.list,
		"/ask-files/{project}":   p.folder,
		"/ask-models":            p.models,
		"/ask/{id}":              page.With(p.find, p.show),
		"/ask/{id}/events":       p.events,
		"/ask/{id}/turns/{turn}": page.With(p.find, p.turn),
		"/ask/{id}/turns/{turn}/outputs/{output}/replaces": p.replaces,
		"/ask/{id}/outputs/{sha256}":                       p.content,
		"/ask/{id}/outputs/{sha256}/preview":               p.preview,
	}
	for path, serve := range look {
		s.Mux.HandleFunc("GET "+path, s.Handle(p.guarded(serve)))
	}
	s.Mux.HandleFunc("POST /ask", s.Change(p.guarded(p.startConversation)))
	s.Mux.HandleFunc("POST /ask/{id}", s.Change(p.guarded(p.goOn)))
	act := map[string]page.Handler{
		"/ask/{id}/answers/{question}":            p.answer,
		"/ask/{id}/turns/{turn}/outputs/{output}": p.decideOutput,
		"/ask/{id}/stop":                          p.stop,
		"/ask/{id}/close":                         p.close,
		"/ask/{id}/delete":                        p.remove,
	}
	if ask.Keys != nil {
		act["/ask-keys"], act["/ask-keys/{provider}/forget"] = p.enter, p.forget
	}
	for path, serve := range act {
		s.Mux.HandleFunc("POST "+path, s.Decision(p.guarded(serve)))
	}
}

// guarded refuses all but operators: models are asked with the service's keys, and may read
// and write folders of its machine.
func (p *askPage) guarded(serve page.Handler) page.Handler {
	return func(w http.ResponseWriter, v *page.Request) error {
		if !v.Operator() {
			return page.Forbidden("Models are asked with this service's keys, and " +
				"may use folders of its machine. That takes a key with admin rights (`airlock keys create --admin`), or a " +
				"browser on the machine itself while there are no keys.")
		}
		if err := p.OnMachine(); err != nil {
			return err
		}
		return askProblem(serve(w, v))
	}
}

// askView is the list of conversations, or one of them.
type askView struct {
	Providers []modelView
	Projects  []changes.Link
	Form      askForm // what the form proposes
	MaxUpload int64
	Address   string // where the form goes

	Conversation *conversation.Conversation // nil: the list
	Who          string
	Turns        []turnView
	Open         bool // it is in progress here
	Running      bool // a turn is in progress
	Pending      []askedView
	Until        time.Time // when its session at the provider expires
	Kept         keptView  // of a closed conversation

	Past   []pastView
	Next   string
	Models []askForm // used before, with their providers

	Ready     bool // a provider is available
	Enterable bool // keys can be entered
}

// askForm has the fields of a form.
type askForm struct {
	Provider, Model, Tool, Project string
	Instructions                   string
}

// modelView is a provider with its abilities.
type modelView struct {
	Model
	Can []string
}

// pastView is a conversation in the list.
type pastView struct {
	*conversation.Conversation
	Who string
}

func (p *askPage) fill(v *page.Request, body *askView) (err error) {
	for _, m := range p.Providers(v.Context()) {
		body.Providers = append(body.Providers, modelView{m, abilities(m)})
		body.Ready = body.Ready || m.Missing == ""
	}
	body.Enterable = p.Keys != nil
	body.MaxUpload = p.MaxUpload
	body.Projects, err = p.Projects(v.Context(), v.Owner())
	return err
}

// Asks reports whether there is a model to ask, so that a prompt can be written.
func (v askView) Asks() bool { return v.Ready || v.Conversation != nil || !v.Enterable }

// who returns the names of the model and its provider.
func who(models []modelView, s conversation.Settings) string {
	for _, m := range models {
		if m.Provider == s.Provider && m.URL == s.ModelURL {
			return m.Title + " · " + s.Model
		}
	}
	return s.Provider + " · " + s.Model
}

// abilities lists what a provider can do.
func abilities(m Model) (can []string) {
	c := m.Caps
	var tools []string
	for _, t := range c.Tools {
		tools = append(tools, map[provider.Tool]string{provider.ToolPython: "Python", provider.ToolShell: "shell"}[t])
	}
	if len(tools) > 0 {
		can = append(can, "runs "+strings.Join(tools, " and "))
	}
	if c.Limits.Upload > 0 {
		can = append(can, "files up to "+page.ByteCount(c.Limits.Upload))
	}
	switch {
	case c.Sessions && c.IdleTTL > 0:
		can = append(can, "keeps its workspace between turns, "+page.Rough(c.IdleTTL)+" since the last use")
	case c.Sessions:
		can = append(can, "keeps its workspace between turns")
	default:
		can = append(can, "starts each turn with an empty workspace")
	}
	if c.See {
		can = append(can, "can be shown pictures")
	}
	if c.Functions {
		can = append(can, "can ask for files of a project")
	}
	if m.Destination == "" {
		can = append(can, "files stay on this machine")
	} else {
		can = append(can, "files go to "+m.Destination)
	}
	return can
}

const pastPerPage = 30

// list shows the list of conversations, and a form for a new one.
func (p *askPage) list(w http.ResponseWriter, v *page.Request) error {
	body := askView{Address: p.URL("/ask"), Form: askForm{
		Provider: p.Settings.Provider, Model: p.Settings.Model, Tool: string(provider.ToolAuto)}}
	if err := p.fill(v, &body); err != nil {
		return err
	}
	if err := p.past(v, &body); err != nil {
		return err
	}
	if body.Form.Provider == "" {
		p.propose(&body)
	}
	body.Models = modelsOf(body)
	p.Render(w, v, http.StatusOK, "ask", "Ask", body)
	return nil
}

// past fills in the list of conversations.
func (p *askPage) past(v *page.Request, body *askView) error {
	past, err := p.Live.Host.Conversations(v.Context(), v.Owner(),
		conversation.Page{Limit: pastPerPage, Before: v.URL.Query().Get("before")})
	for _, c := range past {
		body.Past = append(body.Past, pastView{c, who(body.Providers, c.Settings)})
	}
	if len(past) == pastPerPage {
		body.Next = past[len(past)-1].ID
	}
	return err
}

// modelsOf returns the models to propose: that of the settings, and those used before.
func modelsOf(body askView) (list []askForm) {
	add := func(m askForm) {
		if m.Model != "" && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	add(askForm{Provider: body.Form.Provider, Model: body.Form.Model})
	for _, c := range body.Past {
		add(askForm{Provider: idOf(body.Providers, c.Settings), Model: c.Settings.Model})
	}
	return list
}

// propose chooses the model that was used last, or the first available provider.
func (p *askPage) propose(body *askView) {
	ready := func(name string) bool {
		return slices.ContainsFunc(body.Providers, func(m modelView) bool { return m.ID() == name && m.Missing == "" })
	}
	for _, c := range body.Past {
		if id := idOf(body.Providers, c.Settings); ready(id) {
			body.Form.Provider, body.Form.Model = id, c.Settings.Model
			return
		}
	}
	for _, m := range body.Providers {
		if m.Missing == "" {
			body.Form.Provider = m.ID()
			return
		}
	}
}

// show shows a conversation, and a form to continue it.
func (p *askPage) show(w http.ResponseWriter, v *page.Request, c *conversation.Conversation) error {
	c, open, running, err := p.current(v, c)
	if err != nil {
		return err
	}
	body := askView{Conversation: c, Address: p.URL("/ask/" + c.ID), Open: open, Running: running}
	if err := p.fill(v, &body); err != nil {
		return err
	}
	if err := p.past(v, &body); err != nil {
		return err
	}
	body.Who = who(body.Providers, c.Settings)
	body.Form = askForm{Provider: c.Settings.Provider, Model: c.Settings.Model, Tool: string(c.Settings.Tool),
		Project: projectOf(c, body.Projects)}
	for _, t := range c.Turns {
		body.Turns = append(body.Turns, p.turnView(v, c, t, body.Projects, body.Running))
	}
	if body.Open {
		if pending, err := p.Live.Pending(v.Owner(), c.ID); err == nil { // else it has just been closed
			for _, q := range pending {
				body.Pending = append(body.Pending, p.askedView(v, c.ID, q))
			}
		}
		body.Until, _ = p.Live.Until(v.Owner(), c.ID) // zero if the session was just closed
	} else {
		body.Kept = p.kept(v, c)
	}
	p.Render(w, v, http.StatusOK, "ask", c.Title, body)
	return nil
}

// projectOf returns the last project of a conversation.
func projectOf(c *conversation.Conversation, projects []changes.Link) string {
	if c.Settings.Project != "" {
		return c.Settings.Project
	}
	for _, t := range slices.Backward(c.Turns) {
		for _, l := range projects {
			for _, d := range t.Decisions {
				if d.Ask.Folder == l.Root {
					return l.Project
				}
			}
			for _, in := range t.Inputs {
				if strings.HasPrefix(in.Local, l.Root+"/") {
					return l.Project
				}
			}
		}
	}
	return ""
}

// recordTime is how long a new conversation may be missing from the archive. Its first turn
// saves it.
const recordTime = 2 * time.Second

// find returns the conversation of the request.
func (p *askPage) find(v *page.Request) (*conversation.Conversation, error) {
	id := v.PathValue("id")
	ctx, cancel := context.WithTimeout(v.Context(), recordTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := p.Live.Host.Conversation(v.Context(), v.Owner(), id)
		if err == nil || !errors.Is(err, conversation.ErrNotFound) {
			return c, err
		}
		if open, _ := p.Live.Running(v.Owner(), id); !open {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// current returns a conversation as it is now, whether it is open, and whether a turn of it is running. A turn that has
// ended since the conversation was read has its end in the record, which is read once more.
func (p *askPage) current(
	v *page.Request, c *conversation.Conversation,
) (_ *conversation.Conversation, open, running bool, err error) {
	open, running = p.Live.Running(v.Owner(), c.ID)
	unfinished := func(t *conversation.Turn) bool { return t.State == conversation.TurnRunning }
	if !running && slices.ContainsFunc(c.Turns, unfinished) {
		c, err = p.Live.Host.Conversation(v.Context(), v.Owner(), c.ID)
	}
	return c, open, running, err
}

// turn answers with the record of a turn, for a script that has missed events.
func (p *askPage) turn(w http.ResponseWriter, v *page.Request, c *conversation.Conversation) error {
	c, _, running, err := p.current(v, c)
	if err != nil {
		return err
	}
	projects, err := p.Projects(v.Context(), v.Owner())
	if err != nil {
		return err
	}
	for _, t := range c.Turns {
		if fmt.Sprint(t.Number) == v.PathValue("turn") {
			part := "turn"
			if v.URL.Query().Get("part") == "outputs" {
				part = "outputs"
			}
			return p.SendPart(w, v, "ask", part, p.turnView(v, c, t, projects, running))
		}
	}
	return page.ErrNotFound
}
