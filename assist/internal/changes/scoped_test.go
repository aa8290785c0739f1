package changes_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

func (r *rig) reach() *changes.Scoped {
	return &changes.Scoped{Replies: r.Replies, Folders: []string{r.root}, Wake: func() {}}
}

// linked returns a Scoped with a linked project and a pending reply.
func linked(t *testing.T) (*rig, *changes.Scoped, *changes.ReplyRecord) {
	t.Helper()
	r := newRig(t)
	reach := r.reach()
	if _, err := reach.LinkFolder(t.Context(), changes.Link{
		Owner: "local", Project: "P1", Root: r.root, API: "https://x.example"}); err != nil {
		t.Fatal(err)
	}
	h, _ := r.propose(t, changes.Message{Text: text, Project: "P1"})
	return r, reach, h
}

func TestOnlyFoldersThatWereGiven(t *testing.T) {
	r := newRig(t)
	reach := r.reach()
	sub := filepath.Join(r.root, "sub")
	if err := errors.Join(os.Mkdir(sub, 0o755), os.Symlink(t.TempDir(), filepath.Join(r.root, "out")),
		os.WriteFile(filepath.Join(r.root, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]error{
		r.root: nil, sub: nil, sub + "/../sub": nil,
		"/": changes.ErrOutside, t.TempDir(): changes.ErrOutside,
		filepath.Join(r.root, "out"): changes.ErrOutside,
		r.root + "/..":               changes.ErrOutside, "relative": changes.ErrOutside,
		"":                               changes.ErrOutside,
		filepath.Join(r.root, "nothing"): changes.ErrOutside, filepath.Join(r.root, "file"): changes.ErrInvalid,
	} {
		if _, err := reach.LinkFolder(t.Context(), changes.Link{Owner: "local", Project: "P", Root: root}); !errors.Is(
			err, want) {
			t.Errorf("%s: %v", root, err)
		}
	}
}

// A link of another owner, or outside the folders, does not exist.
func TestReachOfOthers(t *testing.T) {
	r, reach, h := linked(t)
	if _, _, err := reach.OpenReply(t.Context(), "bob", h.ID); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("another owner: %v", err)
	}
	if _, err := reach.Linked(t.Context(), "bob", "P1"); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("another owner: %v", err)
	}
	reach.Folders = []string{t.TempDir()}
	if _, _, err := reach.OpenReply(t.Context(), "local", h.ID); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("beyond the folders: %v", err)
	}
	if _, err := reach.Linked(t.Context(), "local", "P1"); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("beyond the folders: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.root, "a.go")); err == nil {
		t.Error("a file is there")
	}
}

// Only what the user was shown is applied.
func TestApplyWantsTheToken(t *testing.T) {
	r, reach, h := linked(t)
	h, p, err := reach.OpenReply(t.Context(), "local", h.ID)
	if err != nil {
		t.Fatal(err)
	}
	shown := changes.Token(h, p)
	w, err := r.Workspace(t.Context(), r.root)
	if err != nil {
		t.Fatal(err)
	}
	edited, err := w.Resolve(t.Context(), p, "f1", workspace.Edited, []byte("package evil\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Keep(t.Context(), h, edited); err != nil {
		t.Fatal(err)
	}
	h, p, err = reach.OpenReply(t.Context(), "local", h.ID)
	if err != nil {
		t.Fatal(err)
	}
	consent, err := changes.ConsentTo(h, p, []string{"f1", "p1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{shown, "", h.ID} {
		if _, err := reach.Apply(t.Context(), h, p, token, consent); !errors.Is(err, workspace.ErrStale) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := os.Stat(filepath.Join(r.root, "a.go")); err == nil {
		t.Fatal("a file is there")
	}
	result, err := reach.Apply(t.Context(), h, p, changes.Token(h, p), consent)
	if err != nil || len(result.FilesCreated) != 1 || result.ProgressUpdates != 1 {
		t.Errorf("%+v %v", result, err)
	}
}

// Revoking a link closes pending replies.
func TestUnlinkClosesWhatWaits(t *testing.T) {
	r, reach, h := linked(t)
	if err := r.Store.DropLink(t.Context(), "local", "P1"); err != nil {
		t.Fatal(err)
	}
	h, p, err := reach.OpenReply(t.Context(), "local", h.ID)
	if err != nil || h.Gate == "" || changes.Token(h, p) != "" {
		t.Fatalf("%+v %v", h, err)
	}
	consent, err := changes.ConsentTo(h, p, []string{"f1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reach.Apply(t.Context(), h, p, p.Token, consent); !errors.Is(err, changes.ErrClosed) {
		t.Errorf("applied all the same: %v", err)
	}
}

func TestConsentTo(t *testing.T) {
	_, reach, h := linked(t)
	h, p, err := reach.OpenReply(t.Context(), "local", h.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"f9", "p0", "p2", "p", "x", "f1:h9", "f1:", ":h1", ""} {
		if _, err := changes.ConsentTo(h, p, []string{id}); !errors.Is(err, changes.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if c, err := changes.ConsentTo(h, p, nil); err != nil || len(c.Approval.Files) != 0 || c.Posts == nil {
		t.Errorf("nothing is agreed to: %+v %v", c, err)
	}
}

func TestUnlinked(t *testing.T) {
	r := newRig(t)
	p, err := r.Unlinked(t.Context(), reply.Parse([]byte(text+"\n```go:../../evil.go\npackage evil\n```\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Files) != 3 || p.Files[2].Verdict() != workspace.Refuse {
		t.Fatalf("%+v", p.Files)
	}
	if _, err := os.Stat(p.Root); err == nil {
		t.Errorf("%s is left", p.Root)
	}
}

func TestEvidence(t *testing.T) {
	r := newRig(t)
	if err := os.WriteFile(filepath.Join(r.root, "old.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, p := r.propose(t, changes.Message{Text: text + "\n```go:../evil.go\npackage evil\n```\n", Root: r.root})
	for evidence, want := range map[string]assignment.FileState{
		"a.go": assignment.Present, "./sub/b.go": assignment.Present, "old.go": assignment.Present,
		"none.go":    assignment.Missing,
		"../evil.go": assignment.NoFile, "https://x.example/1": assignment.NoFile, "all tests pass": assignment.NoFile,
	} {
		if got := r.Evidence(h, p, evidence); got != want {
			t.Errorf("%s: %v, want %v", evidence, got, want)
		}
	}
}

func TestRecent(t *testing.T) {
	r, _, h := linked(t)
	other, _ := r.propose(t, changes.Message{Text: text + "more", Root: r.root})
	if err := r.Decline(t.Context(), other, "no"); err != nil {
		t.Fatal(err)
	}
	ids := func(settled bool, owner string) (all []string) {
		list, err := r.db.Projects().Recent(t.Context(), owner, settled, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range list {
			all = append(all, h.ID)
		}
		return all
	}
	if got := ids(false, "local"); len(got) != 1 || got[0] != h.ID {
		t.Errorf("what waits: %v", got)
	}
	if got := ids(true, "local"); len(got) != 1 || got[0] != other.ID {
		t.Errorf("what is settled: %v", got)
	}
	if got := ids(false, "bob"); got != nil {
		t.Errorf("of somebody else: %v", got)
	}
}
