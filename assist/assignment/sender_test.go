package assignment_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
)

// rig is an outbox with a sender and the project that it talks to, without a
// network.
type rig struct {
	t       *testing.T
	project *demo.Project
	store   *assignment.Memory
	outbox  *assignment.Outbox
	sender  *assignment.Sender
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, project: &demo.Project{}, store: &assignment.Memory{}}
	r.outbox = assignment.NewOutbox(r.store)
	r.sender = r.newSender()
	return r
}

func (r *rig) newSender() *assignment.Sender {
	return assignment.NewSender(r.store, assignment.SenderOptions{
		HTTP: &http.Client{Transport: r.project}, Token: func(string) string { return "secret" },
		Rand: func() float64 { return 1 }, Poll: time.Minute,
	})
}

// report adds what a reply reports.
func (r *rig) report(text string) {
	r.t.Helper()
	if _, err := r.outbox.Add(r.t.Context(), read(r.t, text)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) drain() {
	r.t.Helper()
	if err := r.sender.Drain(r.t.Context(), assignment.Query{}); err != nil {
		r.t.Fatal(err)
	}
}

// run lets the sender run for a while of the bubble's time.
func (r *rig) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	defer cancel()
	r.sender.Run(ctx)
}

func (r *rig) lane(id string) assignment.Lane {
	r.t.Helper()
	lanes, err := r.outbox.Lanes(r.t.Context(), assignment.Query{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range lanes {
		if l.Assignment == id {
			return l
		}
	}
	return assignment.Lane{}
}

// states lists the posts of an assignment as "progress:sent".
func (r *rig) states(id string) string {
	var list []string
	for _, p := range r.lane(id).Posts {
		list = append(list, string(p.Kind)+":"+string(p.State))
	}
	return strings.Join(list, " ")
}

func (r *rig) want(id, states string) {
	r.t.Helper()
	if got := r.states(id); got != states {
		r.t.Errorf("%s: %s, want %s", id, got, states)
	}
}

// delivered lists what did its work as "progress A1 20".
func (r *rig) delivered() []string {
	var list []string
	for _, d := range r.project.Deliveries() {
		parts := strings.Split(strings.TrimPrefix(d.Path, "/api/v1/projects/P1/"), "/")
		list = append(list, strings.Join(parts[1:], " "))
	}
	return list
}

func progress(id string, percent int, notes string) string {
	return fmt.Sprintf(
		"=== PROGRESS UPDATE ===\nassignment_id: %s\npercent: %d\ncompleted: %s\n=== END PROGRESS UPDATE ===\n", id, percent,
		notes)
}

func submission(id, summary string) string {
	return fmt.Sprintf("=== SUBMISSION ===\nassignment_id: %s\nsummary: %s\n=== END SUBMISSION ===\n", id, summary)
}

func escalation(id, question string) string {
	return fmt.Sprintf(
		"=== ESCALATION ===\nassignment_id: %s\ndecision_needed: %s\noptions: JWT | Sessions\n=== END ESCALATION ===\n", id,
		question)
}

func TestSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.report(submission("A1", "all done") + progress("A1", 100, "x"))
		r.drain()
		if diff := cmp.Diff([]string{"A1 progress", "A1 submit"}, r.delivered()); diff != "" {
			t.Error(diff)
		}
		if d := r.project.Deliveries()[0]; d.Token != "Bearer secret" || len(d.Key) != 64 {
			t.Errorf("token %q, key %q", d.Token, d.Key)
		}
		if s := r.lane("A1").Status; s.Work != assignment.Complete || s.Accepted != 100 {
			t.Errorf("%+v", s)
		}
		// The same reply again reports nothing.
		r.report(submission("A1", "all done") + progress("A1", 100, "x"))
		r.drain()
		if n := len(r.project.Deliveries()); n != 2 {
			t.Errorf("%d deliveries", n)
		}
	})
}

