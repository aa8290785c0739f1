package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/command"
)

// askOptions are the flags of airlock ask and airlock chat.
type askOptions struct {
	inputs, variables                                        []string
	tool, schema, PromptFile, project, phase, resume, system string
	see, keep, skipFailed, dryRun                            bool
	command.SaveFlags
}

// promptText returns the prompt, from an argument, a file or standard input, and the
// files whose content is in it.
func (a *Assistant) promptText(o askOptions, args []string) (text string, inside []conversation.File, err error) {
	switch {
	case len(args) > 0 && o.PromptFile != "":
		return "", nil, command.Fail(command.ExitUsage, "keep one of the two", "there is a PROMPT and a --prompt-file")
	case len(args) == 0 && o.PromptFile == "":
		return "", nil, command.Fail(command.ExitUsage, `give it as an argument, "-" for standard input, or --prompt-file FILE`, "there is no prompt")
	case len(args) > 0 && args[0] != "-":
		if len(o.variables) > 0 {
			return "", nil, command.Fail(command.ExitUsage, "--var fills a --prompt-file", "there is no file for --var to fill")
		}
		return args[0], nil, nonempty(args[0])
	}
	name := cmp.Or(o.PromptFile, "-")
	given, err := a.Read(name)
	if err != nil {
		return "", nil, err
	}
	if text, err = command.TextOf(name, given, command.AsUTF8); err != nil {
		return "", nil, err
	}
	if text, inside, err = fill(name, text, o.variables); err != nil {
		return "", nil, err
	}
	return text, inside, nonempty(text)
}

func nonempty(prompt string) error {
	if strings.TrimSpace(prompt) == "" {
		return command.Fail(command.ExitUsage, "say what the model shall do", "the prompt is empty")
	}
	return nil
}

// readSchema reads the JSON schema of the answer.
func (a *Assistant) readSchema(name string) (json.RawMessage, error) {
	if name == "" {
		return nil, nil
	}
	text, err := a.Read(name)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, command.Fail(command.ExitUsage, `a schema is an object such as {"type": "object", "properties": {...}}`,
			"%s is not a JSON schema: %w", name, err)
	}
	return text, nil
}

// openInputs opens the files that -f names. A pattern names all files that match. Files
// for a project must be inside its folder. A file that cannot be read is left out if
// skip returns nil for its error; without skip it is an error.
func openInputs(names []string, root string, see bool, skip func(error) error) ([]conversation.File, error) {
	if skip == nil {
		skip = func(err error) error { return err }
	}
	var files []conversation.File
	seen := map[string]string{}
	for _, name := range names {
		found, err := matching(name)
		if err != nil {
			if err := skip(err); err != nil {
				return nil, err
			}
			continue
		}
		for _, one := range found {
			f, err := conversation.OpenFile(one)
			if err != nil {
				if err := skip(inputError(one, err)); err != nil {
					return nil, err
				}
				continue
			}
			if other, twice := seen[f.Name]; twice {
				if other == f.Local {
					continue
				}
				return nil, command.Fail(command.ExitUsage, "rename one of them", "%s and %s would both be %s for the program",
					other, one, f.Name)
			}
			seen[f.Name] = f.Local
			if err := inside(root, f.Local); err != nil {
				return nil, err
			}
			f.See = see
			files = append(files, f)
		}
	}
	return files, nil
}

// matching returns the files that a name or a pattern means.
func matching(name string) ([]string, error) {
	if _, err := os.Lstat(name); err == nil || !strings.ContainsAny(name, "*?[{") {
		return []string{name}, nil
	}
	found, err := doublestar.FilepathGlob(name, doublestar.WithFilesOnly(), doublestar.WithNoFollow())
	if err != nil || len(found) == 0 {
		return nil, command.Fail(command.ExitUsage, "", "no file matches %s", name)
	}
	slices.Sort(found)
	return found, nil
}

func inputError(name string, err error) error {
	if errors.Is(err, conversation.ErrNotFile) {
		return command.Fail(command.ExitUsage, "give its files one by one with -f, or as a pattern: -f '"+
			filepath.Join(name, "*.csv")+"'",
			"%s is not a file", name)
	}
	return command.Unreadable(name, err)
}

// inside refuses a file that is not in the project's folder.
func inside(root, local string) error {
	if root == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(local)
	if err != nil {
		return inputError(local, err)
	}
	if changes.Within([]string{root}, real) {
		return nil
	}
	return command.Fail(command.ExitRefused, "copy it into the project, or ask without --project",
		"%s is outside of the project's folder %s", local, root)
}

