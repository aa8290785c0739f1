package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/engine"
)

// notebookRun is a run of the cells of a notebook in one live session.
type notebookRun struct {
	*repl
	name     string
	notebook *notebook
	outputs  []client.Output // of the cell that runs
	files    []client.File   // what cells have made, one for each path
	last     *client.Cell
}

// runNotebook runs the code of a notebook, cell by cell, until one fails.
func (a *app) runNotebook(ctx context.Context, opts runOptions, name string, text []byte, args []string) error {
	n, o, err := a.readNotebookRun(ctx, opts, name, text, args)
	if err != nil {
		return err
	}
	ctx, cells, stop := a.Interruptible(ctx)
	defer stop()
	s, err := a.openLive(ctx, o)
	if err != nil {
		return err
	}
	defer s.leave(ctx)
	r := &notebookRun{name: name, notebook: n,
		repl: &repl{liveSession: s, interrupts: cells, silent: a.JSON, told: true, drawn: a.Pictures()}}
	r.seen = func(o client.Output) { r.outputs = append(r.outputs, o) }
	r.done = r.finish
	status, problem := r.runCells(ctx, opts.quiet)
	if ctx.Err() != nil {
		return command.Interrupted(ctx, ctx.Err())
	}
	problem = cmp.Or(problem, r.save(ctx, opts))
	if _, quiet := command.ExitOf(problem); problem != nil && !quiet {
		said := a.Out
		said.JSON = false // the notebook is the document
		said.Fail(problem)
	}
	return notebookExit(status, r.last, problem)
}

// readNotebookRun reads a notebook, and what its session is to have.
func (a *app) readNotebookRun(
	ctx context.Context, opts runOptions, name string, text []byte, args []string,
) (n *notebook, o liveOptions, err error) {
	if len(args) > 0 || opts.stdin != "" || opts.output != "" {
		return nil, o, command.Fail(command.ExitUsage, "give files with -f, and read them in a cell",
			"a notebook has no arguments, no --stdin and no --max-output")
	}
	if err := opts.Check(); err != nil {
		return nil, o, err
	}
	if n, err = readNotebook(name, text); err != nil {
		return nil, o, err
	}
	o = liveOptions{language: cmp.Or(opts.language, n.language()), inputs: opts.inputs, timeout: opts.timeout,
		memory: opts.memory, packages: opts.packages, image: opts.image}
	if o.language == "" {
		return nil, o, command.Fail(command.ExitUsage, "-l names the language: python, javascript, typescript, bash or r",
			"the kernel of %s has no language that runs here", name)
	}
	o.request.Wall = client.Wall(opts.wall)
	if len(opts.network) > 0 {
		o.request.Network = &client.Network{Allow: opts.network}
	}
	if o.request.Secrets, err = opts.secrets.read(a.App); err != nil {
		return nil, o, err
	}
	if o.request.Mounts, err = a.mount(ctx, &opts); err != nil {
		return nil, o, err
	}
	o.request.Volumes, err = a.volumeMounts(ctx, opts.volumes)
	return n, o, err
}

// runCells runs the cells in their order. A cell that fails is the last one, unless it is to fail.
func (r *notebookRun) runCells(ctx context.Context, quiet bool) (status client.CellStatus, err error) {
	var codes []int
	for i := range r.notebook.cells {
		if _, ok := r.notebook.code(i); ok {
			codes = append(codes, i)
		}
	}
	page, began := r.PageOn(r.Streams.Err), time.Now()
	for n, i := range codes {
		code, _ := r.notebook.code(i)
		if command.IsTerminal(r.Streams.Err) && !quiet && !r.JSON {
			first, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
			page.Line("%s", page.Paint(command.Faint, command.Cut(fmt.Sprintf("[%d/%d] %s", n+1, len(codes),
				command.Printable(first)), command.WidthOf(r.Streams.Err)-1)))
		}
		during, over := r.interrupts.Turn(ctx)
		r.outputs = nil
		status, err = r.runCell(ctx, during, code)
		over()
		if err != nil {
			return status, err
		}
		if err := r.notebook.put(i, r.last.ExecutionCount, r.outputs); err != nil {
			return status, err
		}
		if status != client.CellOK && (status != client.CellError || !r.notebook.mayFail(i)) {
			words := cellWords(status) + "; those after it were not run"
			if status == client.CellLost {
				words += ". " + cmp.Or(command.Printable(r.last.Message), "Its interpreter ended.")
			}
			r.Say("airlock: cell %d of %d %s", n+1, len(codes), words)
			return status, nil
		}
	}
	switch {
	case quiet || r.JSON:
	case len(codes) == 0:
		r.Say("airlock: %s has no code to run", command.PrintableName(r.name))
	default:
		r.Say("airlock: ran %s in %s", english.Plural(len(codes), "cell", ""), engine.DurationText(time.Since(began)))
	}
	return client.CellOK, nil
}

// cellWords says how a cell ended that is the last one.
func cellWords(status client.CellStatus) string {
	switch status {
	case client.CellTimeout:
		return "ran out of time"
	case client.CellInterrupted:
		return "was interrupted"
	case client.CellLost:
		return "was lost"
	}
	return "failed"
}

// finish remembers what a cell has made.
func (r *notebookRun) finish(_ context.Context, cell *client.Cell, _ []picture) error {
	r.last = cell
	for _, f := range cell.Files {
		r.files = slices.DeleteFunc(r.files, func(old client.File) bool { return old.Path == f.Path })
		r.files = append(r.files, f)
	}
	return nil
}

// save saves the notebook with its outputs, and the files, or prints the notebook as JSON.
func (r *notebookRun) save(ctx context.Context, opts runOptions) error {
	content, err := r.notebook.encode()
	if err != nil {
		return err
	}
	if r.JSON {
		r.Out.Document(json.RawMessage(content))
		if opts.Folder == "" {
			return nil
		}
	}
	sum := sha256.Sum256(content)
	own := client.File{ID: "the notebook", Path: filepath.Base(r.name), Size: int64(len(content)),
		SHA256: hex.EncodeToString(sum[:])}
	fetch := func(ctx context.Context, id string, to io.Writer) error {
		if id != own.ID {
			return r.download(ctx, id, to)
		}
		_, err := io.Copy(to, bytes.NewReader(content))
		return err
	}
	report := runReport{&client.Run{ID: r.id, Status: client.StatusOK, Files: append([]client.File{own}, r.files...)},
		savedFiles{}}
	problem := r.saveOutputs(ctx, fetch, &report, opts)
	if !r.JSON && !opts.quiet {
		r.summarizeRun(report)
	}
	return problem
}

// notebookExit returns the exit code of a notebook: that of the cell that failed, else that of the
// problem with its files, or with the service if no cell has ended.
func notebookExit(status client.CellStatus, last *client.Cell, problem error) error {
	var code int
	switch {
	case status == client.CellTimeout:
		code = command.ExitRunTimeout
	case status == client.CellInterrupted:
		code = command.ExitInterrupted
	case status == client.CellLost && last.ExitCode == nil: // something else has ended its interpreter
		code = command.ExitAirlock
	case status == client.CellLost, status == client.CellError:
		code = command.ExitFailed
		if last.ExitCode != nil && *last.ExitCode != 0 {
			code = *last.ExitCode
		}
	case status == client.CellOK:
		code, _ = command.ExitOf(problem)
	default:
		code, _ = command.ExitOf(command.ForProgram(problem))
	}
	if code == command.ExitDone {
		return nil
	}
	return command.ProgramExit(code)
}