// Whatever goes wrong, each post arrives once.
func TestFaults(t *testing.T) {
	for name, faults := range map[string][]demo.Fault{
		"500":                    {{Status: 500}, {Status: 503, RetryAfter: 7}, {Status: 500}},
		"500 after the work":     {{Status: 500, Late: true}},
		"429":                    {{Status: 429, RetryAfter: 3}},
		"lost request":           {{LoseRequest: true}, {LoseRequest: true}},
		"lost answer":            {{LoseAnswer: true}, {LoseAnswer: true}},
		"lost answer, then 503":  {{LoseAnswer: true}, {Status: 503, Reads: true}, {LoseRequest: true}},
		"slow":                   {{Delay: 20 * time.Second}},
		"never":                  {{Delay: time.Hour}, {Delay: time.Hour}},
		"late answer, work done": {{LoseAnswer: true, Delay: 29 * time.Second}},
	} {
		for _, kind := range []string{"", "forgetful", "blind"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.project.Forgetful, r.project.Blind = kind == "forgetful", kind == "blind"
					r.project.Inject(faults...)
					r.report(progress("A1", 40, "x") + submission("A1", "done") + progress("A2", 10, "y"))
					r.run(10 * time.Minute)
					got := r.delivered()
					slices.Sort(got)
					if diff := cmp.Diff([]string{"A1 progress", "A1 submit", "A2 progress"}, got); diff != "" {
						t.Error(diff)
					}
				})
			})
		}
	}
}

// Random faults, a sender that is killed and started again at random, and
// others beside it.
func TestOnceWhateverHappens(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t)
			r.project.Forgetful = seed%3 == 0
			for range 40 {
				r.project.Inject([]demo.Fault{{}, {Status: 500}, {LoseAnswer: true}, {LoseRequest: true},
					{Status: 502, Late: true}, {Delay: time.Minute}}[random.IntN(6)])
			}
			var want []string
			for i := range 4 {
				id := fmt.Sprintf("A%d", i)
				r.report(progress(id, 50, "half") + submission(id, "done"))
				want = append(want, id+" progress", id+" submit")
			}
			for range 20 {
				var group sync.WaitGroup
				for range 1 + random.IntN(2) {
					life := time.Duration(random.IntN(60_000)) * time.Millisecond
					group.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), life)
						defer cancel()
						r.newSender().Run(ctx)
					})
				}
				group.Wait()
			}
			r.run(time.Hour)
			got := r.delivered()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d: %s", seed, diff)
			}
		})
	}
}

// A process that dies in mid-request leaves a post that the next one finishes,
// and looks first.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.project.Forgetful = true
		r.report(submission("A1", "done"))
		err := r.store.Change(t.Context(), r.lane("A1").LaneID, func(l *assignment.Lane) error {
			l.Claim(time.Now(), time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// It had arrived.
		body := string(r.lane("A1").Posts[0].Body)
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/projects/P1/assignments/A1/submit",
			strings.NewReader(body))
		r.project.ServeHTTP(httptest.NewRecorder(), req)
		r.drain()
		r.want("A1", "submission:sending")
		time.Sleep(2 * time.Minute)
		r.drain()
		r.want("A1", "submission:sent")
		if n := len(r.project.Deliveries()); n != 1 {
			t.Errorf("%d deliveries", n)
		}
	})
}

func TestParked(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 422, 302, 409} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.project.Inject(demo.Fault{Status: status})
			r.report(progress("A1", 40, "x") + submission("A1", "done") + progress("A2", 1, "y"))
			r.run(time.Hour)
			// The rest of the lane waits for the user; the other lane does not.
			states := r.states("A1") + " " + r.states("A2")
			if !strings.Contains(states, "parked") || strings.Count(states, "sent") != 1 && strings.Count(states, "sent") != 2 {
				t.Errorf("%d: %s", status, states)
			}
			if err := r.outbox.Retry(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			r.drain()
			r.want("A1", "progress:sent submission:sent")
			r.want("A2", "progress:sent")
		})
	}
}

