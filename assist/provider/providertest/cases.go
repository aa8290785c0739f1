package providertest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
)

// png is the smallest valid picture.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82"

func suiteCaps(t *testing.T, r *rig) {
	if r.Provider.Name() == "" || r.Provider.Account() == "" {
		t.Error("a provider has a name and an account")
	}
	c := r.caps()
	if !c.Sessions && (c.SessionCreate || c.SessionDelete || c.SessionFiles || c.SessionTouch) {
		t.Error("things can be done with sessions that do not exist")
	}
	if len(c.Tools) == 0 || len(c.Languages) == 0 || c.Outputs == "" {
		t.Errorf("capabilities are not filled: %+v", c)
	}
	if provider.Instruct(r.Provider.Name(), r.Model, provider.ToolAuto, provider.HintsAuto) == "" {
		t.Error("there are no instructions for it")
	}
}

func suiteCheck(t *testing.T, r *rig) {
	if err := r.Provider.Check(r.ctx, r.Model); err != nil {
		t.Errorf("a model that is there: %v", err)
	}
	if err := r.Provider.Check(r.ctx, "no-such-model"); provider.KindOf(err) != provider.Invalid ||
		provider.HintOf(err) == "" {
		t.Errorf("a model that is not there: %v, want an error of kind invalid with a hint", err)
	}
	r.Server.Inject(Fault{On: OpCheck, Kind: FaultStatus, Status: 401})
	if err := r.Provider.Check(r.ctx, r.Model); provider.KindOf(err) != provider.Auth {
		t.Errorf("a wrong key: %v, want an error of kind auth", err)
	}
}

func suiteWhole(t *testing.T, r *rig) {
	in := r.upload("data.csv", "a,b\n1,2\n")
	r.Server.Script(r.makes("Here: "+link("out.csv"), Made{Name: "out.csv", Data: []byte("a\n1\n")},
		Made{Name: "more.txt", Data: []byte("more")}))
	result, found := r.mustAsk("sum it", in)
	if !strings.Contains(result.Text, "Here:") || result.Stop != provider.StopDone || len(result.Next) == 0 ||
		result.Usage.Output == 0 {
		t.Errorf("result %+v", result)
	}
	if len(result.Steps) != 1 || result.Steps[0].Code != "write()" || result.Steps[0].Outcome != provider.OutcomeOK ||
		!strings.HasPrefix(result.Steps[0].Stdout, "written") {
		t.Errorf("steps %+v", result.Steps)
	}
	if got := r.content(found, "out.csv"); got != "a\n1\n" {
		t.Errorf("out.csv has %q", got)
	}
	if got := r.content(found, "more.txt"); got != "more" {
		t.Errorf("more.txt has %q", got)
	}
	if len(found.Files) != 2 || len(found.Failed)+len(found.Missing)+len(found.Blind) > 0 {
		t.Errorf("collected %+v", found)
	}
	r.clean()
}

func suiteStream(t *testing.T, r *rig) {
	r.Server.Script(r.makes("All done, see "+link("x.csv"), Made{Name: "x.csv", Data: []byte("x")}))
	var text strings.Builder
	var steps []provider.Step
	var done *provider.RunResult
	for e, err := range provider.Stream(r.ctx, r.whole, provider.RunRequest{
		Model: r.Model, Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case provider.TextDelta:
			text.WriteString(e.Text)
		case provider.StepDone:
			steps = append(steps, e.Step)
		case provider.Done:
			done = e.Result
		}
	}
	if done == nil || text.String() != done.Text || !strings.HasPrefix(done.Text, "All done") {
		t.Errorf("streamed %q, result %+v", text.String(), done)
	}
	if len(steps) != 1 || steps[0].Code != "write()" {
		t.Errorf("steps %+v", steps)
	}
	r.clean()
}

