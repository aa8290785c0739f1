package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tableHeader matches the header of a table of TOML.
var tableHeader = regexp.MustCompile(`^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$`)

// setTable sets a table of a TOML document, at its end. Everything else keeps its bytes, comments
// included: the document is changed by lines, and the result is only accepted if it reads as the
// document with this table and no other difference.
func setTable(document []byte, path []string, entry map[string]any) ([]byte, error) {
	before, err := readTOML(document)
	if err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	var table bytes.Buffer
	fmt.Fprintf(&table, "[%s]\n", strings.Join(path, "."))
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		value, err := json.Marshal(entry[key]) // strings and lists of them are the same in TOML
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&table, "%s = %s\n", key, value)
	}
	wanted, err := readTOML(table.Bytes())
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(member(before, path), member(wanted, path)) {
		return document, nil
	}
	after := withoutTable(document, strings.Join(path, "."))
	if len(after) > 0 {
		after = append(bytes.TrimRight(after, "\n"), "\n\n"...)
	}
	after = append(after, table.Bytes()...)
	got, err := readTOML(after)
	if err != nil {
		return nil, fmt.Errorf("the entry cannot be added by lines: %w", err)
	}
	if !reflect.DeepEqual(member(got, path), member(wanted, path)) || !reflect.DeepEqual(without(before, path),
		without(got, path)) {
		return nil, errors.New("the entry cannot be added by lines")
	}
	return after, nil
}

func readTOML(document []byte) (map[string]any, error) {
	values := map[string]any{}
	return values, toml.Unmarshal(document, &values)
}

// member returns the value at a path, nil for none.
func member(of any, path []string) any {
	for _, key := range path {
		table, _ := of.(map[string]any)
		of = table[key]
	}
	return of
}

// without returns a document without the value at a path, nor the tables that are empty then.
func without(of map[string]any, path []string) map[string]any {
	of = maps.Clone(of)
	inner, _ := of[path[0]].(map[string]any)
	if len(path) > 1 && inner != nil {
		inner = without(inner, path[1:])
		of[path[0]] = inner
	}
	if len(path) == 1 || len(inner) == 0 {
		delete(of, path[0])
	}
	return of
}

// withoutTable leaves out the lines of a table and of those below it. Comments before the next table
// are that table's.
func withoutTable(document []byte, name string) []byte {
	var kept, comments []byte
	inside := false
	for line := range bytes.Lines(document) {
		if header := tableHeader.FindSubmatch(bytes.TrimRight(line, "\r\n")); header != nil {
			at := strings.NewReplacer(`"`, "", "'", "", " ", "").Replace(string(header[1]))
			inside = at == name || strings.HasPrefix(at, name+".")
			if !inside {
				kept = append(kept, comments...)
			}
			comments = nil
		}
		text := bytes.TrimSpace(line)
		switch {
		case !inside:
			kept = append(kept, line...)
		case len(text) == 0 || text[0] == '#':
			comments = append(comments, line...)
		default:
			comments = nil
		}
	}
	return append(kept, comments...)
}
