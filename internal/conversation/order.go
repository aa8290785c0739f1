package conversation

import (
	"slices"
	"strings"

	"github.com/airlock-run/airlock/provider"
)

// Place says where in the text of a turn a step stood.
type Place struct {
	Step string `json:"step"` // its id
	At   int    `json:"at"`   // so many bytes of the text came before it
}

// order notes what of a turn came before what, as it comes.
type order struct {
	said   strings.Builder
	places []Place
}

func (o *order) note(e provider.Event) {
	switch e := e.(type) {
	case provider.TextDelta:
		o.said.WriteString(e.Text)
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
		o.places = append(o.places, Place{id, o.said.Len()})
	}
}

// in returns the places in the text as it is kept. Some providers add to what
// they have streamed, and of an answer that follows a schema they keep the end
// alone. In a text that is another one nobody knows the places.
func (o *order) in(text string) []Place {
	said, cut := o.said.String(), 0
	if !strings.HasPrefix(text, said) {
		if cut = len(said) - len(text); !strings.HasSuffix(said, text) {
			return nil
		}
	}
	places := slices.Clone(o.places)
	for i := range places {
		places[i].At = max(0, places[i].At-cut)
	}
	return places
}
