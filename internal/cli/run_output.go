package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/engine"
)

// runReport is what run --json prints: the run as in the API, and the state of its files.
type runReport struct {
	*client.Run
	savedFiles
}

type savedFiles struct {
	Folder  string              `json:"folder,omitempty"` // into which files were saved
	Saved   []command.SavedFile `json:"saved"`
	Problem *command.Problem    `json:"error,omitempty"` // with saving files
}

// MarshalJSON implements json.Marshaler. The Run's own would leave the files out.
func (r runReport) MarshalJSON() ([]byte, error) {
	run, err := r.Run.MarshalJSON()
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(append(bytes.TrimSuffix(run, []byte("}")), ','))
	at := text.Len()
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(r.savedFiles)
	return slices.Delete(text.Bytes(), at, at+1), err // its opening brace
}

// text writes nothing: the program's output was streamed, and everything else goes to
// standard error.
func (runReport) WriteText(*command.Page) {}

// follow runs the program and streams its output, to its last byte or as much as is wanted. It reports
// whether it left out a part.
func (a *app) follow(
	ctx context.Context, conn *connection, req client.RunRequest, most int,
) (run *client.Run, cut bool, err error) {
	screens := []io.Writer{a.screen(a.Streams.Out), a.screen(a.Streams.Err)}
	if a.JSON {
		screens = []io.Writer{io.Discard, io.Discard}
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := newOutputQueue(cancel)
	stop := context.AfterFunc(ctx, func() { queue.fail(ctx.Err()) })
	defer stop()
	stdout, stderr := newExcerpt(queue.to(screens[0]), most), newExcerpt(queue.to(screens[1]), most)
	run, err = pass(running, conn, req, stdout, stderr)
	cut = slices.Contains([]bool{stdout.end(), stderr.end()}, true)
	if broken := queue.close(ctx); broken != nil && ctx.Err() == nil {
		err = command.Fail(command.ExitFailed, "", "the output cannot be written: %w", broken)
	}
	if err != nil {
		return nil, false, conn.abandoned(ctx, run, err)
	}
	flushScreens(screens...)
	if a.JSON {
		cut = run.Truncated
	}
	return run, cut, nil
}

// abandonedTimeout bounds how long the end of a run is waited for that the command has ended.
const abandonedTimeout = 3 * time.Second

// abandoned returns the error of a run that did not get to its end here, nil if it did not begin. The error names
// the command that saves what the run has made before, if the service keeps it.
func (c *connection) abandoned(ctx context.Context, run *client.Run, err error) error {
	err = command.Interrupted(ctx, err)
	f, ours := errors.AsType[*command.Failure](err)
	if _, quiet := command.ExitOf(err); !ours || quiet || run == nil || c.service != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonedTimeout)
	defer cancel()
	made := "what it has made"
	for e, err := range c.client.Events(ctx, run.ID, 0) {
		if err == nil && e.Type == client.EventResult {
			if len(e.Run.Files) == 0 {
				return f
			}
			made = "the " + english.PluralWord(len(e.Run.Files), "file", "files") + " that it has made"
		}
	}
	hint := fmt.Sprintf("`airlock files get --run %s` saves %s", run.ID, made)
	if f.Hint != "" {
		hint = f.Hint + "; " + hint
	}
	f.Hint = hint
	return f
}

// pass runs the program and passes on its output. With an error it returns the run as it began, if it did.
func pass(
	ctx context.Context, conn *connection, req client.RunRequest, stdout, stderr io.Writer,
) (run *client.Run, err error) {
	for event, err := range conn.client.Stream(ctx, req) {
		if err != nil {
			return run, severed(err)
		}
		switch event.Type {
		case client.EventStarted:
			run = event.Run
		case client.EventOutput:
			to := stdout
			if event.Stream == client.Stderr {
				to = stderr
			}
			if _, err := io.WriteString(to, event.Data); err != nil {
				return run, err
			}
		case client.EventResult:
			return event.Run, nil
		}
	}
	return run, severed(io.ErrUnexpectedEOF)
}

// severed returns err, in words if the connection to the service has ended in the middle.
func severed(err error) error {
	_, broken := errors.AsType[*net.OpError](err)
	if _, begun := errors.AsType[*url.Error](err); begun || !broken && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err // of a request that was not answered
	}
	return command.Fail(command.ExitUnavailable, "the service has stopped, or the network failed",
		"the connection to the service ended before the program did")
}

// screen returns a writer that protects a terminal from the output of an untrusted
// program: no escape sequence can retitle the window, read the clipboard or hide
// output. A pipe gets every byte.
func (a *app) screen(to io.Writer) io.Writer {
	if !command.IsTerminal(to) {
		return to
	}
	return &screenWriter{app: a, to: to}
}

// screenWriter holds back a carriage return or an incomplete character at the end of a
// chunk until the next one.
type screenWriter struct {
	app     *app
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
	s.app.Shown(s.to, b.String())
	return len(p), nil
}

// flush writes what is held back.
func (s *screenWriter) flush() {
	for _, r := range string(s.pending) {
		_, _ = io.WriteString(s.to, onScreen(r)) // the run has ended
		s.app.Shown(s.to, onScreen(r))
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
		a.Say("airlock: %s", verdictLine(r.Run))
	}
	for _, d := range r.Dropped {
		a.Say("airlock: %s was not kept: %s", command.PrintableName(d.Path), command.Printable(d.Reason))
	}
	for _, s := range r.Saved {
		switch s.State {
		case command.SaveDone:
			a.Say("saved %s", command.PrintableName(filepath.Join(r.Folder, s.As)))
		case command.SaveUnchanged:
			a.Say("unchanged %s", command.PrintableName(filepath.Join(r.Folder, s.As)))
		case command.SaveExists:
			a.Say("not saved: %s exists", command.PrintableName(filepath.Join(r.Folder, s.Path)))
		case command.SaveHeld:
			a.Say("not saved: %s: %s", command.PrintableName(filepath.Join(r.Folder, s.Path)), command.Printable(s.Reason))
		case command.SaveRefused:
			a.Say("refused: %s: %s", command.PrintableName(s.Path), command.Printable(s.Reason))
		}
	}
	if r.Folder == "" && len(r.Files) > 0 {
		a.Say("files (-o DIR saves them):")
		for _, f := range r.Files {
			a.Say("  %s  %s", command.PrintableName(f.Path), humanize.IBytes(uint64(max(0, f.Size))))
		}
	}
}

func verdictLine(run *client.Run) string {
	took := engine.DurationText(run.Duration)
	line := fmt.Sprintf("%s after %s", engine.Status(run.Status).Words(), took)
	if run.Status == client.StatusError && run.ExitCode != nil {
		line = fmt.Sprintf("failed with exit code %d after %s", *run.ExitCode, took)
	}
	if run.Status == client.StatusInterrupted && run.Message != "" { // whose sentence is all there is to say
		return command.Printable(run.Message)
	}
	if run.Signal != "" && run.Status == client.StatusKilled {
		line += " (" + run.Signal + ")"
	}
	if run.Message != "" {
		line += ": " + command.Printable(run.Message)
	}
	return line
}

// fileHint tells of a file that a program did not find, and that lies on this machine. The service
// has said that it was not sent.
func (a *app) fileHint(run *client.Run, program []string) {
	if run.Status != client.StatusError {
		return
	}
	wanted := strings.TrimPrefix(engine.MissingFile(cmp.Or(run.Stderr, run.Stdout)), "/workspace/")
	if !filepath.IsLocal(wanted) {
		return
	}
	folders := []string{"."}
	if len(program) > 0 {
		folders = append(folders, filepath.Dir(program[0]))
	}
	for _, folder := range folders {
		name := filepath.Join(folder, wanted)
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		top, _, _ := strings.Cut(filepath.Clean(wanted), "/") // a folder keeps the paths below it
		a.Say("airlock: %s is here: -f %s sends it with the program", command.PrintableName(name),
			command.PrintableName(command.QuoteForShell(filepath.Join(folder, top))))
		return
	}
}

