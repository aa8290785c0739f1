package web

import (
	"fmt"
	"html/template"
	"path/filepath"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/provider"
)

// turnView is a turn as it is shown.
type turnView struct {
	*conversation.Turn
	Chat    string // address of the conversation
	Live    bool   // it goes on: what comes is in the stream of events
	Sent    []sentView
	Parts   []turnPart
	Before  []aside // decisions and notices, before code ran
	After   []aside // and about what it made
	Made    outputsView
	Words   string // how it ended
	Class   string
	Left    []string           // names that were promised and are nowhere
	Review  string             // address of the proposal that the reply became
	History *conversation.Link // of the folder that files were saved into
}

// stepView is one execution of code.
type stepView struct {
	ID       string
	Language string
	Code     template.HTML
	Stdout   string
	Stderr   string
	Warning  bool // what is on stderr is no failure
	Words    string
	Class    string
	Detail   string
	Took     time.Duration
	Running  bool
}

// outputsView are the files of a turn.
type outputsView struct {
	Turn  int
	Files []outputView
}

// outputView is a file that the code made.
type outputView struct {
	conversation.Output
	Token   string
	Chat    string
	Turn    int
	URL     string // of its content; empty: it is not here
	Kind    string // how it can be looked at
	Words   string // what became of it
	Class   string
	Where   string // the file that it was saved as, below its project
	Settled bool   // nothing can be decided
	Clash   bool   // another file has the name
	Project string // the last one
	Folders []conversation.Link
	Until   time.Time // when it goes, unless it is saved
}

func (p *askPage) turnView(
	v *webRequest, c *conversation.Conversation, t *conversation.Turn, projects []conversation.Link, running bool,
) turnView {
	chat := p.address("/ask/" + c.ID)
	view := turnView{Turn: t, Chat: chat, Sent: sentOf(t.Inputs), History: savedInto(t, projects),
		Live: t.State == conversation.TurnRunning && running, Left: t.Missing}
	if view.Live {
		view.Words, view.Class = "running", "running"
		return view
	}
	view.Parts = partsOf(t)
	view.Before, view.After = asidesOf(t)
	view.Words, view.Class = turnWords(t)
	view.Made = p.outputs(v, c, t, projects)
	if t.Reply != "" {
		view.Review = p.address("/review/" + t.Reply)
	}
	return view
}

// turnWords says how a turn has ended.
func turnWords(t *conversation.Turn) (words, class string) {
	switch t.State {
	case conversation.TurnDone:
		return "done", "ok"
	case conversation.TurnInterrupted:
		return "stopped", "interrupted"
	case conversation.TurnRunning: // but not here
		return "cut short: the service was stopped while it ran", "interrupted"
	}
	if t.Problem != nil && t.Problem.Kind == "declined" {
		return "not sent", "cancelled"
	}
	return "failed", "error"
}

// stepOf is a step that has ended.
func stepOf(turn, number int, s provider.Step) stepView {
	view := stepView{ID: fmt.Sprintf("step-%d-%d", turn, number), Language: languageTitle(s.Language),
		Code:   highlight(s.Language, s.Code),
		Stdout: plainText(s.Stdout), Stderr: plainText(s.Stderr)}
	if s.Outcome != provider.OutcomeOK {
		view.Detail = s.Detail // of code that went well it says no more than that
	}
	view.Warning = s.Outcome == provider.OutcomeOK && s.Stderr != ""
	view.Words, view.Class = outcomeOf(s)
	if !s.Started.IsZero() && s.Ended.After(s.Started) {
		view.Took = s.Ended.Sub(s.Started)
	}
	return view
}

// outcomeOf says how a step has ended: the provider-wide word for it, and what
// makes it precise.
func outcomeOf(s provider.Step) (words, class string) {
	words = string(s.Outcome)
	switch s.Outcome {
	case provider.OutcomeOK:
		class = "ok"
	case provider.OutcomeFailed:
		class = "error"
		if s.ExitCode != nil {
			words += fmt.Sprintf(", exit code %d", *s.ExitCode)
		}
	case provider.OutcomeTimeout:
		words, class = words+", it ran out of time", "timeout"
	case provider.OutcomeUnavailable:
		words, class = words+", it could not be run", "error"
	case provider.OutcomeOutputTooLarge:
		words, class = words+", it printed too much", "weaker"
	default:
		class = "unknown"
	}
	return words, class
}

func languageTitle(name string) string {
	if title, ok := map[string]string{"python": "Python", "bash": "Bash", "sh": "Shell", "javascript": "JavaScript",
		"": "Code"}[strings.ToLower(name)]; ok {
		return title
	}
	return name
}

func (p *askPage) outputs(
	v *webRequest, c *conversation.Conversation, t *conversation.Turn, projects []conversation.Link,
) outputsView {
	return p.outputsOf(v, c.ID, t.Number, t.Outputs, projects, projectOf(c, projects), t.State != conversation.TurnRunning,
		t.Ended)
}

// outputsOf are outputs of a turn. As long as it continues there is nothing to
// decide but what it asks.
func (p *askPage) outputsOf(
	v *webRequest, id string, turn int, list []conversation.Output, projects []conversation.Link, project string,
	over bool, since time.Time,
) outputsView {
	view := outputsView{Turn: turn}
	for _, o := range list {
		f := outputView{Output: o, Token: p.signIns.token(v.cookie), Chat: p.address("/ask/" + id), Turn: turn,
			Folders: projects, Project: project}
		f.Words, f.Class = outputWords(o)
		f.Where = o.Saved
		for _, l := range projects {
			if below, err := filepath.Rel(l.Root, o.Saved); o.Saved != "" && err == nil && filepath.IsLocal(below) {
				f.Where = l.Project + ": " + filepath.ToSlash(below)
			}
		}
		if o.SHA256 != "" {
			f.URL, f.Kind = f.Chat+"/outputs/"+o.SHA256, previewKind(engine.File{Name: o.Name, MIME: p.typeOf(o)})
		}
		gone := o.State == conversation.OutputSaved || o.State == conversation.OutputUnchanged
		f.Settled, f.Clash = !over || gone || o.SHA256 == "", o.State == conversation.OutputExists
		if !gone && over && o.SHA256 != "" && !since.IsZero() {
			f.Until = since.Add(p.Live.Host().Held())
		}
		view.Files = append(view.Files, f)
	}
	return view
}

// outputWords says what became of an output.
func outputWords(o conversation.Output) (words, class string) {
	switch o.State {
	case conversation.OutputSaved:
		return "saved", "ok"
	case conversation.OutputUnchanged:
		return "already there", "ok"
	case conversation.OutputExists:
		return "a file has this name", "weaker"
	case conversation.OutputDeclined:
		return "discarded", ""
	case conversation.OutputRefused:
		return "refused", "error"
	case conversation.OutputFailed:
		if o.SHA256 == "" {
			return "not fetched", "error"
		}
		return "not saved", "error"
	}
	return "", ""
}
