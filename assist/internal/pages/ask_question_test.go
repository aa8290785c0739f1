package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// id of the conversation at a path.
func idAt(at string) string { return at[strings.LastIndex(at, "/")+1:] }

// asked follows a conversation until it asks a question of the kind. It returns the
// question and its HTML.
func (a *asker) asked(at string, kind conversation.AskKind) (conversation.Ask, string) {
	a.T.Helper()
	last := ""
	for {
		events := a.follow(at, last, "asked")
		last = events[len(events)-1].id
		pending, err := a.live.Pending("local", idAt(at))
		if err != nil {
			a.T.Fatal(err)
		}
		for _, q := range pending {
			if q.Kind == kind {
				return q, a.Get(at).Body
			}
		}
	}
}

func (a *asker) answers(at string, q conversation.Ask, form url.Values) pagetest.Answer {
	a.T.Helper()
	got := a.does(at+"/answers/"+q.ID, form)
	if got.Status != http.StatusSeeOther {
		a.T.Fatalf("%s is answered %d: %s", q.Kind, got.Status, got.Body)
	}
	return got
}

// TestAskWithinRequest embeds files in the request that could not be uploaded. Only marked
// files are embedded.
func TestAskWithinRequest(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		marked       []string
		sent         []string
		says         string
	}{
		{"one of two", "yes", []string{"f2"}, []string{"b.csv"},
			"You agreed to send 1 of 2 files within the request to the test server."},
		{"none is marked", "yes", nil, nil, "You did not agree to send files within the request."},
		{"no", "no", []string{"f1", "f2"}, nil, "You did not agree to send files within the request."},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
			gone := providertest.Fault{On: providertest.OpUpload, Kind: providertest.FaultStatus, Status: http.StatusNotFound}
			a.model.server.Inject(gone, gone)
			a.model.server.Rescript(providertest.Turn{Text: "Read."})
			at := a.begins([2]string{"prompt", "Read"}, [2]string{"upload:a.csv", "a\n1\n"}, [2]string{"upload:b.csv", "b\n2\n"})
			q, _ := a.asked(at, conversation.AskSend)
			a.answers(at, q, url.Values{"answer": {"yes"}, "pick": {"f1", "f2"}})

			q, page := a.asked(at, conversation.AskInline)
			for _, want := range []string{"Send within the request?", "could not be sent by themselves", `value="f1" checked`,
				"Send within the request</button>"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
			a.answers(at, q, url.Values{"answer": {c.answer}, "pick": c.marked})
			if len(c.sent) < 2 {
				q, _ := a.asked(at, conversation.AskSkip)
				a.answers(at, q, url.Values{"answer": {"yes"}})
			}
			a.follow(at, "", "ended")
			kept, err := a.host.Conversation(t.Context(), "local", idAt(at))
			if err != nil {
				t.Fatal(err)
			}
			var sent []string
			for _, in := range kept.Turns[0].Inputs {
				if in.SHA256 != "" {
					sent = append(sent, in.Name)
				}
			}
			if !slices.Equal(sent, c.sent) {
				t.Errorf("sent: %v, want %v", sent, c.sent)
			}
			page = a.Get(at).Body
			if !strings.Contains(page, c.says) {
				t.Errorf("the page lacks %q", c.says)
			}
			if travels := strings.Contains(page, "travels within the request"); travels != (len(c.sent) > 0) {
				t.Errorf("a file travels within the request: %v", travels)
			}
		})
	}
}

