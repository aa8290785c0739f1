package commands

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *Assistant) askCommand() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use:   "ask [PROMPT|-]",
		Short: "Asks a model that runs code on your files, and brings back the files it makes",
		Long: `Asks a model that runs code on your files, and brings back the files it makes.

The code runs where --provider says: at OpenAI, Anthropic, Gemini or xAI, or in
this machine's sandbox with any model that speaks OpenAI's API (--provider local
--model-url). Files go by id, never through the prompt. Before a file leaves this
machine you are asked; --yes agrees to the files that -f names.

With -o the files that the model's code made are saved into that folder. A name
that exists is asked about on a terminal; without one nothing is overwritten and
the exit code is 3, and with --yes the new file gets another name. Without -o a
terminal asks for a folder of the turn's own, and else the files are listed.

What was made at the provider is deleted in the end unless --keep.

Exit codes: 0 done, 1 failed, the last code too, or interrupted, 2 usage,
3 somebody has to agree, 4 conflict, 5 refused, 6 the code ran out of time,
7 the provider is not available now.`,
		Example: `  airlock ask --provider openai --model gpt-5 -f sales.csv -o out 'Plot sales by month'
  airlock ask --provider local --model-url http://localhost:11434/v1 --model qwen3 -f photo.jpg 'Make it grey'
  airlock ask --prompt-file report.txt --var year=2026 --schema report.json --json -f sales.csv --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.askModel(cmd.Context(), o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.schema, "schema", "", "JSON schema `FILE` that the answer follows")
	f.StringVar(&o.PromptFile, "prompt-file", "", "`FILE` with the prompt, a template: {{name}} is filled by --var, "+
		"{{if}} and {{range}} work, {{file \"notes.txt\"}} is a file's text")
	f.StringArrayVar(&o.variables, "var", nil, "`NAME=VALUE` for the prompt file; may be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "check key, model, files, folder and limits, and send nothing")
	return a.addAskFlags(cmd, &o)
}

// addAskFlags adds the flags that ask and chat share.
func (a *Assistant) addAskFlags(cmd *cobra.Command, o *askOptions) *cobra.Command {
	f := cmd.Flags()
	f.StringArrayVarP(&o.inputs, "file", "f", nil, "`INPUT` file, or a pattern in quotes; may be repeated")
	f.StringVar(&o.tool, "tool", "auto", "what the model runs code with: auto, python, shell or none")
	f.BoolVar(&o.see, "see", false, "show images and PDFs to the model too, not to its code only")
	f.StringVar(&o.project, "project", "",
		"`ID` of the project that it is about: replies change its folder, and report to it")
	f.StringVar(&o.phase, "phase", "",
		"phase of the conversation; replies are applied in E (EXECUTE) or without a phase, and only shown in others")
	f.BoolVar(&o.keep, "keep", false, "leave files and sessions at the provider")
	f.BoolVar(&o.skipFailed, "skip-failed-uploads", false, "continue without files that cannot be sent")
	f.StringVar(&o.resume, "resume", "", "continue the conversation `ID`")
	f.StringVar(&o.system, "instructions", "", "rules for the model, for the whole conversation")
	o.Add(f, "`DIR` to save the files into that the code makes",
		"agree to send the named files, and rename what would overwrite a file")
	return a.WithFlags(cmd, config.Models, config.Client, config.Project)
}

func (a *Assistant) askModel(ctx context.Context, o askOptions, args []string) error {
	text, inside, err := a.promptText(o, args)
	if err != nil {
		return err
	}
	schema, err := a.readSchema(o.schema)
	if err != nil {
		return err
	}
	return a.withHost(ctx, func(h *modelHost) error {
		t := &talk{Assistant: a, options: o, host: h}
		if err := t.prepare(ctx); err != nil {
			return err
		}
		if err := t.offer(ctx, text); err != nil {
			return t.explain(ctx, err)
		}
		prompt := t.prompt(text)
		prompt.Schema = schema
		if err := t.open(ctx); err != nil {
			return t.explain(ctx, err)
		}
		if err := t.agreeTo(ctx, inside); err != nil {
			return t.abandon(ctx, t.explain(ctx, err))
		}
		if o.dryRun {
			return t.check(ctx, prompt)
		}
		turn, problem := t.chat.Turn(ctx, prompt, t.asker(), t.show().tell)
		problem = t.verdict(ctx, turn, errors.Join(problem, t.report(ctx, turn)))
		return t.end(ctx, []*conversation.Turn{turn}, problem)
	})
}

// talk is a conversation with a model on the command line.
type talk struct {
	*Assistant
	options    askOptions
	host       *modelHost
	files      []conversation.File
	root       string // of the project
	policy     *workspace.Policy
	chat       *conversation.Chat
	shown      *turnView
	interrupts *command.Interrupts // nil: a signal ends the command
	editor     *command.LineEditor // nil: lines are not edited
	sweep      sync.WaitGroup
	others     []provider.FileInfo // found by the sweep and not deleted
}

// prepare checks the command line before anything is connected.
func (t *talk) prepare(ctx context.Context) (err error) {
	if err := t.options.Check(); err != nil {
		return err
	}
	if _, err := toolOf(t.options.tool); err != nil {
		return err
	}
	if t.policy, err = t.readPolicy(); err != nil { // a wrong policy is reported all the same
		return err
	}
	if t.root, err = t.projectRoot(ctx, t.host.state, t.options.project); err != nil {
		return err
	}
	t.files, err = openInputs(t.options.inputs, t.root, t.options.see,
		func(missing error) error { return t.without(ctx, missing) })
	return err
}

func toolOf(name string) (provider.Tool, error) {
	switch tool := provider.Tool(name); tool {
	case provider.ToolAuto, provider.ToolPython, provider.ToolShell, provider.ToolNone:
		return tool, nil
	}
	return "", command.Fail(command.ExitUsage, "there are auto, python, shell and none", "there is no tool %q", name)
}

// open begins the conversation, or resumes one.
func (t *talk) open(ctx context.Context) (err error) {
	if t.options.resume != "" {
		t.chat, err = t.host.Resume(ctx, owner, t.options.resume, t.change)
	} else {
		var s conversation.Settings
		if s.Provider, err = t.chosenProvider(); err != nil {
			return err
		}
		t.change(&s)
		if s.Model == "" {
			return command.Fail(command.ExitUsage, "name one with --model or AIRLOCK_MODEL", "no model is chosen")
		}
		t.chat, err = t.host.Begin(ctx, owner, s)
	}
	if err != nil {
		return err
	}
	if t.options.keep && t.chat.Ephemeral {
		t.Say("note: --keep keeps nothing here: files end with this command; under `airlock serve` they stay")
	}
	t.sweepBehind(ctx)
	return nil
}

// change applies the command line to the settings of a conversation.
func (t *talk) change(s *conversation.Settings) {
	for _, given := range []struct {
		to    *string
		value string
	}{{&s.Provider, t.Config.Provider}, {&s.Model, t.Config.Model}, {&s.ModelURL, t.Config.ModelURL},
		{&s.Project, t.options.project}, {&s.Phase, t.options.phase}, {&s.API, t.Config.API},
		{&s.Instructions, t.options.system}} {
		if given.value != "" {
			*given.to = given.value
		}
	}
	if t.options.tool != "auto" || s.Tool == "" {
		s.Tool = provider.Tool(t.options.tool)
	}
	if s.Policy = t.policy; t.options.Yes {
		s.Policy = nil // --yes covers more
	}
	s.Hints, s.MaxDownload, s.Keep = provider.HintMode(t.Config.Hints), t.Config.MaxDownload, t.options.keep
}

// sweepBehind deletes, in the background, what crashed processes have left in the account.
func (t *talk) sweepBehind(ctx context.Context) {
	t.sweep.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, sweepTimeout)
		defer cancel()
		accounts := []provider.Provider{t.chat.Provider}
		if name := t.chat.Settings().Provider; name != provider.Local {
			if all, err := t.accountsOf(bounded, name); err == nil {
				accounts = all
			}
		}
		swept, err := t.host.Sweep(bounded, accounts...)
		t.logSwept(swept, err)
		t.others = swept.Others
	})
}

const sweepTimeout = 20 * time.Second

func (t *talk) prompt(text string) conversation.Prompt {
	p := conversation.Prompt{Text: text, Files: t.files, SkipFailed: t.options.skipFailed, Browse: t.root,
		Folder: t.options.Folder, Expect: t.options.Folder != ""}
	if p.Folder == "" && t.Interactive() {
		p.Folder = "airlock-" + time.Now().Format("20060102-150405")
	}
	if p.Folder != "" {
		if absolute, err := filepath.Abs(p.Folder); err == nil {
			p.Folder = absolute
		}
	}
	if !t.Interactive() {
		p.Browse = "" // no user can answer the model
	}
	return p
}

func (t *talk) show() *turnView {
	if t.shown == nil {
		t.shown = t.showTurns(t.options.schema != "")
	}
	t.shown.root = t.root
	return t.shown
}

func (t *talk) asker() *asker {
	return &asker{Assistant: t.Assistant, options: t.options, state: t.host.state, shown: t.show()}
}

// check does the checks of a dry run.
func (t *talk) check(ctx context.Context, p conversation.Prompt) error {
	if err := t.abandon(ctx, t.explain(ctx, t.chat.Check(ctx, p))); err != nil {
		return err
	}
	s := t.chat.Settings()
	r := dryRunReport{DryRun: true, Provider: s.Provider, Model: s.Model, Destination: t.chat.Destination,
		Folder: p.Folder, Files: []dryRunFile{}}
	for _, f := range p.Files {
		r.Files = append(r.Files, dryRunFile{f.Path, f.Name, f.Size, f.MIME, f.Sensitivity()})
		r.Bytes += f.Size
	}
	return t.Print(r)
}

// abandon closes a conversation without turns. It returns err, and the error of closing.
func (t *talk) abandon(ctx context.Context, err error) error {
	_, closing := t.chat.Close(ctx, nil)
	t.sweep.Wait()
	return errors.Join(err, closing)
}

// end closes the conversation and shows the report. It deletes what was made at the
// provider even if the command was interrupted.
func (t *talk) end(ctx context.Context, turns []*conversation.Turn, problem error) error {
	t.show().clear()
	if ctx.Err() != nil && !t.JSON && !t.options.keep && t.chat.Destination != "" {
		t.Say("cleaning up at %s; Ctrl-C again leaves that to `airlock provider gc`", t.chat.Destination)
	}
	cleaned, closing := t.chat.Close(ctx, t.show().tell)
	t.sweep.Wait()
	if !t.JSON {
		showOthers(t.show().page, othersOf(t.others))
	}
	if problem == nil && closing != nil {
		problem = t.explain(ctx, closing)
	}
	r := askReport{Conversation: t.chat.ID(), Provider: t.chat.Settings().Provider, Turns: turns, Cleaned: cleaned}
	for _, turn := range turns {
		if turn != nil {
			r.Text, r.Answer, r.Outputs = turn.Text, turn.Answer, turn.Outputs
		}
	}
	problem = t.Finish(&r, problem)
	if t.JSON {
		return problem
	}
	if held := unsaved(turns); held > 0 && t.options.Folder == "" && !t.Interactive() {
		t.Say("%s not saved: `airlock provider save %s -o DIR` saves what was made, within 7 days; with -o DIR `ask` does",
			english.Plural(held, "file", ""), r.Conversation)
	}
	t.Say("conversation %s (--resume continues it)", r.Conversation)
	return problem
}

// unsaved counts the outputs that are held and were not saved.
func unsaved(turns []*conversation.Turn) (n int) {
	for _, turn := range turns {
		if turn == nil {
			continue
		}
		for _, o := range turn.Outputs {
			if o.State == conversation.OutputFetched {
				n++
			}
		}
	}
	return n
}

// report sends the reports of the reply to the project, as far as possible now.
func (t *talk) report(ctx context.Context, turn *conversation.Turn) error {
	if turn == nil || turn.Result == nil || turn.Result.State != changes.Applied || len(turn.Result.Posts) == 0 {
		return nil
	}
	d := t.host.state
	h, _, err := d.Open(ctx, owner, turn.Reply)
	if err != nil {
		return err
	}
	if err := t.sendReports(ctx, d, h); err != nil {
		return err
	}
	turn.Result = h.Result
	if !t.JSON {
		receipt{Result: h.Result, root: h.Root}.show(t.show().page)
	}
	return nil
}

// verdict returns the error that ends a turn: its own, else that of the last code, else
// that of what waits for the user.
func (t *talk) verdict(ctx context.Context, turn *conversation.Turn, problem error) error {
	if problem != nil {
		return t.explain(ctx, problem)
	}
	if n := len(turn.Steps); n > 0 {
		switch last := turn.Steps[n-1]; last.Outcome {
		case provider.OutcomeTimeout:
			return &command.Failure{Code: command.ExitTimeout, Word: "code_timeout",
				Err: errors.New("the last code that the model ran took too long"), Hint: "ask for a smaller step, or for less data"}
		case provider.OutcomeFailed, provider.OutcomeUnavailable, provider.OutcomeOutputTooLarge:
			return &command.Failure{Code: command.ExitFailed, Word: "code_failed", Err: errors.New(
				"the last code that the model ran failed: " + string(last.Outcome)),
				Hint: "its output says why; --resume " + t.chat.ID() + " goes on"}
		}
	}
	if held := t.show().held; len(held) > 0 {
		t.show().held = nil
		return command.HeldProblem(held...)
	}
	for _, o := range turn.Outputs {
		switch o.State {
		case conversation.OutputExists:
			return command.Fail(command.ExitApproval, "--yes saves them under new names, and -o may name another folder",
				"files of the same name exist")
		case conversation.OutputRefused:
			return command.Fail(command.ExitRefused, "", "%s is not saved: %s", o.Name, o.Problem.Message)
		}
	}
	if turn.Result != nil && turn.Result.State == changes.Proposed {
		return command.Fail(command.ExitApproval, "look at it and run `airlock apply --approve "+turn.Reply+"`, or give --yes",
			"the reply needs your approval first")
	}
	if turn.Result != nil && turn.Result.State == changes.Declined {
		return command.Fail(command.ExitApproval, "", "the reply was turned down")
	}
	if turn.Result != nil {
		return unanswered(turn.Result)
	}
	return nil
}

// explain gives an error of a conversation an exit code and a hint.
func (t *talk) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		hint := "what was made at the provider is deleted; `airlock provider gc` deletes what could not be"
		if t.options.keep {
			hint = "what was made at the provider stays there, as --keep says; `airlock provider ls` lists it"
		} else if t.chat != nil && t.chat.Ephemeral {
			hint = ""
		}
		return &command.Failure{Code: command.ExitFailed, Word: "interrupted", Err: errors.New("interrupted"), Hint: hint}
	}
	return modelError(err)
}

// modelError gives an error of a provider an exit code and a hint.
func modelError(err error) error {
	if _, known := errors.AsType[*command.Failure](err); err == nil || known {
		return err
	}
	f := &command.Failure{Code: command.ExitFailed, Err: err, Hint: provider.HintOf(err),
		Word: string(provider.KindOf(err))}
	e, of := errors.AsType[*provider.Error](err)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f.Word, f.Hint = "disk_full", "make room on the disk, and ask again"
	case errors.Is(err, conversation.ErrApproval), errors.Is(err, conversation.ErrNonInteractive):
		f.Code, f.Word, f.Hint = command.ExitApproval, "approval_needed", "--yes agrees to the files that -f names"
	case errors.Is(err, conversation.ErrDeclined):
		f.Code, f.Word, f.Hint = command.ExitApproval, "declined", ""
	case !of:
		return workError(err)
	case e.Kind == provider.Auth && e.Status == 0, e.Kind == provider.Invalid:
		f.Code = command.ExitUsage
	case e.Kind == provider.Auth, e.Kind == provider.TooLarge:
		f.Code = command.ExitRefused
	case e.Kind.Retryable(), e.Kind == provider.Quota:
		f.Code = command.ExitUnavailable
	}
	if f.Hint != "" && of {
		f.Hint += " (docs/troubleshooting.md#" + troubles(e.Kind) + ")"
	}
	return f
}

// troubles returns the section of docs/troubleshooting.md about errors of a kind.
func troubles(k provider.Kind) string {
	switch k {
	case provider.OutputsMissing, provider.NotDownloadable, provider.FileNotFound, provider.FileExpired:
		return "files-that-code-makes"
	}
	return "providers-of-models"
}
