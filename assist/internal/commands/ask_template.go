package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/regular"
)

// variable matches {{name}}, whose name may have hyphens, and variableName such a name.
var (
	variable     = regexp.MustCompile(`\{\{(-?) *([A-Za-z_][A-Za-z0-9_-]*) *(-?)\}\}`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// valueOf is the function that {{name}} becomes. No variable has its name, which is not ASCII.
const valueOf = "välue"

// promptFile is a prompt that is a template of package text/template. {{name}} is a
// variable; the functions are in parse.
type promptFile struct {
	name   string
	values map[string]string
	used   map[string]bool
	read   []conversation.File // files whose content is in the prompt
	total  int64
}

// maxPromptFile bounds the content of files in a prompt.
const maxPromptFile = 1 << 20

// fill executes a prompt file with variables. It refuses variables that are missing or
// unused: a request with such a mistake would cost tokens.
func fill(name, text string, variables []string) (string, []conversation.File, error) {
	p := &promptFile{name: name, values: map[string]string{}, used: map[string]bool{}}
	for _, v := range variables {
		key, value, ok := strings.Cut(v, "=")
		if !ok || !variableName.MatchString(key) {
			return "", nil, command.Fail(command.ExitUsage, "write --var name=value, with a name of letters, digits, _ and -",
				"%q is no variable", v)
		}
		p.values[key] = value
	}
	if len(p.values) == 0 && name == "-" {
		return text, nil, nil
	}
	t, err := p.parse(text)
	if err != nil {
		return "", nil, err
	}
	for key := range p.values {
		if !p.used[key] {
			return "", nil, command.Fail(command.ExitUsage, "write it as {{"+key+"}} where it belongs",
				"%s has no place for the variable %s",
				name, key)
		}
	}
	var filled strings.Builder
	if err := t.Execute(&filled, nil); err != nil {
		if f, ok := errors.AsType[*command.Failure](err); ok {
			return "", nil, f
		}
		return "", nil, command.Fail(command.ExitUsage, "", "%s cannot be filled: %w", name, err)
	}
	return filled.String(), p.read, nil
}

// parse parses the template, and finds the variables that it uses.
func (p *promptFile) parse(text string) (*template.Template, error) {
	functions := template.FuncMap{
		valueOf: func(key string) string { return p.values[key] },
		"file":  p.file, "json": readJSON, "lines": linesOf, "split": split,
		"join": strings.Join,
		"trim": strings.TrimSpace, "upper": strings.ToUpper, "lower": strings.ToLower,
		"contains": strings.Contains, "base": filepath.Base,
	}
	var missing []string
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		switch m[2] {
		case "end", "else", "break", "continue", "if", "range", "with", "define", "block", "template", "nil":
			return found
		}
		if _, ok := p.values[m[2]]; !ok {
			missing = append(missing, m[2])
		}
		p.used[m[2]] = true
		return fmt.Sprintf("{{%s %s %q %s}}", m[1], valueOf, m[2], m[3])
	})
	for key := range p.values {
		functions[strings.ReplaceAll(key, "-", "_")] = func() string { return p.values[key] }
	}
	t, err := template.New(filepath.Base(p.name)).Option("missingkey=error").Funcs(functions).Parse(text)
	if m := undefined.FindStringSubmatch(fmt.Sprint(err)); err != nil && m != nil {
		missing = append(missing, m[1])
	}
	if len(missing) > 0 {
		return nil, command.Fail(command.ExitUsage, "give it with --var "+missing[0]+"=VALUE",
			"%s has variables without a value: %s", p.name,
			strings.Join(missing, ", "))
	}
	if err != nil {
		return nil, command.Fail(command.ExitUsage, `prompt files are templates: {{"{{"}} stands for two braces`, "%s is no template: %w", p.name, err)
	}
	// A template that cannot be parsed without a variable uses it.
	for key := range p.values {
		others := maps.Clone(functions)
		delete(others, strings.ReplaceAll(key, "-", "_"))
		if _, err := template.New("").Funcs(others).Parse(text); err != nil {
			p.used[key] = true
		}
	}
	return t, nil
}

var undefined = regexp.MustCompile(`function "([^"]+)" not defined`)

// file returns the text of a file below the current folder, so that an untrusted prompt
// file can read no other. The text leaves the machine as a part of the prompt.
func (p *promptFile) file(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", command.Fail(command.ExitRefused, "go to the folder that has it, or give it with -f",
			"%s asks for %s, which is outside of this folder", p.name, name)
	}
	here, err := os.OpenRoot(".")
	if err != nil {
		return "", err
	}
	defer here.Close()
	f, err := regular.OpenIn(here, name)
	if err != nil {
		return "", inputError(name, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxPromptFile+1))
	if err != nil {
		return "", inputError(name, err)
	}
	if p.total += int64(len(content)); p.total > maxPromptFile {
		return "", command.Fail(command.ExitRefused, "give large files with -f: code reads them",
			"the files in %s are over 1 MiB together",
			p.name)
	}
	if !utf8.Valid(content) {
		return "", command.Fail(command.ExitUsage, "give it with -f: code reads it", "%s is no text", name)
	}
	opened, err := conversation.OpenFile(name)
	if err != nil {
		return "", inputError(name, err)
	}
	p.read = append(p.read, opened)
	return string(content), nil
}

func readJSON(text string) (v any, err error) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	return v, nil
}

func linesOf(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

func split(text, by string) (list []string) {
	for _, one := range strings.Split(text, by) {
		list = append(list, strings.TrimSpace(one))
	}
	return list
}
