package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
// input; and the files whose content it has.
func (a *app) promptText(o askOptions, args []string) (text string, inside []conversation.File, err error) {
	switch {
	case len(args) > 0 && o.promptFile != "":
		return "", nil, fail(exitUsage, "keep one of the two", "there is a PROMPT and a --prompt-file")
	case len(args) == 0 && o.promptFile == "":
		return "", nil, fail(exitUsage, `give it as an argument, "-" for standard input, or --prompt-file FILE`,
			"there is no prompt")
	case len(args) > 0 && args[0] != "-":
		if len(o.variables) > 0 {
			return "", nil, fail(exitUsage, "--var fills a --prompt-file", "there is no file for --var to fill")
		}
		return args[0], nil, nonempty(args[0])
	}
	name := cmp.Or(o.promptFile, "-")
	given, err := a.read(name)
	if err != nil {
		return "", nil, err
	}
	if text, inside, err = fill(name, string(given), o.variables); err != nil {
		return "", nil, err
	}
	return text, inside, nonempty(text)
}

func nonempty(prompt string) error {
	if strings.TrimSpace(prompt) == "" {
		return fail(exitUsage, "say what the model shall do", "the prompt is empty")
	}
	return nil
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
		return nil, fail(exitUsage, `a schema is an object such as {"type": "object", "properties": {...}}`,
			"%s is not a JSON schema: %w", name, err)
	}
	return text, nil
}

// openInputs finds the files that -f names. A name that is a pattern means all
// files that match; those of a project must be inside its folder.
// One that cannot be read is left out if skip agrees to that; nil never does.
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
		return fail(exitUsage, "give its files one by one with -f, or as a pattern: -f '"+filepath.Join(name, "*.csv")+"'",
			"%s is not a file", name)
	}
	return unreadable(name, err)
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
	if conversation.Within([]string{root}, real) {
		return nil
	}
	return fail(exitRefused, "copy it into the project, or ask without --project",
		"%s is outside of the project's folder %s", local, root)
}