// TestAskOrder reloads a turn. Texts, code, decisions and notices keep their order.
func TestAskOrder(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.Local](t))
	if err := os.WriteFile(filepath.Join(a.project, "rates.csv"), []byte("r\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants, _ := json.Marshal(map[string]any{"paths": []string{"rates.csv"}, "reason": "To see."}) // of strings
	a.model.server.Rescript(
		providertest.Turn{Text: "First I ask.", Calls: []providertest.Call{{Name: "request_files", Arguments: wants}}},
		providertest.Turn{Steps: []providertest.Step{{Code: "print('between')", Stdout: "between\n"}}, Text: "Then I say."})
	at := a.begins([2]string{"prompt", "Go"}, [2]string{"project", "atlas"})
	q, page := a.asked(at, conversation.AskMore)
	if !strings.Contains(page, "What you mark goes to the test server.") || strings.Contains(page, `value="f1" checked`) {
		t.Errorf("further files are asked for so: %s", page)
	}
	a.answers(at, q, url.Values{"answer": {"yes"}, "pick": {"f1"}})
	a.follow(at, "", "ended")
	inOrder(t, a.Get(at).Body, "First I ask.", "&#39;between&#39;", "Then I say.")

	// In records of earlier versions code comes first.
	kept, err := a.host.Conversation(t.Context(), "local", idAt(at))
	if err != nil || len(kept.Turns[0].Order) != 1 {
		t.Fatalf("kept: %+v, %v", kept, err)
	}
	kept.Turns[0].Order = nil
	if err := a.host.PutConversation(t.Context(), kept, kept.Turns...); err != nil {
		t.Fatal(err)
	}
	inOrder(t, a.Get(at).Body, "&#39;between&#39;", "First I ask.")
}

func inOrder(t *testing.T, page string, wants ...string) {
	t.Helper()
	at := strings.Index(page, `class="answer"`)
	for _, want := range wants {
		next := strings.Index(page[max(at, 0):], want)
		if next < 0 {
			t.Fatalf("%q is missing, or not after what comes before it", want)
		}
		at += next
	}
}

// TestAskAsides shows decisions and notices in the order in which they came.
func TestAskAsides(t *testing.T) {
	sent := conversation.Ask{Kind: conversation.AskSend, Files: make([]conversation.FileAsked, 1), Destination: "there"}
	saved := conversation.Ask{Kind: conversation.AskSave, Outputs: make([]conversation.OutputAsked, 1), Folder: "/f"}
	turn := &conversation.Turn{Notices: []string{"one", "two", "three"}, Decisions: []conversation.Decision{
		{Ask: sent, Answer: conversation.Answer{OK: true}, Notices: 1}, {Ask: sent, Notices: 2}, {Ask: saved, Notices: 3}}}
	before, after := asidesOf(turn)
	want := []aside{{"one", false}, {"You agreed to send 1 file to there.", true}, {"two", false},
		{"You did not agree to send files to there.", true}, {"three", false}}
	if !slices.Equal(before, want) || len(after) != 1 {
		t.Errorf("%v and %v", before, after)
	}
}

// TestAskAgain continues a closed conversation. Its uploads are sent again, and lost files
// are reported before the first question.
func TestAskAgain(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
	a.model.server.Rescript(providertest.Turn{Text: "Read."})
	at := a.begins([2]string{"prompt", "Read"}, [2]string{"upload:a.csv", "a\n1\n"}, [2]string{"upload:b.csv", "b\n2\n"})
	q, _ := a.asked(at, conversation.AskSend)
	a.answers(at, q, url.Values{"answer": {"yes"}, "pick": {"f1", "f2"}})
	a.follow(at, "", "ended")
	if page := a.Get(at).Body; strings.Contains(page, "workspace of this conversation is gone") {
		t.Error("it is said of a conversation that goes on")
	}
	a.does(at+"/close", url.Values{})
	page := a.Get(at).Body
	for _, want := range []string{"gives these files to a new one, after you agreed", "a.csv", "b.csv"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the ended conversation lacks %q", want)
		}
	}
	kept, err := a.host.Conversation(t.Context(), "local", idAt(at))
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range kept.Turns[0].Inputs {
		if in.Name == "b.csv" {
			if got := a.does("/files/"+in.Stored+"/delete", url.Values{}); got.Status >= 400 {
				t.Fatalf("deleting is answered %d", got.Status)
			}
		}
	}
	if page := a.Get(at).Body; !strings.Contains(page, "gives this file to a new one") ||
		!strings.Contains(page, "This file is not here any more") {
		t.Errorf("after one was deleted: %s", page)
	}
	a.model.server.Rescript(providertest.Turn{Text: "Read again."})
	if got := a.asks(at, [2]string{"prompt", "Again"}); got.Status != http.StatusSeeOther {
		t.Fatalf("going on is answered %d", got.Status)
	}
	q, page = a.asked(at, conversation.AskSend)
	if len(q.Files) != 1 || q.Files[0].Name != "a.csv" || !strings.Contains(page, "Given again") {
		t.Errorf("asked: %+v", q.Files)
	}
	a.answers(at, q, url.Values{"answer": {"yes"}, "pick": {"f1"}})
	a.follow(at, "", "ended")
	if page := a.Get(at).Body; !strings.Contains(page, "Read again.") ||
		!strings.Contains(page, "1 file of earlier turns cannot be given again") {
		t.Error("what is lost is not said in the turn")
	}
	// An id does not open a file of another owner.
	if _, err := a.host.Stored(t.Context(), "eve", kept.Turns[0].Inputs[0].Stored); err == nil {
		t.Error("an uploaded file is opened for somebody else")
	}
}

