package pages

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/pytool"
)

// events streams the events of a conversation, to any number of connections. A browser that
// lost its connection reconnects with the id of its last event. Numbers restart when a
// conversation is resumed, so an event's id begins with the number of the first turn since
// then, its epoch.
func (p *askPage) events(w http.ResponseWriter, v *page.Request) error {
	id := v.PathValue("id")
	epoch, after, err := lastSeen(v.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	events, err := p.Live.Follow(v.Context(), v.Owner(), id, 0, page.KeepAlive)
	if errors.Is(err, conversation.ErrNotFound) {
		if _, err := p.Live.Host.Conversation(v.Context(), v.Owner(), id); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent) // it is closed: the browser does not reconnect
		return nil
	}
	if err != nil {
		return err
	}
	projects, err := p.Projects(v.Context(), v.Owner())
	if err != nil {
		return err
	}
	page.StartEvents(w)
	s := &askStream{askPage: p, visit: v, id: id, projects: projects, seenEpoch: epoch, seen: after,
		asks: map[string]conversation.Ask{}}
	s.run(w, events)
	return nil
}

func lastSeen(text string) (epoch, after int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(text, ".")
	epoch, err1 := strconv.ParseInt(first, 10, 64)
	after, err2 := strconv.ParseInt(second, 10, 64)
	if err := errors.Join(err1, err2); err != nil || epoch < 0 || after < 0 {
		return 0, 0, page.Refuse(http.StatusBadRequest, "Last-Event-ID must be the number of an event.",
			"Load the page again.")
	}
	return epoch, after, nil
}

// textEvery is how often an unfinished answer is rendered.
const textEvery = 100 * time.Millisecond

// askStream is a connection to a conversation in progress. It reads all events to rebuild
// the state, and sends those that the visitor has not seen.
type askStream struct {
	*askPage
	visit    *page.Request
	id       string
	projects []changes.Link

	seenEpoch, seen int64
	epoch, last     int64
	frame           []byte

	turn   int
	steps  map[string]*liveStep
	asks   map[string]conversation.Ask
	folder string // of outputs, as the turn has asked

	text     strings.Builder // of the block that is being written
	block    int
	pending  bool // there is more text than was sent
	textSent time.Time
	partial  bool // events of the turn were dropped before the connection
}

// run writes events until the conversation is closed or the visitor leaves.
func (s *askStream) run(w http.ResponseWriter, events iter.Seq[conversation.Numbered]) {
	_, _ = io.WriteString(w, "retry: 500\n\n")
	page.WriteFrames(s.visit.Context(), w, events, textEvery, func(frame []byte, n conversation.Numbered) []byte {
		s.frame = frame
		s.addEvent(n)
		return s.frame
	}, func(frame []byte, _ bool) []byte {
		s.frame = frame
		if s.pending && time.Since(s.textSent) >= textEvery {
			s.sendText()
		}
		return s.frame
	})
}

// addEvent adds the frames of an event. Without one, a while has passed.
func (s *askStream) addEvent(n conversation.Numbered) {
	if n.Event == nil {
		s.frame = append(s.frame, ": keep-alive\n\n"...)
		return
	}
	if s.last == 0 {
		s.partial = n.ID > 1
		if b, ok := n.Event.(conversation.Begun); ok {
			s.epoch = int64(b.Turn)
		}
	}
	s.last = n.ID
	s.tell(n.Event)
}

// put adds an event to the frame, unless the visitor has seen it.
func (s *askStream) put(event string, data any) {
	if s.epoch == s.seenEpoch && s.last <= s.seen {
		return
	}
	s.frame = page.AppendData(fmt.Appendf(s.frame, "id: %d.%d\n", s.epoch, s.last), event, data)
}

// partBody is a part of the page and its place.
type partBody struct {
	Turn  int    `json:"turn"`
	Tab   int    `json:"tab,omitempty"`   // of code
	Block int    `json:"block,omitempty"` // of text
	ID    string `json:"id,omitempty"`    // of a question
	HTML  string `json:"html"`
	Words string `json:"words,omitempty"` // for screen readers
	After bool   `json:"after,omitempty"` // it is about the turn's outputs
}

// progressBody is the progress of a file.
type progressBody struct {
	Turn int    `json:"turn"`
	Name string `json:"name"`
	Path string `json:"path,omitempty"` // as the user named it
	Done int64  `json:"done"`
	Size int64  `json:"size"` // -1: not said
	Note string `json:"note,omitempty"`
}

// cleanedBody is the end of a conversation.
type cleanedBody struct {
	Turn int    `json:"turn"`
	HTML string `json:"html"`
	Kept string `json:"kept"` // the files that the next turn sends again
}

