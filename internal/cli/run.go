package cli

import (
	"bytes"
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

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
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
	output   string // how much of its output is wanted; empty: all
	inputs   []string
	timeout  time.Duration
	mounts   []string // folders of the person's, or names of the service's
	writable []string // the same, to write to
	volumes  []string // NAME, NAME:PATH, either with :ro
	network  []string // rules of what it may contact; nil: what the key says
	secrets  secretFlags
	packages string // set of Python packages; empty: the service's default
	image    string // name of an image; empty: the service's default
	wall     string // config.WallShared or config.WallGVisor; empty: the service's
	stdin    string
	command.SaveFlags
}

func (a *app) run() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:        "run [FILE|-] [-- ARG...]",
		SuggestFor: []string{"exec", "execute"},
		Short:      "Runs a program in the sandbox and brings back the files it made",
		Long: `Runs a program in the sandbox and brings back the files it made.

The code comes from FILE, from -c CODE, or from standard input for - or no FILE.
The language is told by FILE's ending; other code is Python unless -l says
otherwise. What follows FILE and -- are the program's arguments. A pipe on standard
input that has no code is the program's own input.

A notebook, FILE.ipynb, runs cell by cell in one interpreter until a cell fails, and
with -o the notebook is saved with its outputs, beside the files that its cells made.
One on standard input is run as such, too, unless -l says otherwise.

It runs through the service that holds the data directory, if one is running,
else in this process, which leaves nothing behind; or on --server URL.

With -o the files that the program made are saved into that folder. A name that
exists is asked about on a terminal; without one nothing is overwritten and the
exit code is 3, and with --yes the new file gets another name (plot-1.png).
Without -o a terminal asks for a folder of the run's own, and else the files are
listed. Hidden files, programs, and files that tools run by themselves (.envrc,
Makefile, conftest.py) are asked about too, also with --yes; --allow '.envrc'
agrees to them. What belongs to Git or another such system is never saved.

The exit code is the program's own, or that of a notebook's last cell. 124: it ran
out of time. 125: Airlock could not run it, or ended it, as when the service stops.
128 and more: a signal ended it, 137 too much memory or processor time, 130 Ctrl-C.
Where the program ended well: 2 usage, 3 a file waits for approval, 4 conflict, 5 a
file is refused, 123 a file or a part of the output was lost, since it was over a
limit.

All that the program prints is passed on, and the program waits while nobody reads.
--max-output bounds it, and --json has as much as a run keeps: with -o stdout.txt
has the rest.`,
		Example: `  airlock run -f sales.csv -o out plot.py
  echo 'print(6 * 7)' | airlock run -
  airlock run -l bash job.txt -- --fast
  airlock run -f sales.csv -o out report.ipynb`,
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
	flags.StringVar(&opts.output, "max-output", "",
		"`SIZE` of the output to print of each stream, as 100KB: its beginning and its end; else all of it")
	flags.BoolVarP(&opts.quiet, "quiet", "q", false, "say nothing but errors beside what the program prints")
	flags.StringVar(&opts.packages, "packages", "",
		"`SET` of Python packages, as onyx; GET /languages and doctor list them")
	flags.StringVar(&opts.image, "image", "", imageHelp)
	flags.StringVar(&opts.wall, "wall", "", wallHelp)
	flags.StringArrayVar(&opts.mounts, "mount", nil, "`FOLDER` that the program sees, read-only, as /mnt/NAME, or the name "+
		"of a mount of the service that runs it; may be repeated")
	flags.StringArrayVar(&opts.writable, "mount-rw", nil, "`FOLDER` that the program may change, as --mount; asks first")
	flags.StringArrayVar(&opts.volumes, "volume", nil, "`NAME[:PATH][:ro]` of a volume of the service that the program has, "+
		"at /volumes/NAME, to write to or with :ro to read; may be repeated")
	flags.StringSliceVar(&opts.network, "allow-net", nil, "`RULE` of what the program may contact, as api.example.com, "+
		"*.example.com:443 or packages for pip and npm; may be repeated, else it has no network")
	opts.secrets.add(flags)
	flags.StringVar(&opts.stdin, "stdin", "",
		"`FILE` for the program to read as its standard input; else a pipe or file on airlock's own")
	opts.Add(flags, "`DIR` to save the program's files into",
		"agree to everything: save, rename what would overwrite a file, and --mount-rw")
	completeLanguage(cmd, languageNames()...)
	return a.WithFlags(cmd, config.Client)
}

