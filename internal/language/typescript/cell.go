package typescript

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// cellName is the argument with which the compiler reads a cell from stdin.
const cellName = "--cell"

// compiled is the script that a live interpreter runs for a cell, or why there is none.
type compiled struct {
	Code string `json:"code"`
	Map  string `json:"map"` // source map of Code
	// Error is the first error, and Report all of them with their lines.
	Error  string `json:"error,omitempty"`
	Report string `json:"report,omitempty"`
}

// compileCell writes, as JSON, the script for the cell in source.
func compileCell(source io.Reader, to io.Writer) error {
	text, err := io.ReadAll(source)
	if err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(cell(string(text)))
}

// cell turns a cell of TypeScript, or of JavaScript with import and export, into a script: types go,
// each import becomes variables that later cells have, too, and export leaves what it declares.
func cell(source string) compiled {
	all := transform(source, `{"compilerOptions":{"verbatimModuleSyntax":true}}`)
	if len(all.Errors) > 0 {
		report := api.FormatMessages(all.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage})
		return compiled{Error: all.Errors[0].Text, Report: strings.TrimSpace(strings.Join(report, ""))}
	}
	// Without the option only those names remain that are used as values: the others may be types.
	used := map[string]bool{}
	for _, found := range statements.FindAllStringSubmatch(string(transform(source, "{}").Code), -1) {
		for _, name := range importedNames(found[clauseGroup]) {
			used[name.local] = true
		}
	}
	code := statements.ReplaceAllStringFunc(string(all.Code), func(statement string) string {
		script := scriptOf(statements.FindStringSubmatch(statement), used)
		return script + strings.Repeat("\n", strings.Count(statement, "\n")) // lines keep their numbers
	})
	return compiled{Code: code, Map: string(all.Map)}
}

func transform(source, config string) api.TransformResult {
	return api.Transform(source, api.TransformOptions{
		Loader: api.LoaderTS, Sourcefile: "cell", Platform: api.PlatformNode, Target: api.ES2022, Charset: api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone, Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
		TsconfigRaw: config,
		// Without them no token has lines: an import at the start of a line is a statement.
		Supported: map[string]bool{"template-literal": false, "import-attributes": true},
		Define:    map[string]string{"import.meta": "__meta"},
		LogLevel:  api.LogLevelSilent,
	})
}

// statements matches imports and exports as esbuild writes them.
var statements = regexp.MustCompile(`(?m)^(?:` +
	`import (?:([^;"']*(?:"[^"]*"[^;"']*)*) from )?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?: with (\{[^}]*\}))?;` +
	`|export (?:\*[^;"']*|\{[^}]*\}) from ("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')[^;]*;` +
	`|export (\{[^}]*\});` +
	`|export (default )?(async function|function|class)?)`)

// The groups of statements.
const (
	clauseGroup = 1 + iota
	importGroup
	attributesGroup
	reexportGroup
	listGroup
	defaultGroup
	declarationGroup
)

// scriptOf returns what a script has in the place of a statement.
func scriptOf(found []string, used map[string]bool) string {
	switch {
	case found[importGroup] != "":
		return importScript(found, used)
	case found[reexportGroup] != "":
		return loading(found[reexportGroup], "", nil) + ";"
	case found[listGroup] != "":
		return ";"
	case found[defaultGroup] != "" && found[declarationGroup] == "":
		return "module.exports.default = "
	}
	return found[declarationGroup]
}

// loading loads a module with the interpreter's own function, which is told the names that must be in it.
func loading(specifier, attributes string, names []string) string {
	options := ""
	if attributes != "" {
		options = ", { with: " + strings.ReplaceAll(attributes, "\n", " ") + " }"
	}
	wanted, _ := json.Marshal(names) // strings always can be
	return fmt.Sprintf("await __import(%s, %s, (at) => import(at%s))", specifier, wanted, options)
}

func importScript(found []string, used map[string]bool) string {
	names := importedNames(found[clauseGroup])
	var needed, parts []string
	whole := ""
	for _, name := range names {
		if name.exported == "*" {
			whole = name.local
			continue
		}
		parts = append(parts, literal(name.exported)+": "+name.local)
		if used[name.local] {
			needed = append(needed, name.exported)
		}
	}
	load := loading(found[importGroup], found[attributesGroup], slices.Compact(needed))
	switch {
	case whole != "" && len(parts) > 0:
		return "var " + whole + " = " + load + ", { " + strings.Join(parts, ", ") + " } = " + whole + ";"
	case whole != "":
		return "var " + whole + " = " + load + ";"
	case len(parts) > 0:
		return "var { " + strings.Join(parts, ", ") + " } = " + load + ";"
	}
	return load + ";"
}

// importedName is a name that a module exports, and the variable that it is imported as.
type importedName struct{ exported, local string }

const identifier = `[\pL\pN_$\x{200c}\x{200d}]+`

var namePattern = regexp.MustCompile(`(\*|"(?:[^"\\]|\\.)*"|` + identifier + `)(?: as (` + identifier + `))?`)

// importedNames returns the names in the clause of an import: `a`, `* as b`, `a, { c, d as e, "f" as g }`.
func importedNames(clause string) (names []importedName) {
	outer, inner, _ := strings.Cut(clause, "{")
	for _, found := range namePattern.FindAllStringSubmatch(outer, -1) {
		if found[1] == "*" {
			names = append(names, importedName{"*", found[2]})
		} else {
			names = append(names, importedName{"default", found[1]})
		}
	}
	for _, found := range namePattern.FindAllStringSubmatch(inner, -1) {
		exported, local := found[1], found[2]
		if local == "" {
			local = exported
		}
		if strings.HasPrefix(exported, `"`) {
			_ = json.Unmarshal([]byte(exported), &exported) // another spelling stays as it is
		}
		names = append(names, importedName{exported, local})
	}
	return names
}

func literal(s string) string {
	b, _ := json.Marshal(s) // a string always can be
	return string(b)
}
