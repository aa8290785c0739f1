package web

import (
	"html/template"
	"path/filepath"
	"strings"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
)

// turnPart is text of an answer, or code between texts.
type turnPart struct {
	Step *stepView // nil: it is text
	Said template.HTML
}

// partsOf are text and code of a turn in the order in which they came.
func partsOf(t *conversation.Turn) (parts []turnPart) {
	text := func(said string) {
		if strings.TrimSpace(said) != "" {
			parts = append(parts, turnPart{Said: say(said)})
		}
	}
	at := map[string]int{}
	for _, p := range t.Order {
		at[p.Step] = min(p.At, len(t.Text))
	}
	done := 0
	for i, s := range t.Steps {
		if before := at[s.ID]; before > done {
			text(t.Text[done:before])
			done = before
		}
		view := stepOf(t.Number, i+1, s)
		parts = append(parts, turnPart{Step: &view})
	}
	text(t.Text[done:])
	return parts
}

// sentView is a file that was given to a turn.
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

// sentNote says how a file came to the model's code.
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

// savedInto is the project that a turn's files were saved into, whose history
// can revert that.
func savedInto(t *conversation.Turn, projects []conversation.Link) *conversation.Link {
	if len(t.Receipts) == 0 {
		return nil
	}
	for _, o := range t.Outputs {
		for i := range projects {
			if below, err := filepath.Rel(projects[i].Root, o.Saved); o.Saved != "" && err == nil && filepath.IsLocal(below) {
				return &projects[i]
			}
		}
	}
	return nil
}

// aside is a line beside what was said: a decision, or a notice.
type aside struct {
	Text    string
	Decided bool
}

// asidesOf are decisions and notices of a turn in the order in which they came,
// those about what it made apart.
func asidesOf(t *conversation.Turn) (before, after []aside) {
	told := 0
	notices := func(until int) {
		for ; told < min(until, len(t.Notices)); told++ {
			before = append(before, aside{Text: t.Notices[told]})
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
