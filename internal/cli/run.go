package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/language"
)

// runOptions are the flags of airlock run.
type runOptions struct {
	language string
	inputs   []string
	folder   string // to save outputs into; empty: not named
	timeout  time.Duration
	packages string // set of Python packages; empty: the service's default
	stdin    string
	allow    []string
	yes      bool
}

func (a *app) run() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [FILE|-] [-- ARG...]",
		Short: "Runs a program in the sandbox and brings back the files it made",
		Long: `Runs a program in the sandbox and brings back the files it made.

The code comes from FILE, or from standard input for - or no FILE. The language
is told by FILE's ending; code from standard input is Python unless -l says
otherwise. What follows -- are the program's arguments.

It runs through the service that holds the data directory, if one is running,
else in this process, which leaves nothing behind; or on --server URL.

With -o the files that the program made are saved into that folder. A name that
exists is asked about on a terminal; without one nothing is overwritten and the
exit code is 3, and with --yes the new file gets another name (plot-1.png).
Without -o a terminal asks for a folder of the run's own, and else the files are
listed. Hidden files, programs, and files that tools run by themselves (.envrc,
Makefile, conftest.py) are asked about too, also with --yes; --allow '.envrc'
agrees to them. What belongs to Git or another such system is never saved.

Exit codes: 0 the program ended well, 1 it failed or was interrupted, 2 usage,
3 a file waits for approval, 4 conflict, 5 refused, 6 the program ran out of
time, 7 no sandbox or service available.`,
		Example: `  airlock run -f sales.csv -o out plot.py
  echo 'print(6 * 7)' | airlock run -
  airlock run -l bash job.txt -- --fast`,
		Args: programArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runProgram(cmd.Context(), opts, args, cmd.ArgsLenAtDash())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.language, "language", "l", "", "`LANG` of the code, as python or bash")
	flags.StringArrayVarP(&opts.inputs, "file", "f", nil, "`INPUT` file to put beside the program; may be repeated")
	flags.StringVarP(&opts.folder, "output", "o", "", "`DIR` to save the program's files into")
	flags.DurationVar(&opts.timeout, "timeout", 0, "`TIME` that the program may take, as 90s")
	flags.StringVar(&opts.packages, "packages", "", "`SET` of Python packages, as onyx; GET /languages and doctor list them")
	flags.StringVar(&opts.stdin, "stdin", "", "`FILE` for the program to read as its standard input; - is ours")
	addAllow(flags, &opts.allow)
	flags.BoolVarP(&opts.yes, "yes", "y", false, "agree to everything: save, and rename what would overwrite a file")
	addOptions(flags, config.Client)
	a.addJSON(cmd)
	return cmd
}

// addAllow adds the flag that agrees to files of some names.
func addAllow(flags *pflag.FlagSet, allow *[]string) {
	flags.StringArrayVar(allow, "allow", nil, "save hidden files, programs and files that tools run by themselves whose names match `GLOB`; may be repeated")
}

// programArgs allows one file, and anything after --.
func programArgs(cmd *cobra.Command, args []string) error {
	own := len(args)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		own = dash
	}
	if own > 1 {
		return &failure{code: exitUsage, err: fmt.Errorf("one program at a time, not %q", args[:own]),
			hint: "the program's arguments come after --, and its input files with -f"}
	}
	return nil
}

func (a *app) runProgram(ctx context.Context, opts runOptions, args []string, dash int) error {
	req, err := a.readRequest(opts, args, dash)
	if err != nil {
		return err
	}
	if err := checkInputs(opts.inputs); err != nil {
		return err
	}
	if opts.folder != "" {
		if err := checkFolder(opts.folder); err != nil {
			return err
		}
	}
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	if req.Files, err = conn.upload(ctx, opts.inputs); err != nil {
		return interrupted(ctx, err)
	}
	req.MergeOutput = !a.json && samePlace(a.streams.Out, a.streams.Err)
	run, err := a.follow(ctx, conn, req)
	if err != nil {
		return interrupted(ctx, err)
	}
	report := runReport{Run: run, Saved: []savedFile{}}
	problem := a.saveOutputs(ctx, conn, &report, opts)
	if problem != nil {
		shown := explain(problem)
		report.Problem = &shown
	}
	if a.json {
		a.out.result(report)
	} else {
		a.summarizeRun(report)
		a.firstUseHint(run)
	}
	return a.verdict(report, problem)
}

