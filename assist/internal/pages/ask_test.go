package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// TestAskEveryProvider runs a whole turn without scripts with each provider: a file, the
// consent, code with its outcome, two outputs, and a name that exists.
func TestAskEveryProvider(t *testing.T) {
	for name, open := range scriptedProviders() {
		t.Run(name, func(t *testing.T) {
			a := askSite(t, true, open(t))
			if err := os.WriteFile(filepath.Join(a.project, "sums.csv"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			a.model.server.Rescript(a.model.makes("Here *they* are.",
				providertest.Step{Code: "print('written')", Stdout: "written\n"},
				providertest.Made{Name: "plot.png", Data: []byte("\x89PNG\r\n\x1a\n1")},
				providertest.Made{Name: "sums.csv", Data: []byte("a,b\n3,4\n")}))
			at := a.begins([2]string{"prompt", "Sum <b>it</b> up"}, [2]string{"project", "atlas"},
				[2]string{"upload:sales.csv", "a,b\n1,2\n"})

			a.follow(at, "", "asked")
			page := a.Get(at).Body // a reload still shows the question
			if !strings.Contains(page, "May these files leave this machine?") || !strings.Contains(page, "sales.csv") ||
				!strings.Contains(page, "the test server") {
				t.Fatalf("the consent is not asked for: %s", page)
			}
			if a.model.server.Count(providertest.OpUpload)+a.model.server.Count(providertest.OpRun) != 0 {
				t.Error("something was sent before anybody agreed")
			}
			if got := a.does(at+"/answers/t1q1", url.Values{"answer": {"yes"},
				"pick": {"f1"}}); got.Status != http.StatusSeeOther {
				t.Fatalf("the consent is answered %d: %s", got.Status, got.Body)
			}
			events := a.follow(at, "", "answered")
			for len(events) == 0 || !strings.Contains(events[len(events)-1].data, "Save what was made?") {
				events = a.follow(at, events[len(events)-1].id, "asked")
			}
			if got := a.does(at+"/answers/t1q1", url.Values{"answer": {"yes"},
				"pick": {"f1"}}); got.Status != http.StatusConflict || !strings.Contains(got.Body, "answered before") {
				t.Errorf("a second answer: %d", got.Status)
			}
			a.saves(at)

			all := a.follow(at, "", "ended")
			for _, want := range []string{"turn asked answered", "uploaded", "result", "outputs", "ended"} {
				if !strings.Contains(kinds(all), want) {
					t.Errorf("%q is missing in %s", want, kinds(all))
				}
			}
			page = a.Get(at).Body
			for _, want := range []string{"Sum &lt;b&gt;it&lt;/b&gt; up", "Here <em>they</em> are.", "written",
				`class="badge ok" role="status">OK`, "atlas: plot.png", "You agreed to send 1 file to the test server.",
				"atlas: sums (2).csv"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
			if old, err := os.ReadFile(filepath.Join(a.project, "sums.csv")); err != nil || string(old) != "old" {
				t.Errorf("the old file is %q, %v", old, err)
			}
			if got := a.Get("/ask").Body; !strings.Contains(got, at) {
				t.Error("the list lacks the conversation")
			}
			a.goesOn(at)
		})
	}
}

// saves answers the question about outputs. It renames the output whose name exists.
func (a *asker) saves(at string) {
	a.T.Helper()
	pending, err := a.live.Pending("local", at[strings.LastIndex(at, "/")+1:])
	if err != nil || len(pending) != 1 || pending[0].Kind != conversation.AskSave {
		a.T.Fatalf("pending: %+v, %v", pending, err)
	}
	form := url.Values{"answer": {"yes"}}
	for _, o := range pending[0].Outputs {
		form.Add("pick", o.ID)
		form.Set("sha256-"+o.ID, o.SHA256)
		if o.Exists {
			form.Set("clash-"+o.ID, "rename")
		}
		if got := a.Get(at + "/outputs/" + o.SHA256); got.Status != 200 {
			a.T.Errorf("while the question waits, %s is answered %d", o.Name, got.Status)
		}
	}
	if got := a.does(at+"/answers/"+pending[0].ID, form); got.Status != http.StatusSeeOther {
		a.T.Fatalf("saving is answered %d: %s", got.Status, got.Body)
	}
}

// goesOn closes the conversation and resumes it.
func (a *asker) goesOn(at string) {
	a.T.Helper()
	if got := a.does(at+"/close", url.Values{}); got.Status != http.StatusSeeOther {
		a.T.Errorf("ending is answered %d", got.Status)
	}
	if got := a.Get(at + "/events"); got.Status != http.StatusNoContent {
		a.T.Errorf("events of an ended conversation are answered %d", got.Status)
	}
	a.model.server.Rescript(providertest.Turn{Text: "Quite sure."})
	if got := a.asks(at, [2]string{"prompt", "Sure?"}); got.Status != http.StatusSeeOther {
		a.T.Fatalf("going on is answered %d: %s", got.Status, got.Body)
	}
	q, _ := a.asked(at, conversation.AskSend) // the resumed conversation has a new workspace
	a.answers(at, q, url.Values{"answer": {"yes"}, "pick": {"f1"}})
	// A tab with a higher event id of the earlier epoch misses no event.
	all := a.follow(at, "1.500", "ended")
	if !strings.HasPrefix(all[0].id, "2.") || !strings.Contains(kinds(all), "turn") {
		a.T.Errorf("after going on the events are %s from %s on", kinds(all), all[0].id)
	}
	if got := a.Get(at).Body; !strings.Contains(got, "Quite sure.") {
		a.T.Error("the second turn is not shown")
	}
}

// TestAskPackets reads what a page gets of the run_python tool.
func TestAskPackets(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	a.model.server.Rescript(a.model.makes("Done.", providertest.Step{
		Code: "print('<i>')", Stdout: "<i>\n\nevent: ended\n\n", Stderr: "careful\n"},
		providertest.Made{Name: "a.txt", Data: []byte("a")}))
	at := a.begins([2]string{"prompt", "Go"})
	var packets []string
	outcome := ""
	for _, e := range a.follow(at, "", "ended") {
		switch e.event {
		case "packet":
			packets = append(packets, e.data)
		case "result":
			outcome = e.data
		}
	}
	want := []string{`"type":"python_tool_start","code":"print('\u003ci\u003e')"`,
		`"stdout":"\u003ci\u003e\n\nevent: ended\n\n"`, `"stderr":"careful\n"`, `"file_ids":["f`, `"type":"section_end"`}
	if len(packets) != len(want) {
		t.Fatalf("packets: %q", packets)
	}
	for i := range want {
		if !strings.Contains(packets[i], want[i]) || !strings.Contains(
			packets[i], `"placement":{"turn_index":1,"tab_index":1`) {
			t.Errorf("packet %d is %s, want %s", i, packets[i], want[i])
		}
	}
	if !strings.Contains(outcome, "with warnings") || !strings.Contains(outcome, `badge ok`) {
		t.Errorf("stderr with exit code 0 is shown as %s", outcome)
	}
}

// TestAskOutcomes says how code has ended, in word and colour.
func TestAskOutcomes(t *testing.T) {
	one := 1
	for _, c := range []struct {
		step         provider.Step
		words, class string
	}{
		{provider.Step{Outcome: provider.OutcomeOK}, "OK", "ok"},
		{provider.Step{Outcome: provider.OutcomeFailed, ExitCode: &one}, "FAILED, exit code 1", "error"},
		{provider.Step{Outcome: provider.OutcomeTimeout}, "DEADLINE_EXCEEDED, it ran out of time", "timeout"},
		{provider.Step{Outcome: provider.OutcomeUnavailable}, "UNAVAILABLE, it could not be run", "error"},
		{provider.Step{Outcome: provider.OutcomeCancelled}, "stopped", "cancelled"},
		{provider.Step{Outcome: provider.OutcomeUnknown}, "UNKNOWN", "unknown"},
	} {
		if words, class := outcomeOf(c.step); words != c.words || class != c.class {
			t.Errorf("%s is shown as %q, %q", c.step.Outcome, words, class)
		}
	}
}

// justBefore is an archive whose first answer is from before the end of the last turn.
type justBefore struct {
	conversation.Archive
	read bool
}

func (a *justBefore) Conversation(ctx context.Context, owner, id string) (*conversation.Conversation, error) {
	c, err := a.Archive.Conversation(ctx, owner, id)
	if err == nil && !a.read {
		a.read = true
		c.Turns[len(c.Turns)-1].State = conversation.TurnRunning
	}
	return c, err
}

// TestAskJustEnded looks at a turn that ends after its record was read: it was not cut short.
func TestAskJustEnded(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	a.model.server.Rescript(providertest.Turn{Text: "It holds."})
	at := a.begins([2]string{"prompt", "Go"})
	a.follow(at, "", "ended")
	stored := a.host.Archive
	for _, path := range []string{at, at + "/turns/1"} {
		a.host.Archive = &justBefore{Archive: stored}
		if got := a.Get(path).Body; !strings.Contains(got, "It holds.") || strings.Contains(got, "cut short") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestAskMarked parses answers. Unmarked items are not picked.
func TestAskMarked(t *testing.T) {
	q := conversation.Ask{Kind: conversation.AskSave, Outputs: []conversation.OutputAsked{
		{Output: conversation.Output{ID: "o1", SHA256: "1"}}, {Output: conversation.Output{ID: "o2", SHA256: "2"}},
		{Output: conversation.Output{ID: "o3"}, Refused: "no"},
	}}
	form := url.Values{"answer": {"yes"}, "pick": {"o2", "o3", "o9"}, "sha256-o2": {"2"}, "clash-o2": {"rename"}}
	want := []conversation.Pick{{ID: "o2", SHA256: "2", Clash: conversation.ClashRename}}
	if a, err := answerOf(q, form); err != nil || !a.OK || !slices.Equal(a.Picks, want) {
		t.Errorf("%+v, %v", a, err)
	}
	for _, kind := range []conversation.AskKind{conversation.AskSend, conversation.AskMore} {
		q := conversation.Ask{Kind: kind, Files: []conversation.FileAsked{{ID: "f1"}, {ID: "f2"}}}
		if a, err := answerOf(q, url.Values{"answer": {"yes"}, "pick": {"f2"}}); err != nil || len(a.Picks) != 1 ||
			a.Picks[0].ID != "f2" {
			t.Errorf("%s: %+v, %v", kind, a, err)
		}
		if a, err := answerOf(q, url.Values{"answer": {"yes"}}); err != nil || a.Picks == nil || len(a.Picks) != 0 {
			t.Errorf("%s, nothing marked: %+v, %v", kind, a, err)
		}
	}
	for _, form := range []url.Values{{}, {"answer": {"maybe"}},
		{"answer": {"yes"}, "pick": {"o1"}, "clash-o1": {"burn"}}} {
		if a, err := answerOf(q, form); err == nil {
			t.Errorf("%v is taken as %+v", form, a)
		}
	}
	if a, err := answerOf(conversation.Ask{Kind: conversation.AskApply}, url.Values{"answer": {"yes"}}); err == nil ||
		a.OK {
		t.Errorf("changes of a project are agreed to unseen: %+v", a)
	}
}

// TestAskLater saves and discards outputs after the turn, one by one.
func TestAskLater(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	a.model.server.Rescript(a.model.makes("Done.", providertest.Step{Code: "x"},
		providertest.Made{Name: "a.txt", Data: []byte("new")}, providertest.Made{
			Name: "b.html", Data: []byte("<!doctype html><script>x()</script>")},
		providertest.Made{Name: "c.txt", Data: []byte("c")}, providertest.Made{
			Name: "lies.png", Data: []byte("<!doctype html><script>y()</script>")}))
	at := a.begins([2]string{"prompt", "Go"})
	a.follow(at, "", "ended")
	id := at[strings.LastIndex(at, "/")+1:]
	outputs := map[string]conversation.Output{}
	read := func() {
		c, err := a.host.Conversation(t.Context(), "local", id)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range c.Turns[0].Outputs {
			outputs[o.Name] = o
		}
	}
	read()
	settle := func(name string, form url.Values) pagetest.Answer {
		form.Set("project", "atlas")
		got := a.does(at+"/turns/1/outputs/"+outputs[name].ID, form)
		read()
		return got
	}
	if err := os.WriteFile(filepath.Join(a.project, "a.txt"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := func(name string) url.Values { return url.Values{"do": {"save"}, "sha256": {outputs[name].SHA256}} }

	if got := settle("a.txt", url.Values{"do": {"save"}, "sha256": {
		strings.Repeat("0", 64)}}); got.Status != http.StatusConflict {
		t.Errorf("another content than was shown is answered %d", got.Status)
	}
	settle("a.txt", sum("a.txt"))
	if o := outputs["a.txt"]; o.State != conversation.OutputExists ||
		outputs["c.txt"].State != conversation.OutputFetched {
		t.Errorf("where a name exists: %s, the other is %s", o.State, outputs["c.txt"].State)
	}
	if page := a.Get(at).Body; !strings.Contains(page, "a file has this name") ||
		!strings.Contains(page, `value="replace"`) {
		t.Error("the clash offers no choice")
	}
	replace := sum("a.txt")
	replace.Set("clash", "replace")
	settle("a.txt", replace)
	if now, err := os.ReadFile(filepath.Join(a.project, "a.txt")); err != nil || string(now) != "new" ||
		outputs["a.txt"].State != conversation.OutputSaved {
		t.Errorf("replaced: %q, %v, %s", now, err, outputs["a.txt"].State)
	}
	settle("c.txt", url.Values{"do": {"discard"}})
	if outputs["c.txt"].State != conversation.OutputDeclined {
		t.Errorf("discarded: %s", outputs["c.txt"].State)
	}
	if got := a.does(at+"/turns/1/outputs/o1", url.Values{"do": {"save"}, "sha256": {"x"},
		"project": {"../etc"}}); got.Status != http.StatusNotFound {
		t.Errorf("a project that is not linked is answered %d", got.Status)
	}

	// A browser never renders an HTML file.
	if page := a.Get(at).Body; strings.Contains(page, "<img") {
		t.Error("HTML with the name of a picture is shown as one")
	}
	for _, name := range []string{"b.html", "lies.png"} {
		got := a.Get(at + "/outputs/" + outputs[name].SHA256)
		if got.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
			!strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") ||
			!strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s is served with %v", name, got.Header)
		}
	}
	if got := a.Get(at + "/outputs/" + strings.Repeat("0", 64)); got.Status != http.StatusNotFound {
		t.Errorf("an unknown output is answered %d", got.Status)
	}
	if got := a.does(at+"/delete", url.Values{}); got.Status != http.StatusSeeOther ||
		a.Get(at).Status != http.StatusNotFound {
		t.Errorf("deleting is answered %d", got.Status)
	}
}

// TestAskForOperators requests every address with a key without admin rights, and as
// another admin.
func TestAskForOperators(t *testing.T) {
	a := askSite(t, false, scriptedProviders()[provider.Local](t))
	admin := func(owner engine.Owner) string {
		_, token, err := a.Engine.CreateKey(t.Context(), engine.Caller{Admin: true}, engine.NewKey{Owner: owner, Admin: true})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	a.SignIn(admin("ada"), "/")
	a.model.server.Rescript(a.model.makes("The secret.", providertest.Step{Code: "x"},
		providertest.Made{Name: "a.txt", Data: []byte("secret")}))
	at := a.begins([2]string{"prompt", "secret"})
	a.follow(at, "", "ended")

	_, plain := a.KeyFor("bob")
	eve := admin("eve")
	for _, who := range []struct {
		key    string
		status int
	}{{plain, http.StatusForbidden}, {eve, http.StatusNotFound}} {
		b := *a
		b.Visitor = a.Another()
		b.SignIn(who.key, "/")
		for _, path := range []string{at, at + "/events", at + "/turns/1", at + "/outputs/" + fmt.Sprintf("%x", [32]byte{})} {
			if got := b.Get(path); got.Status != who.status || strings.Contains(got.Body, "secret") {
				t.Fatalf("%s is answered %d", path, got.Status) // a stream that was granted would not end
			}
		}
		for _, path := range []string{"/stop", "/answers/t1q1", "/turns/1/outputs/o1"} {
			if got := b.does(at+path, url.Values{"do": {"discard"}}); got.Status != who.status {
				t.Errorf("%s is answered %d", path, got.Status)
			}
		}
		if got := b.Get("/ask"); who.status == http.StatusForbidden &&
			(got.Status != who.status || !strings.Contains(got.Body, "admin rights")) {
			t.Errorf("the page is answered %d: %s", got.Status, got.Body)
		}
		got := b.asks("/ask", [2]string{"provider", "local"}, [2]string{"model", "m"}, [2]string{"prompt", "x"})
		if who.status == http.StatusForbidden && got.Status != who.status {
			t.Errorf("asking is answered %d", got.Status)
		}
	}
}

// TestAskTokens sends changing requests without the token of the visitor's pages.
func TestAskTokens(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	at := a.begins([2]string{"prompt", "Go"})
	a.follow(at, "", "ended")
	for _, path := range []string{"/stop", "/close", "/delete", "/answers/t1q1", "/turns/1/outputs/o1"} {
		if got := a.Post(at+path, url.Values{"token": {"x"}}); got.Status != http.StatusForbidden {
			t.Errorf("%s with a wrong token is answered %d", path, got.Status)
		}
		// A form in parts passes the check of plain ones.
		r := a.Request("POST", at+path, strings.NewReader("--x\r\n\r\n--x--"))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if got := a.Send(r); got.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%s as a form in parts is answered %d", path, got.Status)
		}
	}
	for _, path := range []string{"/ask", at} {
		r := a.Request("POST", path, strings.NewReader(
			"--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nGo\r\n--x--"))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if got := a.Send(r); got.Status != http.StatusForbidden {
			t.Errorf("%s without a token is answered %d", path, got.Status)
		}
	}
}

// A file that the service refuses is answered in its words, and the next turn goes on.
func TestAskRefusedUpload(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	fields := [][2]string{{"provider", "local"}, {"model", providertest.LocalModel}, {"prompt", "Go"}}
	long := [2]string{"upload:" + strings.Repeat("x", 2000), "a,b\n"}
	got := a.asks("/ask", append(fields, long)...)
	if got.Status != http.StatusBadRequest || strings.Contains(got.Body, "Something went wrong") {
		t.Errorf("a file whose name is too long is answered %d: %s", got.Status, got.Body)
	}
	a.model.server.Rescript(providertest.Turn{Text: "Done."})
	a.follow(a.begins([2]string{"prompt", "Go"}), "", "ended")
}

// TestAskWrongly sends invalid forms.
func TestAskWrongly(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	whole := map[string]string{"provider": "local", "model": providertest.LocalModel, "prompt": "Go"}
	for _, c := range []struct{ field, value, says string }{
		{"prompt", " ", "There is no prompt."}, {"model", "", "No model was named."},
		{"provider", "", "No provider was chosen."},
		{"provider", "none", "Keyless cannot be asked: no key. Set KEYLESS_API_KEY."},
		{"tool", "hammer", "There is no such tool."},
		{"project", "other", "is not linked"}, {"path", "../../etc/passwd", "Choose the project"},
		{"file", "nonsense", "One of the input files is gone"},
	} {
		fields := [][2]string{{c.field, c.value}}
		for name, value := range whole {
			if name != c.field {
				fields = append(fields, [2]string{name, value})
			}
		}
		got := a.asks("/ask", fields...)
		if body := strings.Join(strings.Fields(got.Body), " "); got.Status < 400 ||
			!strings.Contains(strings.ReplaceAll(strings.ReplaceAll(body, "</h1> <p class=\"lead\">", " "), "&#39;", "'"),
				c.says) {
			t.Errorf("%s=%q is answered %d: %s", c.field, c.value, got.Status, got.Body)
		}
	}
	for _, path := range []string{"../../etc/passwd", "/etc/passwd", ".git/config", "link"} {
		_ = os.Symlink("/etc/passwd", filepath.Join(a.project, "link"))
		if got := a.asks("/ask", [2]string{"provider", "local"}, [2]string{"model", providertest.LocalModel},
			[2]string{"prompt", "Go"}, [2]string{"project", "atlas"},
			[2]string{"path", path}); got.Status != http.StatusBadRequest {
			t.Errorf("the path %s is answered %d", path, got.Status)
		}
	}
	if got := a.Get("/ask-files/atlas?at=.."); got.Status != http.StatusNotFound {
		t.Errorf("the folder above is answered %d", got.Status)
	}
	if got := a.Get("/ask-files/atlas"); got.Status != 200 || strings.Contains(got.Body, "link") {
		t.Errorf("the folder is answered %d: %s", got.Status, got.Body)
	}
	if n := a.model.server.Count(providertest.OpRun); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestSpoken renders a model's answer.
func TestSpoken(t *testing.T) {
	got := string(
		page.RenderAnswer("# T\n\n<script>x()</script>\n\n[a](javascript:x()) [b](https://example.com/?a=1&b=\"2) " +
			"![p](https://192.0.2.1/x) <https://example.org> [s](sandbox:/mnt/data/a.csv) <img src=x onerror=x()>\n\n" +
			"```python\nprint('<b>')\n```\n\n    <i>\n"),
	)
	for _, never := range []string{"<script", "<img", "javascript:", "<b>", "<i>", "sandbox:", "192.0.2.1"} {
		if strings.Contains(got, never) {
			t.Errorf("%s became part of the page: %s", never, got)
		}
	}
	for _, want := range []string{`rel="noopener noreferrer nofollow" target="_blank">b</a>`, `href="https://example.org"`,
		`tok-`, "&lt;b&gt;", "<em>picture: p</em>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	var plain map[string]string
	if err := json.Unmarshal([]byte(`{"a":"x\u003cy"}`), &plain); err != nil ||
		string(page.Highlight("python", plain["a"])) != "x&lt;y\n" &&
			!strings.Contains(string(page.Highlight("python", plain["a"])), "&lt;") {
		t.Errorf("code is shown as %s", page.Highlight("python", plain["a"]))
	}
}
