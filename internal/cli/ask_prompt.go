package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/airlock-run/airlock/internal/conversation"
)

// askOptions are the flags of airlock ask and airlock chat.
type askOptions struct {
	inputs                                                           []string
	folder, tool, schema, promptFile, project, phase, resume, system string
	variables, allow                                                 []string
	see, keep, skipFailed, dryRun, yes                               bool
}

// promptText is what the model is asked: an argument, a file, or standard
// input.
func (a *app) promptText(o askOptions, args []string) (string, error) {
	switch {
	case len(args) > 0 && o.promptFile != "":
		return "", fail(exitUsage, "keep one of the two", "there is a PROMPT and a --prompt-file")
	case len(args) == 0 && o.promptFile == "":
		return "", fail(exitUsage, `give it as an argument, "-" for standard input, or --prompt-file FILE`, "there is no prompt")
	case len(args) > 0 && args[0] != "-":
		if len(o.variables) > 0 {
			return "", fail(exitUsage, "--var fills a --prompt-file", "there is no file for --var to fill")
		}
		return args[0], nonempty(args[0])
	}
	name := o.promptFile
	if name == "" {
		name = "-"
	}
	text, err := a.read(name)
	if err != nil {
		return "", err
	}
	filled, err := fill(name, string(text), o.variables)
	if err != nil {
		return "", err
	}
	return filled, nonempty(filled)
}

func nonempty(prompt string) error {
	if strings.TrimSpace(prompt) == "" {
		return fail(exitUsage, "say what the model shall do", "the prompt is empty")
	}
	return nil
}

// placeholder is where a variable goes: {{name}}.
var placeholder = regexp.MustCompile(`\{\{ *([A-Za-z_][A-Za-z0-9_-]*) *\}\}`)

// fill puts variables into a prompt. One that is missing, and one that is
// nowhere used, is a mistake that would cost tokens.
func fill(name, text string, variables []string) (string, error) {
	values, used := map[string]string{}, map[string]bool{}
	for _, v := range variables {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return "", fail(exitUsage, "write --var name=value", "%q is no variable", v)
		}
		values[key] = value
	}
	if len(values) == 0 && name == "-" {
		return text, nil
	}
	var missing []string
	filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		key := placeholder.FindStringSubmatch(found)[1]
		value, ok := values[key]
		if !ok && !slices.Contains(missing, key) {
			missing = append(missing, key)
		}
		used[key] = true
		return value
	})
	if len(missing) > 0 {
		return "", fail(exitUsage, "give it with --var "+missing[0]+"=VALUE", "%s has variables without a value: %s", name, strings.Join(missing, ", "))
	}
	for key := range values {
		if !used[key] {
			return "", fail(exitUsage, "write it as {{"+key+"}} where it belongs", "%s has no place for the variable %s", name, key)
		}
	}
	return filled, nil
}

// readSchema reads the JSON schema of the answer.
func (a *app) readSchema(name string) (json.RawMessage, error) {
	if name == "" {
		return nil, nil
	}
	text, err := a.read(name)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fail(exitUsage, `a schema is an object such as {"type": "object", "properties": {...}}`, "%s is not a JSON schema: %w", name, err)
	}
	return text, nil
}

// openInputs finds the files that -f names. A name that is a pattern means all
// files that match; those of a project must be inside its folder.
func openInputs(names []string, root string, see bool) ([]conversation.File, error) {
	var files []conversation.File
	seen := map[string]string{}
	for _, name := range names {
		found, err := matching(name)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			f, err := conversation.OpenFile(one)
			if err != nil {
				return nil, inputError(one, err)
			}
			if other, twice := seen[f.Name]; twice {
				if other == f.Local {
					continue
				}
				return nil, fail(exitUsage, "rename one of them", "%s and %s would both be %s for the program", other, one, f.Name)
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

// matching are the files that a name means.
func matching(name string) ([]string, error) {
	if _, err := os.Lstat(name); err == nil || !strings.ContainsAny(name, "*?[{") {
		return []string{name}, nil
	}
	found, err := doublestar.FilepathGlob(name, doublestar.WithFilesOnly(), doublestar.WithNoFollow())
	if err != nil || len(found) == 0 {
		return nil, fail(exitUsage, "", "no file matches %s", name)
	}
	slices.Sort(found)
	return found, nil
}

func inputError(name string, err error) error {
	if errors.Is(err, conversation.ErrNotFile) {
		return fail(exitUsage, "give its files one by one with -f, or as a pattern: -f '"+filepath.Join(name, "*.csv")+"'", "%s is not a file", name)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fail(exitUsage, "", "%s cannot be read: %w", name, err)
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
	if top, err := filepath.EvalSymlinks(root); err == nil {
		root = top
	}
	if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
		return nil
	}
	return fail(exitRefused, "copy it into the project, or ask without --project", "%s is outside of the project's folder %s", local, root)
}

// counted is a number of things in words.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
