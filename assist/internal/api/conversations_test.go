package api

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/engine"
)

// archived are conversations of the real archive, with outputs in a folder.
type archived struct {
	conversation.Archive
	dir string
}

func (a archived) Drop(ctx context.Context, owner, id string) error {
	return a.DropConversation(ctx, owner, id)
}

func (a archived) Output(sha256 string) (*os.File, error) {
	return os.Open(filepath.Join(a.dir, sha256))
}

// TestConversationsAreTrue holds what is said of conversations against its
// schema, and keeps them from strangers.
func TestConversationsAreTrue(t *testing.T) {
	r := newWorkRig(t)
	db, err := state.Open(t.Context(), t.TempDir(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r.do("GET", "/conversations", "/conversations", "", 503)
	kept := archived{db.Conversations(), t.TempDir()}
	r.work.Conversations = kept

	sha := workspace.Sum([]byte("<script>alert(1)</script>")).String()
	if err := os.WriteFile(filepath.Join(kept.dir, sha), []byte("<script>alert(1)</script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	exit := 0
	at := time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)
	turn := &conversation.Turn{Number: 1, State: conversation.TurnDone, Started: at, Ended: at, Prompt: "Sum", Text: "3",
		Answer: []byte(`{"sum":3}`),
		Inputs: []conversation.Upload{{Path: "a/b.csv", Local: "/home/me/a/b.csv", Name: "b.csv", Size: 8, SHA256: sha}},
		Steps: []provider.Step{{ID: "s1", Language: "python", Code: "print(3)", Stdout: "3\n", ExitCode: &exit,
			Outcome: provider.OutcomeOK}},
		Outputs: []conversation.Output{{ID: "o1", Name: "page.html", Size: 25, MIME: "text/html", SHA256: sha,
			State: conversation.OutputSaved, Saved: "/out/page.html"},
			{ID: "o2", Name: "x", Size: -1, State: conversation.OutputFailed,
				Problem: &conversation.Problem{Kind: "too_large", Message: "m", Hint: "h"}}},
		Decisions: []conversation.Decision{{Ask: conversation.Ask{ID: "t1q1", Kind: conversation.AskSend, Text: "Send?"},
			Answer: conversation.Answer{OK: true, Picks: []conversation.Pick{{ID: "f1"}}}, At: at}},
		Exchange: []provider.Turn{{Role: provider.RoleUser, Text: "Sum", Raw: []byte(`{"private":1}`)}},
		Stop:     provider.StopDone}
	c := &conversation.Conversation{ID: "conv1", Owner: "alice", Title: "Sum", Created: at, Updated: time.Now(),
		Cleaned:  &conversation.Cleaned{At: at, Deleted: 2},
		Settings: conversation.Settings{Provider: "openai", Model: "m", Tool: provider.ToolAuto}}
	if err := kept.PutConversation(t.Context(), c, turn); err != nil {
		t.Fatal(err)
	}

	r.do("GET", "/conversations", "/conversations?limit=1", "", 200, `"id":"conv1"`, `"next":"conv1"`)
	r.do("GET", "/conversations", "/conversations?after=conv1", "", 200, `"conversations":[]`)
	r.do("GET", "/conversations", "/conversations?limit=x", "", 400)
	w := r.send("GET", "/conversations/conv1", "", "")
	if text := w.Body.String(); strings.Contains(text, "private") || strings.Contains(text, "/home/me") {
		t.Errorf("it tells too much: %s", text)
	}
	r.do("GET", "/conversations/{id}", "/conversations/conv1", "", 200, `"outcome":"OK"`, `"answer":{"sum":3}`,
		`"state":"saved"`, `"picks":["f1"]`)
	r.do("GET", "/conversations/{id}", "/conversations/nothing", "", 404,
		"there is no such object: /conversations/nothing\"")
	const outputs = "/conversations/{id}/outputs/{sha256}"
	w = r.send("GET", "/conversations/conv1/outputs/"+sha, "", "")
	checkAnswer(t, r.doc, r.doc.Paths.Find(outputs).Get, w)
	if w.Code != 200 || strings.Contains(w.Header().Get("Content-Type"), "html") ||
		!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	r.do("GET", outputs, "/conversations/conv1/outputs/"+strings.Repeat("0", 64), "", 404)
	r.do("GET", outputs, "/conversations/nothing/outputs/"+sha, "", 404)

	for _, stranger := range []engine.Caller{{Owner: "alice"}, {Owner: "alice", Key: "k"}, {Owner: engine.Local, Key: "k"},
		{Owner: "bob", Admin: true}, {Owner: engine.Local}} {
		r.caller = stranger
		want := 403
		if stranger.Admin || stranger.Owner == engine.Local && stranger.Key == "" {
			want = 404
		}
		r.do("GET", "/conversations/{id}", "/conversations/conv1", "", want)
		r.do("GET", outputs, "/conversations/conv1/outputs/"+sha, "", want)
		r.do("DELETE", "/conversations/{id}", "/conversations/conv1", "", want)
	}
	r.do("GET", "/conversations", "/conversations", "", 200, `"conversations":[]`) // on the machine, its own
	r.caller = engine.Caller{Owner: "alice", Admin: true}
	r.do("DELETE", "/conversations/{id}", "/conversations/conv1", "", 204)
	r.do("GET", "/conversations/{id}", "/conversations/conv1", "", 404)
}
