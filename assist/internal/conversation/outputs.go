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

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/outputrules"
	"github.com/airlock-run/airlock/internal/regular"
)

func (t *turn) collector() *provider.Collector {
	pace := newPace()
	return &provider.Collector{
		Quarantine: t.chat.host.quarantine, Retry: t.chat.rule, MaxBytes: t.chat.record.Settings.MaxDownload,
		Counters: t.chat.host.Counters,
		Progress: func(a provider.Artifact, done int64) {
			if pace.due(a.Ref.ID+a.Name, a.Size >= 0 && done >= a.Size) {
				t.emit(Downloading{a.Name, done, a.Size})
			}
		},
	}
}

// collect finds and fetches the outputs of the turn, before the user is asked about them.
// The error is about files that could not be fetched.
func (t *turn) collect(ctx context.Context, before provider.Snapshot, r *provider.RunResult) error {
	answered := r.Model // counted under the name that was asked for, as turns are
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
		default: // the provider still has it
			t.chat.unfetched(ctx, f.Artifact.Ref)
		}
	}
	for i, blind := range found.Blind {
		t.emit(Notice{Text: fmt.Sprintf(
			"The session could not be listed (%v): files that the answer does not speak of may have been overlooked.", blind)})
		if provider.KindOf(blind) != provider.ContainerExpired { // the provider still has its files
			t.chat.unfetched(ctx, provider.FileRef{Scope: provider.ScopeSession, Session: found.Unlisted[i]})
		}
	}
	missing := t.missingFiles(found.Missing)
	t.record.Missing = append(t.record.Missing, missing...)
	t.emit(Collected{slices.Clone(t.record.Outputs), slices.Clone(t.record.Missing)})
	problem := found.Problem()
	if problem == nil {
		problem = t.missingError(missing)
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

// save asks which outputs to save, and writes them.
func (t *turn) save(ctx context.Context) error {
	folder := t.prompt.Folder
	q := Ask{Kind: AskSave, Folder: folder}
	for _, o := range t.record.Outputs {
		if o.State == OutputFetched {
			q.Outputs = append(q.Outputs, OutputAsked{Output: o, Path: o.Name})
		}
	}
	if folder == "" || len(q.Outputs) == 0 {
		return nil
	}
	q.Text = fmt.Sprintf("Save %s into %s?", english.Plural(len(q.Outputs), "file", ""), folder)
	s := saving{host: t.chat.host, conversation: t.chat.record, turn: t.record}
	if err := s.meet(ctx, folder, q.Outputs, Answer{OK: true}); err != nil {
		return err
	}
	a, err := t.ask(ctx, q)
	if errors.Is(err, ErrNonInteractive) {
		return nil // they stay in quarantine
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

// saving writes outputs of a turn into a folder, in one transaction.
type saving struct {
	host         *Host
	conversation *Conversation
	turn         *Turn
}

// meet fills in what the picked outputs, which are listed, would meet in a folder.
func (s *saving) meet(ctx context.Context, folder string, list []OutputAsked, picked Answer) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return s.check(ctx, list) // there is nothing in it
	}
	p, _, done, err := s.plan(ctx, folder, picked)
	if err != nil {
		return err
	}
	defer done()
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
			list[i].Refused = firstOf(f, workspace.Refuse)
		}
		if f.Verdict() != workspace.Refuse {
			list[i].Warning = firstOf(f, workspace.Ask)
		}
	}
	return nil
}

// plan plans to save the picked outputs into a folder. The caller calls done, unless
// there is an error.
func (s *saving) plan(ctx context.Context, folder string, picked Answer) (
	p *workspace.Proposal, w *workspace.Workspace, done func(), err error,
) {
	// Outputs may be larger than what a reply may write.
	most := max(s.conversation.Settings.MaxDownload, 100<<20)
	d := s.host.Replies
	w, err = workspace.Open(ctx, folder, workspace.Options{Store: d.Journal, Protected: d.Protected, Log: d.Log,
		Limits: workspace.Limits{Files: 300, TextBytes: most, BinaryBytes: most, BatchBytes: 300 * most}})
	if err != nil {
		return nil, nil, nil, err
	}
	changes, done, err := s.changes(ctx, w, picked)
	if err != nil {
		return nil, nil, nil, err
	}
	p, err = w.Plan(ctx, workspace.Origin{Kind: "outputs", Ref: fmt.Sprintf("%s/%d", s.conversation.ID, s.turn.Number),
		Note: s.conversation.Title}, changes...)
	if err != nil {
		done()
	}
	return p, w, done, err
}

// check applies the rules that need no folder to outputs.
func (s *saving) check(ctx context.Context, list []OutputAsked) error {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	for i, verdict := range outputrules.CheckOutputs(names, nil) {
		switch verdict.Verdict {
		case outputrules.Refuse:
			list[i].Refused = verdict.Reason
			continue
		case outputrules.Ask:
			list[i].Path, list[i].Warning = verdict.Path, verdict.Reason
			continue
		}
		why, err := s.checkContent(&list[i].Output)
		if err != nil {
			return err
		}
		list[i].Path, list[i].Warning = verdict.Path, why
	}
	return nil
}

