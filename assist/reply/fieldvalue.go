package reply

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var idPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
})

// percentPattern matches a number, and what may follow it: a percent sign, "of 4", "/4", "-80".
var percentPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^(-?\d+(?:\.\d+)?)\s*([%％]?)(?:\s*(/|of|out of|-|–|—|to)\s*(\d+(?:\.\d+)?)\s*([%％]?))?\s*(.*)$`)
})

// readIDs reads one id or several.
func readIDs(text, key string) (ids []string, problem string) {
	text = strings.Trim(text, " *_`\"'[]")
	if text == "" {
		return nil, ""
	}
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(strings.ReplaceAll(text, " and ", ","), " & ", ","),
		func(r rune) bool { return r == ',' || r == ';' }) {
		id := strings.Trim(part, " \t*_`\"'#")
		if word, rest, ok := strings.Cut(id, " "); ok && strings.IndexByte("(-–—:", strings.TrimSpace(rest)[0]) >= 0 {
			id = word // A1 (login), A1 - login
		}
		id = strings.TrimRight(id, ":")
		if !idPattern().MatchString(id) || strings.Contains(id, "..") {
			return nil, fmt.Sprintf("its %s %q is no id: letters, digits, dots, dashes and underscores, 64 at most", key, id)
		}
		ids = append(ids, id)
	}
	return ids, ""
}

// readPercent reads a percentage as people write it.
func readPercent(text string) (*Percent, error) {
	raw := text
	s := strings.ToLower(strings.Trim(strings.TrimSpace(text), "*_`\"'"))
	note := ""
	for _, about := range [...]string{"~", "≈", "about ", "approximately ", "approx. ", "approx ", "around ", "ca. ",
		"roughly "} {
		if rest, ok := strings.CutPrefix(s, about); ok {
			s, note = strings.TrimSpace(rest), "approximate"
			break
		}
	}
	m := percentPattern().FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("its percent %q is no number", raw)
	}
	first, _ := strconv.ParseFloat(m[1], 64)
	second, _ := strconv.ParseFloat(m[4], 64)
	if tail := m[6]; tail != "" && (isDigit(tail[0]) || isLetter(tail[0]) &&
		strings.HasSuffix(strings.TrimSuffix(s, tail), m[1])) || strings.HasPrefix(m[6], ".") && len(m[6]) > 1 ||
		strings.HasPrefix(m[6], ",") && len(m[6]) > 1 && isDigit(m[6][1]) ||
		strings.HasPrefix(strings.TrimSpace(m[6]), "→") || strings.HasPrefix(strings.TrimSpace(m[6]), "->") {
		return nil, fmt.Errorf("its percent %q can be read in more than one way", raw)
	}
	value := first
	switch m[3] {
	case "/", "of", "out of":
		if second == 0 {
			return nil, fmt.Errorf("its percent %q divides by zero", raw)
		}
		value, note = 100*first/second, "a fraction"
		if m[2] != "" { // 75% of 100
			value, note = first, ""
		}
	case "-", "–", "—", "to":
		note = "the lower end of a range"
		if second < first {
			return nil, fmt.Errorf("its percent %q can be read in more than one way", raw)
		}
	default:
		if m[2] == "" && strings.Contains(m[1], ".") && first <= 1 {
			value, note = 100*first, "a fraction"
		}
	}
	if value < 0 || value > 100 || first < 0 || math.IsNaN(value) {
		return nil, fmt.Errorf("its percent %q is not between 0 and 100", raw)
	}
	rounded := int(math.Round(value))
	if note == "" && float64(rounded) != value {
		note = "rounded"
	}
	return &Percent{Value: rounded, Raw: raw, Note: note}, nil
}

