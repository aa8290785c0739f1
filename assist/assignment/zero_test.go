package assignment_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/assignmenttest"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/reply"
)

func TestMemory(t *testing.T) {
	assignmenttest.TestStore(t, func(*testing.T) assignment.Store { return &assignment.Memory{} })
}

// What a caller has left out is an error or a default, not a panic.
func TestZeroValues(t *testing.T) {
	ctx := t.Context()
	outbox, sender := assignment.NewOutbox(nil), assignment.NewSender(nil, assignment.SenderOptions{})
	_, added := outbox.Add(ctx, assignment.Batch{Posts: []assignment.Post{{ID: "a", Kind: assignment.Progress}}})
	_, listed := outbox.Lanes(ctx, assignment.Query{})
	for name, err := range map[string]error{"add": added, "lanes": listed, "retry": outbox.Retry(ctx, ""),
		"drain": sender.Drain(ctx, assignment.Query{})} {
		if err == nil || !strings.Contains(err.Error(), "Store") {
			t.Errorf("%s without a store: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	sender.Run(ended)

	if b := assignment.NewBatch([]*reply.Item{nil}, assignment.Source{}); len(b.Posts)+len(b.Problems) > 0 {
		t.Errorf("no item gave %+v", b)
	}
	if text := new(assignment.AnsweredError).Error(); !strings.Contains(text, "answered") {
		t.Errorf("without an answer: %s", text)
	}
	new(assignment.Lane).Finish(nil, assignment.Outcome{Sent: true}, time.Now())
	submitted := read(t, "=== SUBMISSION ===\nassignment_id: a1\nsummary: Done.\nevidence: report.md\n"+
		"=== END SUBMISSION ===\n")
	submitted.CheckEvidence(nil)
	if len(submitted.Posts) != 1 || len(submitted.Warnings) == 0 {
		t.Errorf("evidence that nobody looked for gave no warning: %+v", submitted)
	}
}

// Options below zero are what a caller leaves out: posts are sent, and not again and again.
func TestNegativeOptions(t *testing.T) {
	project, store := &demo.Project{}, &assignment.Memory{}
	batch := read(t, "=== PROGRESS UPDATE ===\nassignment_id: a1\npercent: 40\ncompleted: a\n"+
		"=== END PROGRESS UPDATE ===\n")
	if _, err := assignment.NewOutbox(store).Add(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	sender := assignment.NewSender(store, assignment.SenderOptions{HTTP: &http.Client{Transport: project},
		Timeout: -1, Base: -1, Cap: -1, Total: -1, Poll: -1, Parallel: -1})
	if err := sender.Drain(t.Context(), assignment.Query{}); err != nil {
		t.Fatal(err)
	}
	lanes, err := store.Load(t.Context(), assignment.Query{})
	if err != nil || len(lanes) != 1 || len(lanes[0].Posts) != 1 || lanes[0].Posts[0].State != assignment.Sent {
		t.Errorf("%+v, %v", lanes, err)
	}
}
