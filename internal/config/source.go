package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// setting is the value that one source gives an option.
type setting struct {
	values []string
	origin string
}

// settings are the values of one source, by key of the option.
type settings map[string]setting

// fileSuffix follows the name of a secret in the setting that names a file with it.
const fileSuffix = "_file"

func fromEnvironment(lookup func(string) (string, bool)) (settings, error) {
	found := settings{}
	for _, o := range Options() {
		if v, ok := lookup(o.Env()); ok && v != "" {
			values := []string{v}
			if o.Many {
				values = splitList(v)
			}
			found[o.Key] = setting{values, o.Env()}
		}
		for _, name := range o.Foreign {
			if v, ok := lookup(name); ok && v != "" && !found.has(o.Key) {
				found[o.Key] = setting{[]string{v + o.Unit}, name}
			}
		}
		if !o.Secret {
			continue
		}
		// Besides its own variable, OPENAI_API_KEY_FILE, as containers have it.
		own := envName(o.Key + fileSuffix)
		for _, name := range append([]string{own}, o.Foreign...) {
			if name != own {
				name += strings.ToUpper(fileSuffix)
			}
			if file, ok := lookup(name); ok && file != "" && (name == own || !found.has(o.Key)) {
				if err := found.addSecret(&o, file, name); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

func (s settings) has(key string) bool {
	_, ok := s[key]
	return ok
}

// OnyxProgram is a name for this binary. Under it the binary behaves as the service in
// the image of Onyx's code interpreter.
const OnyxProgram = "code-interpreter-api"

// fromName returns the settings that follow from the name of this binary.
func fromName(in Input) settings {
	if in.Program != OnyxProgram {
		return nil
	}
	or := func(name, otherwise string) string {
		if v, ok := in.Lookup(name); ok && v != "" {
			return v
		}
		return otherwise
	}
	return settings{
		"root_dialect": {[]string{DialectOnyx}, OnyxProgram},
		"listen":       {[]string{net.JoinHostPort(or("HOST", "0.0.0.0"), or("PORT", "8000"))}, "HOST and PORT"},
		"log_level":    {[]string{strings.ToLower(or("LOG_LEVEL", "info"))}, "LOG_LEVEL"},
		"log_format":   {[]string{strings.ToLower(or("LOG_FORMAT", LogText))}, "LOG_FORMAT"},
	}
}

func splitList(s string) []string {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func fromFlags(flags map[string][]string) (settings, error) {
	found := settings{}
	for _, o := range Options() {
		if values, ok := flags[o.Key]; ok {
			found[o.Key] = setting{values, "--" + o.Flag()}
		}
		if given := flags[o.Key+fileSuffix]; o.Secret && len(given) > 0 {
			if err := found.addSecret(&o, given[0], "--"+flagName(o.Key+fileSuffix)); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// addSecret reads a secret from the file that a setting names.
func (s settings) addSecret(o *Option, name, origin string) error {
	if other, twice := s[o.Key]; twice {
		return &Error{Setting: o.Key, Origin: origin, Err: fmt.Errorf("%s is set as well", other.origin),
			Hint: "keep one of the two"}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return &Error{Setting: o.Key, Origin: origin, Err: err}
	}
	s[o.Key] = setting{[]string{strings.TrimSpace(string(text))}, origin}
	return nil
}

// readFile reads a settings file. A missing file has no settings, unless must is set.
func readFile(name string, must bool) (settings, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return settings{}, nil
	}
	if err != nil {
		return nil, &Error{Setting: name, Err: err}
	}
	return parseFile(name, text)
}

// parseFile reads YAML of one level: scalars, and lists of scalars.
func parseFile(name string, text []byte) (settings, error) {
	found := settings{}
	if len(bytes.TrimSpace(text)) == 0 {
		return found, nil
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, &Error{Setting: name, Err: errors.New(yaml.FormatError(err, false, true))}
	}
	for _, doc := range tree.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
		case *ast.MappingNode:
			for _, pair := range body.Values {
				if err := found.addPair(name, pair); err != nil {
					return nil, err
				}
			}
		default:
			return nil, &Error{Setting: name, Err: errors.New("is not a list of lines such as \"listen: 127.0.0.1:8000\"")}
		}
	}
	return found, nil
}

func (s settings) addPair(name string, pair *ast.MappingValueNode) error {
	key := pair.Key.GetToken().Value
	at := fmt.Sprintf("%s:%d", name, pair.Key.GetToken().Position.Line)
	if _, twice := s[key]; twice {
		return &Error{Setting: key, Origin: at, Err: fmt.Errorf("%q is set twice", key)}
	}
	table := Options()
	option := find(table, key)
	isFile := option == nil
	if isFile {
		base, named := strings.CutSuffix(key, fileSuffix)
		if option = find(table, base); option == nil || !named || !option.Secret {
			return unknownSetting(table, key, at)
		}
	}
	values, err := scalars(pair.Value)
	if err != nil {
		return &Error{Setting: key, Origin: at, Err: err, Hint: option.Help}
	}
	if isFile {
		if len(values) != 1 {
			return &Error{Setting: key, Origin: at, Err: errors.New("takes the name of one file")}
		}
		return s.addSecret(option, values[0], at)
	}
	if len(values) > 0 || option.Many { // a single value that is empty is not set, as in the environment
		s[key] = setting{values, at}
	}
	return nil
}

func unknownSetting(table []Option, key, at string) error {
	hint := "`airlock config` lists all settings"
	var keys []string
	for _, o := range table {
		keys = append(keys, o.Key)
	}
	if near := Nearest(key, keys); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return &Error{Setting: key, Origin: at, Err: fmt.Errorf("unknown setting %q", key), Hint: hint}
}

// scalars returns the text of a scalar, or of each item of a list, as it was
// written.
func scalars(node ast.Node) ([]string, error) {
	switch n := node.(type) {
	case *ast.NullNode:
		return nil, nil
	case *ast.SequenceNode:
		var values []string
		for _, item := range n.Values {
			if _, ok := item.(ast.ScalarNode); !ok {
				return nil, errors.New("takes a list of plain values")
			}
			values = append(values, item.GetToken().Value)
		}
		return values, nil
	case *ast.LiteralNode:
		return []string{n.Value.Value}, nil
	case ast.ScalarNode:
		return []string{n.GetToken().Value}, nil
	}
	return nil, errors.New("takes a plain value")
}

// Nearest returns the word that a mistyped one most likely meant, or "" if none is close.
func Nearest(typed string, words []string) string {
	best, least := "", len(typed)/3+2
	for _, word := range words {
		if d := distance(typed, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