// joinLines returns a value's lines as one text.
func joinLines(lines []string) string {
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// readList returns the items in a value's lines.
func readList(lines []string) []string {
	bullets := slices.ContainsFunc(lines, func(line string) bool {
		_, ok := cutMarker(strings.TrimSpace(line))
		return ok
	})
	var items []string
	for _, line := range lines {
		s := strings.TrimSpace(line)
		if s == "" {
			continue
		}
		item, bullet := cutMarker(s)
		switch {
		case bullet:
			items = append(items, splitInline(cutCheckbox(item))...)
		case bullets && len(items) > 0 && line != s:
			items[len(items)-1] += " " + s // the bullet continues
		default:
			items = append(items, splitInline(cutCheckbox(s))...)
		}
	}
	if len(items) == 1 {
		switch strings.ToLower(strings.Trim(items[0], ".[]() ")) {
		case "none", "n/a", "na", "nothing", "-", "–", "":
			return nil
		}
	}
	return items
}

func cutCheckbox(s string) string {
	for _, box := range [...]string{"[ ] ", "[x] ", "[X] ", "☐ ", "☑ ", "✅ ", "✓ "} {
		if rest, ok := strings.CutPrefix(s, box); ok {
			return strings.TrimSpace(rest)
		}
	}
	return s
}

// splitInline splits a line at commas: a JSON array, quoted parts, or parts that
// each look like a path or a URL. A sentence with a comma stays whole.
func splitInline(s string) []string {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		var array []string
		if json.Unmarshal([]byte(s), &array) == nil {
			return array
		}
		if inner := s[1 : len(s)-1]; strings.ContainsAny(inner, ",") || pathShape(unwrap(inner)) == shapeStrong {
			s = inner
		}
	}
	if parts, ok := quotedParts(s); ok {
		return parts
	}
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' })
	for i := range parts {
		parts[i] = unwrap(parts[i])
		if pathShape(parts[i]) < shapeWeak && !isURL(parts[i]) {
			return []string{unwrapPath(s)}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return parts
}

func isURL(s string) bool {
	return (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && !strings.ContainsAny(s, " \t")
}

// unwrapPath removes the quotes of a single path. It returns other texts unchanged.
func unwrapPath(s string) string {
	if inner := unwrap(s); inner != s && pathShape(inner) == shapeStrong {
		return inner
	}
	return s
}

// quotedParts splits a list of quoted parts: "a, b", "c".
func quotedParts(s string) ([]string, bool) {
	var parts []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, ", ") {
		if s[0] != '"' {
			return nil, false
		}
		end := strings.IndexByte(s[1:], '"')
		if end < 0 {
			return nil, false
		}
		parts = append(parts, s[1:1+end])
		s = strings.TrimSpace(s[end+2:])
		if s != "" && s[0] != ',' {
			return nil, false
		}
	}
	return parts, len(parts) > 0
}

// readOptions splits choices: bullets or lines, else |, else ;, else "vs".
func readOptions(lines []string) []string {
	var rows []string
	for _, line := range lines {
		s := strings.TrimSpace(line)
		if s == "" {
			continue
		}
		s, _ = cutMarker(s)
		rows = append(rows, s)
	}
	if len(rows) != 1 {
		return rows
	}
	s := rows[0]
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") && strings.ContainsAny(s, "|;,") {
		var array []string
		if json.Unmarshal([]byte(s), &array) == nil {
			return array
		}
		s = s[1 : len(s)-1]
	}
	for _, divider := range [...]string{"|", ";", " vs. ", " vs ", " VS ", " versus "} {
		if !strings.Contains(s, divider) {
			continue
		}
		var parts []string
		for part := range strings.SplitSeq(s, divider) {
			if part = strings.TrimSpace(part); part != "" && part != "..." && part != "…" {
				parts = append(parts, part)
			}
		}
		return parts
	}
	return []string{s}
}

// readOption reads one choice: "A) JWT (recommended)".
func readOption(s string) Option {
	o := Option{Text: strings.TrimSpace(strings.Trim(s, "*_"))}
	if len(o.Text) > 3 && (isLetter(o.Text[0]) || isDigit(o.Text[0])) && (o.Text[1] == ')' || o.Text[1] == '.') &&
		o.Text[2] == ' ' {
		o.Text = strings.TrimSpace(o.Text[3:])
	}
	for _, mark := range [...]string{"(recommended)", "[recommended]", "(Recommended)", "⭐"} {
		if strings.Contains(o.Text, mark) {
			o.Recommended = true
			o.Text = strings.TrimSpace(strings.ReplaceAll(o.Text, mark, ""))
		}
	}
	return o
}

// placeholder reports whether a value was copied from the instruction:
// [assignment ID], <what you did>, "...".
func placeholder(lines []string) bool {
	var only string
	for _, line := range lines {
		s := strings.TrimSpace(line)
		if s == "" {
			continue
		}
		if only != "" {
			return false
		}
		only, _ = cutMarker(s)
	}
	s := strings.Trim(only, "*_`\"'")
	switch {
	case s == "":
		return false
	case s == "…" || strings.Trim(s, ".") == "":
		return true
	case strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">"):
		return !strings.Contains(s, "://") && strings.Count(s, "<") == 1
	case strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}"):
		return true
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") && strings.Count(s, "[") == 1:
		inner := strings.TrimSpace(s[1 : len(s)-1])
		switch strings.ToLower(inner) {
		case "", "x", "none", "n/a":
			return false
		}
		if strings.HasPrefix(inner, `"`) || strings.HasPrefix(inner, "'") {
			return false
		}
		if parts := splitInline(s); len(parts) > 0 && !slices.ContainsFunc(
			parts, func(p string) bool { return pathShape(p) < shapeStrong && !isURL(p) }) {
			return false
		}
		return !strings.Contains(inner, "|") || strings.Contains(inner, "...")
	}
	return false
}
