package conversation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
)

// stepNames gives each step an id that is unique in its conversation. Ids of providers are
// unique in a turn or an answer only, some models use one twice, and some servers give
// none: by its id alone a later step would pass for an earlier one, which was shown and
// agreed to.
type stepNames struct {
	taken map[string]bool     // ids of the conversation
	given map[string][]string // ids of this turn by the provider's, in order
	over  map[string]bool     // by the provider's id: its last step has ended
}

func newStepNames(earlier []*Turn) stepNames {
	n := stepNames{taken: map[string]bool{}, given: map[string][]string{}, over: map[string]bool{}}
	for _, t := range earlier {
		for _, s := range t.Steps {
			n.taken[s.ID] = true
		}
	}
	return n
}

// name returns the id of a step. begins reports that a new step may begin if the last one
// of the provider's id has ended.
func (n *stepNames) name(id string, begins bool) string {
	given := n.given[id]
	if len(given) > 0 && (!begins || !n.over[id]) {
		return given[len(given)-1]
	}
	first := cmp.Or(id, "code")
	name := first
	for k := 2; n.taken[name]; k++ {
		name = fmt.Sprintf("%s_%d", first, k)
	}
	n.taken[name], n.over[id] = true, false
	n.given[id] = append(given, name)
	return name
}

// rename returns an event with the ids of this conversation.
func (n *stepNames) rename(e provider.Event) provider.Event {
	switch e := e.(type) {
	case provider.CodeDelta:
		e.StepID = n.name(e.StepID, true)
		return e
	case provider.StepStarted:
		e.Step.ID = n.name(e.Step.ID, true)
		return e
	case provider.OutputDelta:
		e.StepID = n.name(e.StepID, false)
		return e
	case provider.StepDone:
		id := e.Step.ID
		e.Step.ID = n.name(id, false)
		n.over[id] = true
		return e
	case provider.FileFound:
		if given := n.given[e.Artifact.StepID]; len(given) > 0 && e.Artifact.StepID != "" {
			e.Artifact.StepID = given[len(given)-1]
		}
		return e
	}
	return e
}

// steps sets the ids of the steps of a result to those of their events.
func (n *stepNames) steps(all []provider.Step) {
	seen := map[string]int{}
	for i := range all {
		id := all[i].ID
		if k := seen[id]; k < len(n.given[id]) {
			all[i].ID = n.given[id][k]
		} else {
			n.over[id] = true // it had no events
			all[i].ID = n.name(id, true)
		}
		seen[id]++
	}
}

// artifacts sets the ids of the steps that made files. Of several steps with one id it
// takes the last.
func (n *stepNames) artifacts(all []provider.Artifact) {
	for i := range all {
		if given := n.given[all[i].StepID]; len(given) > 0 && all[i].StepID != "" {
			all[i].StepID = given[len(given)-1]
		}
	}
}

// A Place is the place of a step in the text of a turn.
type Place struct {
	Step string `json:"step"` // its id
	At   int    `json:"at"`   // so many bytes of the text came before it
}

// order records the order of text and steps.
type order struct {
	text   strings.Builder
	places []Place
}

func (o *order) note(e provider.Event) {
	switch e := e.(type) {
	case provider.TextDelta:
		o.text.WriteString(e.Text)
	case provider.CodeDelta:
		o.step(e.StepID)
	case provider.StepStarted:
		o.step(e.Step.ID)
	case provider.OutputDelta:
		o.step(e.StepID)
	case provider.StepDone:
		o.step(e.Step.ID)
	}
}

func (o *order) step(id string) {
	if !slices.ContainsFunc(o.places, func(p Place) bool { return p.Step == id }) {
		o.places = append(o.places, Place{id, o.text.Len()})
	}
}

// in returns the places in the text of the record. Some providers add to what they have
// streamed, and keep only the end of an answer that follows a schema. For any other text
// the places are not known.
func (o *order) in(text string) []Place {
	streamed, cut := o.text.String(), 0
	if !strings.HasPrefix(text, streamed) {
		if cut = len(streamed) - len(text); !strings.HasSuffix(streamed, text) {
			return nil
		}
	}
	places := slices.Clone(o.places)
	for i := range places {
		places[i].At = max(0, places[i].At-cut)
	}
	return places
}
