package client

import (
	"context"
	"encoding/json"
	"iter"
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

// StartKind is how the sandbox of a run was started.
type StartKind string

// A warm run took a sandbox whose interpreter was waiting, a cold one started its own.
const (
	StartWarm StartKind = "warm"
	StartCold StartKind = "cold"
)

// Final reports whether a run in this state has ended.
func (s Status) Final() bool { return s != StatusQueued && s != StatusRunning }

// Wall is what separates a program from the server's machine.
type Wall string

// The walls, the weakest first.
const (
	WallShared Wall = "shared" // programs share the machine's kernel
	WallGVisor Wall = "gvisor" // each program has a kernel of its own
)

// RunRequest asks for a program to be run. Only Language and Code are
// required; zero fields take the service's defaults.
type RunRequest struct {
	Language string        `json:"language"`
	Code     string        `json:"code"`
	Args     []string      `json:"args,omitempty"`
	Stdin    string        `json:"stdin,omitempty"`
	Files    []FileRef     `json:"files,omitempty"`
	Session  string        `json:"session,omitempty"`
	Timeout  time.Duration `json:"timeout_ms,omitempty"` // in whole milliseconds
	Limits   *Limits       `json:"limits,omitempty"`
	// name of the file that the code is in; empty: the language's, as main.py
	Entry    string `json:"entry,omitempty"`
	Packages string `json:"python_packages,omitempty"` // a set of Python packages, as "onyx"; see Language.PackageSets
	// Image is the name of the image whose files it has in place of the machine's own; see
	// ListImages. "host" is none, empty is the default. It excludes Packages.
	Image string `json:"image,omitempty"`
	// Wall is what separates it from the server's machine at least; empty: what its session, the key and the service
	// say, which it cannot lower.
	Wall Wall `json:"wall,omitempty"`
	// Mounts are names of folders of the server's machine that the program sees as /mnt/NAME. It may write to those
	// that the server's settings let it, and not as NAME:ro. nil: those of the key.
	Mounts []string `json:"mounts,omitzero"`
	// Volumes are folders of the caller that outlive the program, which may write to them; see CreateVolume.
	Volumes []VolumeMount `json:"volumes,omitempty"`
	// Network is what the program may contact; nil: the default of the caller's key.
	Network *Network `json:"network,omitempty"`
	// Secrets are values for requests to hosts that the network includes, which the program does not see.
	Secrets []Secret `json:"secrets,omitempty"`

	// MergeOutput sends stderr where stdout goes, in the order in which the
	// program writes; Stderr is empty then.
	MergeOutput bool `json:"merge_output,omitempty"`

	// EchoLast prints the value of an expression on the last line, as a notebook
	// does. Of Python only.
	EchoLast bool `json:"echo_last,omitempty"`

	// AllOutput has Stream yield all that the program prints, byte by byte, also what Stdout and Stderr of
	// the Run leave out. Its events have no Seq.
	AllOutput bool `json:"all_output,omitempty"`

	// KeepCode selects whether the service stores the code and the output for its list of runs;
	// nil: the service's setting.
	KeepCode *bool `json:"keep_code,omitempty"`

	// IdempotencyKey makes a request safe to repeat: a request with the same key and content is
	// answered with the first one's run.
	IdempotencyKey string `json:"-"`
}

// wire returns the body of a request that waits for the end, or does not.
func (r *RunRequest) wire(wait *bool) any {
	type plain RunRequest
	return &struct {
		*plain
		Timeout amount `json:"timeout_ms,omitzero"`
		Wait    *bool  `json:"wait,omitempty"`
	}{(*plain)(r), millis(&r.Timeout), wait}
}

// MarshalJSON implements json.Marshaler.
func (r RunRequest) MarshalJSON() ([]byte, error) { return marshal(r.wire(nil)) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *RunRequest) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, r.wire(nil)) }

