package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/language"
)

// runOptions are the flags of airlock run.
type runOptions struct {
	language string
	code     string // given on the command line, if coded
	coded    bool
	quiet    bool
	memory   string
	inputs   []string
	timeout  time.Duration
	network  []string // rules of what it may contact; nil: what the key says
	packages string   // set of Python packages; empty: the service's default
	stdin    string
	saveFlags
}

func (a *app) run() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [FILE|-] [-- ARG...]",
		Short: "Runs a program in the sandbox and brings back the files it made",
		Long: `Runs a program in the sandbox and brings back the files it made.

The code comes from FILE, from -c CODE, or from standard input for - or no FILE.
The language is told by FILE's ending; other code is Python unless -l says
otherwise. What follows FILE and -- are the program's arguments. A pipe on standard
input that has no code is the program's own input.

It runs through the service that holds the data directory, if one is running,
else in this process, which leaves nothing behind; or on --server URL.

With -o the files that the program made are saved into that folder. A name that
exists is asked about on a terminal; without one nothing is overwritten and the
exit code is 3, and with --yes the new file gets another name (plot-1.png).
Without -o a terminal asks for a folder of the run's own, and else the files are
listed. Hidden files, programs, and files that tools run by themselves (.envrc,
Makefile, conftest.py) are asked about too, also with --yes; --allow '.envrc'
agrees to them. What belongs to Git or another such system is never saved.

The exit code is the program's own. 124: it ran out of time. 125: Airlock could
not run it. 128 and more: a signal ended it, 137 too much memory or processor
time, 130 Ctrl-C. Where the program ended well: 2 usage, 3 a file waits for
approval, 4 conflict, 5 a file is refused, 123 a file or a part of the output was
lost, since it was over a limit.`,
		Example: `  airlock run -f sales.csv -o out plot.py
  echo 'print(6 * 7)' | airlock run -
  airlock run -l bash job.txt -- --fast`,
		Args: programArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.coded = cmd.Flags().Changed("code")
			return a.runCoded(cmd.Context(), opts, args, cmd.ArgsLenAtDash())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.language, "language", "l", "", "`LANG` of the code, as python or bash")
	flags.StringArrayVarP(&opts.inputs, "file", "f", nil,
		"`INPUT` file or folder to put beside the program; may be repeated")
	flags.StringVarP(&opts.code, "code", "c", "", "run `CODE` instead of a file")
	flags.Var((*seconds)(&opts.timeout), "timeout",
		"`TIME` that the program may take, as 90s or 2m; a plain number is seconds")
	flags.StringVar(&opts.memory, "memory", "", "`SIZE` of memory that the program may use, as 512MiB")
	flags.BoolVarP(&opts.quiet, "quiet", "q", false, "say nothing but errors beside what the program prints")
	flags.StringVar(&opts.packages, "packages", "",
		"`SET` of Python packages, as onyx; GET /languages and doctor list them")
	flags.StringSliceVar(&opts.network, "allow-net", nil, "`RULE` of what the program may contact, as api.example.com, "+
		"*.example.com:443 or packages for pip and npm; may be repeated, else it has no network")
	flags.StringVar(&opts.stdin, "stdin", "",
		"`FILE` for the program to read as its standard input; else a pipe or file on ours")
	opts.add(flags, "`DIR` to save the program's files into",
		"agree to everything: save, and rename what would overwrite a file")
	completeLanguage(cmd, languageNames()...)
	return a.withFlags(cmd, config.Client)
}

// seconds is a flag with a time limit. A plain number is in seconds.
type seconds time.Duration

func (s *seconds) String() string { return "" }
func (s *seconds) Type() string   { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, number := strconv.ParseFloat(text, 64); number == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil {
		return fmt.Errorf("%q is not a time such as 90s, 1.5m or 2", text)
	}
	if d < time.Millisecond || d > 24*time.Hour {
		return fmt.Errorf("a program cannot end within %s", text)
	}
	*s = seconds(d)
	return nil
}