// namedFile matches a possible file name in a prompt.
var namedFile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\pL\pN_][\pL\pN_./-]*\.[A-Za-z0-9]{1,8}`)
})

// maxOffers bounds the number of questions.
const maxOffers = 10

// offer asks about files of the current folder that the prompt names and -f does not.
func (t *talk) offer(ctx context.Context, text string) error {
	if !t.Interactive() || t.options.dryRun || t.options.Yes || t.options.resume != "" {
		return nil
	}
	var offered []string
	for _, name := range namedFile().FindAllString(text, -1) {
		info, err := os.Lstat(name)
		given := slices.ContainsFunc(t.files, func(f conversation.File) bool { return f.Name == filepath.Base(name) })
		if err != nil || !info.Mode().IsRegular() || !filepath.IsLocal(name) || given || slices.Contains(offered, name) ||
			len(offered) == maxOffers {
			continue
		}
		offered = append(offered, name)
		yes, err := t.Confirm(ctx, fmt.Sprintf(
			"The prompt names %s (%s), which is here. Give it to the model's code? [y/N] ", command.Printable(name),
			command.SizeText(info.Size())))
		if err != nil {
			return err
		}
		if !yes {
			continue
		}
		more, err := openInputs([]string{name}, t.root, t.options.see, nil)
		if err != nil {
			return err
		}
		t.files = append(t.files, more...)
	}
	if len(offered)+len(t.files) > 0 || t.options.project != "" || !speaksOfFiles.MatchString(text) {
		return nil // in a project the model asks for files itself
	}
	return t.offerRecent(ctx)
}

// speaksOfFiles matches words about files in a prompt that names none.
var speaksOfFiles = regexp.MustCompile(
	`(?i)\b(files?|data|datasets?|tables?|spreadsheets?|documents?|csv|tsv|excel|xlsx|json|parquet|pdf)\b`)

// isData matches the names of data files, but hidden ones.
var isData = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)^[^.].*\.(csv|tsv|json|jsonl|ndjson|xml|xlsx?|ods|parquet|feather|sqlite|db|txt|log|pdf|docx|zip)$`)
})

// maxRecent bounds the list of files, of which one digit chooses.
const maxRecent = 9

// offerRecent lets the user choose from the data files of the current folder that were
// changed last.
func (t *talk) offerRecent(ctx context.Context) error {
	entries, err := os.ReadDir(".")
	if err != nil {
		return nil //nolint:nilerr // there is nothing to offer
	}
	var files []os.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && isData().MatchString(info.Name()) {
			files = append(files, info)
		}
	}
	if len(files) == 0 {
		return nil
	}
	slices.SortStableFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	files = files[:min(len(files), maxRecent)]
	t.Say("The prompt names no file. In this folder are:")
	for i, info := range files {
		t.Say("  %d  %s  %s, changed %s", i+1, command.Printable(info.Name()), command.SizeText(info.Size()),
			humanize.Time(info.ModTime()))
	}
	line, err := t.AskLine(ctx, "Numbers of those to give to the model's code, such as 1 3 (Enter for none): ")
	if err != nil {
		return err
	}
	var names []string
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(files) {
			return command.Fail(command.ExitUsage, "type the numbers of the list, or -f FILE", "%s is no number from 1 to %d",
				command.Printable(word),
				len(files))
		}
		names = append(names, files[n-1].Name())
	}
	slices.Sort(names)
	more, err := openInputs(slices.Compact(names), t.root, t.options.see, nil)
	t.files = append(t.files, more...)
	return err
}

// without asks whether to continue without an input that cannot be read.
func (t *talk) without(ctx context.Context, missing error) error {
	if t.options.skipFailed {
		t.Say("note: %v; it is left out", missing)
		return nil
	}
	if !t.Interactive() {
		return missing
	}
	yes, err := t.Confirm(ctx, fmt.Sprintf("%v. Continue without it? [y/N] ", missing))
	if err != nil || !yes {
		return errors.Join(err, missing)
	}
	return nil
}

// agreeTo asks whether files may leave the machine as a part of the prompt.
func (t *talk) agreeTo(ctx context.Context, files []conversation.File) error {
	where := t.chat.ModelDestination()
	if len(files) == 0 || where == "" || t.options.dryRun {
		return nil
	}
	if !t.JSON || !t.options.Yes {
		t.Say("The text of these files is in the prompt, and would go to %s:", where)
		for _, f := range files {
			t.Say("  %s  %s%s", command.Printable(f.Path), command.SizeText(f.Size), careful(f.Sensitivity()))
		}
	}
	if t.options.Yes {
		return nil
	}
	if !t.Interactive() {
		return command.Fail(command.ExitApproval, "--yes agrees to it", "%s would leave this machine in the prompt",
			english.Plural(len(files), "file", ""))
	}
	yes, err := t.Confirm(ctx, "Send it? [y/N] ")
	if err == nil && !yes {
		return fmt.Errorf("%w: nothing was sent", conversation.ErrDeclined)
	}
	return err
}
