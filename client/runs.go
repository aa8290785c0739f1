package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Status is how a run stands or how it ended.
type Status string

// A run is queued, then running, then in one of the final states.
const (
	StatusQueued      Status = "queued"
	StatusRunning     Status = "running"
	StatusOK          Status = "ok"
	StatusError       Status = "error"
	StatusTimeout     Status = "timeout"
	StatusKilled      Status = "killed"
	StatusOOM         Status = "oom"
	StatusCancelled   Status = "cancelled"
	StatusInterrupted Status = "interrupted"
)

// Final reports whether a run in this state has ended.
func (s Status) Final() bool { return s != StatusQueued && s != StatusRunning }

// RunRequest asks for a program to be run. Only Language and Code are
// required; zero fields take the service's defaults.
type RunRequest struct {
	Language  string    `json:"language"`
	Code      string    `json:"code"`
	Args      []string  `json:"args,omitempty"`
	Stdin     string    `json:"stdin,omitempty"`
	Files     []FileRef `json:"files,omitempty"`
	Session   string    `json:"session,omitempty"`
	TimeoutMS int64     `json:"timeout_ms,omitempty"`
	Limits    *Limits   `json:"limits,omitempty"`
	// name of the file that the code is in; empty: the language's, as main.py
	Entry    string `json:"entry,omitempty"`
	Packages string `json:"python_packages,omitempty"` // a set of Python packages, as "onyx"; see Language.PackageSets
	// Network is what the program may contact; nil: the default of the caller's key.
	Network *Network `json:"network,omitempty"`

	// MergeOutput sends stderr where stdout goes, in the order in which the
	// program writes; Stderr is empty then.
	MergeOutput bool `json:"merge_output,omitempty"`

	// EchoLast prints the value of an expression on the last line, as a notebook
	// does. Of Python only.
	EchoLast bool `json:"echo_last,omitempty"`

	// KeepCode selects whether the service stores the code and the output for its list of runs;
	// nil: the service's setting.
	KeepCode *bool `json:"keep_code,omitempty"`

	// IdempotencyKey makes a request safe to repeat: a request with the same key and content is
	// answered with the first one's run.
	IdempotencyKey string `json:"-"`
}

// FileRef places a stored file into the workspace.
type FileRef struct {
	ID       string `json:"id"`
	Path     string `json:"path,omitempty"` // empty: the file's name
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Limits bound a run. In a request zero fields take the service's defaults; in
// an answer zero is no limit. Sizes are in bytes.
type Limits struct {
	TimeoutMS        int64   `json:"timeout_ms,omitempty"` // the same as RunRequest.TimeoutMS; one of them at most
	CPUTimeMS        int64   `json:"cpu_time_ms,omitempty"`
	MemoryBytes      int64   `json:"memory_bytes,omitempty"`
	Processes        int     `json:"processes,omitempty"`
	CPUs             float64 `json:"cpus,omitempty"`
	WorkspaceBytes   int64   `json:"workspace_bytes,omitempty"`
	Inodes           int     `json:"inodes,omitempty"`
	OutputBytes      int     `json:"output_bytes,omitempty"` // of stdout and stderr, each
	OutputFiles      int     `json:"output_files,omitempty"`
	OutputFileBytes  int64   `json:"output_file_bytes,omitempty"`
	OutputTotalBytes int64   `json:"output_total_bytes,omitempty"`
}

// Run is an execution of a program.
type Run struct {
	ID              string        `json:"id"`
	Session         string        `json:"session"`
	Language        string        `json:"language"`
	Status          Status        `json:"status"`
	ExitCode        *int          `json:"exit_code"` // nil unless the program ended by itself
	Signal          string        `json:"signal"`    // "SIGKILL"; empty unless a signal ended it
	Stdout          string        `json:"stdout"`
	Stderr          string        `json:"stderr"`
	Truncated       bool          `json:"truncated"`
	DurationMS      int64         `json:"duration_ms"`
	CPUMS           int64         `json:"cpu_ms"`
	MemoryPeakBytes int64         `json:"memory_peak_bytes"`  // 0: not measured
	Start           string        `json:"start,omitempty"`    // "warm" or "cold"; empty: not known
	Files           []File        `json:"files"`              // new and changed
	Dropped         []DroppedFile `json:"dropped,omitempty"`  // not kept
	Message         string        `json:"message,omitempty"`  // why it ended as it did, where that is not plain
	Contacts        []Contact     `json:"contacts,omitempty"` // what it contacted, if it was allowed anything
	CodeKept        bool          `json:"code_kept"`          // for the page's list of runs
	CreatedAt       time.Time     `json:"created_at"`
	StartedAt       time.Time     `json:"started_at,omitzero"`
	FinishedAt      time.Time     `json:"finished_at,omitzero"`
}

// DroppedFile is a file that the program left and that was not kept.
type DroppedFile struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	More   int    `json:"more,omitempty"` // further files that were not kept for the same reason, and are not named
}

// Page asks for a part of a list, newest first.
type Page struct {
	Limit int    // 0: the service's default of 100
	After string // the next of the page before; empty: from the newest
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.After != "" {
		q.Set("after", p.After)
	}
	return q
}

func (r *RunRequest) request() request {
	out := request{method: http.MethodPost, path: "/runs", header: http.Header{}, body: r}
	if r.IdempotencyKey != "" {
		out.header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	return out
}

// Run runs a program and returns when it has ended.
func (c *Client) Run(ctx context.Context, req RunRequest) (*Run, error) {
	return fetch[Run](ctx, c, req.request())
}

// Start starts a program and returns at once. It runs on when ctx ends.
func (c *Client) Start(ctx context.Context, req RunRequest) (*Run, error) {
	r := req.request()
	r.body = struct {
		*RunRequest
		Wait bool `json:"wait"`
	}{&req, false}
	return fetch[Run](ctx, c, r)
}

// GetRun returns a run as it stands. Its output is there once it has ended.
func (c *Client) GetRun(ctx context.Context, id string) (*Run, error) {
	return fetch[Run](ctx, c, get("/runs/"+segment(id), nil))
}

// ListRuns returns runs without their output, and the After of the next page,
// which is empty after the last. A session that is not empty selects its runs.
func (c *Client) ListRuns(ctx context.Context, session string, page Page) (runs []Run, next string, err error) {
	query := page.query()
	if session != "" {
		query.Set("session", session)
	}
	return list[Run](ctx, c, "/runs", "runs", query)
}

// Cancel ends a run and returns when nothing of it is left. Cancelling a run
// that has ended is fine.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.call(ctx, del("/runs/"+segment(id)), nil)
}