// readRequest reads the code and what goes with it.
func (a *app) readRequest(opts runOptions, args []string, dash int) (client.RunRequest, error) {
	req := client.RunRequest{TimeoutMS: opts.timeout.Milliseconds(), Packages: opts.packages}
	name := "-"
	if dash >= 0 {
		req.Args = args[dash:]
		args = args[:dash]
	}
	if len(args) == 1 {
		name = args[0]
	}
	if opts.timeout != 0 && req.TimeoutMS <= 0 {
		return req, fail(exitUsage, "give a time such as 90s", "a program cannot end within %v", opts.timeout)
	}
	var err error
	if req.Language, err = languageOf(opts.language, name); err != nil {
		return req, err
	}
	if name == "-" && opts.stdin == "-" {
		return req, fail(exitUsage, "put one of them into a file", "the code and the program's input cannot both come from standard input")
	}
	if name == "-" && isTerminal(a.streams.In) {
		a.say("Type %s code; Ctrl-D on an empty line runs it.", req.Language)
	}
	code, err := a.read(name)
	if err != nil {
		return req, err
	}
	req.Code = string(code)
	if opts.stdin != "" {
		stdin, err := a.read(opts.stdin)
		if err != nil {
			return req, err
		}
		req.Stdin = string(stdin)
	}
	return req, nil
}

// languageOf finds the language by its name, else by the ending of the file.
func languageOf(asked, file string) (string, error) {
	var names []string
	for _, l := range language.All() {
		names = append(names, l.Name)
	}
	hint := "-l names the language: " + strings.Join(names, ", ")
	if asked != "" {
		l, ok := language.Find(asked)
		if !ok {
			return "", fail(exitUsage, hint, "there is no language %q", asked)
		}
		return l.Name, nil
	}
	if file == "-" {
		return "python", nil
	}
	ending := strings.ToLower(filepath.Ext(file))
	for _, l := range language.All() {
		if ending != "" && ending == filepath.Ext(l.Entry) {
			return l.Name, nil
		}
	}
	return "", fail(exitUsage, hint, "the name of %s does not tell the language", file)
}

// maxText bounds what is read into memory; the service has limits of its own.
const maxText = 16 << 20

func (a *app) read(name string) ([]byte, error) {
	from := a.streams.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, unreadable(name, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxText+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	if len(text) > maxText {
		return nil, fail(exitRefused, "hand large inputs over with -f", "%s is larger than 16 MiB", name)
	}
	return text, nil
}

func unreadable(name string, err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		err = pathErr.Err
	}
	return fail(exitUsage, "", "%s cannot be read: %w", name, err)
}

// checkInputs finds out before anything starts whether the inputs are there,
// and whether their names fit into one folder.
func checkInputs(names []string) error {
	seen := map[string]string{}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return unreadable(name, err)
		}
		if !info.Mode().IsRegular() {
			return fail(exitUsage, "give its files one by one with -f", "%s is not a file", name)
		}
		base := filepath.Base(name)
		if other, twice := seen[base]; twice {
			return fail(exitUsage, "rename one of them", "%s and %s would both be %s for the program", other, name, base)
		}
		seen[base] = name
	}
	return nil
}

// interrupted says it in one word when the person ended the command.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &failure{code: exitFailed, word: "interrupted", err: errors.New("interrupted"), hint: "the program was stopped"}
	}
	return err
}
