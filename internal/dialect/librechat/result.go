package librechat

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/airlock-run/airlock/internal/engine"
)

// runReply is the result of a program, with the names of several generations of clients.
type runReply struct {
	SessionID string     `json:"session_id"`
	Stdout    string     `json:"stdout"`
	Stderr    string     `json:"stderr"`
	Files     []fileBody `json:"files"`
	Code      *int       `json:"code"`
	Signal    *string    `json:"signal"`
	Message   *string    `json:"message"`
	Status    *string    `json:"status"`
	WallTime  *int64     `json:"wall_time"`

	RuntimeSession string `json:"runtime_session_id,omitempty"`
	RuntimeStatus  string `json:"runtime_status,omitempty"` // new, reused
	leftovers
}

// leftovers are the files of a reply that are not in its list.
type leftovers struct {
	// inputs that the program removed, by the names that the client gave them
	Deleted    []string    `json:"deleted_files,omitempty"`
	Truncation *truncation `json:"artifact_truncation,omitempty"`
}

// truncation names the files that were not kept.
type truncation struct {
	Code    string         `json:"code"`
	Reasons map[string]int `json:"reasons"` // how many files, by reason
	Skipped []string       `json:"skipped"` // the first of them
	Count   int            `json:"skipped_count"`
}

// fileBody is a file of a program: new, changed or unchanged.
type fileBody struct {
	ID           string          `json:"id"`
	FileID       string          `json:"fileId"`
	Name         string          `json:"name"`
	Filename     string          `json:"filename"`
	Path         string          `json:"path"`
	StorageID    string          `json:"storage_session_id"`
	SessionID    string          `json:"session_id"`
	ModifiedFrom *origin         `json:"modified_from,omitempty"`
	Inherited    bool            `json:"inherited,omitempty"`
	Kind         string          `json:"kind,omitempty"`
	ResourceID   string          `json:"resource_id,omitempty"`
	Version      json.RawMessage `json:"version,omitempty"`
	EntityID     string          `json:"entity_id,omitempty"`
}

type origin struct {
	ID        string `json:"id"`
	StorageID string `json:"storage_session_id"`
}

// The two-letter codes of the reasons why a program was stopped.
const (
	statusTimeout = "TO"
	statusMemory  = "SG"
)

// reply returns the answer for a run.
func reply(run *engine.Run, inputs []input) *runReply {
	files, left := filesOf(run, inputs)
	ms := run.Duration.Milliseconds()
	out := &runReply{
		SessionID: run.Session.String(), Stdout: run.Stdout, Stderr: run.Stderr, Files: files,
		Code: run.ExitCode, WallTime: &ms, leftovers: left,
	}
	word := func(s string) *string { return &s }
	if run.Signal != "" {
		out.Signal, out.Code = word(run.Signal), nil
	}
	switch run.Status {
	case engine.StatusTimeout:
		out.Status, out.Signal, out.Code = word(statusTimeout), word("SIGKILL"), nil
	case engine.StatusOOM:
		out.Status = word(statusMemory)
	}
	if run.Message != "" {
		out.Message = &run.Message
	}
	if ended := run.Status != engine.StatusOK && run.Status != engine.StatusError; run.Message != "" &&
		(ended || left.Truncation != nil) {
		out.Stderr = withReason(out.Stderr, run.Message)
	}
	return out
}

// withReason appends the reason why a program was stopped to its stderr, which the model
// reads.
func withReason(stderr, reason string) string { return stderr + "\n[sandbox] " + reason + "\n" }

// filesOf lists the files after a program: first new and changed files, then unchanged
// inputs. A client keeps only listed files.
func filesOf(run *engine.Run, inputs []input) ([]fileBody, leftovers) {
	files := []fileBody{}
	changed := map[string]bool{} // inputs, by path
	for _, f := range run.Files {
		in := inputAt(inputs, f.Path)
		if in == nil && hidden(f.Path, inputs) {
			continue
		}
		name := f.Path
		if in != nil {
			if changed[in.path] {
				continue // also under its alias
			}
			changed[in.path] = true
			name = in.name
		}
		body := newFile(f.ID, run.Session.String(), name)
		if in != nil {
			body.ModifiedFrom = &origin{in.file.ID.String(), in.sid}
		}
		files = append(files, body)
	}
	var left leftovers
	for i := range inputs {
		in := &inputs[i]
		if changed[in.path] {
			continue
		}
		if deleted(run, in) && !in.at.ReadOnly && (in.ref == nil || in.ref.Kind != kindSkill) {
			left.Deleted = append(left.Deleted, in.named())
			continue
		}
		files = append(files, in.inherited())
	}
	left.Truncation = truncated(run.Dropped)
	return files, left
}

func inputAt(inputs []input, path string) *input {
	for i := range inputs {
		if inputs[i].path == path || inputs[i].alias == path {
			return &inputs[i]
		}
	}
	return nil
}

func deleted(run *engine.Run, in *input) bool {
	return slices.ContainsFunc(run.Inputs, func(s engine.InputState) bool { return s.Path == in.path && s.Deleted })
}

func newFile(id engine.ID, sid, name string) fileBody {
	return fileBody{ID: id.String(), FileID: id.String(), Name: name, Filename: name, Path: name, StorageID: sid,
		SessionID: sid}
}

// named returns the client's name of the file.
func (in *input) named() string {
	if in.ref != nil && in.ref.Name != "" {
		return in.ref.Name
	}
	return in.name
}

// inherited returns an unchanged input with exactly the fields of the request: the client
// matches its ids and copies every field.
func (in *input) inherited() fileBody {
	body := newFile(in.file.ID, in.sid, in.name)
	body.Inherited = true
	if in.ref != nil {
		body.ID, body.FileID = in.ref.fileID(), in.ref.fileID()
		body.Kind, body.ResourceID, body.EntityID = in.ref.Kind, in.ref.ResourceID, in.ref.EntityID
		if !isNull(in.ref.Version) {
			body.Version = in.ref.Version
		}
	}
	return body
}

// maxSkipped is how many files a truncation names, as the official server does.
const maxSkipped = 20

// truncationReasons are the official words for the engine's reasons. A client may know no
// others, so every other reason is "unreadable".
var truncationReasons = map[string]string{
	engine.DropTooMany:   "max_files",
	engine.DropDepth:     "depth",
	engine.DropTooLarge:  "size",
	engine.DropTotal:     "size",
	engine.DropDiskFull:  "size",
	engine.DropQuotaFull: "size",
	engine.DropName:      "path",
	engine.DropPath:      "path",
	engine.DropSpelling:  "path",
}

// truncated lists the files that were not kept; nil: there are none. Links and pipes are not
// listed. For files that are only counted it is not known whether they are hidden.
func truncated(dropped []engine.DroppedFile) *truncation {
	t := &truncation{Code: "artifact_truncated", Reasons: map[string]int{}, Skipped: []string{}}
	for _, d := range dropped {
		if d.Reason == engine.DropNotRegular {
			continue
		}
		n := d.More
		if !hidden(d.Path, nil) {
			n++
			if len(t.Skipped) < maxSkipped {
				t.Skipped = append(t.Skipped, d.Path)
			}
		}
		if n > 0 {
			t.Reasons[cmp.Or(truncationReasons[d.Reason], "unreadable")] += n
			t.Count += n
		}
	}
	if t.Count == 0 {
		return nil
	}
	return t
}
