package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
)

// Fault is how one request goes wrong. Its fields can be combined.
type Fault struct {
	Delay      time.Duration `json:"delay"`       // before anything else; in JSON in nanoseconds
	Status     int           `json:"status"`      // answered instead of doing the work
	RetryAfter int           `json:"retry_after"` // in seconds, with Status
	// LoseRequest breaks the connection before the work, LoseAnswer after it.
	LoseRequest bool `json:"lose_request"`
	LoseAnswer  bool `json:"lose_answer"`
	// Late answers Status although the work was done.
	Late bool `json:"late"`
	// Reads makes the fault one for requests that read, too; other faults let
	// them pass.
	Reads bool `json:"reads"`
}

// Assignment is the state of an assignment in a project.
type Assignment struct {
	ID        string   `json:"id"`
	Status    string   `json:"status"` // OPEN, SUBMITTED
	Percent   int      `json:"progress_percent"`
	Notes     string   `json:"progress_notes"`
	Remaining []string `json:"remaining_items"`
	Summary   string   `json:"submission_summary"`
	Evidence  []string `json:"submission_evidence"`
}

// Escalation is a question to a project.
type Escalation struct {
	assignment.QuestionBody
	State    string                   `json:"state"` // open, decided
	Decision *assignment.DecisionBody `json:"decision"`
}

// Delivery is one request that took effect.
type Delivery struct {
	Path, Key, Body string
	Token           string // as the Authorization header had it
}

// Project is the reference API of a project, for any number of projects. It
// is an http.Handler and, so that no network is needed, an http.RoundTripper.
type Project struct {
	// Forgetful makes it an API that knows no Idempotency-Key.
	Forgetful bool
	// Blind makes it an API whose assignments cannot be read.
	Blind bool
	// Token is the one that requests must show; empty: none.
	Token string

	mu          sync.Mutex
	faults      []Fault
	assignments map[string]*Assignment // "project/assignment"
	escalations map[string]*Escalation // "project/escalation"
	answers     map[string]stored      // by key
	deliveries  []Delivery
	requests    int
}

type stored struct{ request, answer string }

// Inject makes the next requests fail, each in its way.
func (p *Project) Inject(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, faults...)
}

// Deliveries returns the requests that took effect so far, in order.
func (p *Project) Deliveries() []Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.deliveries)
}

// Requests returns the number of requests so far, with those that failed.
func (p *Project) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Assignment returns the state of an assignment.
func (p *Project) Assignment(project, id string) Assignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.assignment(project, id)
}

func (p *Project) assignment(project, id string) *Assignment {
	if p.assignments == nil {
		p.assignments = map[string]*Assignment{}
	}
	key := project + "/" + id
	if p.assignments[key] == nil {
		p.assignments[key] = &Assignment{ID: id, Status: "OPEN", Remaining: []string{}, Evidence: []string{}}
	}
	return p.assignments[key]
}

var errLost = errors.New("the connection broke")

// ServeHTTP implements http.Handler. A connection breaks by way of
// http.ErrAbortHandler.
//
// POST /faults takes an array of faults for the next requests, so that a
// project that is served by another program can be made to fail too.
func (p *Project) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == "/faults" {
		var faults []Fault
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&faults); err != nil {
			http.Error(w, "an array of faults is expected", http.StatusBadRequest)
			return
		}
		p.Inject(faults...)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status, header, body, err := p.serve(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), header)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintln(w, body)
}

// RoundTrip implements http.RoundTripper.
func (p *Project) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	status, header, body, err := p.serve(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{Status: http.StatusText(status), StatusCode: status, Header: header, Request: r,
		ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
}

// serve answers one request, with the next fault.
func (p *Project) serve(r *http.Request) (status int, header http.Header, body string, err error) {
	header = http.Header{}
	var text []byte
	if r.Body != nil {
		if text, err = io.ReadAll(io.LimitReader(r.Body, 1<<20)); err != nil {
			return 0, nil, "", err
		}
	}
	fault := p.fault(r)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return 0, nil, "", r.Context().Err()
		}
	}
	if fault.LoseRequest {
		return 0, nil, "", errLost
	}
	if fault.Status == 0 || fault.Late {
		status, body = p.work(r, text)
	}
	if fault.LoseAnswer {
		return 0, nil, "", errLost
	}
	if fault.Status != 0 {
		if fault.RetryAfter > 0 {
			header.Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		status, body = refuse(fault.Status, "as it was told to")
	}
	return status, header, body, nil
}

func (p *Project) fault(r *http.Request) (f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if len(p.faults) > 0 && (r.Method == http.MethodPost || p.faults[0].Reads) {
		f, p.faults = p.faults[0], p.faults[1:]
	}
	return f
}

func refuse(status int, message string) (int, string) {
	return status, encode(map[string]any{"error": map[string]string{"message": message}})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values of this package
	}
	return string(text)
}
