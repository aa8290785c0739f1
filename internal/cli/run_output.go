package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/setup"
)

// runReport is what run --json prints: the run as in the API, and the state of its files.
type runReport struct {
	*client.Run
	Folder  string      `json:"folder,omitempty"` // into which files were saved
	Saved   []savedFile `json:"saved"`
	Problem *problem    `json:"error,omitempty"` // with saving files
}

// text writes nothing: the program's output was streamed, and everything else goes to
// standard error.
func (runReport) text(*page) {}

// follow runs the program and streams its output.
func (a *app) follow(ctx context.Context, conn *connection, req client.RunRequest) (*client.Run, error) {
	stdout, stderr := a.screen(a.streams.Out), a.screen(a.streams.Err)
	if a.json {
		stdout, stderr = io.Discard, io.Discard
	}
	var run *client.Run
	for event, err := range conn.client.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		switch event.Type {
		case client.EventOutput:
			to := stdout
			if event.Stream == string(engine.Stderr) {
				to = stderr
			}
			if _, err := io.WriteString(to, event.Data); err != nil {
				return nil, fail(exitFailed, "", "the output cannot be written: %w", err)
			}
		case client.EventResult:
			run = event.Run
		}
	}
	flushScreens(stdout, stderr)
	if run == nil {
		return nil, fail(exitFailed, "the run may still be going on",
			"the connection to the service ended before the run did")
	}
	return run, nil
}

