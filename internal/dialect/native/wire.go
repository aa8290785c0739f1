package native

import (
	"math"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

// The bodies of answers. Times are in UTC with milliseconds, durations in whole milliseconds, sizes
// in bytes.

type runBody struct {
	ID         engine.ID            `json:"id"`
	Session    engine.ID            `json:"session"`
	Language   string               `json:"language"`
	Image      string               `json:"image,omitempty"`
	Wall       engine.Wall          `json:"wall,omitempty"`
	Status     engine.Status        `json:"status"`
	ExitCode   *int                 `json:"exit_code"` // null unless the program ended by itself
	Signal     *string              `json:"signal"`    // null unless a signal ended it
	Stdout     string               `json:"stdout"`
	Stderr     string               `json:"stderr"`
	Truncated  bool                 `json:"truncated"`
	Duration   int64                `json:"duration_ms"`
	CPU        int64                `json:"cpu_ms"`
	MemoryPeak int64                `json:"memory_peak_bytes"` // 0: not measured
	Start      engine.Start         `json:"start,omitempty"`
	Files      []fileBody           `json:"files"`
	Dropped    []client.DroppedFile `json:"dropped,omitempty"`
	Message    string               `json:"message,omitempty"`
	Hint       string               `json:"hint,omitempty"`
	Contacts   []contactBody        `json:"contacts,omitempty"`
	CodeKept   bool                 `json:"code_kept"` // for the page's list of runs
	CreatedAt  string               `json:"created_at"`
	StartedAt  string               `json:"started_at,omitempty"`
	FinishedAt string               `json:"finished_at,omitempty"`
}

// Answers whose fields mean the same to the client are written from the client's types (decision
// 0147).

func runOf(run *engine.Run) runBody {
	b := runBody{
		ID: run.ID, Session: run.Session, Language: run.Language, Image: run.Image, Wall: run.Wall, Status: run.Status,
		ExitCode: run.ExitCode,
		Stdout:   run.Stdout, Stderr: run.Stderr, Truncated: run.Truncated,
		Duration: run.Duration.Milliseconds(), CPU: run.CPU.Milliseconds(), MemoryPeak: run.MemoryPeak, Start: run.Start,
		Files: filesOf(run.Files), Dropped: droppedOf(run.Dropped), Message: run.Message,
		Hint: run.Hint, CodeKept: run.Source != nil || run.SourceKept,
		CreatedAt: rest.TimeOf(run.CreatedAt), StartedAt: rest.TimeOf(run.StartedAt), FinishedAt: rest.TimeOf(run.FinishedAt),
	}
	if run.Signal != "" {
		b.Signal = &run.Signal
	}
	for _, c := range run.Contacts {
		b.Contacts = append(b.Contacts, contactOf(c))
	}
	return b
}

type fileBody struct {
	ID        engine.ID `json:"id"`
	Path      string    `json:"path"` // in the workspace; empty for an upload
	Name      string    `json:"name"`
	Size      int64     `json:"size"`
	MIME      string    `json:"mime"`
	SHA256    string    `json:"sha256"`
	CreatedAt string    `json:"created_at"`
	ExpiresAt string    `json:"expires_at"`
	Run       string    `json:"run,omitempty"` // that made it
}

func fileOf(f engine.File) fileBody {
	b := fileBody{
		ID: f.ID, Path: f.Path, Name: f.Name, Size: f.Size, MIME: f.MIME, SHA256: f.SHA256.String(),
		CreatedAt: rest.TimeOf(f.CreatedAt), ExpiresAt: rest.TimeOf(f.ExpiresAt),
	}
	if !f.Run.IsZero() {
		b.Run = f.Run.String()
	}
	return b
}

func droppedOf(all []engine.DroppedFile) []client.DroppedFile {
	return rest.Each(all, func(d engine.DroppedFile) client.DroppedFile { return client.DroppedFile(d) })
}

func filesOf(files []engine.File) []fileBody { return rest.Each(files, fileOf) }

type sessionBody struct {
	ID        engine.ID          `json:"id"`
	Kind      engine.SessionKind `json:"kind"`
	Language  string             `json:"language,omitempty"` // of a live one
	Image     string             `json:"image,omitempty"`    // of a live one
	Wall      engine.Wall        `json:"wall,omitempty"`
	CreatedAt string             `json:"created_at"`
	ExpiresAt string             `json:"expires_at"`
	Secrets   []client.Secret    `json:"secrets,omitempty"` // of a live one, without their values
	Live      *liveBody          `json:"live,omitempty"`    // of a live one that is asked for by itself
}

// liveBody is the state of a live session.
type liveBody struct {
	State   live.State `json:"state"`
	Cell    engine.ID  `json:"cell,omitzero"` // the running cell
	Queued  int        `json:"queued"`
	Count   int        `json:"execution_count"`
	LastUse string     `json:"used_at"`
	Fresh   bool       `json:"fresh,omitempty"`  // the interpreter has run no cell yet
	Memory  bool       `json:"memory,omitempty"` // the next cell goes on with variables and processes
}

func liveOf(i live.Info) *liveBody {
	return &liveBody{i.State, i.Cell, i.Queued, i.Count, rest.TimeOf(i.LastUse), i.Fresh, i.Memory}
}

func sessionOf(s engine.Session) sessionBody {
	return sessionBody{ID: s.ID, Kind: s.Kind, Language: live.Language(s), Image: live.Image(s), Wall: s.Wall,
		Secrets: secretsOf(live.Secrets(s.Live)), CreatedAt: rest.TimeOf(s.CreatedAt), ExpiresAt: rest.TimeOf(s.ExpiresAt)}
}

type sessionFileBody struct {
	fileBody
	Role     engine.Role `json:"role"`
	ReadOnly bool        `json:"read_only"`
}

type keyBody struct {
	ID        string       `json:"id"`
	Owner     engine.Owner `json:"owner"`
	Admin     bool         `json:"admin"`
	CreatedAt string       `json:"created_at"`
	RevokedAt string       `json:"revoked_at,omitempty"`
	Packages  string       `json:"python_packages,omitempty"`
	Images    []string     `json:"images,omitempty"`
	Network   []string     `json:"network,omitempty"`
	Mounts    []string     `json:"mounts,omitempty"`
	Users     int          `json:"users,omitempty"`
	Shares    int          `json:"shares,omitempty"`
	Only      []string     `json:"only,omitempty"`
	Wall      engine.Wall  `json:"wall,omitempty"`
	Month     string       `json:"month,omitempty"`
	Token     string       `json:"token,omitempty"` // only in the answer that created it
}

func keyOf(k engine.Key) keyBody {
	return keyBody{ID: k.ID, Owner: k.Owner, Admin: k.Admin, CreatedAt: rest.TimeOf(k.CreatedAt),
		RevokedAt: rest.TimeOf(k.RevokedAt), Packages: k.Packages, Images: k.ImageNames(), Network: k.Rules(),
		Mounts: k.MountNames(), Users: k.Allowance.Users, Shares: k.Allowance.Shares, Only: k.Protocols(),
		Wall: k.Wall, Month: k.Month}
}

// limitsBody is the body of limits, in requests and in GET /limits, where 0 is no limit.
type limitsBody struct {
	Timeout     int64   `json:"timeout_ms"`
	CPUTime     int64   `json:"cpu_time_ms"`
	Memory      int64   `json:"memory_bytes"`
	Processes   int     `json:"processes"`
	CPUs        float64 `json:"cpus"`
	Workspace   int64   `json:"workspace_bytes"`
	Inodes      int     `json:"inodes"`
	Output      int     `json:"output_bytes"`
	OutputFiles int     `json:"output_files"`
	OutputFile  int64   `json:"output_file_bytes"`
	OutputTotal int64   `json:"output_total_bytes"`
}

func limitsOf(l engine.Limits) limitsBody {
	return limitsBody{
		Timeout: l.Timeout.Milliseconds(), CPUTime: l.CPUTime.Milliseconds(), Memory: l.Memory, Processes: l.Processes,
		CPUs: l.CPUs, Workspace: l.Workspace, Inodes: l.Inodes, Output: l.Output.Bytes,
		OutputFiles: l.Files.Count, OutputFile: l.Files.Bytes, OutputTotal: l.Files.Total,
	}
}

// readLimits reads the same fields from a request.
func readLimits(o *rest.Object) engine.Limits {
	limits := engine.Limits{
		Timeout:   o.Millis("timeout_ms"),
		CPUTime:   o.Millis("cpu_time_ms"),
		Memory:    o.Count("memory_bytes", math.MaxInt64),
		Processes: int(o.Count("processes", math.MaxInt32)),
		CPUs:      o.Fraction("cpus"),
		Workspace: o.Count("workspace_bytes", math.MaxInt64),
		Inodes:    int(o.Count("inodes", math.MaxInt32)),
		Files: engine.FileLimit{
			Count: int(o.Count("output_files", math.MaxInt32)),
			Bytes: o.Count("output_file_bytes", math.MaxInt64),
			Total: o.Count("output_total_bytes", math.MaxInt64),
		},
	}
	if n := o.Count("output_bytes", math.MaxInt32); n > 0 {
		limits.Output.Bytes = int(n)
	}
	_ = o.Done() // done of the whole body reports its error
	return limits
}

func readFileRefs(o *rest.Object) []engine.FileRef {
	var refs []engine.FileRef
	for _, f := range o.Objects("files") {
		ref := engine.FileRef{ID: f.ID("id"), Path: f.Text("path"), ReadOnly: f.Flag("read_only", false)}
		if ref.ID.IsZero() {
			f.Fail("id", "is missing")
		}
		_ = f.Done()
		refs = append(refs, ref)
	}
	return refs
}

// whole returns a duration without its fraction of a millisecond, which the client's types would round up.
func whole(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }
