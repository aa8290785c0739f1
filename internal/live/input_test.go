package live

import (
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// answered runs a cell whose questions have answers, and returns the prompts.
func (p *place) answered(session engine.ID, code string, answers ...string) (prompts []string, end Cell) {
	p.t.Helper()
	c, err := p.Start(p.t.Context(), p.caller, session, CellRequest{Code: code, AllowInput: true, Timeout: time.Minute})
	if err != nil {
		p.t.Fatal(err)
	}
	events, err := p.Watch(p.t.Context(), p.caller, session, c.ID, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for e := range events {
		if e.Type != InputEvent {
			continue
		}
		if len(prompts) == len(answers) {
			p.t.Errorf("%s asks for more: %q", code, e.Prompt)
			_ = p.Interrupt(p.t.Context(), p.caller, session)
			break
		}
		if err := p.Answer(p.t.Context(), p.caller, session, answers[len(prompts)]); err != nil {
			p.t.Fatal(err)
		}
		prompts = append(prompts, e.Prompt)
	}
	return prompts, p.end(session, c.ID)
}

// Whatever the language asks with, the caller answers where it can, and else the input
// has a clear end.
func TestInput(t *testing.T) {
	p := open(t, Config{})
	for language, tries := range map[string][]struct {
		code    string
		answers []string
		prompts string // joined
		stdout  string
		without string // in the error or on stderr, if there is no answer
	}{
		"javascript": {
			{"console.log(prompt('name? ') + '!')", []string{"Ann"}, "name? ", "Ann!\n", "no input"},
			{
				"var rl = require('readline/promises').createInterface({input: process.stdin, output: process.stdout}); console.log(await rl.question('name? ') + '!', await rl.question('age? ')); rl.close()",
				[]string{"Ann", "7"}, "|", "name? age? Ann! 7\n", "ended",
			},
		},
		"bash": {
			{"read -p 'name? ' x; echo \"$x!\"", []string{"Ann B"}, "name? ", "Ann B!\n", "no input"},
			{"read -r a b; read -s -p 'secret? ' c; echo \"$b $a $c\"", []string{"1 2 3", "xyz"}, "|secret? ", "2 3 1 xyz\n", "no input"},
			{"f() { local y; read y; echo \"f $y\"; }; f", []string{"in"}, "", "f in\n", "no input"},
			{"printf 'x\\ny\\n' | while read l; do echo \"l $l\"; done; cat; echo done", nil, "", "l x\nl y\ndone\n", ""},
		},
	} {
		s := p.session(language)
		for _, try := range tries {
			prompts, c := p.answered(s, try.code, try.answers...)
			if got := strings.Join(prompts, "|"); got != try.prompts || text(c, Stdout) != try.stdout || c.Status != StatusOK {
				t.Errorf("%s: asked %q, printed %q, %s %v", try.code, got, text(c, Stdout), c.Status, raised(c))
			}
			alone := p.runCell(s, CellRequest{Code: try.code, Timeout: time.Minute})
			if said := raised(alone).Value + text(alone, Stderr); !strings.Contains(said, try.without) || alone.Status == StatusLost || alone.Status == StatusTimeout {
				t.Errorf("%s, alone: %s, %q %v", try.code, alone.Status, said, raised(alone))
			}
		}
		c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: tries[0].code, AllowInput: true,
			Grace: graceOf(false)})
		if err != nil {
			t.Fatal(err)
		}
		p.seen(s, c.ID, InputEvent)
		if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
			t.Fatal(err)
		}
		checkCell(t, p.want(p.end(s, c.ID), StatusInterrupted), facts{NotMessage: "killed"}, language)
		if prompts, c := p.answered(s, tries[0].code, tries[0].answers...); len(prompts) != 1 || c.Status != StatusOK {
			t.Errorf("%s, after an interrupt: %v, %+v", language, prompts, c)
		}
	}
}
