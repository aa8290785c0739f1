package workspace

import (
	"errors"
	"fmt"
	"strings"
)

// Errors on which callers branch.
var (
	// ErrStale says that an approval is for another revision of the proposal
	// than the present one: look at it again.
	ErrStale = errors.New("the proposal is not the one that was approved")
	// ErrNeedsDecision says that an approval names a file that cannot be
	// committed as it is: refused by a rule, or in conflict.
	ErrNeedsDecision = errors.New("a file cannot be approved as it is")
	// ErrConflict says that a file in the folder is not what the proposal was
	// made from. See *ConflictError.
	ErrConflict = errors.New("files have changed since the proposal was made")
	// ErrRefused says that a rule forbids what was asked for.
	ErrRefused = errors.New("refused")
	// ErrBusy says that another process works on the same folder.
	ErrBusy = errors.New("the workspace is in use")
	// ErrNothing says that there is nothing to undo or redo.
	ErrNothing = errors.New("there is nothing to revert")
)

// Clashing is a file that prevents a commit.
type Clashing struct {
	File   string `json:"file"` // id in the proposal
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Now    Fact   `json:"now"`
}

// ConflictError lists the files that changed since the proposal was made. Nothing
// was changed, or all of it was reversed. Workspace.Rebase merges the proposal
// with the files as they are.
type ConflictError struct {
	Proposal string
	Files    []Clashing
	Kept     []KeptBytes // bytes of another process that are in the store now
}

func (e *ConflictError) Error() string {
	var list []string
	for _, f := range e.Files {
		list = append(list, f.Path+" "+f.Reason)
	}
	return fmt.Sprintf("%s: %s: nothing was changed; look at the merged proposal and approve it", ErrConflict,
		strings.Join(list, ", "))
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