// samePlace reports whether two streams are one file, as on a terminal. The order of
// what a program writes to both then matters.
func samePlace(a, b io.Writer) bool {
	one, ok1 := a.(*os.File)
	other, ok2 := b.(*os.File)
	if !ok1 || !ok2 {
		return false
	}
	first, err1 := one.Stat()
	second, err2 := other.Stat()
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// screen returns a writer that protects a terminal from the output of an untrusted
// program: no escape sequence can retitle the window, read the clipboard or hide
// output. A pipe gets every byte.
func (a *app) screen(to io.Writer) io.Writer {
	if !isTerminal(to) {
		return to
	}
	return &screenWriter{to: to}
}

// screenWriter holds back a carriage return or an incomplete character at the end of a
// chunk until the next one.
type screenWriter struct {
	to      io.Writer
	pending []byte
}

func (s *screenWriter) Write(p []byte) (int, error) {
	text := slices.Concat(s.pending, p)
	s.pending = nil
	var b strings.Builder
	for len(text) > 0 {
		if text[0] == '\r' && len(text) == 1 || !utf8.FullRune(text) {
			s.pending = bytes.Clone(text)
			break
		}
		r, size := utf8.DecodeRune(text)
		if r != '\r' || text[1] != '\n' {
			b.WriteString(onScreen(r))
		}
		text = text[size:]
	}
	if _, err := io.WriteString(s.to, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes what is held back.
func (s *screenWriter) flush() {
	for _, r := range string(s.pending) {
		_, _ = io.WriteString(s.to, onScreen(r)) // the run has ended
	}
	s.pending = nil
}

// flushScreens flushes the writers that protect terminals.
func flushScreens(outs ...io.Writer) {
	for _, out := range outs {
		if s, ok := out.(*screenWriter); ok {
			s.flush()
		}
	}
}

// onScreen returns a character of an untrusted program as it is shown: control
// characters as their pictures, and characters that change the direction of text
// as escapes.
func onScreen(r rune) string {
	switch {
	case r == '\n', r == '\t':
		return string(r)
	case r == '\r': // else the next text would overwrite the line
		return "\u240d\n"
	case r < 0x20:
		return string(0x2400 + r) // the picture of the control character
	case r == 0x7f:
		return "\u2421"
	case r >= 0x80 && r < 0xa0, unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp):
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// summarizeRun reports how a run ended, unless it succeeded, and the state of its files.
func (a *app) summarizeRun(r runReport) {
	if r.Status != client.StatusOK {
		a.say("airlock: %s", verdictLine(r.Run))
	}
	for _, d := range r.Dropped {
		a.say("airlock: %s was not kept: %s", printableName(d.Path), printable(d.Reason))
	}
	for _, s := range r.Saved {
		switch s.State {
		case saveDone:
			a.say("saved %s", printableName(filepath.Join(r.Folder, s.As)))
		case saveUnchanged:
			a.say("unchanged %s", printableName(filepath.Join(r.Folder, s.As)))
		case saveExists:
			a.say("not saved: %s exists", printableName(filepath.Join(r.Folder, s.Path)))
		case saveHeld:
			a.say("not saved: %s: %s", printableName(filepath.Join(r.Folder, s.Path)), printable(s.Reason))
		case saveRefused:
			a.say("refused: %s: %s", printableName(s.Path), printable(s.Reason))
		}
	}
	if r.Folder == "" && len(r.Files) > 0 {
		a.say("files (-o DIR saves them):")
		for _, f := range r.Files {
			a.say("  %s  %s", printableName(f.Path), humanize.IBytes(uint64(max(0, f.Size))))
		}
	}
}

func verdictLine(run *client.Run) string {
	took := (time.Duration(run.DurationMS) * time.Millisecond).Round(10 * time.Millisecond)
	line := fmt.Sprintf("%s after %v", engine.Status(run.Status).Words(), took)
	if run.Status == client.StatusError && run.ExitCode != nil {
		line = fmt.Sprintf("failed with exit code %d after %v", *run.ExitCode, took)
	}
	if run.Status == client.StatusInterrupted && run.Message != "" { // whose sentence is all there is to say
		return printable(run.Message)
	}
	if run.Signal != "" && run.Status == client.StatusKilled {
		line += " (" + run.Signal + ")"
	}
	if run.Message != "" {
		line += ": " + printable(run.Message)
	}
	return line
}

// firstUseHint tells of setup if a program misses a package because setup never ran.
func (a *app) firstUseHint(run *client.Run) {
	if run.Language != "python" || !strings.Contains(run.Stderr, "ModuleNotFoundError") || a.cfg.Server != "" {
		return
	}
	if installed, err := setup.Inspect(a.cfg.Installed()); err == nil && installed.Python == "" {
		a.say("hint: Python has its standard library only; `airlock setup` installs numpy, pandas, matplotlib and more")
	}
}

// saveOutputs saves the run's files, and records the state of each in the report. An
// error with one file does not stop the others.
func (a *app) saveOutputs(ctx context.Context, conn *connection, r *runReport, opts runOptions) error {
	if len(r.Files) == 0 {
		return nil
	}
	if r.Folder = opts.folder; r.Folder == "" {
		var err error
		if r.Folder, err = a.offerFolder(ctx, r.Run, opts.yes); r.Folder == "" || err != nil {
			return err
		}
	}
	s, err := a.newSaver(ctx, r.Folder, opts.saveFlags, conn.download)
	if err != nil {
		return err
	}
	defer s.root.Close()
	s.check(r.Files)
	var first error
	for _, out := range r.Files {
		saved, err := s.save(ctx, out)
		if err != nil && saved.State == "" {
			saved.State = saveFailed
		}
		r.Saved = append(r.Saved, saved)
		if err != nil && first == nil {
			first = interrupted(ctx, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if i := slices.IndexFunc(r.Saved, func(s savedFile) bool { return s.State == saveHeld }); first == nil && i >= 0 {
		first = heldProblem(r.Saved[i].Path)
	}
	if first == nil && slices.ContainsFunc(r.Saved, func(s savedFile) bool { return s.State == saveExists }) {
		first = fail(exitApproval, "--yes saves them under new names, and -o may name another folder",
			"files of the same name exist")
	}
	return first
}

// offerFolder asks on a terminal whether to save into a new folder. It returns "" for no.
func (a *app) offerFolder(ctx context.Context, run *client.Run, yes bool) (string, error) {
	if !a.interactive() {
		return "", nil
	}
	folder := "airlock-" + time.Now().Format("20060102-150405")
	if _, err := os.Lstat(folder); err == nil {
		folder += "-" + run.ID
	}
	if yes {
		return folder, nil
	}
	names := make([]string, 0, len(run.Files))
	for _, f := range run.Files {
		names = append(names, printableName(f.Path))
	}
	if len(names) > 5 {
		names = append(names[:5], fmt.Sprintf("and %d more", len(names)-5))
	}
	yes, err := a.confirm(ctx, fmt.Sprintf("Save %s into %s? [y/N] ", strings.Join(names, ", "), folder))
	if err != nil || !yes {
		return "", err
	}
	return folder, nil
}

// heldProblem returns the error about a file that was not approved.
func heldProblem(name string) error {
	return fail(exitApproval, "look at it first; --allow "+quoteForShell(printableName(name))+
		" saves it, and a pattern such as --allow '**' saves all of its kind",
		"a person has to agree first to %s", printableName(name))
}

// verdict returns the error with the exit code of a run: that of the program, else that
// of the problem with its files.
func (a *app) verdict(r runReport, problem error) error {
	if problem != nil && !a.json { // JSON has it in the report
		a.out.fail(problem)
	}
	code := programCode(r.Run)
	if code == exitDone && problem != nil {
		code, _ = exitOf(problem)
	}
	if code == exitDone {
		return nil
	}
	return programExit(code)
}

// programCode returns the exit code of a program as a shell has it.
func programCode(run *client.Run) int {
	switch run.Status {
	case client.StatusOK:
		return exitDone
	case client.StatusTimeout:
		return exitRunTimeout
	case client.StatusOOM:
		return exitSignal + int(unix.SIGKILL)
	case client.StatusKilled:
		if n := unix.SignalNum(run.Signal); n > 0 {
			return exitSignal + int(n)
		}
		return exitSignal + int(unix.SIGKILL)
	case client.StatusCancelled:
		return exitInterrupted
	case client.StatusError:
		if run.ExitCode != nil && *run.ExitCode != 0 {
			return *run.ExitCode
		}
		return exitFailed
	}
	return exitAirlock
}

// lost returns the error about files or output that a run lost to a limit, or nil.
func (c *connection) lost(ctx context.Context, run *client.Run) error {
	if len(run.Dropped) == 0 {
		return lostOutput(run)
	}
	n := 0
	for _, d := range run.Dropped {
		n += 1 + d.More
	}
	hint := "write fewer or smaller files, or pack them into one archive"
	if limits, err := c.client.Limits(ctx); err == nil {
		d := limits.Defaults
		hint = fmt.Sprintf("a run keeps %s at most, %s each and %s together; %s", english.Plural(d.OutputFiles, "file", ""),
			humanize.IBytes(uint64(max(0, d.OutputFileBytes))), humanize.IBytes(uint64(max(0, d.OutputTotalBytes))), hint)
	}
	first := run.Dropped[0]
	what := english.Plural(n, "file", "")
	if n == 1 {
		what = printableName(first.Path)
	}
	return &failure{code: exitLost, word: "output_lost", hint: hint,
		err: fmt.Errorf("%s was lost: %s", what, printable(first.Reason))}
}

// lostOutput returns the error about output over the limit, or nil.
func lostOutput(run *client.Run) error {
	if !run.Truncated {
		return nil
	}
	return &failure{code: exitLost, word: "output_lost",
		hint: "write it to a file, which -o saves; " +
			"AIRLOCK_DEFAULT_OUTPUT and AIRLOCK_MAX_OUTPUT of the service raise the limit",
		err: errors.New("the middle of the output was lost: it was over the limit")}
}