// A conflict that is our own earlier request is no conflict.
func TestReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.project.Inject(demo.Fault{Status: 409, Late: true})
		r.report(submission("A1", "done"))
		r.drain()
		r.want("A1", "submission:sent")
	})
}

func TestGivesUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 3000 {
			r.project.Inject(demo.Fault{LoseRequest: true, Reads: true})
		}
		r.report(progress("A1", 40, "x"))
		r.run(23 * time.Hour)
		r.want("A1", "progress:pending")
		if n := r.project.Requests(); n > 2*24*60 {
			t.Errorf("%d requests in a day: the wait does not grow", n)
		}
		r.run(2 * time.Hour)
		r.want("A1", "progress:parked")
		if p := r.lane("A1").Posts[0]; !strings.Contains(p.Problem, "24h") {
			t.Errorf("problem: %s", p.Problem)
		}
	})
}

// While a host is away, one post asks after it and the others wait.
func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 1000 {
			r.project.Inject(demo.Fault{LoseRequest: true, Reads: true})
		}
		for i := range 50 {
			r.report(progress(fmt.Sprintf("A%d", i), 40, "x"))
		}
		r.run(10 * time.Minute)
		if n := r.project.Requests(); n > 60 {
			t.Errorf("%d requests in ten minutes to a host that is away", n)
		}
	})
}

// A slow assignment keeps no other one waiting.
func TestLanesAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.report(progress("A1", 1, "x"))
		r.project.Inject(demo.Fault{Delay: 25 * time.Second})
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { r.sender.Run(ctx); close(done) }()
		synctest.Wait()
		r.report(progress("A2", 2, "y"))
		r.sender.Wake()
		synctest.Wait()
		r.want("A2", "progress:sent")
		r.want("A1", "progress:sending")
		cancel()
		<-done
		if p := r.lane("A1").Posts[0]; p.State != assignment.Pending || !p.Unsure {
			t.Errorf("after the end: %s, unsure %v", p.State, p.Unsure)
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	store := &assignment.Memory{}
	lane := assignment.LaneID{API: server.URL, Project: "P", Assignment: "A"}
	body := []byte(`{}`)
	outbox := assignment.NewOutbox(store)
	b := assignment.Batch{Posts: []assignment.Post{{ID: "x", Key: assignment.NewKey(lane, assignment.Progress, body, ""),
		LaneID: lane, Kind: assignment.Progress, Body: body}}}
	if _, err := outbox.Add(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	s := assignment.NewSender(store, assignment.SenderOptions{HTTP: client})
	if err := s.Drain(t.Context(), assignment.Query{}); err != nil {
		t.Fatal(err)
	}
	p, err := outbox.Post(t.Context(), "x")
	if err != nil || p.State != assignment.DeadLetter || asked != 0 {
		t.Errorf("%s %s, %v, asked %d", p.State, p.Problem, err, asked)
	}
}

// An id that would change the path goes nowhere, wherever it comes from.
func TestHostileIDs(t *testing.T) {
	for _, id := range []string{"../../admin", "a/b", "a?b", "a#b", "..", "a%2fb", ""} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			lane := assignment.LaneID{API: api, Project: "P1", Assignment: id}
			body := []byte(`{"progress_percent":1,"progress_notes":"","remaining_items":[]}`)
			p := assignment.Post{ID: "x", Key: "k", LaneID: lane, Kind: assignment.Progress, Body: body}
			if _, err := r.outbox.Add(t.Context(), assignment.Batch{Posts: []assignment.Post{p}}); err != nil {
				t.Fatal(err)
			}
			r.drain()
			if p, err := r.outbox.Post(t.Context(), "x"); err != nil || p.State != assignment.DeadLetter ||
				r.project.Requests() != 0 {
				t.Errorf("%q: %s, %v, %d requests", id, p.State, err, r.project.Requests())
			}
		})
	}
}
