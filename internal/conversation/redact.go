package conversation

import (
	"encoding/json"
	"slices"

	"github.com/airlock-run/airlock/provider"
)

// relayed redacts what the provider tells. Texts come in pieces: what may be the
// beginning of a secret waits for the next one.
type relayed struct {
	redactor *provider.Redactor
	streams  []*pieces
}

// pieces is one text that comes in pieces.
type pieces struct {
	provider.RedactStream
	make func(text string) provider.Event
	key  [3]string // what it is of
}

// pass returns the events that can be told now, in their order: a text ends where
// something else begins.
func (r *relayed) pass(e provider.Event) []provider.Event {
	if _, more := e.(provider.TextDelta); more {
		return append(r.rest(func(p *pieces) bool { return p.key[0] == "code" }), r.redact(e)...)
	}
	return append(r.rest(func(p *pieces) bool { return p.key[0] == "text" }), r.redact(e)...)
}

func (r *relayed) redact(e provider.Event) []provider.Event {
	switch e := e.(type) {
	case provider.TextDelta:
		return r.piece([3]string{"text"}, e.Text, func(text string) provider.Event { return provider.TextDelta{Text: text} })
	case provider.CodeDelta:
		return r.piece([3]string{"code", e.StepID}, e.Code, func(text string) provider.Event {
			return provider.CodeDelta{StepID: e.StepID, Language: e.Language, Code: text}
		})
	case provider.OutputDelta:
		return r.piece([3]string{"output", e.StepID, e.Stream}, e.Data, func(text string) provider.Event {
			return provider.OutputDelta{StepID: e.StepID, Stream: e.Stream, Data: text}
		})
	case provider.StepStarted:
		e.Step = redactStep(r.redactor, e.Step)
		return append(r.rest(func(p *pieces) bool { return p.key[1] == e.Step.ID && p.key[0] == "code" }), e)
	case provider.StepDone:
		e.Step = redactStep(r.redactor, e.Step)
		return append(r.rest(func(p *pieces) bool { return p.key[1] == e.Step.ID }), e)
	case provider.Notice:
		return []provider.Event{provider.Notice{Text: r.redactor.Error(e.Text)}}
	}
	return []provider.Event{e}
}

func (r *relayed) piece(key [3]string, text string, make func(string) provider.Event) []provider.Event {
	i := slices.IndexFunc(r.streams, func(p *pieces) bool { return p.key == key })
	if i < 0 {
		r.streams = append(r.streams, &pieces{RedactStream: provider.RedactStream{Redactor: r.redactor}, make: make,
			key: key})
		i = len(r.streams) - 1
	}
	if ready := r.streams[i].Add(text); ready != "" {
		return []provider.Event{make(ready)}
	}
	return nil
}

// rest ends texts, and returns what was held of them.
func (r *relayed) rest(which func(*pieces) bool) (all []provider.Event) {
	r.streams = slices.DeleteFunc(r.streams, func(p *pieces) bool {
		if !which(p) {
			return false
		}
		if text := p.Rest(); text != "" {
			all = append(all, p.make(text))
		}
		return true
	})
	return all
}

func redactStep(r *provider.Redactor, s provider.Step) provider.Step {
	s.Code, s.Stdout, s.Stderr, s.Detail = r.Text(s.Code), r.Text(s.Stdout), r.Text(s.Stderr), r.Error(s.Detail)
	return s
}

func redactSteps(r *provider.Redactor, steps []provider.Step) []provider.Step {
	list := make([]provider.Step, len(steps))
	for i, s := range steps {
		list[i] = redactStep(r, s)
	}
	return list
}

// redactProblem redacts what is said of an error.
func redactProblem(r *provider.Redactor, p *Problem) *Problem {
	if p != nil {
		p.Message, p.Hint = r.Error(p.Message), r.Error(p.Hint)
	}
	return p
}

// redactExchange takes known secrets out of a turn as the provider wants it again.
// What only looks like a key stays there: it may be a part of a signature.
func redactExchange(r *provider.Redactor, turns []provider.Turn) []provider.Turn {
	turns = slices.Clone(turns)
	for i := range turns {
		turns[i].Text = r.Known(turns[i].Text)
		if len(turns[i].Raw) > 0 {
			turns[i].Raw = json.RawMessage(r.Known(string(turns[i].Raw)))
		}
	}
	return turns
}
