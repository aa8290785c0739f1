package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/airlock-run/airlock/internal/command"
)

// gooseTimeout is the time that goose gives a call, in seconds: as long as the longest wait of a tool.
const gooseTimeout = 300

// setExtension sets an extension in goose's YAML. Everything else keeps its bytes, comments included: the
// document is changed by lines, and the result is only accepted if it reads as the document with this
// extension and no other difference.
func setExtension(document []byte, path []string, entry map[string]any) ([]byte, error) {
	before, err := readYAML(document)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	wanted := map[string]any{"name": path[1], "type": "stdio", "enabled": true, "timeout": gooseTimeout,
		"cmd": entry["command"], "args": entry["args"]}
	text, err := yaml.MarshalWithOptions(yaml.MapSlice{{Key: "name", Value: path[1]}, {Key: "type", Value: "stdio"},
		{Key: "cmd", Value: entry["command"]}, {Key: "args", Value: entry["args"]}, {Key: "enabled", Value: true},
		{Key: "timeout", Value: gooseTimeout}}, yaml.IndentSequence(true))
	if err != nil {
		return nil, err
	}
	if sameYAML(member(before, path), wanted) {
		return document, nil
	}
	after := withExtension(document, path, string(text))
	got, err := readYAML(after)
	if err != nil {
		return nil, fmt.Errorf("the entry cannot be added by lines: %w", err)
	}
	if !sameYAML(member(got, path), wanted) || !reflect.DeepEqual(without(before, path), without(got, path)) {
		return nil, errors.New("the entry cannot be added by lines")
	}
	return after, nil
}

func readYAML(document []byte) (map[string]any, error) {
	var values map[string]any
	err := yaml.Unmarshal(document, &values)
	if values == nil { // an empty document
		values = map[string]any{}
	}
	return values, err
}

// sameYAML compares values as they are in a document: numbers and lists have many types in Go.
func sameYAML(a, b any) bool {
	left, err := yaml.Marshal(a)
	right, otherErr := yaml.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(left, right)
}

// withExtension puts an extension first among the extensions, without the lines that it has had.
func withExtension(document []byte, path []string, text string) []byte {
	lines := strings.SplitAfter(string(document), "\n")
	header := regexp.MustCompile(`^` + path[0] + `:[ \t]*(?:\{\s*\}|null|~)?[ \t]*(#.*)?$`)
	at := slices.IndexFunc(lines, func(line string) bool { return header.MatchString(strings.TrimRight(line, "\r\n")) })
	if at < 0 {
		if document = bytes.TrimRight(document, "\n"); len(document) > 0 {
			document = append(document, '\n')
		}
		return append(document, path[0]+":\n"+indented("  ", path[1], text)...)
	}
	indent := "  "
	block, after := lines[at+1:], []string(nil)
	if end := nextWithin(block, 0); end < len(block) {
		block, after = block[:end], block[end:]
	}
	if first := nextWithin(block, math.MaxInt); first < len(block) {
		indent = strings.Repeat(" ", indentOf(block[first]))
	}
	own := func(line string) bool { return strings.TrimRight(line, " \r\n") == indent+path[1]+":" }
	if start := slices.IndexFunc(block, own); start >= 0 {
		next := start + 1 + nextWithin(block[start+1:], len(indent))
		for next > start+1 && indentOf(block[next-1]) < 0 { // comments belong to what follows
			next--
		}
		block = slices.Concat(block[:start], block[next:])
	}
	title := path[0] + ":"
	if comment := header.FindStringSubmatch(strings.TrimRight(lines[at], "\r\n"))[1]; comment != "" {
		title += " " + comment
	}
	return []byte(strings.Join(lines[:at], "") + title + "\n" + indented(indent, path[1], text) +
		strings.Join(block, "") + strings.Join(after, ""))
}

// nextWithin returns the index of the first line with contents that is indented by at most so much.
func nextWithin(lines []string, indent int) int {
	for i, line := range lines {
		if n := indentOf(line); n >= 0 && n <= indent {
			return i
		}
	}
	return len(lines)
}

// indentOf returns the number of spaces before a line's contents, or -1 for a line without contents.
func indentOf(line string) int {
	bare := strings.TrimLeft(line, " ")
	if text := strings.TrimSpace(bare); text == "" || text[0] == '#' {
		return -1
	}
	return len(line) - len(bare)
}

// indented returns an entry of YAML below a name.
func indented(indent, name, text string) string {
	var b strings.Builder
	b.WriteString(indent + name + ":\n")
	for line := range strings.Lines(text) {
		b.WriteString(indent + "  " + line)
	}
	return b.String()
}

// setCrush sets a server in Crush's settings, which are a program in Bash: the command that adds it takes the
// place of an older one, else it comes last. Everything else keeps its bytes.
func setCrush(document []byte, path []string, entry map[string]any) ([]byte, error) {
	name := path[len(path)-1]
	words := []string{"mcp", "add", name, "--type", "stdio", "--command", fmt.Sprint(entry["command"])}
	args, ok := entry["args"].([]string)
	if !ok {
		return nil, errors.New("the arguments are not a list")
	}
	for _, arg := range args {
		words = append(words, "--args", arg)
	}
	for i, word := range words {
		words[i] = command.QuoteForShell(word)
	}
	text := strings.Join(words, " ")
	var after strings.Builder
	done, goesOn := false, false
	for line := range strings.SplitAfterSeq(string(document), "\n") {
		bare := strings.TrimLeft(line, " \t")
		switch {
		case goesOn: // a line of the older command
		case !strings.HasPrefix(bare, "mcp add "+name+" "):
			after.WriteString(line)
			continue
		case !done:
			after.WriteString(line[:len(line)-len(bare)] + text + "\n")
			done = true
		default:
			after.WriteString(line[:len(line)-len(bare)] + ": # it is added above\n")
		}
		goesOn = strings.HasSuffix(strings.TrimRight(bare, "\r\n"), `\`)
	}
	if done {
		return []byte(after.String()), nil
	}
	if document = bytes.TrimRight(document, "\n"); len(document) > 0 {
		document = append(document, '\n')
	}
	return append(document, text+"\n"...), nil
}
