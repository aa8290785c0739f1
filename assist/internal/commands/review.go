package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
)

// keyboard is a terminal that delivers single keys, and a page on it.
type keyboard struct {
	tty   *os.File
	page  *command.Page
	lines func() error // restores the terminal
}

// errQuit reports that the user ended the review.
var errQuit = errors.New("quit")

// canAsk reports whether the process has a terminal for questions. Standard input may
// be the reply itself.
func (a *Assistant) canAsk() bool {
	if a.JSON || !command.IsTerminal(a.Streams.Err) {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

func (a *Assistant) openKeyboard() (*keyboard, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	k := &keyboard{tty: tty, page: &command.Page{Writer: tty, Colour: !a.Config.Plain}}
	if k.lines, err = k.keys(); err != nil {
		return nil, errors.Join(err, tty.Close())
	}
	return k, nil
}

// keys makes the terminal deliver each key as it is pressed, without echo. Ctrl-C stays
// a signal.
func (k *keyboard) keys() (restore func() error, err error) {
	return command.ChangeTerminal(k.tty, func(mode *unix.Termios) {
		mode.Lflag &^= unix.ICANON | unix.ECHO
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	})
}

func (k *keyboard) close() error { return errors.Join(k.lines(), k.tty.Close()) }

// ask waits for one of the keys, and echoes it. Ctrl-D ends the review.
func (k *keyboard) ask(ctx context.Context, question, keys string) (byte, error) {
	fmt.Fprint(k.tty, k.page.Paint(command.Bold, question))
	key, err := k.key(ctx, keys)
	if err != nil {
		fmt.Fprintln(k.tty)
		return key, err
	}
	fmt.Fprintf(k.tty, "%c\n", key)
	return key, nil
}

func (k *keyboard) key(ctx context.Context, keys string) (byte, error) {
	var one [1]byte
	for {
		if err := command.Readable(ctx, k.tty); err != nil {
			return 0, err
		}
		const ctrlD = 4
		n, err := k.tty.Read(one[:])
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return 0, err
		case n == 0, one[0] == ctrlD:
			return 0, errQuit
		case strings.IndexByte(keys, one[0]) >= 0:
			return one[0], nil
		}
	}
}

// review lets the user review the proposal, until they agree or quit.
func (w *work) review(ctx context.Context) error {
	k, err := w.openKeyboard()
	if err != nil {
		return err
	}
	defer k.close()
	for {
		r := &reviewer{keyboard: k, assistant: w.Assistant, proposal: w.proposal, resolve: w.resolve}
		consent, err := r.agree(ctx, reportsOf(w.handled), w.options.bestEffort)
		w.proposal = r.proposal
		if errors.Is(err, errQuit) {
			if err := w.state.Decline(context.WithoutCancel(ctx), w.handled, "it was turned down"); err != nil {
				return err
			}
			w.proposal = nil
			return w.end(command.Exit(command.ExitApproval))
		}
		if err != nil {
			return command.Interrupted(ctx, err)
		}
		again, err := w.commitReviewed(ctx, k, consent)
		if !again {
			return err
		}
	}
}

// commitReviewed commits. If a file has changed since it was shown, it reports again,
// with the rebased proposal in place.
func (w *work) commitReviewed(ctx context.Context, k *keyboard, consent changes.Consent) (again bool, err error) {
	_, err = w.state.Approve(ctx, w.handled, w.proposal, consent)
	conflict, ok := errors.AsType[*workspace.ConflictError](err)
	if !ok {
		if err != nil {
			return false, w.failed(ctx, err)
		}
		return false, w.deliver(ctx)
	}
	for _, f := range conflict.Files {
		k.page.Line("%s", k.page.Paint(command.Red, command.Printable(f.Path+" "+f.Reason)))
	}
	k.page.Line("Nothing was changed. This is the proposal on the files as they are now:")
	w.proposal, err = w.state.Rebase(ctx, w.handled, w.proposal)
	return err == nil, err
}

func (w *work) resolve(
	ctx context.Context, p *workspace.Proposal, file string, choice workspace.Choice, content []byte,
) (*workspace.Proposal, error) {
	ws, err := w.state.Workspace(ctx, p.Root)
	if err != nil {
		return nil, err
	}
	return ws.Resolve(ctx, p, file, choice, content)
}

// reviewer shows one proposal, file by file.
type reviewer struct {
	*keyboard
	assistant *Assistant
	proposal  *workspace.Proposal
	resolve   func(ctx context.Context, p *workspace.Proposal, file string, choice workspace.Choice, content []byte) (
		*workspace.Proposal, error)
	rest bool // accept all that follow
}

const reviewHelp = `  a  accept this file (or y)     s  skip it (or n)
  e  edit it first               h  decide for each hunk
  A  accept it and all that follow, as far as nothing speaks against them
  q  leave, and change nothing
In a conflict: m keeps the file as it is, t takes the proposed one, e edits.
Where the reply can be read in several ways: r shows the next reading.`

// agree asks about each file, and then about all of them.
func (r *reviewer) agree(ctx context.Context, reports []reportView, bestEffort bool) (changes.Consent, error) {
	consent := changes.Consent{BestEffort: bestEffort}
	var ids []string
	if r.proposal != nil {
		showFindings(r.page, r.proposal.Findings)
		var files []string
		for _, f := range r.proposal.Files {
			files = append(files, f.ID)
		}
		for i, id := range files {
			accepted, err := r.file(ctx, id, fmt.Sprintf("[%d/%d]", i+1, len(files)))
			if err != nil {
				return consent, err
			}
			ids = append(ids, accepted...)
		}
	}
	showReports(r.page, reports)
	if len(ids)+len(reports) == 0 {
		r.page.Line("There is nothing to apply.")
		return consent, errQuit
	}
	key, err := r.ask(ctx, fmt.Sprintf("Apply %s and send %s? [y/n] ", english.Plural(len(ids), "change", ""),
		english.Plural(len(reports), "report", "")), "ynq")
	if err != nil || key != 'y' {
		return consent, errors.Join(err, errQuit)
	}
	if len(ids) > 0 {
		consent.Approval, err = r.proposal.Approve(ids...)
	}
	return consent, err
}

// file asks about one file and returns the ids that were accepted.
func (r *reviewer) file(ctx context.Context, id, position string) ([]string, error) {
	for {
		f := r.proposal.File(id)
		if f == nil {
			return nil, nil
		}
		verdict := f.Verdict()
		if r.rest && f.Checked {
			return []string{id}, nil
		}
		fmt.Fprintf(r.page, "\n%s ", position)
		showFile(r.page, f, command.WidthOf(r.tty))
		switch {
		case verdict == workspace.Refuse:
			return nil, nil
		case f.Op == workspace.OpUnchanged && verdict != workspace.Conflict:
			return []string{id}, nil
		}
		question, keys := "[a]ccept, [s]kip, [e]dit, [h]unks, [A]ll, [q]uit, [?] ", "asehAq?yn"
		if verdict == workspace.Conflict {
			question, keys = "conflict: [m]ine, [t]heirs, [e]dit, [s]kip, [q]uit, [?] ", "mtesq?"
		}
		if len(f.Readings) > 1 {
			question, keys = "[r]eading, "+question, keys+"r"
		}
		key, err := r.ask(ctx, question, keys)
		if err != nil {
			return nil, err
		}
		if accepted, done, err := r.answer(ctx, f, key); done || err != nil {
			return accepted, err
		}
	}
}

// answer handles a key. If done is false, the file is shown again.
func (r *reviewer) answer(
	ctx context.Context, f *workspace.FileChange, key byte,
) (accepted []string, done bool, err error) {
	switch key {
	case 'a', 'y':
		return []string{f.ID}, true, nil
	case 'A':
		r.rest = true
		return []string{f.ID}, true, nil
	case 's', 'm', 'n':
		return nil, true, nil
	case 'q':
		return nil, true, errQuit
	case 'h':
		accepted, err := r.hunks(ctx, f)
		return accepted, true, err
	case 't':
		r.proposal, err = r.resolve(ctx, r.proposal, f.ID, workspace.Theirs, nil)
	case 'e':
		err = r.edit(ctx, f)
	case 'r':
		at := slices.IndexFunc(f.Readings, func(r workspace.Reading) bool { return r.Post.Hash == f.Post.Hash })
		next := f.Readings[(at+1)%len(f.Readings)]
		r.proposal, err = r.resolve(ctx, r.proposal, f.ID, workspace.Choice(next.ID), nil)
	default:
		r.page.Line("%s", reviewHelp)
	}
	return nil, false, err
}

// hunks asks about each hunk of a file.
func (r *reviewer) hunks(ctx context.Context, f *workspace.FileChange) ([]string, error) {
	if len(f.Hunks) < 2 {
		r.page.Line("It is one hunk.")
	}
	var accepted []string
	for i := range f.Hunks {
		h := &f.Hunks[i]
		showHunk(r.page, h, command.WidthOf(r.tty))
		key, err := r.ask(ctx, fmt.Sprintf("hunk %d of %d: [a]ccept, [s]kip, [q]uit ", i+1, len(f.Hunks)), "asqyn")
		if err != nil {
			return nil, err
		}
		switch key {
		case 'a', 'y':
			accepted = append(accepted, f.ID+":"+h.ID)
		case 'q':
			return nil, errQuit
		}
	}
	if len(accepted) == len(f.Hunks) {
		return []string{f.ID}, nil
	}
	return accepted, nil
}

// maxEdit bounds the content that an editor gets.
const maxEdit = 10 << 20

// edit lets the user edit the proposed content, which replaces the proposal of the file.
func (r *reviewer) edit(ctx context.Context, f *workspace.FileChange) error {
	if f.After() == nil || f.Text == nil {
		r.page.Line("Only a text can be edited.")
		return nil
	}
	content, err := f.After().Bytes(ctx, maxEdit)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "airlock-edit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, filepath.Base(f.Path)) // the editor knows the language by it
	if err := os.WriteFile(name, content, 0o600); err != nil {
		return err
	}
	words := strings.Fields(r.assistant.Config.Editor)
	if len(words) == 0 {
		return command.Fail(command.ExitUsage, "--editor COMMAND names one", "there is no editor")
	}
	editor := exec.CommandContext(ctx, words[0], append(words[1:], name)...)
	editor.Stdin, editor.Stdout, editor.Stderr = r.tty, r.tty, r.tty
	failed := errors.Join(r.lines(), editor.Run())
	_, again := r.keys()
	if failed = errors.Join(failed, again); failed != nil {
		r.page.Line("%s", r.page.Paint(command.Red, "the editor failed: "+failed.Error()))
		return nil
	}
	if content, err = os.ReadFile(name); err != nil {
		return err
	}
	next, err := r.resolve(ctx, r.proposal, f.ID, workspace.Edited, content)
	if err != nil {
		r.page.Line("%s", r.page.Paint(command.Red, err.Error()))
		return nil
	}
	r.proposal = next
	return nil
}