func suiteLeave(t *testing.T, r *rig) {
	r.Server.Script(r.makes("one two three four", Made{Name: "x.csv", Data: []byte("x")}))
	for _, err := range provider.Stream(r.ctx, r.whole, provider.RunRequest{
		Model: r.Model, Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	r.clean()
}

func suiteUnmentioned(t *testing.T, r *rig) {
	turn := r.makes("I saved nothing that I speak of.", Made{Name: "silent.csv", Data: []byte("s")})
	turn.Unmentioned = true
	r.Server.Script(turn)
	_, found := r.mustAsk("go")
	if got := r.content(found, "silent.csv"); got != "s" {
		t.Errorf("silent.csv has %q", got)
	}
	r.clean()
}

func suiteMissing(t *testing.T, r *rig) {
	in := r.upload("data.csv", "a\n")
	r.Server.Script(Turn{Steps: []Step{{Code: "pass"}}, Text: "See " + link("ghost.csv") + ", made from " +
		link("data.csv")})
	_, found := r.mustAsk("go", in)
	if !slices.Contains(found.Missing, "ghost.csv") || provider.KindOf(found.Problem()) != provider.OutputsMissing {
		t.Errorf("missing %v, problem %v", found.Missing, found.Problem())
	}
	if r.caps().SessionFiles && slices.Contains(found.Missing, "data.csv") {
		t.Error("a link to an input was taken for a promise")
	}
	r.clean()
}

func suiteNames(t *testing.T, r *rig) {
	r.Server.Script(r.makes("ok", Made{Name: "../../x", Data: []byte("evil")}, Made{Name: "a.txt", Data: []byte("1")},
		Made{Name: "CON.txt", Data: []byte("2")}))
	_, found := r.mustAsk("go")
	if got := r.content(found, "x"); got != "evil" {
		t.Errorf("x has %q", got)
	}
	for _, f := range found.Files {
		if strings.ContainsAny(f.Name, `/\`) || f.Name == "CON.txt" || strings.HasPrefix(f.Name, ".") {
			t.Errorf("the name %q was let through", f.Name)
		}
	}
	r.clean()
}

func suiteTwice(t *testing.T, r *rig) {
	plot := Made{Name: "plot.png", Data: []byte(png), Shown: true}
	turn := Turn{Steps: []Step{{Code: "show()", Files: []Made{plot}}}, Text: link("plot.png")}
	named := r.caps().Outputs != provider.OutputStdout
	if !named { // the picture comes inline, without a name
		turn.Text = "see the figure"
	}
	if r.Provider.Name() == provider.XAI {
		t.Skip("xAI brings no pictures")
	}
	r.Server.Script(turn)
	_, found := r.mustAsk("plot")
	if len(found.Files) != 1 || named && found.Files[0].Name != "plot.png" ||
		!strings.HasPrefix(found.Files[0].MIME, "image/png") {
		t.Errorf("collected %+v, want one picture", found.Files)
	}
	r.clean()
}

func suiteOutcomes(t *testing.T, r *rig) {
	failing := Step{
		Code: "1/0", Stderr: "Traceback (most recent call last):\n  File \"<stdin>\", line 1\n" +
			"ZeroDivisionError: division by zero\n", Exit: 1}
	r.Server.Script(Turn{Steps: []Step{failing, {Code: "print(1)", Stdout: "1\n"}}, Text: "fixed"})
	result, _ := r.mustAsk("go")
	var got []provider.Outcome
	for _, s := range result.Steps {
		got = append(got, s.Outcome)
	}
	if !slices.Equal(got, []provider.Outcome{provider.OutcomeFailed, provider.OutcomeOK}) {
		t.Errorf("outcomes %v", got)
	}
	if len(result.Steps) == 2 && !strings.Contains(result.Steps[0].Stdout+result.Steps[0].Stderr, "ZeroDivisionError") {
		t.Errorf("what failed is not told: %+v", result.Steps[0])
	}
	r.clean()
}

func suiteFunction(t *testing.T, r *rig) {
	if !r.caps().Functions {
		t.Skip("this provider calls no functions of ours")
	}
	r.Server.Script(Turn{Calls: []Call{{Name: "lookup", Arguments: json.RawMessage(`{"key":"a"}`)}}},
		Turn{Text: "it is 42"})
	var asked string
	f := provider.Function{Name: "lookup", Description: "looks up",
		Parameters: json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"}}}`),
		Call: func(_ context.Context, arguments json.RawMessage) (provider.FunctionReply, error) {
			asked = string(arguments)
			return provider.FunctionReply{Text: "42"}, nil
		}}
	result, err := r.whole.Run(r.ctx, provider.RunRequest{Model: r.Model,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: "what is a?"}}, Functions: []provider.Function{f}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asked, `"a"`) || !strings.Contains(result.Text, "42") || result.Calls != 2 {
		t.Errorf("asked %q, result %+v", asked, result)
	}
	r.clean()
}

func suiteSecond(t *testing.T, r *rig) {
	r.Server.Script(r.makes("one", Made{Name: "one.csv", Data: []byte("1")}),
		r.makes("two", Made{Name: "two.csv", Data: []byte("2")}))
	_, first := r.mustAsk("first", r.upload("in.csv", "a"))
	_, second := r.mustAsk("second", r.upload("in2.csv", "b"))
	if got := names(first); !slices.Equal(got, []string{"one.csv"}) {
		t.Errorf("the first turn has %v", got)
	}
	if got := names(second); !slices.Equal(got, []string{"two.csv"}) {
		t.Errorf("the second turn has %v; what the first made is not new", got)
	}
	r.clean()
}

func suitePaused(t *testing.T, r *rig) {
	if r.Provider.Name() != provider.Anthropic {
		t.Skip("only Anthropic pauses turns")
	}
	pause := r.makes("", Made{Name: "a.csv", Data: []byte("a")})
	pause.Pause = true
	r.Server.Script(pause, r.makes("done", Made{Name: "b.csv", Data: []byte("b")}))
	result, found := r.mustAsk("go")
	if len(result.Steps) != 2 || result.Calls != 2 || len(found.Files) != 2 {
		t.Errorf("steps %d, calls %d, files %v", len(result.Steps), result.Calls, names(found))
	}
	r.clean()
}
