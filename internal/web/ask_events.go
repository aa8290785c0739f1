package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
)

// events sends what happens in a conversation, as it happens, to as many as
// look. A browser that lost the connection comes back by itself and says which
// event was its last. Numbers begin anew when a conversation is taken up
// again, so an event's id has the number of the first turn before its own.
func (p *askPage) events(w http.ResponseWriter, v *webRequest) error {
	id := v.PathValue("id")
	era, after, err := lastSeen(v.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	events, err := p.Live.Follow(v.Context(), p.owner(v), id, 0, keepAlive)
	if errors.Is(err, conversation.ErrNotFound) {
		if _, err := p.Live.Host().Conversation(v.Context(), p.owner(v), id); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent) // nothing goes on: the browser does not come back
		return nil
	}
	if err != nil {
		return err
	}
	projects, err := p.Projects(v.Context(), p.owner(v))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	s := &askStream{askPage: p, visit: v, id: id, projects: projects, seenEra: era, seen: after,
		asks: map[string]conversation.Ask{}}
	s.run(w, events)
	return nil
}

func lastSeen(text string) (era, after int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(text, ".")
	era, err1 := strconv.ParseInt(first, 10, 64)
	after, err2 := strconv.ParseInt(second, 10, 64)
	if err := errors.Join(err1, err2); err != nil || era < 0 || after < 0 {
		return 0, 0, refuse(http.StatusBadRequest, "Last-Event-ID must be the number of an event.", "Load the page again.")
	}
	return era, after, nil
}

// textEvery is how often an answer that is being written is rendered anew.
const textEvery = 100 * time.Millisecond

// askStream is one visitor's view of a conversation that continues. It takes in
// all events, so that it knows what the earlier ones have built, and sends
// those that this visitor has not seen.
type askStream struct {
	*askPage
	visit    *webRequest
	id       string
	projects []conversation.Link

	seenEra, seen int64
	era, last     int64
	frame         []byte

	turn   int
	steps  map[string]*liveStep
	asks   map[string]conversation.Ask
	folder string // of outputs, as the turn has asked

	text     strings.Builder // of the block that is being written
	block    int
	unsaid   bool // there is more text than was sent
	lastSaid time.Time
	partial  bool // events of the turn were dropped before we came
}

// run writes events until the conversation is closed or the visitor leaves.
func (s *askStream) run(w http.ResponseWriter, events iter.Seq[conversation.Numbered]) {
	out := http.NewResponseController(w)
	if _, err := w.Write([]byte("retry: 500\n\n")); err != nil || out.Flush() != nil {
		return
	}
	// Following blocks while nothing happens, and meanwhile text that waits
	// must go out: one goroutine waits for events and ends with us.
	ctx, cancel := context.WithCancel(s.visit.Context())
	next := make(chan conversation.Numbered, 256)
	var pump sync.WaitGroup
	defer pump.Wait()
	defer cancel()
	pump.Go(func() {
		defer close(next)
		for n := range events {
			select {
			case next <- n:
			case <-ctx.Done():
				return
			}
		}
	})
	tick := time.NewTicker(textEvery)
	defer tick.Stop()
	for {
		more := true
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !s.unsaid {
				continue
			}
		case n, open := <-next:
			if more = open; open {
				s.take(n)
			}
			// What is there already goes out together.
			for more && len(next) > 0 && len(s.frame) < 128<<10 {
				s.take(<-next)
			}
		}
		if s.unsaid && time.Since(s.lastSaid) >= textEvery {
			s.say()
		}
		if len(s.frame) > 0 {
			if _, err := w.Write(s.frame); err != nil || out.Flush() != nil {
				return
			}
			s.frame = s.frame[:0]
		}
		if !more {
			return
		}
	}
}

func (s *askStream) take(n conversation.Numbered) {
	if n.Event == nil {
		s.frame = append(s.frame, ": keep-alive\n\n"...)
		return
	}
	if s.last == 0 {
		s.partial = n.ID > 1
		if b, ok := n.Event.(conversation.Begun); ok {
			s.era = int64(b.Turn)
		}
	}
	s.last = n.ID
	s.tell(n.Event)
}

// put adds an event to the frame, unless the visitor has seen it. JSON has no
// line breaks, so nothing that a model or a program writes can forge one.
func (s *askStream) put(event string, data any) {
	if s.era == s.seenEra && s.last <= s.seen {
		return
	}
	text, err := json.Marshal(data)
	if err != nil {
		s.Log.Error("an event could not be written", "event", event, "err", err)
		return
	}
	s.frame = fmt.Appendf(s.frame, "id: %d.%d\nevent: %s\ndata: %s\n\n", s.era, s.last, event, text)
}

