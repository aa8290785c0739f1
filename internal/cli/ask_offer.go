package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/internal/conversation"
)

// namedFile matches what may be the name of a file in a prompt.
var namedFile = regexp.MustCompile(`[\pL\pN_][\pL\pN_./-]*\.[A-Za-z0-9]{1,8}`)

// mostOffered bounds how often a person is asked.
const mostOffered = 10

// offer asks about files of this folder that the prompt names and -f does not.
func (t *talk) offer(ctx context.Context, text string) error {
	if !t.interactive() || t.options.dryRun || t.options.yes || t.options.resume != "" {
		return nil
	}
	var offered []string
	for _, name := range namedFile.FindAllString(text, -1) {
		info, err := os.Lstat(name)
		given := slices.ContainsFunc(t.files, func(f conversation.File) bool { return f.Name == filepath.Base(name) })
		if err != nil || !info.Mode().IsRegular() || !filepath.IsLocal(name) || given || slices.Contains(offered, name) ||
			len(offered) == mostOffered {
			continue
		}
		offered = append(offered, name)
		yes, err := t.confirm(ctx, fmt.Sprintf(
			"The prompt names %s (%s), which is here. Give it to the model's code? [y/N] ", printable(name),
			sizeText(info.Size())))
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
		return nil // in a project the model asks for the files that it wants
	}
	return t.offerRecent(ctx)
}

// speaksOfFiles matches what may be about a file that the prompt does not name.
var speaksOfFiles = regexp.MustCompile(
	`(?i)\b(files?|data|datasets?|tables?|spreadsheets?|documents?|csv|tsv|excel|xlsx|json|parquet|pdf)\b`)

// isData matches the names of files that people ask about. Hidden ones are none.
var isData = regexp.MustCompile(
	`(?i)^[^.].*\.(csv|tsv|json|jsonl|ndjson|xml|xlsx?|ods|parquet|feather|sqlite|db|txt|log|pdf|docx|zip)$`)

// mostRecent is how many files one digit can choose from.
const mostRecent = 9

// offerRecent lets a person choose from the data files of this folder that were
// changed last.
func (t *talk) offerRecent(ctx context.Context) error {
	entries, err := os.ReadDir(".")
	if err != nil {
		return nil //nolint:nilerr // there is nothing to offer
	}
	var files []os.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && isData.MatchString(info.Name()) {
			files = append(files, info)
		}
	}
	if len(files) == 0 {
		return nil
	}
	slices.SortStableFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	files = files[:min(len(files), mostRecent)]
	t.say("The prompt names no file. In this folder are:")
	for i, info := range files {
		t.say("  %d  %s  %s, changed %s", i+1, printable(info.Name()), sizeText(info.Size()), humanize.Time(info.ModTime()))
	}
	line, err := t.askLine(ctx, "Numbers of those to give to the model's code, such as 1 3 (Enter for none): ")
	if err != nil {
		return err
	}
	var names []string
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(files) {
			return fail(exitUsage, "type the numbers of the list, or -f FILE", "%s is no number from 1 to %d", printable(word),
				len(files))
		}
		names = append(names, files[n-1].Name())
	}
	slices.Sort(names)
	more, err := openInputs(slices.Compact(names), t.root, t.options.see, nil)
	t.files = append(t.files, more...)
	return err
}

// without asks whether to go on without an input that cannot be read.
func (t *talk) without(ctx context.Context, missing error) error {
	if t.options.skipFailed {
		t.say("note: %v; it is left out", missing)
		return nil
	}
	if !t.interactive() {
		return missing
	}
	yes, err := t.confirm(ctx, fmt.Sprintf("%v. Go on without it? [y/N] ", missing))
	if err != nil || !yes {
		return errors.Join(err, missing)
	}
	return nil
}

// agreeTo asks whether the text of files may leave the machine in the prompt.
func (t *talk) agreeTo(ctx context.Context, files []conversation.File) error {
	where := t.chat.ModelDestination()
	if len(files) == 0 || where == "" || t.options.dryRun {
		return nil
	}
	if !t.json || !t.options.yes {
		t.say("The text of these files is in the prompt, and would go to %s:", where)
		for _, f := range files {
			t.say("  %s  %s%s", printable(f.Path), sizeText(f.Size), careful(f.Sensitivity()))
		}
	}
	if t.options.yes {
		return nil
	}
	if !t.interactive() {
		return fail(exitApproval, "--yes agrees to it", "%s would leave this machine in the prompt",
			english.Plural(len(files), "file", ""))
	}
	yes, err := t.confirm(ctx, "Send it? [y/N] ")
	if err == nil && !yes {
		return fmt.Errorf("%w: nothing was sent", conversation.ErrDeclined)
	}
	return err
}
