package conversation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

func (t *turn) collector() *provider.Collector {
	var mu sync.Mutex
	pace := newPace()
	return &provider.Collector{
		Quarantine: t.chat.host.quarantine, Retry: t.chat.rule, MaxBytes: t.chat.record.Settings.MaxDownload,
		Counters: t.chat.host.Counters,
		Progress: func(a provider.Artifact, done int64) {
			mu.Lock()
			defer mu.Unlock()
			if pace.due(a.Ref.ID+a.Name, a.Size >= 0 && done >= a.Size) {
				t.emit(Downloading{a.Name, done, a.Size})
			}
		},
	}
}

// collect finds and fetches what the turn has made, before anybody is asked
// about it. Its error is about those files that are not here.
func (t *turn) collect(ctx context.Context, before provider.Snapshot, r *provider.RunResult) error {
	answered := r.Model // it counts under the name by which it was asked, as its turns do
	r.Model = t.chat.record.Settings.Model
	found, err := t.collector().Collect(ctx, t.chat.noted, before, r)
	r.Model = answered
	t.record.Steps = redactSteps(t.chat.host.Redact, r.Steps) // without the files that were in their output
	var failed error
	for _, a := range found.Files {
		t.output(a)
	}
	for _, f := range found.Failed {
		o := t.output(f.Artifact)
		o.State, o.Problem, o.SHA256 = OutputFailed, t.chat.host.problem(f.Err), ""
		failed = errors.Join(failed, fmt.Errorf("%s was not fetched: %w", o.Name, f.Err))
		switch provider.KindOf(f.Err) {
		case provider.FileNotFound, provider.FileExpired, provider.ContainerExpired, provider.NotDownloadable:
		default: // it is still there
			t.chat.unfetched(ctx, f.Artifact.Ref)
		}
	}
	for i, blind := range found.Blind {
		t.emit(Notice{Text: fmt.Sprintf(
			"The session could not be listed (%v): files that the answer does not speak of may have been overlooked.", blind)})
		if provider.KindOf(blind) != provider.ContainerExpired { // what it had is still there
			t.chat.unfetched(ctx, provider.FileRef{Scope: provider.ScopeSession, Session: found.Unlisted[i]})
		}
	}
	missing := t.unkept(found.Missing)
	t.record.Missing = append(t.record.Missing, missing...)
	t.emit(Collected{slices.Clone(t.record.Outputs), slices.Clone(t.record.Missing)})
	problem := found.Problem()
	if problem == nil {
		problem = t.broken(missing)
	}
	return errors.Join(err, failed, problem)
}

func (t *turn) output(a provider.Artifact) *Output {
	a.MIME, _, _ = strings.Cut(a.MIME, ";")
	if a.MIME == "text/plain" { // content does not tell a CSV from other text
		if kind := typeByName(a.Name); kind != "" {
			a.MIME = kind
		}
	}
	o := Output{ID: fmt.Sprintf("o%d", len(t.record.Outputs)+1), Name: a.Name, Size: a.Size, MIME: a.MIME,
		SHA256: a.SHA256, FoundBy: a.FoundBy, Step: a.StepID, Remote: a.Ref, State: OutputFetched}
	o.Remote.Inline = nil
	t.record.Outputs = append(t.record.Outputs, o)
	return &t.record.Outputs[len(t.record.Outputs)-1]
}

// save asks which outputs are wanted, and writes them.
func (t *turn) save(ctx context.Context) error {
	folder := t.prompt.Folder
	fetched := 0
	for _, o := range t.record.Outputs {
		if o.State == OutputFetched {
			fetched++
		}
	}
	if folder == "" || fetched == 0 {
		return nil
	}
	s := saving{host: t.chat.host, conversation: t.chat.record, turn: t.record}
	q := Ask{Kind: AskSave, Folder: folder, Text: fmt.Sprintf(
		"Save %s into %s?", english.Plural(fetched, "file", ""), folder)}
	var err error
	if q.Outputs, err = s.preview(ctx, folder); err != nil {
		return err
	}
	a, err := t.ask(ctx, q)
	if errors.Is(err, ErrNonInteractive) {
		return nil // they are listed
	}
	if err != nil {
		return err
	}
	if a.Folder != "" {
		folder = a.Folder
	}
	if !a.OK {
		for i := range t.record.Outputs {
			if o := &t.record.Outputs[i]; o.State == OutputFetched {
				o.State = OutputDeclined
			}
		}
		t.emit(Saved{Outputs: slices.Clone(t.record.Outputs)})
		return nil
	}
	before := len(t.record.Receipts)
	err = s.write(ctx, folder, a)
	done := Saved{Outputs: slices.Clone(t.record.Outputs)}
	if len(t.record.Receipts) > before {
		done.Receipt = t.record.Receipts[before]
	}
	t.emit(done)
	return err
}

