package pages

import (
	"fmt"
	"html/template"
	"path/filepath"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/page"
)

// turnView is a turn for the page.
type turnView struct {
	*conversation.Turn
	Chat    string // address of the conversation
	Live    bool   // it is in progress: the stream of events has the rest
	Sent    []sentView
	Parts   []turnPart
	Before  []aside // decisions and notices before code ran
	After   []aside // and those about its outputs
	Made    outputsView
	Words   string // how it ended
	Class   string
	Review  string        // address of the reply's proposal
	History *changes.Link // of the folder that files were saved into
}

// stepView is one execution of code.
type stepView struct {
	ID       string
	Language string
	Code     template.HTML
	Stdout   string
	Stderr   string
	Warning  bool // the step succeeded, and wrote to stderr
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

// outputView is an output of the code.
type outputView struct {
	conversation.Output
	Token   string
	Chat    string
	Turn    int
	URL     string // of its content; empty: it is not available
	Kind    string // of its preview
	Words   string // its state
	Class   string
	Where   string // the file that it was saved as, below its project
	Settled bool   // nothing can be decided
	Clash   bool   // another file has the name
	Project string // the last one
	Folders []changes.Link
	Until   time.Time // when it expires, unless it is saved
}

func (p *askPage) turnView(
	v *page.Request, c *conversation.Conversation, t *conversation.Turn, projects []changes.Link, running bool,
) turnView {
	chat := p.URL("/ask/" + c.ID)
	view := turnView{Turn: t, Chat: chat, Sent: sentOf(t.Inputs), History: savedInto(t, projects),
		Live: t.State == conversation.TurnRunning && running}
	if view.Live {
		view.Words, view.Class = "running", "running"
		return view
	}
	view.Parts = partsOf(t)
	view.Before, view.After = asidesOf(t)
	view.Words, view.Class = turnWords(t)
	view.Made = p.outputs(v, c, t, projects)
	if t.Reply != "" {
		view.Review = p.URL("/review/" + t.Reply)
	}
	return view
}

// turnWords returns how a turn has ended.
func turnWords(t *conversation.Turn) (words, class string) {
	switch t.State {
	case conversation.TurnDone:
		return "done", "ok"
	case conversation.TurnInterrupted:
		return "stopped", "interrupted"
	case conversation.TurnRunning: // and its process has ended
		return "cut short: the service was stopped while it ran", "interrupted"
	}
	if t.Problem != nil && t.Problem.Kind == "declined" {
		return "not sent", "cancelled"
	}
	return "failed", "error"
}

// stepOf returns the view of a step that has ended.
func stepOf(turn, number int, s provider.Step) stepView {
	view := stepView{ID: fmt.Sprintf("step-%d-%d", turn, number), Language: languageTitle(s.Language),
		Code:   page.Highlight(s.Language, s.Code),
		Stdout: page.PlainText(s.Stdout), Stderr: page.PlainText(s.Stderr)}
	if s.Outcome != provider.OutcomeOK {
		view.Detail = s.Detail // of a step that succeeded it says only that
	}
	view.Warning = s.Outcome == provider.OutcomeOK && s.Stderr != ""
	view.Words, view.Class = outcomeOf(s)
	if !s.Started.IsZero() && s.Ended.After(s.Started) {
		view.Took = s.Ended.Sub(s.Started)
	}
	return view
}

// outcomeOf returns how a step has ended: the word that all providers have in common, and
// details.
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
	case provider.OutcomeCancelled:
		words, class = "stopped", "cancelled"
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
	v *page.Request, c *conversation.Conversation, t *conversation.Turn, projects []changes.Link,
) outputsView {
	return p.outputsOf(v, c.ID, t.Number, t.Outputs, projects, projectOf(c, projects), t.State != conversation.TurnRunning,
		t.Ended)
}

