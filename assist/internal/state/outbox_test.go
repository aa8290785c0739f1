package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

func openState(t *testing.T, dir string) *state.DB {
	t.Helper()
	db, err := state.Open(t.Context(), dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func batch(t *testing.T, id string, percent int) assignment.Batch {
	t.Helper()
	r := reply.Parse(
		fmt.Appendf(nil, "=== PROGRESS UPDATE ===\nassignment_id: %s\npercent: %d\n=== END PROGRESS UPDATE ===\n", id,
			percent))
	b := assignment.NewBatch(r.Items, assignment.Source{API: "https://projects.example.com", Project: "P",
		Reply: r.SHA256})
	if len(b.Posts) != 1 {
		t.Fatalf("%+v", b)
	}
	return b
}

func posts(t *testing.T, db *state.DB) []assignment.Post {
	t.Helper()
	lanes, err := db.Outbox().Load(t.Context(), assignment.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var all []assignment.Post
	for _, l := range lanes {
		all = append(all, l.Posts...)
	}
	return all
}

// Reports are queued in the step in which their files are there: not before
// it, not without it, and once.
func TestReportsComeWithTheirFiles(t *testing.T) {
	data, root := t.TempDir(), t.TempDir()
	db := openState(t, data)
	w, err := workspace.Open(t.Context(), root, workspace.Options{Store: db.Journal()})
	if err != nil {
		t.Fatal(err)
	}
	attached := func(fail error) func(*workspace.Receipt) (json.RawMessage, error) {
		return func(*workspace.Receipt) (json.RawMessage, error) {
			if n := len(posts(t, db)); n != 0 {
				t.Errorf("%d posts before the commit", n)
			}
			text, err := json.Marshal(assignment.Attachment{Reports: batch(t, "A1", 10)})
			return text, errors.Join(err, fail)
		}
	}
	commit := func(name string, fail error) error {
		p, err := w.Plan(t.Context(), workspace.Origin{}, workspace.Change{
			Verb: workspace.Write, Path: name, Content: workspace.Bytes([]byte("x\n"))})
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.Approve()
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Commit(t.Context(), p, a, workspace.CommitOptions{Attach: attached(fail)})
		return err
	}
	if err := commit("a", errors.New("no")); err == nil || len(posts(t, db)) != 0 {
		t.Errorf("a commit that failed: %v, %d posts", err, len(posts(t, db)))
	}
	if err := commit("b", nil); err != nil {
		t.Fatal(err)
	}
	found := posts(t, db)
	if len(found) != 1 || found[0].State != assignment.Pending || found[0].Transaction == "" {
		t.Errorf("after the commit: %+v", found)
	}
	// The record saved once more queues nothing.
	record, err := db.Journal().Load(t.Context(), found[0].Transaction)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Journal().Save(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if n := len(posts(t, db)); n != 1 {
		t.Errorf("%d posts", n)
	}
	// Another process sees the same.
	if n := len(posts(t, openState(t, data))); n != 1 {
		t.Errorf("%d posts in another process", n)
	}
}

// Several processes add and send at once: everything arrives once.
func TestManySenders(t *testing.T) {
	data := t.TempDir()
	project := &demo.Project{Forgetful: true}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var group sync.WaitGroup
	for i := range 3 {
		db := openState(t, data)
		sender := assignment.NewSender(db.Outbox(), assignment.SenderOptions{
			HTTP: &http.Client{Transport: project}, Poll: 20 * time.Millisecond})
		group.Go(func() { sender.Run(ctx) })
		group.Go(func() {
			outbox := assignment.NewOutbox(db.Outbox())
			for n := range 10 {
				b := batch(t, fmt.Sprintf("A%d-%d", i, n), 10+n)
				b.Posts = append(b.Posts, batch(t, "Shared", 10*i+n).Posts...)
				if _, err := outbox.Add(ctx, b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	outbox := openState(t, data).Outbox()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for ; ; <-look.C { // the senders tell nobody
		lanes, err := outbox.Load(ctx, assignment.Query{})
		if err != nil {
			t.Fatal(err)
		}
		waiting := 0
		for _, l := range lanes {
			for _, p := range l.Posts {
				if !p.State.Final() {
					waiting++
				}
			}
		}
		if len(lanes) == 31 && waiting == 0 {
			break
		}
	}
	stop()
	group.Wait()
	seen := map[string]bool{}
	for _, d := range project.Deliveries() {
		if seen[d.Key] {
			t.Errorf("%s was delivered twice", d.Path)
		}
		seen[d.Key] = true
	}
	if len(seen) < 31 {
		t.Errorf("%d deliveries", len(seen))
	}
}

func TestProjects(t *testing.T) {
	ctx := t.Context()
	s := openState(t, t.TempDir()).Projects()
	link := changes.Link{Owner: "local", Project: "P", Root: "/srv/p", API: "https://x",
		Created: time.UnixMicro(7).UTC()}
	for range 2 { // the second time replaces it
		if err := s.PutLink(ctx, link); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Link(ctx, "local", "P"); err != nil || got != link {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := s.Link(ctx, "other", "P"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("somebody else's: %v", err)
	}
	if list, err := s.Links(ctx, "local"); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	if err := s.DropLink(ctx, "local", "P"); err != nil {
		t.Error(err)
	}
	if err := s.DropLink(ctx, "local", "P"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	h := &changes.ReplyRecord{ID: "h", Owner: "local", Created: time.Now(),
		Result: &changes.Result{State: changes.Proposed}}
	if err := s.PutReplyRecord(ctx, h); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReplyRecord(ctx, "local", "h"); err != nil || got.Result.State != changes.Proposed {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := s.ReplyRecord(ctx, "other", "h"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}