// saving puts outputs of a turn into a folder, as one transaction.
type saving struct {
	host         *Host
	conversation *Conversation
	turn         *Turn
}

// open opens a folder as a workspace for outputs, which may be larger than
// what a reply may write.
func (s *saving) open(ctx context.Context, folder string) (*workspace.Workspace, error) {
	most := max(s.conversation.Settings.MaxDownload, 100<<20)
	d := s.host.Desk
	return workspace.Open(ctx, folder, workspace.Options{Store: d.Journal, Protected: d.Protected, Log: d.Log,
		Limits: workspace.Limits{Files: 300, TextBytes: most, BinaryBytes: most, BatchBytes: 300 * most}})
}

// preview says of each output that nobody has decided about what saving it
// would meet.
func (s *saving) preview(ctx context.Context, folder string) ([]OutputAsked, error) {
	var list []OutputAsked
	for _, o := range s.turn.Outputs {
		if o.State == OutputFetched {
			list = append(list, OutputAsked{Output: o, Path: o.Name})
		}
	}
	return s.meet(ctx, folder, list, Answer{OK: true})
}

// meet says what the picked outputs would meet in a folder.
func (s *saving) meet(ctx context.Context, folder string, list []OutputAsked, picked Answer) ([]OutputAsked, error) {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return list, s.check(ctx, list) // nothing is there to be met
	}
	w, err := s.open(ctx, folder)
	if err != nil {
		return nil, err
	}
	changes, done, err := s.changes(ctx, w, picked)
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := w.Plan(ctx, s.origin(), changes...)
	if err != nil {
		return nil, err
	}
	for i := range list {
		f := changeOf(p, list[i].ID)
		if f == nil {
			continue
		}
		list[i].Path, list[i].Unchanged = f.Path, f.Op == workspace.OpUnchanged
		switch f.Verdict() {
		case workspace.Conflict:
			list[i].Exists, list[i].Change = true, shownChange(f)
		case workspace.Refuse:
			list[i].Refused = reasonOf(f)
		}
		if f.Verdict() != workspace.Refuse {
			list[i].Warning = firstOf(f, workspace.Ask)
		}
	}
	return list, nil
}

// check says of outputs what the rules say that need no folder.
func (s *saving) check(ctx context.Context, list []OutputAsked) error {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	for i, verdict := range workspace.CheckOutputs(names, nil) {
		switch verdict.Verdict {
		case workspace.Refuse:
			list[i].Refused = verdict.Reason
			continue
		case workspace.Ask:
			list[i].Path, list[i].Warning = verdict.Path, verdict.Reason
			continue
		}
		why, err := s.checkContent(ctx, &list[i].Output)
		if err != nil {
			return err
		}
		list[i].Path, list[i].Warning = verdict.Path, why
	}
	return nil
}

func (s *saving) checkContent(ctx context.Context, o *Output) (why string, err error) {
	hash, err := workspace.ParseHash(o.SHA256)
	if err != nil {
		return "", err
	}
	f, err := s.host.quarantine.Open(o.SHA256)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := workspace.File(ctx, f, o.Size, hash)
	if err != nil {
		return "", err
	}
	return workspace.CheckContent(ctx, o.Name, content)
}

// shownChange is a change as a question has it: without the difference of texts
// that are too long to be looked at.
func shownChange(f *workspace.FileChange) *workspace.FileChange {
	const most = 1 << 20
	short := *f
	if f.Pre.Size > most || f.Post.Size > most {
		short.Hunks = nil
	}
	return &short
}

func (s *saving) origin() workspace.Origin {
	return workspace.Origin{Kind: "outputs", Ref: fmt.Sprintf("%s/%d", s.conversation.ID, s.turn.Number),
		Note: s.conversation.Title}
}

// changeOf is where an output would be written. One that is renamed is also
// among the changes of the file that has its name: the last one counts.
func changeOf(p *workspace.Proposal, id string) (found *workspace.FileChange) {
	for i := range p.Files {
		if slices.Contains(p.Files[i].Changes, id) {
			found = &p.Files[i]
		}
	}
	return found
}

// reasonOf is the first of the worst findings of a file.
func reasonOf(f *workspace.FileChange) string { return firstOf(f, f.Verdict()) }

func firstOf(f *workspace.FileChange, severity workspace.Severity) string {
	for _, finding := range f.Findings {
		if finding.Severity == severity {
			return strings.TrimSuffix(finding.Message+"; "+finding.Hint, "; ")
		}
	}
	return ""
}

