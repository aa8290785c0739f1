package workspace

import (
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Op is what would happen to a file.
type Op string

// What can happen to a file.
const (
	OpCreate    Op = "create"
	OpUpdate    Op = "update"
	OpDelete    Op = "delete"
	OpRename    Op = "rename"    // from From to Path, perhaps with another content
	OpUnchanged Op = "unchanged" // it has this content already
)

// Fact is the state of a file when it was examined. The zero Fact is a missing file.
type Fact struct {
	Exists  bool        `json:"exists"`
	Hash    Hash        `json:"sha256,omitzero"`
	Size    int64       `json:"size,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"` // permission bits
	ModTime time.Time   `json:"mod_time,omitzero"`
	Device  uint64      `json:"device,omitempty"`
	Inode   uint64      `json:"inode,omitempty"`
	Links   uint64      `json:"links,omitempty"` // hard links; more than one is told
}

// Severity is how much a finding matters.
type Severity string

// From harmless to final.
const (
	Note     Severity = "note"     // worth showing
	Ask      Severity = "ask"      // needs a person, even where approval is automatic
	Conflict Severity = "conflict" // needs a decision: see Workspace.Resolve
	Refuse   Severity = "refuse"   // cannot be approved
)

// Finding is what a rule found about a file.
type Finding struct {
	Rule     string   `json:"rule"` // such as "path.traversal"; see docs/workspace.md
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
}

func finding(severity Severity, rule, hint, message string, args ...any) Finding {
	return Finding{Rule: rule, Severity: severity, Message: fmt.Sprintf(message, args...), Hint: hint}
}

// FileChange is what a proposal would do to one file.
type FileChange struct {
	ID   string `json:"id"` // "f1", "f2", ...: stays through edits of the proposal
	Op   Op     `json:"op"`
	Path string `json:"path"` // where the file is afterwards
	From string `json:"from,omitempty"`

	Pre  Fact `json:"pre"`  // what is there now, under From or Path
	Post Fact `json:"post"` // what would be there: hash, size and mode

	Text     *TextFacts   `json:"text,omitempty"`   // nil for binary files
	Binary   *BinaryFacts `json:"binary,omitempty"` // nil for text
	Hunks    []Hunk       `json:"hunks,omitempty"`  // of a text
	Added    int          `json:"added,omitempty"`  // lines
	Removed  int          `json:"removed,omitempty"`
	Findings []Finding    `json:"findings,omitempty"`
	Changes  []string     `json:"changes,omitempty"` // ids of the changes that it comes from
	// Readings are the possible contents, one of which is proposed at a time, if the change
	// has several readings.
	Readings []Reading `json:"readings,omitempty"`
	// Checked is whether the file is preselected: nothing speaks against it.
	Checked bool `json:"checked"`

	pre, post *Content // nil where there is none
	merge     *mergeSides
}

// Proposal is a set of changes that the user can look at and approve. It
// belongs to one workspace and changes nothing by itself.
type Proposal struct {
	ID      string       `json:"id"`
	Root    string       `json:"root"`
	Created time.Time    `json:"created"`
	Origin  Origin       `json:"origin"`
	Files   []FileChange `json:"files"`
	// Findings are about the whole, such as a quota.
	Findings []Finding `json:"findings,omitempty"`
	// Token identifies exactly these files with exactly these contents before and after.
	// Any edit of the proposal changes it.
	Token string `json:"token"`

	key    []byte   // of the token
	unmake []string // directories that an undo leaves empty, and that it may remove
}

// Origin is where a transaction comes from.
type Origin struct {
	Kind string `json:"kind,omitempty"` // "reply", "outputs", "undo", "redo", or the caller's own word
	Ref  string `json:"ref,omitempty"`  // such as a message's or a run's id
	Note string `json:"note,omitempty"` // one line for the history
	// Reverts is the transaction that this one reverts, in whole or in part.
	Reverts string `json:"reverts,omitempty"`
	// Partial says that it undoes only parts of it.
	Partial bool `json:"partial,omitempty"`
}

// File returns the file with the id, nil if there is none.
func (p *Proposal) File(id string) *FileChange {
	for i := range p.Files {
		if p.Files[i].ID == id {
			return &p.Files[i]
		}
	}
	return nil
}

// worst returns the highest severity among findings, "" for none.
func worst(findings []Finding) Severity {
	rank := map[Severity]int{Note: 1, Ask: 2, Conflict: 3, Refuse: 4}
	var worst Severity
	for _, f := range findings {
		if rank[f.Severity] > rank[worst] {
			worst = f.Severity
		}
	}
	return worst
}

// has reports whether a rule found something about the file.
func (f *FileChange) has(rule string) bool {
	return slices.ContainsFunc(f.Findings, func(f Finding) bool { return f.Rule == rule })
}

// ofSeverity returns the findings of one severity.
func ofSeverity(findings []Finding, severity Severity) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Severity != severity })
}

// Verdict returns the highest severity of the file's findings, "" for none.
func (f *FileChange) Verdict() Severity { return worst(f.Findings) }

// Before returns the content that the file has, nil if it does not exist.
func (f *FileChange) Before() *Content { return f.pre }

// After returns the content that the file would have, nil if it would be deleted.
func (f *FileChange) After() *Content { return f.post }
