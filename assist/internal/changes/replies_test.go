package changes_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

const text = "```go:a.go\npackage a\n```\n\n```go:sub/b.go\npackage b\n```\n\n" +
	"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 40\n=== END PROGRESS UPDATE ===\n" +
	"=== STANDUP ===\nworking_on: a\n=== END STANDUP ===\n"

type rig struct {
	*changes.Replies
	db   *state.DB
	root string
	data string // of the database
}

func newRig(t *testing.T) *rig {
	t.Helper()
	data := t.TempDir()
	db, err := state.Open(t.Context(), data, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{db: db, root: t.TempDir(), data: data}
	r.Replies = changes.NewReplies(changes.Options{
		Store: db.Projects(), Journal: db.Journal(), Outbox: assignment.NewOutbox(db.Outbox()),
		Protected: []string{data}})
	return r
}

func (r *rig) propose(t *testing.T, m changes.Message) (*changes.ReplyRecord, *workspace.Proposal) {
	t.Helper()
	h, p, err := r.Propose(t.Context(), "local", m, reply.Parse([]byte(m.Text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Keep(t.Context(), h, p); err != nil {
		t.Fatal(err)
	}
	return h, p
}

// Nothing is applied without a link. A linked folder is changed until the undo.
func TestLinkIsConsent(t *testing.T) {
	r := newRig(t)
	m := changes.Message{Text: text, Project: "P1"}
	h, p := r.propose(t, m)
	if h.Gate == "" || p != nil {
		t.Errorf("without a link: gate %q", h.Gate)
	}
	if _, err := r.Approve(t.Context(), h, p, changes.Consent{}); !errors.Is(err, changes.ErrClosed) {
		t.Errorf("approved all the same: %v", err)
	}
	if _, err := r.Link(t.Context(), changes.Link{Owner: "local", Project: "P1", Root: r.root,
		API: "https://projects.example.com/"}); err != nil {
		t.Fatal(err)
	}
	h, p = r.propose(t, m)
	if h.Gate != "" || p == nil || h.API != "https://projects.example.com" {
		t.Fatalf("with a link: %+v", h)
	}
	a, err := p.Approve()
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Approve(t.Context(), h, p, changes.Consent{Approval: a})
	if err != nil || len(result.FilesCreated) != 2 || result.ProgressUpdates != 1 || result.State != changes.Applied {
		t.Errorf("%+v %v", result, err)
	}
	if _, err := r.Approve(t.Context(), h, p, changes.Consent{Approval: a}); !errors.Is(err, changes.ErrDone) {
		t.Errorf("approved twice: %v", err)
	}
	// Blocks for people are shown.
	if len(h.Shown) != 1 || h.Shown[0].Block != "STANDUP" {
		t.Errorf("shown: %+v", h.Shown)
	}
}

// A process dies between the commit and the receipt. The next process finds both.
func TestReceiptAfterACrash(t *testing.T) {
	r := newRig(t)
	h, p := r.propose(t, changes.Message{Text: text, Root: r.root})
	a, err := p.Approve()
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Workspace(t.Context(), r.root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), p, a, workspace.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	found, again, err := r.Open(t.Context(), "local", h.ID)
	if err != nil || again != nil || found.Result.State != changes.Applied || len(found.Result.FilesCreated) != 2 {
		t.Errorf("%+v %v", found.Result, err)
	}
}

func TestOnly(t *testing.T) {
	r := newRig(t)
	for pattern, want := range map[string]int{"a.go": 1, "sub/**": 1, "*.go": 2, "nothing": 0} {
		_, p := r.propose(t, changes.Message{Text: text, Root: r.root, Only: []string{pattern}})
		if len(p.Files) != want {
			t.Errorf("%s: %d files, want %d", pattern, len(p.Files), want)
		}
	}
	_, p := r.propose(t, changes.Message{Text: text, Root: r.root, Only: []string{"a.go", "sub/*"}})
	if len(p.Files) != 2 {
		t.Errorf("two patterns: %d files", len(p.Files))
	}
}

// A reply with only reports needs no existing folder.
func TestReportsAlone(t *testing.T) {
	r := newRig(t)
	only := "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 40\n=== END PROGRESS UPDATE ===\n"
	h, p := r.propose(t, changes.Message{Text: only, Root: r.root, Project: "P1", API: "https://x.example"})
	result, err := r.Approve(t.Context(), h, p, changes.Consent{})
	if err != nil || len(result.Posts) != 1 || result.Posts[0].State != assignment.Pending {
		t.Errorf("%+v %v", result, err)
	}
	if entries, err := os.ReadDir(r.root); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
}

// Declining changes and reports nothing.
func TestDecline(t *testing.T) {
	r := newRig(t)
	h, p := r.propose(t, changes.Message{Text: text, Root: r.root, Project: "P1", API: "https://x.example"})
	if err := r.Decline(t.Context(), h, "no"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Approve(t.Context(), h, p, changes.Consent{}); !errors.Is(err, changes.ErrDone) {
		t.Errorf("approved all the same: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.root, "a.go")); err == nil {
		t.Error("a file is there")
	}
	lanes, err := r.db.Outbox().Load(t.Context(), assignment.Query{})
	if err != nil || len(lanes) != 0 {
		t.Errorf("%+v %v", lanes, err)
	}
}