// endBody is the end of a turn.
type endBody struct {
	partBody
	State   string `json:"state"`
	Until   string `json:"until,omitempty"`   // when the session at the provider expires
	Partial bool   `json:"partial,omitempty"` // events were dropped: fetch the whole turn
}

func (s *askStream) render(name string, body any) string { return s.EventPart("ask", name, body) }

// sendText sends the text of the present block.
func (s *askStream) sendText() {
	began := time.Now()
	s.put("text", partBody{Turn: s.turn, Block: s.block, HTML: string(page.RenderAnswer(s.text.String()))})
	s.pending = false
	// A long text takes long to render, and must not delay all other events.
	s.textSent = time.Now().Add(10 * time.Since(began))
}

// paragraph ends the present block of text.
func (s *askStream) paragraph() {
	if s.pending {
		s.sendText()
	}
	if s.text.Len() > 0 {
		s.text.Reset()
		s.block++
	}
}

func (s *askStream) tell(e conversation.Event) {
	switch e := e.(type) {
	case conversation.Begun:
		s.begun(e)
	case conversation.Asked:
		s.paragraph()
		s.asks[e.Ask.ID] = e.Ask
		if e.Ask.Folder != "" {
			s.folder = e.Ask.Folder
		}
		s.refused(e.Ask)
		q := s.askedView(s.visit, s.id, e.Ask)
		s.put("asked", partBody{Turn: s.turn, ID: e.Ask.ID, HTML: s.render("question", q), Words: q.Title})
	case conversation.Answered:
		q := s.asks[e.Question]
		s.put("answered", partBody{Turn: s.turn, ID: e.Question, HTML: s.render("decided", decided(q, e.Answer)),
			After: afterwards(q)})
	case conversation.Uploading:
		s.put("uploading", progressBody{Turn: s.turn, Name: e.Name, Done: e.Sent, Size: e.Size})
	case conversation.Uploaded:
		note := sentNote(e.Upload)
		if e.Cached {
			note = "there already"
		}
		s.put("uploaded", progressBody{Turn: s.turn, Name: e.Upload.Name, Path: e.Upload.Path, Done: e.Upload.Size,
			Size: e.Upload.Size, Note: note})
	case provider.TextDelta:
		s.text.WriteString(e.Text)
		s.pending = true
	case provider.CodeDelta, provider.StepStarted, provider.OutputDelta, provider.StepDone, provider.FileFound:
		s.code(e)
	case conversation.Downloading:
		s.put("downloading", progressBody{Turn: s.turn, Name: e.Name, Done: e.Done, Size: e.Size})
	case conversation.Collected:
		s.made(e.Outputs, false, time.Time{})
	case conversation.Saved:
		s.made(e.Outputs, false, time.Time{})
	case conversation.ReplyProposed:
		s.put("notice", partBody{Turn: s.turn, HTML: s.render("proposed", s.URL("/review/"+e.Reply)), After: true})
	case conversation.Notice:
		if e.File != "" {
			return // the end of the turn says it, below the answer
		}
		s.put("notice", partBody{Turn: s.turn, HTML: s.render("notice", e)})
	case conversation.Ended:
		s.ended(e.Turn)
	case conversation.CleanedUp:
		s.put("cleaned", cleanedBody{s.turn, s.render("cleaned", e.Cleaned), s.kept()})
	}
}

func (s *askStream) kept() string {
	c, err := s.Live.Host.Conversation(s.visit.Context(), s.visit.Owner(), s.id)
	if err != nil {
		return "" // it was deleted
	}
	return s.render("kept", s.askPage.kept(s.visit, c))
}

// refused sends the files of a question that were not sent to the provider.
func (s *askStream) refused(q conversation.Ask) {
	for _, f := range q.Files {
		switch {
		case q.Kind == conversation.AskSkip && f.Problem != nil:
			s.put("refused", progressBody{Turn: s.turn, Name: f.Name, Path: f.Path, Size: f.Size,
				Note: "not sent: " + f.Problem.Message})
		case q.Kind == conversation.AskInline:
			s.put("refused", progressBody{Turn: s.turn, Name: f.Name, Path: f.Path, Size: f.Size, Note: "not sent yet"})
		}
	}
}

func (s *askStream) begun(e conversation.Begun) {
	s.turn, s.steps, s.block, s.folder = e.Turn, map[string]*liveStep{}, 1, ""
	s.text.Reset()
	s.pending, s.partial = false, false
	view := turnView{Turn: &conversation.Turn{Number: e.Turn, State: conversation.TurnRunning, Prompt: e.Prompt},
		Live: true, Words: "running", Class: "running"}
	s.put("turn", partBody{Turn: e.Turn, HTML: s.render("turn", view)})
}

