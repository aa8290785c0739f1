package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/disk"
)

// takeAll takes the last byte of a disk, as another program might.
func takeAll(t *testing.T, at string) {
	t.Helper()
	f, err := os.CreateTemp(at, "filler")
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// With 0 bytes free, what deletes works, also after another start, what adds is
// refused, and nothing is lost.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	at, ctx := t.TempDir(), t.Context()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	data, root := filepath.Join(at, "data"), filepath.Join(at, "project")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(root, 0o700)); err != nil {
		t.Fatal(err)
	}
	space, err := disk.Open(data, 1)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *state.DB {
		t.Helper()
		db, err := state.Open(ctx, data, state.Options{Reserve: space.Borrow})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	defer func() { db.Close() }()
	desk := func() *workspace.Workspace {
		t.Helper()
		w, err := workspace.Open(ctx, root, workspace.Options{Store: db.Journal()})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	apply := func(w *workspace.Workspace, p *workspace.Proposal) error {
		a, err := p.Approve()
		if err == nil {
			_, err = w.Commit(ctx, p, a, workspace.CommitOptions{})
		}
		return err
	}
	write := func(name string) error {
		w := desk()
		p, err := w.Plan(ctx, workspace.Origin{}, workspace.Change{
			Verb: workspace.Write, Path: name, Content: workspace.Bytes([]byte(strings.Repeat(name+"\n", 2000)))})
		if err != nil {
			return err
		}
		return apply(w, p)
	}
	talk := func(id string) error {
		c := &conversation.Conversation{ID: id, Owner: "ada", Updated: time.Now(), Title: strings.Repeat("talk ", 2000)}
		return db.Conversations().PutConversation(ctx, c)
	}
	outbox := func() *assignment.Outbox { return assignment.NewOutbox(db.Outbox()) }
	for _, name := range []string{"a", "b", "c"} {
		err := errors.Join(write(name), talk(name), talk("kept"+name),
			db.Projects().PutLink(ctx, changes.Link{Owner: "ada", Project: name, Root: root, Created: time.Now()}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{"A1", "A2", "A3"} {
		if _, err := outbox().Add(ctx, batch(t, id, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	queued := posts(t, db)
	takeAll(t, at)
	erase := func(i int, name string) {
		t.Helper()
		for what, do := range map[string]func() error{
			"a conversation": func() error { return db.Conversations().DropConversation(ctx, "ada", name) },
			"a project":      func() error { return db.Projects().DropLink(ctx, "ada", name) },
			"a post":         func() error { return outbox().Drop(ctx, queued[i].ID) },
			"an undo": func() error {
				w := desk()
				p, err := w.UndoLatest(ctx)
				if err != nil {
					return err
				}
				return apply(w, p)
			},
		} {
			if err := do(); err != nil {
				t.Errorf("%s, %s: %v", what, name, err)
			}
			takeAll(t, at) // the freed space is taken again
		}
		if _, err := os.Stat(filepath.Join(root, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file %s that was undone: %v", name, err)
		}
	}
	erase(0, "c")
	if err := talk("new"); !errors.Is(err, state.ErrFull) {
		t.Errorf("a conversation more: %v", err)
	}
	if err := write("new"); err == nil || !strings.Contains(err.Error(), "0 are free") {
		t.Errorf("a commit: %v", err)
	}
	erase(1, "b")
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	db = open()
	erase(2, "a")
	fillers, _ := filepath.Glob(filepath.Join(at, "filler*"))
	for _, name := range fillers {
		os.Remove(name)
	}
	if err := errors.Join(write("later"), talk("later")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	list, err := db.Conversations().Conversations(ctx, "ada", conversation.Page{})
	if err != nil || len(list) != 4 {
		t.Errorf("%d conversations, %v", len(list), err)
	}
	for _, p := range posts(t, db) {
		if p.State != assignment.Dropped {
			t.Errorf("%+v", p)
		}
	}
	if damaged, err := db.Journal().Verify(ctx); err != nil || len(damaged) > 0 {
		t.Errorf("damaged: %v %v", damaged, err)
	}
}