// outputsOf returns the outputs of a turn. During the turn only its questions decide about
// them.
func (p *askPage) outputsOf(
	v *page.Request, id string, turn int, list []conversation.Output, projects []changes.Link, project string,
	over bool, since time.Time,
) outputsView {
	view := outputsView{Turn: turn}
	for _, o := range list {
		f := outputView{Output: o, Token: p.FormToken(v), Chat: p.URL("/ask/" + id), Turn: turn,
			Folders: projects, Project: project}
		f.Words, f.Class = outputWords(o)
		f.Where = o.Saved
		if l, below := projectWith(projects, o.Saved); l != nil {
			f.Where = l.Project + ": " + filepath.ToSlash(below)
		}
		if o.SHA256 != "" {
			f.URL, f.Kind = f.Chat+"/outputs/"+o.SHA256, page.PreviewKind(p.infoOf(o))
		}
		gone := o.State == conversation.OutputSaved || o.State == conversation.OutputUnchanged
		f.Settled, f.Clash = !over || gone || o.SHA256 == "", o.State == conversation.OutputExists
		if !gone && over && o.SHA256 != "" && !since.IsZero() {
			f.Until = since.Add(conversation.HoldOutputs)
		}
		view.Files = append(view.Files, f)
	}
	return view
}

// wording is a state in words, with its CSS class.
type wording struct{ words, class string }

// outputWords returns the state of an output.
func outputWords(o conversation.Output) (words, class string) {
	if o.State == conversation.OutputFailed && o.SHA256 == "" {
		return "not fetched", "error"
	}
	w := outputStates[o.State]
	return w.words, w.class
}

var outputStates = map[conversation.OutputState]wording{
	conversation.OutputSaved: {"saved", "ok"}, conversation.OutputUnchanged: {"already there", "ok"},
	conversation.OutputExists: {"a file has this name", "weaker"}, conversation.OutputDeclined: {"discarded", ""},
	conversation.OutputRefused: {"refused", "error"}, conversation.OutputFailed: {"not saved", "error"},
}

// turnPart is text of an answer, or code between texts.
type turnPart struct {
	Step *stepView // nil: it is text
	Text template.HTML
}

// partsOf returns the text and the steps of a turn in their order.
func partsOf(t *conversation.Turn) (parts []turnPart) {
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			parts = append(parts, turnPart{Text: page.RenderAnswer(text)})
		}
	}
	at := map[string]int{}
	for _, p := range t.Order {
		at[p.Step] = min(p.At, len(t.Text))
	}
	done := 0
	for i, s := range t.Steps {
		if before := at[s.ID]; before > done {
			add(t.Text[done:before])
			done = before
		}
		parts = append(parts, turnPart{Step: new(stepOf(t.Number, i+1, s))})
	}
	add(t.Text[done:])
	return parts
}

// sentView is an input of a turn.
type sentView struct {
	conversation.Upload
	Note string
}

func sentOf(inputs []conversation.Upload) (list []sentView) {
	for _, in := range inputs {
		list = append(list, sentView{in, sentNote(in)})
	}
	return list
}

// sentNote returns how the model's code got a file.
func sentNote(u conversation.Upload) string {
	note := "sent"
	switch {
	case u.Remote.Scope == provider.ScopeInline:
		note = "travels within the request"
	case u.Remote.Provider == provider.Local:
		note = "given to its code"
	}
	if u.Asked {
		note += ", which the model asked for"
	}
	return note
}

// savedInto returns the project that a turn's outputs were saved into, whose history can
// revert that.
func savedInto(t *conversation.Turn, projects []changes.Link) *changes.Link {
	if len(t.Receipts) == 0 {
		return nil
	}
	for _, o := range t.Outputs {
		if l, _ := projectWith(projects, o.Saved); l != nil {
			return l
		}
	}
	return nil
}

// projectWith returns the project with a file, and the file's path in it; nil if none has it.
func projectWith(projects []changes.Link, file string) (l *changes.Link, below string) {
	for i := range projects {
		if below, err := filepath.Rel(projects[i].Root, file); file != "" && err == nil && filepath.IsLocal(below) {
			return &projects[i], below
		}
	}
	return nil, ""
}

// aside is a decision or a notice beside the answer.
type aside struct {
	Text    string
	Decided bool
}

// asidesOf returns the decisions and notices of a turn in their order, with the decisions
// about its outputs apart.
func asidesOf(t *conversation.Turn) (before, after []aside) {
	done := 0
	notices := func(until int) {
		for ; done < min(until, len(t.Notices)); done++ {
			before = append(before, aside{Text: t.Notices[done]})
		}
	}
	for _, d := range t.Decisions {
		line := aside{decided(d.Ask, d.Answer), true}
		if afterwards(d.Ask) {
			after = append(after, line)
			continue
		}
		notices(d.Notices)
		before = append(before, line)
	}
	notices(len(t.Notices))
	return before, after
}
