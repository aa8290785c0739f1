package pages

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// decided returns the user's decision in a sentence.
func decided(q conversation.Ask, a conversation.Answer) string {
	picked := len(q.Files)
	if q.Kind == conversation.AskSave {
		picked = len(q.Outputs)
	}
	if a.Picks != nil || q.Kind == conversation.AskMore {
		picked = 0
		for _, pick := range a.Picks {
			if pick.Clash != conversation.ClashSkip {
				picked++
			}
		}
	}
	switch q.Kind {
	case conversation.AskSend:
		if a.OK && picked > 0 {
			return fmt.Sprintf("You agreed to send %s to %s.", ofThem(picked, len(q.Files)), q.Destination)
		}
		return "You did not agree to send files to " + q.Destination + "."
	case conversation.AskSkip:
		if a.OK {
			return "You went on without " + page.Count(len(q.Files), "file") + " that could not be sent."
		}
		return "You stopped, since files could not be sent."
	case conversation.AskInline:
		if a.OK && picked > 0 {
			return fmt.Sprintf("You agreed to send %s within the request to %s.", ofThem(picked, len(q.Files)), q.Destination)
		}
		return "You did not agree to send files within the request."
	case conversation.AskMore:
		if a.OK && picked > 0 {
			return fmt.Sprintf("You gave the model %s that it asked for.", ofThem(picked, len(q.Files)))
		}
		return "You gave the model none of the files that it asked for."
	case conversation.AskSave:
		folder := q.Folder
		if a.Folder != "" {
			folder = a.Folder
		}
		if a.OK && picked > 0 {
			return fmt.Sprintf("You agreed to save %s into %s.", ofThem(picked, len(q.Outputs)), folder)
		}
		return "You saved none of the files."
	case conversation.AskApply:
		switch {
		case a.Later:
			return "You left the changes of the project for review."
		case a.OK:
			return "You agreed to the changes of the project."
		}
		return "You declined the changes of the project."
	}
	return q.Text
}

// afterwards reports whether a question is about the outputs of a turn.
func afterwards(q conversation.Ask) bool {
	return q.Kind == conversation.AskSave || q.Kind == conversation.AskApply
}

func ofThem(n, all int) string {
	if n == all {
		return page.Count(n, "file")
	}
	return fmt.Sprintf("%d of %s", n, page.Count(all, "file"))
}

// askedView is a question that waits for an answer.
type askedView struct {
	conversation.Ask
	Token  string
	Chat   string
	Title  string
	Lead   string
	Saves  []saveAsked
	Change []changeAsked // files that a reply would change
	More   int           // changed files beyond those
}

// saveAsked is an output that may be saved.
type saveAsked struct {
	conversation.OutputAsked
	Path    string      // for display
	Replace *changeView // the change of the file with this name
}

// changeAsked is a file that a reply would change.
type changeAsked struct {
	Path, Words, Class string
	Added, Removed     int
}

const namedChanges = 12

func (p *askPage) askedView(v *page.Request, id string, q conversation.Ask) askedView {
	view := askedView{Ask: q, Token: p.FormToken(v), Chat: p.URL("/ask/" + id)}
	view.Title, view.Lead = questionWords(q)
	lines := newBudget()
	for _, o := range q.Outputs {
		view.Saves = append(view.Saves, saveAskedOf(o, lines))
	}
	if q.Proposal != nil {
		shown := min(len(q.Proposal.Files), namedChanges)
		view.More = len(q.Proposal.Files) - shown
		for i := range shown {
			view.Change = append(view.Change, changeAskedOf(&q.Proposal.Files[i]))
		}
	}
	return view
}

func saveAskedOf(o conversation.OutputAsked, lines *budget) saveAsked {
	s := saveAsked{OutputAsked: o, Path: page.Named(o.Path)}
	if o.Change != nil {
		s.Replace = new(changeOf(o.Change, lines))
	}
	return s
}

func changeAskedOf(f *workspace.FileChange) changeAsked {
	c := changeAsked{Path: page.Named(f.Path), Words: opOf(f), Added: f.Added, Removed: f.Removed}
	switch f.Verdict() {
	case workspace.Conflict:
		c.Words, c.Class = "conflict", "weaker"
	case workspace.Refuse:
		c.Words, c.Class = "refused", "error"
	case workspace.Ask:
		c.Words, c.Class = c.Words+", look twice", "weaker"
	}
	return c
}

// questionWords returns a question in the page's words.
func questionWords(q conversation.Ask) (title, lead string) {
	files, size := page.Count(len(q.Files), "file"), page.ByteCount(q.Bytes)
	switch q.Kind {
	case conversation.AskSend:
		return "May these files leave this machine?", fmt.Sprintf("%s (%s) would go to %s.", files, size, q.Destination)
	case conversation.AskSkip:
		return "Continue without these files?", q.Text
	case conversation.AskInline:
		alone, they := "themselves", "They"
		if len(q.Files) == 1 {
			alone, they = "itself", "It"
		}
		return "Send within the request?", fmt.Sprintf("%s (%s) could not be sent by %s. %s can travel within the request "+
			"to %s instead, with this turn and with each one that follows.", files, size, alone, they, q.Destination)
	case conversation.AskMore:
		to := "is given to its code, on this machine"
		if q.Destination != "" {
			to = "goes to " + q.Destination
		}
		return "The model asks for more files", fmt.Sprintf("It would like %s of the project (%s). What you mark %s.", files,
			size, to)
	case conversation.AskSave:
		return "Save what was made?", fmt.Sprintf("%s can be saved into %s.", page.Count(len(q.Outputs), "file"), q.Folder)
	case conversation.AskApply:
		return applyWords(q)
	}
	return q.Text, ""
}

func applyWords(q conversation.Ask) (title, lead string) {
	title, lead = "The reply changes the project",
		"Nothing is changed yet: Review shows every line, and there you agree to all of it or to a part."
	reports := 0
	if q.Handled != nil {
		reports = len(q.Handled.Batch.Posts)
	}
	switch {
	case q.Proposal == nil || len(q.Proposal.Files) == 0:
		return "The reply reports to the project", "Nothing is reported yet: Review shows " + page.Count(reports, "report") +
			", and there you agree to them."
	case reports > 0:
		return title, lead + " It also has " + page.Count(reports, "report") + " for the project."
	}
	return title, lead
}

// replaces shows what saving an output in place of another file would change.
func (p *askPage) replaces(w http.ResponseWriter, v *page.Request) error {
	number, err := strconv.Atoi(v.PathValue("turn"))
	if err != nil {
		return page.ErrNotFound
	}
	link, err := p.project(v, v.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	met, err := p.Live.Host.Preview(v.Context(), v.Owner(), v.PathValue("id"), number, v.PathValue("output"), link.Root)
	if err != nil {
		return err
	}
	return p.SendPart(w, v, "ask", "replaces", saveAskedOf(met, newBudget()))
}
