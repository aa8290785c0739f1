package changes_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
)

const escalates = "=== ESCALATION ===\nassignment_id: A1\ndecision_needed: Which login?\noptions: JWT | Session\n" +
	"recommendation: JWT\nrationale: It is simpler.\n=== END ESCALATION ===\n"

// An escalation that was not sent is in the result, whether no API is linked or a gate is
// closed. It is there again when the message is opened.
func TestQuestionsWithoutAnAPI(t *testing.T) {
	for name, m := range map[string]changes.Message{
		"no project": {Text: escalates}, "no API": {Text: escalates, Project: "P1"},
		"a gate": {Text: escalates, Project: "P1", API: "https://x.example", Phase: "PLAN"},
	} {
		r := newRig(t)
		m.Root = r.root
		h, _ := r.propose(t, m)
		h, _, err := r.Open(t.Context(), "local", h.ID)
		if err != nil {
			t.Fatal(err)
		}
		if q := h.Result.Questions; len(q) != 1 || !q[0].Unsent || q[0].Question != "Which login?" ||
			len(q[0].Options) != 2 || h.Result.Escalations != 1 || len(h.Result.Errors) != 0 {
			t.Errorf("%s: %+v", name, h.Result)
		}
		if h.Gate != "" {
			continue
		}
		result, err := r.Approve(t.Context(), h, nil, changes.Consent{})
		if err != nil || len(result.Questions) != 1 || result.Escalations != 1 {
			t.Errorf("%s, approved: %+v, %v", name, result, err)
		}
	}
}

// A report that failed is among the errors of the result, once.
func TestFailedReportsAreErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"message":"no such assignment"}`))
	}))
	defer server.Close()
	r := newRig(t)
	m := changes.Message{Text: "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 50\ncompleted: half\n" +
		"next: the rest\n=== END PROGRESS UPDATE ===\n", Project: "P1", API: server.URL, Root: r.root}
	h, p, err := r.Propose(t.Context(), "local", m, reply.Parse([]byte(m.Text)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Approve(t.Context(), h, p, changes.Consent{}); err != nil {
		t.Fatal(err)
	}
	if err := assignment.NewSender(r.db.Outbox(), assignment.SenderOptions{HTTP: server.Client()}).Drain(
		t.Context(), assignment.Query{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Refresh(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	if e := h.Result.Errors; len(e) != 1 || !strings.HasPrefix(e[0], "not reported: progress A1: ") ||
		!strings.Contains(e[0], "answered 422") {
		t.Errorf("%q", e)
	}
}