// completeLanguage registers the shell completion of the flag --language.
func completeLanguage(cmd *cobra.Command, names ...string) {
	// An error would mean that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("language", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// programArgs accepts one file, and any arguments after --.
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

// runCoded is runProgram with the exit codes of airlock run.
func (a *app) runCoded(ctx context.Context, opts runOptions, args []string, dash int) error {
	err := forProgram(flagNames(a.runProgram(ctx, opts, args, dash)))
	if c, own := errors.AsType[*coded](err); own && ctx.Err() != nil {
		c.code = exitInterrupted
	}
	return err
}

// flagNames names the flag in the error of a service that refuses a field.
func flagNames(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Message = strings.NewReplacer("limits.timeout_ms", "--timeout", "timeout_ms", "--timeout", "limits.memory_bytes",
		"--memory", "python_packages", "--packages").Replace(e.Message)
	return &named
}

func (a *app) runProgram(ctx context.Context, opts runOptions, args []string, dash int) error {
	req, err := a.readRequest(opts, args, dash)
	if err != nil {
		return err
	}
	inputs, err := findInputs(opts.inputs)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(inputs, func(in input) bool { return in.path == req.Entry }) {
		req.Entry = "" // an input has the name
	}
	if err := opts.check(); err != nil {
		return err
	}
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	if req.Files, err = conn.upload(ctx, inputs, a.sending(opts.quiet)); err != nil {
		return interrupted(ctx, err)
	}
	req.MergeOutput = !a.json && samePlace(a.streams.Out, a.streams.Err)
	run, err := a.follow(ctx, conn, req)
	if err != nil {
		return interrupted(ctx, err)
	}
	report := runReport{Run: run, Saved: []savedFile{}}
	problem := a.saveOutputs(ctx, conn, &report, opts)
	if problem == nil {
		problem = conn.lost(ctx, run)
	}
	if problem != nil {
		report.Problem = new(explain(problem))
	}
	if a.json {
		a.out.result(report)
	} else {
		if !opts.quiet {
			a.summarizeRun(report)
		}
		a.firstUseHint(run)
	}
	return a.verdict(report, problem)
}

// readRequest reads the code, its arguments and its standard input.
func (a *app) readRequest(opts runOptions, args []string, dash int) (client.RunRequest, error) {
	req := client.RunRequest{TimeoutMS: opts.timeout.Milliseconds(), Packages: opts.packages}
	if len(opts.network) > 0 {
		req.Network = &client.Network{Allow: opts.network}
	}
	name := "-"
	if dash == 0 && !opts.coded && len(args) > 0 {
		dash = 1 // run -- FILE ARG...
	}
	if dash >= 0 {
		req.Args = args[dash:]
		args = args[:dash]
	}
	if len(args) == 1 {
		name = args[0]
	}
	if opts.coded && len(args) > 0 {
		return req, fail(exitUsage, "its arguments come after --", "there is a program, %s, and -c CODE", name)
	}
	var err error
	if req.Limits, err = memoryLimit(opts.memory); err != nil {
		return req, err
	}
	if req.Language, err = languageOf(opts.language, name); err != nil {
		return req, err
	}
	if name == "-" && opts.stdin == "-" && !opts.coded {
		return req, fail(exitUsage, "put one of them into a file",
			"the code and the program's input cannot both come from standard input")
	}
	if opts.stdin == "" && (name != "-" || opts.coded) && hasText(a.streams.In) {
		opts.stdin = "-"
		defer time.AfterFunc(pipePatience, func() {
			a.say("airlock: reading the program's input from the pipe on standard input; --stdin /dev/null gives it none")
		}).Stop()
	}
	if opts.stdin != "" {
		stdin, err := a.read(opts.stdin)
		if err != nil {
			return req, err
		}
		if req.Stdin, err = textOf(opts.stdin, stdin, "hand it over with -f, and have the program open it"); err != nil {
			return req, err
		}
	}
	if opts.coded {
		req.Code = opts.code
		return req, nil
	}
	req.Entry = programName(req.Language, name)
	if name == "-" && isTerminal(a.streams.In) {
		a.say("Type %s code; Ctrl-D on an empty line runs it.", req.Language)
	}
	code, err := a.read(name)
	if err != nil {
		return req, err
	}
	req.Code, err = textOf(name, code, asUTF8)
	return req, err
}

// pipePatience is how long standard input may be read without a word: a pipe that somebody left open
// has no end.
const pipePatience = 2 * time.Second

// hasText reports whether standard input is a pipe or a file, which other tools pass on, too.
func hasText(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

const asUTF8 = "save it as UTF-8, or convert it: `iconv -f LATIN1 -t UTF-8 FILE`"

// textOf returns a text for a request. JSON would replace bytes that are not UTF-8.
func textOf(name string, content []byte, hint string) (string, error) {
	if !utf8.Valid(content) {
		return "", fail(exitUsage, hint, "%s is not UTF-8", printableName(name))
	}
	return string(content), nil
}

// memoryLimit returns the limit that --memory gives, or nil.
func memoryLimit(text string) (*client.Limits, error) {
	if text == "" {
		return nil, nil
	}
	bytes, err := humanize.ParseBytes(text)
	if err != nil || bytes == 0 || bytes > math.MaxInt64 {
		return nil, fail(exitUsage, "give a size such as 512MiB or 2GiB", "%q is not a size of memory", text)
	}
	return &client.Limits{MemoryBytes: int64(bytes)}, nil
}

// languageOf returns the language of that name, else that of the file's extension.
func languageOf(asked, file string) (string, error) {
	names := languageNames()
	hint := "-l names the language: " + strings.Join(names, ", ")
	if asked != "" {
		l, ok := language.Find(asked)
		if !ok {
			if meant := config.Nearest(asked, names); meant != "" {
				hint = fmt.Sprintf("did you mean %s? ", meant) + hint
			}
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

func languageNames() (names []string) {
	for _, l := range language.All() {
		names = append(names, l.Name)
	}
	return names
}

// programName returns the name of a program in the sandbox: its own, so that tracebacks
// name the user's file, or "", which means the language's usual name, if the language's
// tools would not accept its own.
func programName(lang, file string) string {
	l, ok := language.Find(lang)
	name := filepath.Base(file)
	compiled := l.Compile != nil && l.Compile[0] != language.Toolchain // the toolchain has source maps
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r))
	}
	if !ok || filepath.Ext(name) != filepath.Ext(l.Entry) || compiled || strings.HasPrefix(name, ".") ||
		strings.HasPrefix(name, "-") ||
		strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return ""
	}
	return name
}

// maxText bounds what is read into memory. The service has its own limits.
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

// interrupted returns err, or the error of a command that the user ended.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &failure{code: exitFailed, word: "interrupted", err: errors.New("interrupted"),
			hint: "the program was stopped"}
	}
	return err
}
