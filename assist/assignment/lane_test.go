package assignment_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
)

// Progress that has not left is merged; submissions never are, and stand after
// it.
func TestMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.report(progress("A1", 20, "one"))
		r.report(progress("A1", 40, "two"))
		r.report(submission("A1", "first"))
		r.report(progress("A1", 60, "three"))
		r.report(submission("A1", "second"))
		r.want("A1", "progress:merged progress:pending submission:pending progress:pending submission:pending")
		r.drain()
		if diff := cmp.Diff([]string{"A1 progress", "A1 submit", "A1 progress", "A1 submit"}, r.delivered()); diff != "" {
			t.Error(diff)
		}
		want := `{"progress_percent":40,"progress_notes":"one\ntwo","remaining_items":[]}`
		if got := r.project.Deliveries()[0].Body; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// What may have arrived is not merged: it is repeated under its own key.
func TestUnsureIsNotMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.project.Inject(demo.Fault{LoseAnswer: true})
		r.report(progress("A1", 20, "one"))
		r.drain()
		r.report(progress("A1", 40, "two"))
		r.want("A1", "progress:pending progress:pending")
	})
}

func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.report(submission("A1", "too early"))
		r.report(escalation("A1", "Which kind of login?") + submission("A1", "done"))
		r.report(escalation("A1", "which kind  of login?")) // asked again
		r.want("A1", "submission:held escalation:pending submission:held")
		r.report(progress("A1", 50, "files are not held"))
		r.drain()
		r.want("A1", "submission:held escalation:sent submission:held progress:sent")

		lane := r.lane("A1")
		id := lane.Escalations[0].ID
		open, err := r.outbox.Decisions(t.Context(), assignment.Query{}, true)
		if err != nil || !strings.Contains(assignment.DecisionText(open), "Open escalations: 1") {
			t.Errorf("%v %q", err, assignment.DecisionText(open))
		}
		// A held post cannot be talked past the question.
		if err := r.outbox.Confirm(t.Context(), lane.Posts[0].ID); err == nil {
			t.Error("a submission was confirmed past an open question")
		}
		r.drain()
		r.want("A1", "submission:held escalation:sent submission:held progress:sent")

		// Of many who answer at once one is first.
		var group sync.WaitGroup
		var mu sync.Mutex
		won, lost := 0, 0
		for _, choice := range []string{"1", "2", "jwt", "cookies"} {
			group.Go(func() {
				_, err := r.outbox.Answer(t.Context(), id, assignment.Answer{
					Verdict: assignment.Chosen, Choice: choice, By: choice})
				answered, late := errors.AsType[*assignment.AnsweredError](err)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case late && answered.Escalation.Answer.By != "":
					lost++
				}
			})
		}
		group.Wait()
		if won != 1 || lost != 3 {
			t.Errorf("%d won, %d were late", won, lost)
		}
		r.drain()
		r.want("A1", "submission:sent escalation:sent submission:sent progress:sent decision:sent")
		// The decision was there before the submissions.
		got := strings.Join(r.delivered(), ", ")
		if want := ", A1 progress, " + id + " decision, A1 submit, A1 submit"; got != want {
			t.Errorf("%s, want %s", got, want)
		}

		told, err := r.outbox.Decisions(t.Context(), assignment.Query{}, true)
		text := assignment.DecisionText(told)
		if err != nil || !strings.Contains(text, "=== DECISION ===\nescalation_id: "+id) {
			t.Errorf("%v %q", err, text)
		}
		if again, err := r.outbox.Decisions(t.Context(), assignment.Query{}, true); err != nil || len(again) != 0 {
			t.Errorf("told twice: %v %v", again, err)
		}
		if got := read(t, text); len(got.Posts) != 0 {
			t.Errorf("the text for the prompt is read as posts: %+v", got.Posts)
		}
	})
}

func TestPick(t *testing.T) {
	e := assignment.Escalation{Options: []string{"JWT", "Session-based", "Session in Redis"}}
	for typed, want := range map[string]string{"1": "JWT", "2": "Session-based", "4": "4", "jw": "JWT",
		"session": "session", "SESSION-BASED": "Session-based", "cookies": "cookies", "0": "0"} {
		if got := e.Pick(typed); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

func TestHeldForConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.report("=== SUBMISSION ===\nassignment_id: A1\nsummary: cut off")
		r.drain()
		r.want("A1", "submission:held")
		p := r.lane("A1").Posts[0]
		if err := r.outbox.Retry(t.Context(), p.ID); err == nil {
			t.Error("a held post is retried")
		}
		if err := r.outbox.Confirm(t.Context(), p.ID[:8]); err != nil {
			t.Fatal(err)
		}
		r.drain()
		r.want("A1", "submission:sent")
		if err := r.outbox.Confirm(t.Context(), p.ID); err == nil {
			t.Error("a sent post is confirmed")
		}
	})
}

// What was dropped can be reported again, and frees the lane.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.project.Inject(demo.Fault{Status: 422})
		r.report(progress("A1", 20, "bad") + submission("A1", "done"))
		r.drain()
		r.want("A1", "progress:parked submission:pending")
		if err := r.outbox.Drop(t.Context(), r.lane("A1").Posts[0].ID); err != nil {
			t.Fatal(err)
		}
		r.drain()
		r.want("A1", "progress:dropped submission:sent")
		r.report(progress("A1", 20, "bad") + submission("A1", "done"))
		r.drain()
		if n := len(r.project.Deliveries()); n != 2 {
			t.Errorf("%d deliveries", n)
		}
	})
}

func TestWarnings(t *testing.T) {
	r := newRig(t)
	r.report(progress("A1", 60, "x"))
	entries, err := r.outbox.Preview(t.Context(), read(t, progress("A1", 40, "y")))
	if err != nil || len(entries) != 1 || len(entries[0].Warnings) != 1 {
		t.Errorf("%+v %v", entries, err)
	}
	if n := len(r.lane("A1").Posts); n != 1 {
		t.Errorf("a preview has left %d posts", n)
	}
	if b := read(t, progress("A1", 100, "x")); len(b.Warnings) != 1 {
		t.Errorf("100 %% without a submission: %q", b.Warnings)
	}
}
