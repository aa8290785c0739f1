package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/workspace"
)

// folderChanges plans and makes changes of folders as `airlock apply` does, by
// that command: for root it becomes the owner of a folder, which is for the rest
// of a process's life.
type folderChanges struct {
	app   *app
	roots []string
	yes   bool

	mu    sync.Mutex
	plans map[string]*folderPlan
}

type folderPlan struct {
	mcp.Plan
	root  string
	files []proposedFile
}

// proposedFile is a file of a proposal.
type proposedFile struct {
	ID             string `json:"id"`
	Path           string
	Op             string
	Added, Removed int
	Hunks          []workspace.Hunk
}

// applyAnswer is what `airlock apply --json` prints, as far as it is of interest.
type applyAnswer struct {
	Proposal struct {
		ID    string
		Files []proposedFile
	}
	Metadata struct {
		ExecutionResult struct {
			State                      string
			FilesCreated, FilesUpdated []json.RawMessage
			FilesDeleted, FilesRenamed []json.RawMessage
		}
	}
	State string // of a plan, as airlock log prints it
	Error *problem
}

// run runs a command of airlock's, apply or log.
func (c *folderChanges) run(ctx context.Context, in, command string, args ...string) (*applyAnswer, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append(
		[]string{command, "--json", "--data", c.app.cfg.Data}, args...)...)
	cmd.Args[0] = os.Args[0]
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader(in), &out
	err := cmd.Run()
	var answer applyAnswer
	if json.Unmarshal(out.Bytes(), &answer) != nil {
		return nil, fmt.Errorf("airlock %s: %w", command, err)
	}
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && exit.ExitCode() != exitApproval {
		if answer.Error != nil {
			return nil, mcp.Refused("%s. %s", answer.Error.Message, answer.Error.Hint)
		}
		return nil, fmt.Errorf("airlock %s: %w", command, err)
	}
	return &answer, nil
}

// Propose implements mcp.Changes.
func (c *folderChanges) Propose(ctx context.Context, response, root string) (mcp.Plan, error) {
	folder := c.roots[0]
	if root != "" {
		i := slices.IndexFunc(c.roots, func(r string) bool { return filepath.Clean(r) == filepath.Clean(root) })
		if i < 0 {
			return mcp.Plan{}, mcp.Refused("root: changes may be proposed in %s", strings.Join(c.roots, ", "))
		}
		folder = c.roots[i]
	}
	answer, err := c.run(ctx, response, "apply", "--propose", "--root", folder, "-")
	if err != nil {
		return mcp.Plan{}, err
	}
	if len(answer.Proposal.Files) == 0 {
		return mcp.Plan{}, mcp.Refused("response: there are no changes of files in it")
	}
	p := &folderPlan{root: folder, files: answer.Proposal.Files}
	p.ID, p.Agreed = answer.Proposal.ID, c.yes
	p.Review = "airlock apply --approve " + p.ID + " --root " + quoteForShell(folder)
	if c.app.cfg.PublicURL != "" {
		p.Page = strings.TrimSuffix(c.app.cfg.PublicURL, "/") + "/ui/review/" + p.ID
		p.Review += " or " + p.Page
	}
	added, removed := 0, 0
	var diff strings.Builder
	for _, f := range p.files {
		added, removed = added+f.Added, removed+f.Removed
		writeDiff(&diff, f)
	}
	p.Diff = diff.String()
	noun := "files"
	if len(p.files) == 1 {
		noun = "file"
	}
	p.Summary = fmt.Sprintf("%d %s: +%d -%d in %s", len(p.files), noun, added, removed, folder)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plans == nil {
		c.plans = map[string]*folderPlan{}
	}
	c.plans[p.ID] = p
	return p.Plan, nil
}

func writeDiff(b *strings.Builder, f proposedFile) {
	fmt.Fprintf(b, "%s %s\n", f.Op, printableName(f.Path))
	for _, h := range f.Hunks {
		fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			fmt.Fprintf(b, "%s%s\n", line.Op, strings.TrimRight(line.Text, "\r\n"))
		}
	}
}

func (c *folderChanges) plan(id string) (*folderPlan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.plans[id]; p != nil {
		return p, nil
	}
	return nil, mcp.Refused("there is no plan %.40q: call propose_changes", id)
}

// Plan implements mcp.Changes. The person may have decided elsewhere.
func (c *folderChanges) Plan(ctx context.Context, id string) (mcp.Plan, error) {
	p, err := c.plan(id)
	if err != nil {
		return mcp.Plan{}, err
	}
	kept, err := c.run(ctx, "", "log", id, "--root", p.root)
	if err != nil {
		return mcp.Plan{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept.State != string(workspace.Proposed) {
		p.Done = kept.State
	}
	return p.Plan, nil
}

// Apply implements mcp.Changes.
func (c *folderChanges) Apply(ctx context.Context, id string, only []string) (string, error) {
	p, err := c.plan(id)
	if err != nil {
		return "", err
	}
	args := []string{"--approve", id, "--root", p.root}
	for _, f := range p.files {
		if len(only) == 0 || slices.ContainsFunc(only, func(glob string) bool { return matches(glob, f) }) {
			args = append(args, "--only", f.ID)
		}
	}
	if len(args) == 4 {
		return "", mcp.Refused("only: no file of the plan is meant by %s", strings.Join(only, ", "))
	}
	answer, err := c.run(ctx, "", "apply", args...)
	if err != nil {
		return "", err
	}
	r := answer.Metadata.ExecutionResult
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Done = r.State
	if answer.Error != nil {
		return "", mcp.Refused("%s. %s", answer.Error.Message, answer.Error.Hint)
	}
	return fmt.Sprintf("Applied in %s: %d created, %d updated, %d deleted, %d renamed. `airlock undo` reverts it.",
		p.root, len(r.FilesCreated), len(r.FilesUpdated), len(r.FilesDeleted), len(r.FilesRenamed)), nil
}

func matches(glob string, f proposedFile) bool {
	ok, err := filepath.Match(glob, f.Path)
	return ok && err == nil || glob == f.Path || glob == f.ID
}