// made sends the outputs of the turn; over: it has ended, at a time.
func (s *askStream) made(list []conversation.Output, over bool, at time.Time) {
	s.paragraph()
	project := ""
	for _, l := range s.projects {
		if l.Root == s.folder {
			project = l.Project
		}
	}
	view := s.outputsOf(s.visit, s.id, s.turn, list, s.projects, project, over, at)
	s.put("outputs", partBody{Turn: s.turn, HTML: s.render("outputs", view)})
}

func (s *askStream) ended(t *conversation.Turn) {
	s.paragraph()
	if t.State == conversation.TurnRunning {
		return // its record has the end
	}
	s.turn = t.Number
	s.made(t.Outputs, true, t.Ended)
	view := turnView{Turn: t, History: savedInto(t, s.projects)}
	view.Words, view.Class = turnWords(t)
	end := endBody{partBody: partBody{Turn: t.Number, HTML: s.render("end", view),
		Words: "The turn has ended: " + view.Words + "."}, State: string(t.State), Partial: s.partial}
	if until, _ := s.Live.Until(s.visit.Owner(), s.id); !until.IsZero() { // zero if the session was just closed
		end.Until = until.UTC().Format(time.RFC3339)
	}
	s.put("ended", end)
}

// liveStep is a step of a turn in progress.
type liveStep struct {
	tab     int // its place in the turn, from 1 on
	tool    bool
	started bool
	printed bool // its output was streamed
}

// codeBody is code, or more of it, as text.
type codeBody struct {
	Turn     int    `json:"turn"`
	Tab      int    `json:"tab"`
	Language string `json:"language"`
	Code     string `json:"code"`
}

// printedBody is output of running code.
type printedBody struct {
	Turn   int    `json:"turn"`
	Tab    int    `json:"tab"`
	Stream string `json:"stream"`
	Data   string `json:"data"`
}

func (s *askStream) step(id string) *liveStep {
	if s.steps == nil { // the event that begins the turn was dropped
		s.steps = map[string]*liveStep{}
	}
	step, ok := s.steps[id]
	if !ok {
		s.paragraph()
		step = &liveStep{tab: len(s.steps) + 1}
		s.steps[id] = step
	}
	return step
}

// code sends events about code. For the run_python tool the page gets the tool's own
// packets, whose placement names the turn and the step.
func (s *askStream) code(e conversation.Event) {
	switch e := e.(type) {
	case provider.CodeDelta:
		step := s.step(e.StepID)
		s.put("code", codeBody{s.turn, step.tab, languageTitle(e.Language), e.Code})
	case provider.StepStarted:
		s.start(s.step(e.Step.ID), e.Step)
	case provider.OutputDelta:
		step := s.step(e.StepID)
		step.printed = true
		s.print(step, e.Stream, e.Data)
	case provider.FileFound:
		if step, ok := s.steps[e.Artifact.StepID]; ok && step.tool {
			s.packet(step, pytool.ToolDelta{Type: "python_tool_delta", FileIDs: []string{e.Artifact.Ref.ID}})
		}
		s.put("found", progressBody{Turn: s.turn, Name: e.Artifact.Name, Size: e.Artifact.Size})
	case provider.StepDone:
		s.end(s.step(e.Step.ID), e.Step)
	}
}

func (s *askStream) start(step *liveStep, is provider.Step) {
	step.started, step.tool = true, is.Tool == pytool.Name
	if step.tool {
		s.packet(step, pytool.ToolStart{Type: "python_tool_start", Code: is.Code})
	} else {
		s.put("started", codeBody{s.turn, step.tab, languageTitle(is.Language), is.Code})
	}
	s.put("highlight", partBody{Turn: s.turn, Tab: step.tab, HTML: string(page.Highlight(is.Language, is.Code))})
}

func (s *askStream) print(step *liveStep, stream, data string) {
	if !step.tool {
		s.put("output", printedBody{s.turn, step.tab, stream, data})
		return
	}
	delta := pytool.ToolDelta{Type: "python_tool_delta", Stdout: data, FileIDs: []string{}}
	if stream == "stderr" {
		delta.Stdout, delta.Stderr = "", data
	}
	s.packet(step, delta)
}

func (s *askStream) end(step *liveStep, is provider.Step) {
	if !step.started {
		s.start(step, is)
	}
	if !step.printed {
		for stream, data := range map[string]string{"stdout": is.Stdout, "stderr": is.Stderr} {
			if data != "" {
				s.print(step, stream, data)
			}
		}
	}
	if step.tool {
		s.packet(step, pytool.SectionEnd{Type: "section_end"})
	}
	view := stepOf(s.turn, step.tab, is)
	s.put("result", partBody{Turn: s.turn, Tab: step.tab, HTML: s.render("outcome", view)})
}

func (s *askStream) packet(step *liveStep, obj any) {
	s.put("packet", pytool.Packet{Placement: pytool.Placement{TurnIndex: s.turn, TabIndex: step.tab}, Obj: obj})
}
