package web

import (
	"context"
	"strings"
	"unicode"

	"github.com/airlock-run/airlock/internal/engine"
)

// networkOf is what a form's field asks for: rules, with commas or spaces between them.
// Without any the key's default counts.
func networkOf(text string) *engine.Network {
	rules := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(rules) == 0 {
		return nil
	}
	return &engine.Network{Allow: rules}
}

// namedContacts is how many connections of a run the page lists.
const namedContacts = 50

// contacted is what a run's program asked of the network, the newest first.
type contacted struct {
	List []engine.Contact
	More int // that are not listed
}

// contacts reads what a run contacted. A page without them is better than none.
func (p *runPage) contacts(ctx context.Context, caller engine.Caller, run *engine.Run) (c contacted) {
	if !run.Status.Final() {
		return c
	}
	list, err := p.Engine.Contacts(ctx, caller, engine.ContactQuery{Run: run.ID})
	if err != nil {
		p.Log.ErrorContext(ctx, "what a run contacted is not known", "run", run.ID, "err", err)
		return c
	}
	c.List = list[:min(len(list), namedContacts)]
	c.More = len(list) - len(c.List)
	for i := range list {
		c.More += list[i].More
	}
	return c
}