// partBody is a part of the page and where it belongs.
type partBody struct {
	Turn  int    `json:"turn"`
	Tab   int    `json:"tab,omitempty"`   // of code
	Block int    `json:"block,omitempty"` // of text
	ID    string `json:"id,omitempty"`    // of a question
	HTML  string `json:"html"`
	Words string `json:"words,omitempty"` // for who listens to the page
	After bool   `json:"after,omitempty"` // it is about what the turn has made
}

// progressBody is how far a file is.
type progressBody struct {
	Turn int    `json:"turn"`
	Name string `json:"name"`
	Path string `json:"path,omitempty"` // as the person knows it
	Done int64  `json:"done"`
	Size int64  `json:"size"` // -1: not said
	Note string `json:"note,omitempty"`
}

// cleanedBody is the end of a conversation.
type cleanedBody struct {
	Turn int    `json:"turn"`
	HTML string `json:"html"`
	Kept string `json:"kept"` // what of its files the next turn brings again
}

// endBody is the end of a turn.
type endBody struct {
	partBody
	State   string `json:"state"`
	Until   string `json:"until,omitempty"`   // when what is at the provider goes
	Partial bool   `json:"partial,omitempty"` // events were dropped: the whole is to be fetched
}

// render is part, for which an error has no other place to go.
func (s *askStream) render(name string, body any) string {
	text, err := s.part(name, body)
	if err != nil {
		s.Log.Error("a part of the page could not be made", "part", name, "err", err)
		return `<p class="problem">This could not be shown. Load the page again.</p>`
	}
	return text
}

// say sends the text that is being written, as far as it has come.
func (s *askStream) say() {
	began := time.Now()
	s.put("text", partBody{Turn: s.turn, Block: s.block, HTML: string(say(s.text.String()))})
	s.unsaid = false
	// A long text takes long to render, and may not keep us from all else.
	s.lastSaid = time.Now().Add(10 * time.Since(began))
}

// paragraph ends the text that was being written.
func (s *askStream) paragraph() {
	if s.unsaid {
		s.say()
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
		s.unsaid = true
	case provider.CodeDelta, provider.StepStarted, provider.OutputDelta, provider.StepDone, provider.FileFound:
		s.code(e)
	case conversation.Downloading:
		s.put("downloading", progressBody{Turn: s.turn, Name: e.Name, Done: e.Done, Size: e.Size})
	case conversation.Collected:
		s.made(e.Outputs)
	case conversation.Saved:
		s.made(e.Outputs)
	case conversation.ReplyProposed:
		s.put("notice", partBody{Turn: s.turn, HTML: s.render("proposed", s.address("/review/"+e.Reply)), After: true})
	case conversation.Notice:
		s.put("notice", partBody{Turn: s.turn, HTML: s.render("notice", e)})
	case conversation.Ended:
		s.ended(e.Turn)
	case conversation.CleanedUp:
		s.put("cleaned", cleanedBody{s.turn, s.render("cleaned", e.Cleaned), s.kept()})
	}
}

func (s *askStream) kept() string {
	c, err := s.Live.Host().Conversation(s.visit.Context(), s.owner(s.visit), s.id)
	if err != nil {
		return "" // it was deleted
	}
	return s.render("kept", s.askPage.kept(s.visit, c))
}

// refused tells of files that did not go, about which the turn asks.
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
	s.unsaid, s.partial = false, false
	view := turnView{Turn: &conversation.Turn{Number: e.Turn, State: conversation.TurnRunning, Prompt: e.Prompt},
		Live: true, Words: "running", Class: "running"}
	s.put("turn", partBody{Turn: e.Turn, HTML: s.render("turn", view)})
}

func (s *askStream) made(list []conversation.Output) {
	s.paragraph()
	project := ""
	for _, l := range s.projects {
		if l.Root == s.folder {
			project = l.Project
		}
	}
	view := s.outputsOf(s.visit, s.id, s.turn, list, s.projects, project, false, time.Time{})
	s.put("outputs", partBody{Turn: s.turn, HTML: s.render("outputs", view)})
}

func (s *askStream) ended(t *conversation.Turn) {
	s.paragraph()
	if t.State == conversation.TurnRunning {
		return // what is kept says how it ended
	}
	view := turnView{Turn: t, History: savedInto(t, s.projects)}
	view.Words, view.Class = turnWords(t)
	project := ""
	for _, l := range s.projects {
		if l.Root == s.folder {
			project = l.Project
		}
	}
	outputs := s.outputsOf(s.visit, s.id, t.Number, t.Outputs, s.projects, project, true, t.Ended)
	s.put("outputs", partBody{Turn: t.Number, HTML: s.render("outputs", outputs)})
	end := endBody{partBody: partBody{Turn: t.Number, HTML: s.render("end", view),
		Words: "The turn has ended: " + view.Words + "."}, State: string(t.State), Partial: s.partial}
	if until := s.until(s.visit, s.id); !until.IsZero() {
		end.Until = until.UTC().Format(time.RFC3339)
	}
	s.put("ended", end)
}