func (s *saving) checkContent(o *Output) (why string, err error) {
	f, err := s.host.quarantine.Open(o.SHA256)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return outputrules.CheckContent(o.Name, f, o.Size)
}

// shownChange returns a change for a question, without the diff if a text is too long.
func shownChange(f *workspace.FileChange) *workspace.FileChange {
	const most = 1 << 20
	short := *f
	if f.Pre.Size > most || f.Post.Size > most {
		short.Hunks = nil
	}
	return &short
}

// changeOf returns the change that writes an output. A renamed output is also among the
// changes of the file that has its name, so that the last one counts.
func changeOf(p *workspace.Proposal, id string) (found *workspace.FileChange) {
	for i := range p.Files {
		if slices.Contains(p.Files[i].Changes, id) {
			found = &p.Files[i]
		}
	}
	return found
}

// firstOf returns the first finding of a file that has a severity, "" if there is none.
func firstOf(f *workspace.FileChange, severity workspace.Severity) string {
	for _, finding := range f.Findings {
		if finding.Severity == severity {
			return strings.TrimSuffix(finding.Message+"; "+finding.Hint, "; ")
		}
	}
	return ""
}

// changes returns the picked outputs as changes of the workspace. The caller calls
// done, which closes their files, unless there is an error.
func (s *saving) changes(
	ctx context.Context, w *workspace.Workspace, a Answer,
) (changes []workspace.Change, done func(), err error) {
	var open []io.Closer
	done = func() {
		for _, f := range open {
			_ = f.Close() // it was read only
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
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
			return nil, done, fmt.Errorf("save %s: %w", o.Name, err)
		}
		open = append(open, files)
		one[0].ID = o.ID
		changes = append(changes, one...)
	}
	return changes, done, nil
}

// savable reports whether an output is in quarantine and was not saved yet.
func (o *Output) savable() bool {
	return o.SHA256 != "" && o.State != OutputSaved && o.State != OutputUnchanged
}

// inputs returns the conversation's inputs that are in a folder, by their paths there.
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
	f, err := regular.OpenIn(folder, path.Clean(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

// write saves the picked outputs: all of them or, after an error, none. It writes only
// content with the approved hash.
func (s *saving) write(ctx context.Context, folder string, a Answer) error {
	s.decline(a)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("the folder %s cannot be used: %w", folder, err)
	}
	p, w, done, err := s.plan(ctx, folder, a)
	if err != nil {
		return err
	}
	defer done()
	ids, saved := s.approve(p)
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
			o.State, o.Problem = OutputFailed, s.host.problem(err) // it stays in quarantine
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

// decline marks outputs that were not picked.
func (s *saving) decline(a Answer) {
	for i := range s.turn.Outputs {
		o := &s.turn.Outputs[i]
		if pick, meant := a.pick(o.ID); o.State == OutputFetched && (!meant || pick.Clash == ClashSkip) {
			o.State = OutputDeclined
		}
	}
}

// approve returns the ids of the changes that can be written, and marks the other outputs.
func (s *saving) approve(p *workspace.Proposal) (ids []string, saved map[*workspace.FileChange]*Output) {
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
			o.State, o.Problem = OutputRefused, &Problem{Kind: "refused", Message: firstOf(f, workspace.Refuse)}
		default:
			ids = append(ids, f.ID)
			saved[f] = o
		}
	}
	return ids, saved
}

// missingFiles compares the promised files of the answer with the existing files. It emits
// a notice for each missing file, and returns their names. In a project's conversation the
// reply's own files are proposals, not promises.
func (t *turn) missingFiles(missing []string) []string {
	missing = slices.Clone(missing)
	if t.chat.record.Settings.Project == "" {
		missing = append(missing, provider.PromisedNames(t.record.Text, append(t.chat.fileNames(), missing...)...)...)
	}
	hint := "Ask the model to write it again."
	if t.framed() && len(t.record.Outputs) == 0 {
		hint = "From " + t.chat.Destination +
			" a file comes back only where the code prints it as it was told to. Ask again, or ask another provider."
	}
	for _, name := range missing {
		t.emit(Notice{Text: "The answer promises " + name + ", and there is no such file.", Hint: hint, File: name})
	}
	if t.prompt.Expect && len(t.record.Outputs)+len(missing) == 0 {
		t.emit(Notice{Text: fmt.Sprintf("The turn made no file: there is nothing to save into %s.", t.prompt.Folder),
			Hint: strings.TrimPrefix(hint, "Ask the model to write it again.")})
	}
	return missing
}

// fileNames returns the names of all inputs and outputs of the conversation.
func (c *Chat) fileNames() (names []string) {
	for _, t := range c.record.Turns {
		for _, u := range t.Inputs {
			names = append(names, u.Name, u.Path)
		}
		for _, o := range t.Outputs {
			names = append(names, o.Name)
		}
	}
	return names
}

// missingError returns the error of missing files, if the prompt expects files.
func (t *turn) missingError(missing []string) error {
	if !t.prompt.Expect || len(missing) == 0 {
		return nil
	}
	return &provider.Error{Kind: provider.OutputsMissing, Provider: t.chat.record.Settings.Provider, Op: "collect",
		Message: "the answer promises files that do not exist: " + strings.Join(missing, ", ")}
}
