package conversation

import (
	"cmp"
	"fmt"

	"github.com/airlock-run/airlock/provider"
)

// stepNames gives each execution of code an id that no other of its conversation
// has. Providers give ids within a turn or an answer only, some models use one
// twice, and some servers give none: by its id alone a later execution would pass
// for an earlier one, which was shown and agreed to.
type stepNames struct {
	taken map[string]bool     // in the conversation
	given map[string][]string // in this turn, by the provider's id, in order
	over  map[string]bool     // by the provider's id: the last of it has ended
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

// name returns the id of an execution. begins says that it may be another one
// than the last of the same id, if that has ended.
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

// rename gives an event the ids of this conversation.
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

// steps gives the steps of a result the ids that their events had.
func (n *stepNames) steps(all []provider.Step) {
	seen := map[string]int{}
	for i := range all {
		id := all[i].ID
		if k := seen[id]; k < len(n.given[id]) {
			all[i].ID = n.given[id][k]
		} else {
			n.over[id] = true // nobody was told of it
			all[i].ID = n.name(id, true)
		}
		seen[id]++
	}
}

// artifacts gives files the ids of the steps that made them. Of several steps of
// one id it is not said which.
func (n *stepNames) artifacts(all []provider.Artifact) {
	for i := range all {
		if given := n.given[all[i].StepID]; len(given) > 0 && all[i].StepID != "" {
			all[i].StepID = given[len(given)-1]
		}
	}
}