// drawFiles draws the first pictures that a program has made, on a terminal that shows them.
func (a *app) drawFiles(ctx context.Context, conn *connection, run *client.Run) {
	const most = 6
	pictures, n := a.Pictures(), 0
	for _, f := range run.Files {
		if pictures == nil || n == most || ctx.Err() != nil {
			return
		}
		if !command.IsPicture(f.Path) || f.Size > command.MaxPicture {
			continue
		}
		var content pictureFile
		if conn.download(ctx, f.ID, &content) != nil || !pictures.Draw(content) {
			return // saving it says why
		}
		n++
	}
}

// pictureFile is a file of a service, which may say that it is smaller than it is.
type pictureFile []byte

func (f *pictureFile) Write(p []byte) (int, error) {
	if *f = append(*f, p...); len(*f) > command.MaxPicture {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// saveOutputs saves the run's files, and records the state of each in the report. An
// error with one file does not stop the others.
func (a *app) saveOutputs(
	ctx context.Context, fetch func(context.Context, string, io.Writer) error, r *runReport, opts runOptions,
) error {
	if len(r.Files) == 0 {
		return nil
	}
	if r.Folder = opts.Folder; r.Folder == "" {
		var err error
		if r.Folder, err = a.offerFolder(ctx, r.Run, opts.Yes); r.Folder == "" || err != nil {
			return err
		}
	}
	s, err := command.NewSaver(ctx, a.App, r.Folder, opts.SaveFlags, fetch)
	if err != nil {
		return err
	}
	defer s.Root.Close()
	s.Check(r.Files)
	var first error
	for _, out := range r.Files {
		saved, err := s.Save(ctx, out)
		if err != nil && saved.State == "" {
			saved.State = command.SaveFailed
		}
		r.Saved = append(r.Saved, saved)
		if err != nil && first == nil {
			first = command.Interrupted(ctx, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	var held []string
	for _, s := range r.Saved {
		if s.State == command.SaveHeld {
			held = append(held, s.Path)
		}
	}
	if first == nil && len(held) > 0 {
		first = command.HeldProblem(held...)
	}
	if first == nil && slices.ContainsFunc(r.Saved,
		func(s command.SavedFile) bool { return s.State == command.SaveExists }) {
		first = command.Fail(command.ExitApproval, "--yes saves them under new names, and -o may name another folder",
			"files of the same name exist")
	}
	return first
}

// offerFolder asks on a terminal whether to save into a new folder. It returns "" for no.
func (a *app) offerFolder(ctx context.Context, run *client.Run, yes bool) (string, error) {
	if !a.Interactive() {
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
		names = append(names, command.PrintableName(f.Path))
	}
	if len(names) > 5 {
		names = append(names[:5], fmt.Sprintf("and %d more", len(names)-5))
	}
	yes, err := a.Confirm(ctx, fmt.Sprintf("Save %s into %s? [y/N] ", strings.Join(names, ", "), folder))
	if err != nil || !yes {
		return "", err
	}
	return folder, nil
}

// verdict returns the error with the exit code of a run: that of the program, else that
// of the problem with its files.
func (a *app) verdict(r runReport, problem error) error {
	if problem != nil && !a.JSON { // JSON has it in the report
		a.Out.Fail(problem)
	}
	code := programCode(r.Run)
	if code == command.ExitDone && problem != nil {
		code, _ = command.ExitOf(problem)
	}
	if code == command.ExitDone {
		return nil
	}
	return command.ProgramExit(code)
}

// programCode returns the exit code of a program as a shell has it.
func programCode(run *client.Run) int {
	switch run.Status {
	case client.StatusOK:
		return command.ExitDone
	case client.StatusTimeout:
		return command.ExitRunTimeout
	case client.StatusOOM:
		return command.ExitSignal + int(unix.SIGKILL)
	case client.StatusKilled:
		if n := unix.SignalNum(run.Signal); n > 0 {
			return command.ExitSignal + int(n)
		}
		return command.ExitSignal + int(unix.SIGKILL)
	case client.StatusCancelled: // by the service, as when it stops: runCoded knows of Ctrl-C
		return command.ExitAirlock
	case client.StatusError:
		if run.ExitCode != nil && *run.ExitCode != 0 {
			return *run.ExitCode
		}
		return command.ExitFailed
	}
	return command.ExitAirlock
}

// lost returns the error about files or output that a run lost to a limit, or nil.
func (c *connection) lost(ctx context.Context, run *runReport, cut, asJSON bool) error {
	if len(run.Dropped) == 0 {
		return lostOutput(run, cut, asJSON)
	}
	n := 0
	for _, d := range run.Dropped {
		n += 1 + d.More
	}
	hint := "write fewer or smaller files, pack them into one archive, or write to a volume (--volume)"
	if !slices.ContainsFunc(run.Dropped, func(d client.DroppedFile) bool { return d.Reason != engine.DropNotRegular }) {
		hint = "of links, pipes and sockets nothing is kept: copy what is to be kept into a file, and remove them"
	} else if limits, err := c.client.Limits(ctx); err == nil {
		d := limits.Defaults
		hint = fmt.Sprintf("a run keeps %s at most, %s each and %s together; %s", english.Plural(d.OutputFiles, "file", ""),
			humanize.IBytes(uint64(max(0, d.OutputFileBytes))), humanize.IBytes(uint64(max(0, d.OutputTotalBytes))), hint)
	}
	first := run.Dropped[0]
	what := english.Plural(n, "file were", "files were")
	if n == 1 {
		what = command.PrintableName(first.Path) + " was"
	}
	return &command.Failure{Code: command.ExitLost, Word: "output_lost", Hint: hint,
		Err: fmt.Errorf("%s lost: %s", what, command.Printable(first.Reason))}
}

// lostOutput returns the error about output over the limit, or nil.
func lostOutput(run *runReport, cut, asJSON bool) error {
	hint := "--max-output allows more, and without it all of it is printed"
	problem := errors.New("the middle of the output was lost: it was over the limit")
	if asJSON {
		hint = "without --json and --max-output all of it is printed"
	}
	whole := wholeOutputs(run.Run)
	switch {
	case !cut, asJSON && len(whole) > 0 && isSaved(run.Saved, whole):
		return nil
	case asJSON && len(whole) > 0:
		problem = fmt.Errorf("the middle of the output is missing here: all of it is in %s, a file of the run",
			strings.Join(whole, ", "))
		hint = "-o DIR saves it, and " + hint
	}
	return &command.Failure{Code: command.ExitLost, Word: "output_lost", Hint: hint, Err: problem}
}

// leftOut matches the line that engine.LeftOut returns.
var leftOut = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\n\[\.\.\. \d+ bytes of output left out(?:; all of it is in (\S+)|; .*)? \.\.\.\]\n`)
})

// wholeOutputs returns the names of the run's files that have all of what its output leaves out; none: a part is lost.
func wholeOutputs(run *client.Run) (names []string) {
	for _, found := range leftOut().FindAllStringSubmatch(run.Stdout+run.Stderr, -1) {
		if !slices.ContainsFunc(run.Files, func(f client.File) bool { return f.Path == found[1] }) {
			return nil
		}
		names = append(names, found[1])
	}
	return names
}

// isSaved reports whether all files of those names were saved.
func isSaved(saved []command.SavedFile, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(saved, func(s command.SavedFile) bool {
			return s.Path == name && (s.State == command.SaveDone || s.State == command.SaveUnchanged)
		})
	})
}