// changes are the picked outputs as changes of the workspace.
func (s *saving) changes(
	ctx context.Context, w *workspace.Workspace, a Answer,
) (changes []workspace.Change, done func(), err error) {
	var open []io.Closer
	done = func() {
		for _, f := range open {
			_ = f.Close() // it was read only
		}
	}
	inputs := s.inputs(w.Root())
	for i := range s.turn.Outputs {
		o := &s.turn.Outputs[i]
		pick, meant := a.pick(o.ID)
		if !meant || !o.savable() || pick.Clash == ClashSkip {
			continue
		}
		if pick.SHA256 != "" && pick.SHA256 != o.SHA256 {
			return nil, done, fmt.Errorf("%w: %s is not what was approved: its SHA-256 is %s", workspace.ErrStale, o.Name,
				o.SHA256)
		}
		artifact := o.artifact()
		if pick.As != "" {
			artifact.Name = pick.As
		}
		one, files, err := provider.Save(ctx, s.host.quarantine, []provider.Artifact{artifact}, "", pick.Clash.workspace(),
			inputs, func(name string) (string, error) { return currentSum(w.Root(), name) })
		if err != nil {
			done()
			return nil, func() {}, fmt.Errorf("save %s: %w", o.Name, err)
		}
		open = append(open, files)
		one[0].ID = o.ID
		changes = append(changes, one...)
	}
	return changes, done, nil
}

// savable reports whether an output is held and not in a folder yet.
func (o *Output) savable() bool {
	return o.SHA256 != "" && o.State != OutputSaved && o.State != OutputUnchanged
}

// inputs are the files of the conversation that are in a folder, by their path
// there.
func (s *saving) inputs(root string) (list []provider.Staged) {
	for _, t := range s.conversation.Turns {
		for _, in := range t.Inputs {
			real, err := filepath.EvalSymlinks(in.Local)
			if err != nil || in.Local == "" || in.SHA256 == "" {
				continue
			}
			if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
				list = append(list, provider.Staged{Path: filepath.ToSlash(rel), SHA256: in.SHA256})
			}
		}
	}
	return list
}

func currentSum(root, name string) (string, error) {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer folder.Close()
	f, err := folder.Open(path.Clean(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

// write saves what was picked: all of it or, after an error, nothing. What was
// approved is bound to its hash down to the moment of writing.
func (s *saving) write(ctx context.Context, folder string, a Answer) error {
	s.decline(a)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("the folder %s cannot be used: %w", folder, err)
	}
	w, err := s.open(ctx, folder)
	if err != nil {
		return err
	}
	changes, done, err := s.changes(ctx, w, a)
	if err != nil || len(changes) == 0 {
		return err
	}
	defer done()
	p, err := w.Plan(ctx, s.origin(), changes...)
	if err != nil {
		return err
	}
	ids, saved := s.approve(p, changes)
	if len(ids) == 0 {
		return nil
	}
	approval, err := p.Approve(ids...)
	if err != nil {
		return err
	}
	receipt, err := w.Commit(ctx, p, approval, workspace.CommitOptions{})
	if err != nil {
		for _, o := range saved {
			o.State, o.Problem = OutputFailed, s.host.problem(err) // it is still held here
		}
		return err
	}
	s.turn.Receipts = append(s.turn.Receipts, receipt)
	for f, o := range saved {
		o.State, o.Saved, o.Problem = OutputSaved, filepath.Join(w.Root(), filepath.FromSlash(f.Path)), nil
		if f.Op == workspace.OpUnchanged {
			o.State = OutputUnchanged
		}
	}
	return nil
}

// decline marks what was not picked.
func (s *saving) decline(a Answer) {
	for i := range s.turn.Outputs {
		o := &s.turn.Outputs[i]
		if pick, meant := a.pick(o.ID); o.State == OutputFetched && (!meant || pick.Clash == ClashSkip) {
			o.State = OutputDeclined
		}
	}
}

// approve returns the ids of what can be written, and marks the rest.
func (s *saving) approve(
	p *workspace.Proposal, changes []workspace.Change,
) (ids []string, saved map[*workspace.FileChange]*Output) {
	saved = map[*workspace.FileChange]*Output{}
	for i := range s.turn.Outputs {
		o := &s.turn.Outputs[i]
		f := changeOf(p, o.ID)
		switch {
		case f == nil:
		case f.Verdict() == workspace.Conflict:
			o.State, o.Problem = OutputExists, &Problem{Kind: "approval_needed", Message: f.Path + " exists",
				Hint: "Choose whether it is replaced, or save under another name."}
		case f.Verdict() == workspace.Refuse:
			o.State, o.Problem = OutputRefused, &Problem{Kind: "refused", Message: reasonOf(f)}
		default:
			ids = append(ids, f.ID)
			saved[f] = o
		}
	}
	return ids, saved
}