// FileRef places a stored file into the workspace.
type FileRef struct {
	ID       string `json:"id"`
	Path     string `json:"path,omitempty"` // empty: the file's name
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Limits bound a run. In a request zero fields take the service's defaults; in
// an answer zero is no limit. Sizes are in bytes, times in whole milliseconds.
type Limits struct {
	Timeout          time.Duration `json:"timeout_ms,omitempty"` // the same as RunRequest.Timeout; one of them at most
	CPUTime          time.Duration `json:"cpu_time_ms,omitempty"`
	MemoryBytes      int64         `json:"memory_bytes,omitempty"`
	Processes        int           `json:"processes,omitempty"`
	CPUs             float64       `json:"cpus,omitempty"`
	WorkspaceBytes   int64         `json:"workspace_bytes,omitempty"`
	Inodes           int           `json:"inodes,omitempty"`
	OutputBytes      int           `json:"output_bytes,omitempty"` // of stdout and stderr, each
	OutputFiles      int           `json:"output_files,omitempty"`
	OutputFileBytes  int64         `json:"output_file_bytes,omitempty"`
	OutputTotalBytes int64         `json:"output_total_bytes,omitempty"`
}

func (l *Limits) wire() any {
	type plain Limits
	return &struct {
		Timeout amount `json:"timeout_ms,omitzero"`
		CPUTime amount `json:"cpu_time_ms,omitzero"`
		*plain
	}{millis(&l.Timeout), millis(&l.CPUTime), (*plain)(l)}
}

// MarshalJSON implements json.Marshaler.
func (l Limits) MarshalJSON() ([]byte, error) { return marshal(l.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Limits) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, l.wire()) }

// Run is an execution of a program.
type Run struct {
	ID              string        `json:"id"`
	Session         string        `json:"session"`
	Language        string        `json:"language"`
	Image           string        `json:"image,omitempty"` // that it ran in; empty: none
	Wall            Wall          `json:"wall,omitempty"`  // that it has; empty: not known
	Status          Status        `json:"status"`
	ExitCode        *int          `json:"exit_code"` // nil unless the program ended by itself
	Signal          string        `json:"signal"`    // "SIGKILL"; empty unless a signal ended it
	Stdout          string        `json:"stdout"`
	Stderr          string        `json:"stderr"`
	Truncated       bool          `json:"truncated"`
	Duration        time.Duration `json:"duration_ms"`
	CPU             time.Duration `json:"cpu_ms"`
	MemoryPeakBytes int64         `json:"memory_peak_bytes"`  // 0: not measured
	Start           StartKind     `json:"start,omitempty"`    // empty: not known
	Files           []File        `json:"files"`              // new and changed
	Dropped         []DroppedFile `json:"dropped,omitempty"`  // not kept
	Message         string        `json:"message,omitempty"`  // why it ended as it did, where that is not plain
	Hint            string        `json:"hint,omitempty"`     // what can be done about what the program missed
	Contacts        []Contact     `json:"contacts,omitempty"` // what it contacted, if it was allowed anything
	CodeKept        bool          `json:"code_kept"`          // for the page's list of runs
	CreatedAt       time.Time     `json:"created_at"`
	StartedAt       time.Time     `json:"started_at,omitzero"`
	FinishedAt      time.Time     `json:"finished_at,omitzero"`
}

func (r *Run) wire() any {
	type plain Run
	return &struct {
		*plain
		Duration amount `json:"duration_ms"`
		CPU      amount `json:"cpu_ms"`
	}{(*plain)(r), millis(&r.Duration), millis(&r.CPU)}
}

// MarshalJSON implements json.Marshaler.
func (r Run) MarshalJSON() ([]byte, error) { return marshal(r.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Run) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, r.wire()) }

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

// everyPage yields the elements of all pages of a list.
func everyPage[T any](list func(Page) (all []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for page := (Page{}); ; {
			all, next, err := list(page)
			for _, one := range all {
				if err == nil && !yield(one, nil) {
					return
				}
			}
			if err != nil {
				yield(none, err)
			}
			if err != nil || next == "" {
				return
			}
			page.After = next
		}
	}
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

func (r *RunRequest) request(wait *bool) request {
	out := request{method: http.MethodPost, path: "/runs", header: http.Header{}, body: r.wire(wait)}
	if r.IdempotencyKey != "" {
		out.header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	return out
}

// Run runs a program and returns when it has ended.
func (c *Client) Run(ctx context.Context, req RunRequest) (*Run, error) {
	return fetch[Run](ctx, c, req.request(nil))
}

// Start starts a program and returns at once. It runs on when ctx ends.
func (c *Client) Start(ctx context.Context, req RunRequest) (*Run, error) {
	return fetch[Run](ctx, c, req.request(new(bool)))
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

// AllRuns yields runs as ListRuns returns them, over as many pages as necessary. An error ends the sequence.
func (c *Client) AllRuns(ctx context.Context, session string) iter.Seq2[Run, error] {
	return everyPage(func(page Page) ([]Run, string, error) { return c.ListRuns(ctx, session, page) })
}

// Cancel ends a run and returns when nothing of it is left. Cancelling a run
// that has ended is fine.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.call(ctx, del("/runs/"+segment(id)), nil)
}