// TestAskReplaces shows what replacing a file changes, in the question and later.
func TestAskReplaces(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
	old := filepath.Join(a.project, "notes.txt")
	if err := os.WriteFile(old, []byte("same\nold <i>line</i>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.model.server.Rescript(a.model.makes("Done.", providertest.Step{Code: "x"},
		providertest.Made{Name: "notes.txt", Data: []byte("same\nnew <b>line</b>\n")}))
	at := a.begins([2]string{"prompt", "Go"}, [2]string{"project", "atlas"})
	q, page := a.asked(at, conversation.AskSave)
	for _, want := range []string{"What replacing it changes", "old &lt;i&gt;line", "<mark>new</mark>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the question lacks %q", want)
		}
	}
	a.answers(at, q, url.Values{"answer": {"yes"}, "pick": {"o1"}, "sha256-o1": {q.Outputs[0].SHA256}})
	a.follow(at, "", "ended")
	see := at + "/turns/1/outputs/o1/replaces?project="
	if page := a.Get(at).Body; !strings.Contains(page, see+"atlas") {
		t.Error("the card does not offer it")
	}
	got := a.Get(see + "atlas")
	if got.Status != http.StatusOK || !strings.Contains(got.Body, "<del") ||
		!strings.Contains(got.Body, "<mark>new</mark>") || strings.Contains(got.Body, "<b>") {
		t.Errorf("later it is answered %d: %s", got.Status, got.Body)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	if got := a.Get(see + "atlas"); !strings.Contains(got.Body, "saving makes a new one") {
		t.Errorf("without a file of this name: %s", got.Body)
	}
	for _, path := range []string{see + "other", at + "/turns/1/outputs/o9/replaces?project=atlas",
		at + "/turns/x/outputs/o1/replaces?project=atlas"} {
		if got := a.Get(path); got.Status != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, got.Status)
		}
	}
}

// TestAskReview has a reply that changes the project. It redirects to Review, and nothing
// is written before the approval.
func TestAskReview(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
	a.model.server.Rescript(providertest.Turn{Text: "Here.\n\n```md:docs/guide.md\n# Guide\n```\n"})
	if _, err := a.host.Replies.Link(t.Context(), changes.Link{
		Owner: "local", Project: "atlas", Root: a.project}); err != nil {
		t.Fatal(err)
	}
	at := a.begins([2]string{"prompt", "Go"}, [2]string{"project", "atlas"}, [2]string{"propose", "1"})
	q, page := a.asked(at, conversation.AskApply)
	for _, want := range []string{"The reply changes the project", "docs/guide.md", `value="review"`, "Open in Review"} {
		if !strings.Contains(page, want) {
			t.Errorf("the question lacks %q", want)
		}
	}
	if got := a.does(at+"/answers/"+q.ID, url.Values{"answer": {"yes"}}); got.Status != http.StatusBadRequest {
		t.Errorf("agreeing unseen is answered %d", got.Status)
	}
	got := a.answers(at, q, url.Values{"answer": {"review"}})
	if to := got.Header.Get("Location"); to != "/ui/review/"+q.Handled.ID {
		t.Errorf("it leads to %q", to)
	}
	a.follow(at, "", "ended")
	if _, err := os.Stat(filepath.Join(a.project, "docs")); err == nil {
		t.Error("it was written unseen")
	}
	if page := a.Get(at).Body; !strings.Contains(page, "/ui/review/"+q.Handled.ID) ||
		!strings.Contains(page, "You left the changes of the project for review.") {
		t.Error("the turn does not say where the reply is")
	}
}

// TestAskPolicy has replies that change the project under a policy. Covered files are
// applied without a question; the user is asked about the others.
func TestAskPolicy(t *testing.T) {
	a := askSite(t, true, scriptedProviders()[provider.OpenAI](t))
	a.model.server.Rescript(providertest.Turn{Text: "```md:docs/guide.md\n# Guide\n```\n"},
		providertest.Turn{Text: "```md:src/guide.md\n# Guide\n```\n"})
	if _, err := a.host.Replies.Link(t.Context(), changes.Link{
		Owner: "local", Project: "atlas", Root: a.project}); err != nil {
		t.Fatal(err)
	}
	at := a.begins([2]string{"prompt", "Go"}, [2]string{"project", "atlas"}, [2]string{"propose", "1"},
		[2]string{"policy", `{"rules": [{"glob": "docs/**", "decision": "allow"}]}`})
	a.follow(at, "", "ended")
	if text, err := os.ReadFile(filepath.Join(a.project, "docs", "guide.md")); string(text) != "# Guide\n" {
		t.Errorf("docs/guide.md is %q: %v", text, err)
	}
	if page := a.Get(at).Body; !strings.Contains(page, "approved by 1 rule") {
		t.Error("the page does not say that rules approve")
	}
	a.asks(strings.TrimPrefix(at, "/ui"), [2]string{"prompt", "Again"})
	if _, page := a.asked(at, conversation.AskApply); !strings.Contains(page, "src/guide.md") {
		t.Error("what the rules do not cover is not asked about")
	}
}
