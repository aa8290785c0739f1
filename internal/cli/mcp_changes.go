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

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/outputrules"
)

// folderChanges plans and applies changes of folders by running `airlock apply`. As root
// that command becomes the service's user, which a process cannot undo.
type folderChanges struct {
	app   *app
	roots []string
	yes   bool

	mu    sync.Mutex
	plans []*folderPlan // oldest first
}

type folderPlan struct {
	mcp.Plan
	root  string
	files []plannedFile
}

// changesAnswer is what apply or log print with --json, as far as an agent needs it.
type changesAnswer struct {
	Proposal *struct {
		ID    string
		Files []plannedFile
	}
	Metadata struct {
		ExecutionResult *struct {
			State, Reason                            string
			FilesCreated, FilesUpdated, FilesDeleted []string
			FilesRenamed                             []json.RawMessage
			FilesUnchanged                           []string
		}
	}
	Outcome string // of apply, in words
	State   string // of a plan, from log
	Error   *command.Problem
}

// plannedFile is what a plan would do to one file.
type plannedFile struct {
	ID, Op, Path   string
	Added, Removed int // lines
	Hunks          []struct {
		OldStart int `json:"old_start"`
		OldLines int `json:"old_lines"`
		NewStart int `json:"new_start"`
		NewLines int `json:"new_lines"`
		Lines    []struct{ Op, Text string }
	}
}

// run runs airlock apply or airlock log.
func (c *folderChanges) run(ctx context.Context, in, name string, args ...string) (*changesAnswer, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append(
		[]string{name, "--json", "--data", c.app.Config.Data}, args...)...)
	cmd.Args[0] = os.Args[0]
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader(in), &out
	err := cmd.Run()
	var answer changesAnswer
	if json.Unmarshal(out.Bytes(), &answer) != nil {
		return nil, fmt.Errorf("airlock %s: %w", name, err)
	}
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && exit.ExitCode() != command.ExitApproval {
		if answer.Error != nil {
			return nil, mcp.Refused("%s. %s", answer.Error.Message, answer.Error.Hint)
		}
		return nil, fmt.Errorf("airlock %s: %w", name, err)
	}
	return &answer, nil
}

// Propose implements mcp.Changes.
func (c *folderChanges) Propose(ctx context.Context, response, root string) (mcp.Plan, error) {
	folder := c.roots[0]
	if root != "" {
		i := slices.Index(c.roots, filepath.Clean(root))
		if i < 0 {
			return mcp.Plan{}, mcp.Refused("root: changes may be proposed in %s", strings.Join(c.roots, ", "))
		}
		folder = c.roots[i]
	}
	answer, err := c.run(ctx, response, "apply", "--propose", "--root", folder, "-")
	if err != nil {
		return mcp.Plan{}, err
	}
	if answer.Proposal == nil || len(answer.Proposal.Files) == 0 {
		return mcp.Plan{}, mcp.Refused("response: there are no changes of files in it")
	}
	if r := answer.Metadata.ExecutionResult; r != nil && r.State != proposed && answer.Error == nil {
		return mcp.Plan{Done: strings.TrimSuffix(answer.Outcome, ".")}, nil
	}
	p := &folderPlan{root: folder, files: answer.Proposal.Files}
	p.ID, p.Agreed = answer.Proposal.ID, c.yes
	p.Review = "airlock apply --approve " + p.ID + " --root " + command.QuoteForShell(folder)
	if c.app.Config.PublicURL != "" {
		p.Page = strings.TrimSuffix(c.app.Config.PublicURL, "/") + "/ui/review/" + p.ID
		p.Review += " or " + p.Page
	}
	added, removed := 0, 0
	var diff strings.Builder
	for i := range p.files {
		f := &p.files[i]
		added, removed = added+f.Added, removed+f.Removed
		writeDiff(&diff, f)
	}
	p.Diff = diff.String()
	p.Summary = fmt.Sprintf("%s: +%d -%d in %s", english.Plural(len(p.files), "file", ""), added, removed, folder)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans = append(c.plans[max(len(c.plans)+1-maxPlans, 0):], p)
	return p.Plan, nil
}

// maxPlans bounds the plans in memory, with their diffs. Older ones are still proposals of their folders.
const maxPlans = 100

func writeDiff(b *strings.Builder, f *plannedFile) {
	fmt.Fprintf(b, "%s %s\n", f.Op, command.PrintableName(f.Path))
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
	if i := slices.IndexFunc(c.plans, func(p *folderPlan) bool { return p.ID == id }); i >= 0 {
		return c.plans[i], nil
	}
	return nil, mcp.Refused("there is no plan %.40q: call propose_changes", id)
}

// named reports whether one of the patterns names the file, by its id or path.
func (f *plannedFile) named(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return pattern == f.ID || pattern == f.Path || outputrules.MatchPath(pattern, f.Path)
	})
}

// proposed is the state of a plan about which nobody has decided.
const proposed = "proposed"

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
	if kept.State != proposed {
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
	for i := range p.files {
		f := &p.files[i]
		if len(only) == 0 || f.named(only) {
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
	if r != nil {
		p.Done = r.State
	}
	if answer.Error != nil {
		return "", mcp.Refused("%s. %s", answer.Error.Message, answer.Error.Hint)
	}
	if r == nil {
		return "", errors.New("airlock apply: there is no result")
	}
	if r.Reason != "" {
		return answer.Outcome, nil
	}
	there := ""
	if n := len(r.FilesUnchanged); n > 0 {
		there = fmt.Sprintf(", %d already there", n)
	}
	return fmt.Sprintf("Applied in %s: %d created, %d updated, %d deleted, %d renamed%s. "+
		"`airlock undo --root %s` reverts it.", p.root, len(r.FilesCreated), len(r.FilesUpdated),
		len(r.FilesDeleted), len(r.FilesRenamed), there, command.QuoteForShell(p.root)), nil
}