// imageHelp describes the flag --image.
const imageHelp = "`NAME` of the image whose files it has in place of the machine's own, or host; `airlock images` lists them"

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
		return fmt.Errorf("%s is no time limit of a program: it may be 1ms to 24h", text)
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
		return &command.Failure{Code: command.ExitUsage, Err: fmt.Errorf("one program at a time, not %q", args[:own]),
			Hint: "the program's arguments come after --, and its input files with -f"}
	}
	return nil
}

// runCoded is runProgram with the exit codes of airlock run.
func (a *app) runCoded(ctx context.Context, opts runOptions, args []string, dash int) error {
	err := command.ForProgram(flagNames(a.runProgram(ctx, opts, args, dash)))
	if c, own := errors.AsType[*command.Coded](err); own && ctx.Err() != nil {
		c.Code = command.ExitInterrupted
		a.Shown(a.Streams.Err, "^C") // which a terminal shows
	}
	return err
}

// flagOfField are the flags for fields that have common words as names, with which the message of a refusal begins.
var flagOfField = map[string]string{"files": "-f", "image": "--image", "language": "-l", "mounts": "--mount",
	"network": "--allow-net", "secrets": "--secret", "volumes": "--volume", "wall": "--wall"}

// flagNames names the flag in the error of a service that refuses a field.
func flagNames(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	named := *e
	field, rest, _ := strings.Cut(e.Message, " ")
	field, _, _ = strings.Cut(field, "[") // volumes[0].path
	if flag := flagOfField[field]; flag != "" && e.Code == client.ErrInvalid {
		named.Message = flag + " " + rest
	}
	named.Message = strings.NewReplacer("limits.timeout_ms", "--timeout", "timeout_ms", "--timeout", "limits.memory_bytes",
		"--memory", "limits.output_bytes", "--max-output", "python_packages", "--packages").Replace(named.Message)
	return &named
}

func (a *app) runProgram(ctx context.Context, opts runOptions, args []string, dash int) error {
	if len(args) > 0 && dash != 0 && strings.EqualFold(filepath.Ext(args[0]), notebookEnding) && !opts.coded {
		text, err := a.Read(args[0])
		if err != nil {
			return err
		}
		return a.runNotebook(ctx, opts, args[0], text, args[1:])
	}
	req, err := a.readRequest(opts, args, dash)
	if err != nil {
		return err
	}
	piped := !opts.coded && (len(args) == 0 || args[0] == "-")
	if piped && opts.language == "" && isNotebook(req.Code) {
		return a.runNotebook(ctx, opts, "notebook"+notebookEnding, []byte(req.Code), req.Args)
	}
	most, err := outputLimit(opts.output)
	if err != nil {
		return err
	}
	if a.JSON && most > 0 {
		if req.Limits == nil {
			req.Limits = &client.Limits{}
		}
		req.Limits.OutputBytes = most
	}
	inputs, err := findInputs(opts.inputs)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(inputs, func(in input) bool { return in.path == req.Entry }) {
		req.Entry = "" // an input has the name
	}
	if err := opts.Check(); err != nil {
		return err
	}
	if req.Secrets, err = opts.secrets.read(a.App); err != nil {
		return err
	}
	if req.Mounts, err = a.mount(ctx, &opts); err != nil {
		return err
	}
	if req.Volumes, err = a.volumeMounts(ctx, opts.volumes); err != nil {
		return err
	}
	conn, err := a.connectFor(ctx, opts.wall)
	if err != nil {
		return err
	}
	defer conn.close()
	if req.Files, err = conn.upload(ctx, inputs, a.sending(opts.quiet)); err != nil {
		return command.Interrupted(ctx, err)
	}
	req.MergeOutput = !a.JSON && command.SamePlace(a.Streams.Out, a.Streams.Err)
	req.AllOutput = !a.JSON
	run, cut, err := a.follow(ctx, conn, req, most)
	if err != nil {
		return err
	}
	return a.finishRun(ctx, conn, opts, args, run, cut)
}

// finishRun saves what a run has made, and shows how it ended.
func (a *app) finishRun(
	ctx context.Context, conn *connection, opts runOptions, args []string, run *client.Run, cut bool,
) error {
	if !opts.quiet {
		a.drawFiles(ctx, conn, run)
	}
	report := runReport{run, savedFiles{Saved: []command.SavedFile{}}}
	problem := a.saveOutputs(ctx, conn.download, &report, opts)
	if problem == nil {
		problem = conn.lost(ctx, &report, cut, a.JSON)
	}
	if problem != nil {
		report.Problem = new(command.Explain(problem))
	}
	if a.JSON {
		a.Out.Result(report)
	} else if !opts.quiet {
		a.summarizeRun(report)
		a.fileHint(run, args)
	}
	return a.verdict(report, problem)
}

// readRequest reads the code, its arguments and its standard input.
func (a *app) readRequest(opts runOptions, args []string, dash int) (client.RunRequest, error) {
	req := client.RunRequest{Timeout: opts.timeout, Packages: opts.packages, Image: opts.image,
		Wall: client.Wall(opts.wall)}
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
		return req, command.Fail(command.ExitUsage, "its arguments come after --", "there is a program, %s, and -c CODE",
			name)
	}
	var err error
	if req.Limits, err = memoryLimit(opts.memory); err != nil {
		return req, err
	}
	if req.Language, err = languageOf(opts.language, name); err != nil {
		return req, err
	}
	if name == "-" && opts.stdin == "-" && !opts.coded {
		return req, command.Fail(command.ExitUsage, "put one of them into a file",
			"the code and the program's input cannot both come from standard input")
	}
	if opts.stdin == "" && (name != "-" || opts.coded) && hasText(a.Streams.In) {
		opts.stdin = "-"
		defer time.AfterFunc(pipePatience, func() {
			a.Say("airlock: reading the program's input from the pipe on standard input; --stdin /dev/null gives it none")
		}).Stop()
	}
	if opts.stdin != "" {
		stdin, err := a.Read(opts.stdin)
		if err != nil {
			return req, err
		}
		if req.Stdin, err = command.TextOf(opts.stdin, stdin,
			"hand it over with -f, and have the program open it"); err != nil {
			return req, err
		}
	}
	if opts.coded {
		req.Code = opts.code
		return req, nil
	}
	req.Entry = programName(req.Language, name)
	if name == "-" && command.IsTerminal(a.Streams.In) {
		a.Say("Type %s code; Ctrl-D on an empty line runs it.", req.Language)
	}
	code, err := a.Read(name)
	if err != nil {
		return req, err
	}
	if name == "-" && len(bytes.TrimSpace(code)) == 0 {
		return req, command.Fail(command.ExitUsage,
			"name a FILE, give -c CODE, or pipe code in: `echo 'print(6 * 7)' | airlock run`",
			"there is no code on standard input")
	}
	req.Code, err = command.TextOf(name, code, command.AsUTF8)
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

// memoryLimit returns the limit that --memory gives, or nil.
func memoryLimit(text string) (*client.Limits, error) {
	if text == "" {
		return nil, nil
	}
	bytes, err := humanize.ParseBytes(text)
	if err != nil || bytes == 0 || bytes > math.MaxInt64 {
		return nil, command.Fail(command.ExitUsage, "give a size such as 512MiB or 2GiB", "%q is not a size of memory", text)
	}
	return &client.Limits{MemoryBytes: int64(bytes)}, nil
}

// outputLimit returns the number of bytes that --max-output gives; 0: all.
func outputLimit(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	bytes, err := humanize.ParseBytes(text)
	if err != nil || bytes == 0 || bytes > 1<<30 {
		return 0, command.Fail(command.ExitUsage, "give a size such as 100KB or 5MiB, of at most 1GiB",
			"%q is not a size of output", text)
	}
	return int(bytes), nil
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
			return "", command.Fail(command.ExitUsage, hint, "there is no language %q", asked)
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
	return "", command.Fail(command.ExitUsage, hint, "the name of %s does not tell the language", file)
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
