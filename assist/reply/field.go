package reply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxBlockJSON bounds a block's body that is JSON.
const maxBlockJSON = 256 << 10

// maxIDs bounds how many assignments a block is about.
const maxIDs = 100

// fieldStyle is how a block writes its fields, as its first one shows.
type fieldStyle struct {
	known   bool
	indent  int
	bullets bool
}

// fieldLine is a line that begins a field, split.
type fieldLine struct {
	key   *Key // nil for an unregistered field
	name  string
	value string
}

// field reads a line as the beginning of a registered field.
func (t *compiledType) field(line string, style *fieldStyle) (fieldLine, bool) {
	f, indent, bullet, ok := splitField(line)
	if !ok {
		return f, false
	}
	f.key = t.keys[foldKey(f.name)]
	if f.key == nil {
		return f, false
	}
	if style.known && (indent > style.indent+1 || bullet && !style.bullets) {
		return f, false
	}
	if !style.known {
		*style = fieldStyle{true, indent, bullet}
	}
	return f, true
}

// splitField splits "**Key name:** value".
func splitField(line string) (f fieldLine, indent int, bullet, ok bool) {
	s := strings.TrimLeft(line, " \t")
	indent = len(line) - len(s)
	s = strings.TrimLeft(s, "> ")
	if rest, marked := cutMarker(s); marked {
		bullet, s = true, rest
	}
	plain := strings.TrimLeft(s, "*_`#> ")
	decorated := len(plain) < len(s)
	i := strings.IndexAny(plain[:min(len(plain), 64)], ":：")
	if i <= 0 {
		return f, indent, bullet, false
	}
	f.name = strings.Trim(plain[:i], "*_` ")
	for _, r := range f.name {
		if !isWordRune(r) && r != ' ' && r != '_' && r != '-' {
			return f, indent, bullet, false
		}
	}
	f.value = strings.TrimPrefix(strings.TrimPrefix(plain[i:], ":"), "：")
	if decorated {
		f.value = strings.TrimLeft(f.value, "*_`")
	}
	f.value = strings.TrimSpace(f.value)
	return f, indent, bullet, f.name != ""
}

// value is a field with the lines of its value.
type value struct {
	fieldLine
	lines []string
	span  Span
}

// readBlock reads a block's body.
func readBlock(t *compiledType, lines []blockLine) (*Block, Verdict, string, []Warning) {
	b := &Block{Type: t.Name, Syntax: "fields", Fields: []Field{}}
	lines = unfence(b, lines)
	var values []value
	var problem string
	if text := jsonBody(lines); text != nil {
		b.Syntax = "json"
		values, b.Extra, problem = jsonValues(t, text, lines[0].start)
	} else {
		values = b.split(t, lines)
	}
	var warnings []Warning
	example := ""
	for _, v := range merge(values) {
		if p := b.addField(v); p != "" && problem == "" {
			problem = p
		}
		if placeholder(v.lines) {
			example = v.name
		}
	}
	for _, f := range b.Extra {
		warnings = append(warnings, Warning{"block.extra", "the block " + t.Name + " has no field " + f.Name +
			"; it is shown, not sent", f.Span.Start})
	}
	b.markRecommended()
	b.Digest = b.digest()
	switch {
	case example != "":
		return b, VerdictExample, "its " + example + " is a placeholder", warnings
	case problem != "":
		return b, VerdictInvalid, problem, warnings
	}
	if missing := b.missing(t); missing != "" {
		return b, VerdictInvalid, "it has no " + missing, warnings
	}
	if len(b.IDs) > 1 {
		return b, VerdictAmbiguous, "it is about several assignments: " + strings.Join(b.IDs, ", "), warnings
	}
	return b, VerdictOK, "", warnings
}

// unfence removes a fence that holds the whole body.
func unfence(b *Block, lines []blockLine) []blockLine {
	first, last := 0, len(lines)-1
	for first <= last && strings.TrimSpace(lines[first].text) == "" {
		first++
	}
	for last > first && strings.TrimSpace(lines[last].text) == "" {
		last--
	}
	if last-first < 1 || slices.ContainsFunc(lines[first:last+1], func(l blockLine) bool { return !l.raw }) ||
		slices.ContainsFunc(lines[first+1:last], func(l blockLine) bool {
			return strings.HasPrefix(strings.TrimSpace(l.text), "```")
		}) {
		return lines
	}
	if strings.Contains(lines[first].text, "yaml") || strings.Contains(lines[first].text, "yml") {
		b.Syntax = "yaml"
	}
	inner := slices.Clone(lines[first+1 : last])
	for i := range inner {
		inner[i].raw = false
	}
	return inner
}

// split cuts a body into its fields.
func (b *Block) split(t *compiledType, lines []blockLine) []value {
	var values []value
	style := fieldStyle{}
	inExtra := false // the lines belong to the last field of b.Extra
	for _, line := range lines {
		if !line.raw && line.file == 0 {
			if f, ok := t.field(line.text, &style); ok {
				inExtra = false
				if f.value == "|" || f.value == "|-" || f.value == ">" || f.value == ">-" {
					f.value, b.Syntax = "", "yaml"
				}
				values = append(values, value{fieldLine: f, lines: []string{f.value}, span: Span{line.start, line.end}})
				continue
			}
			if f, ok := t.extra(line, style); ok {
				b.Extra = append(b.Extra, f)
				inExtra = len(values) == 0 || values[len(values)-1].key.Kind == FieldList || isIdentifier(f.Name)
			}
		}
		if n := len(b.Extra); inExtra {
			if last := &b.Extra[n-1]; line.start > last.Span.Start {
				last.Text, last.Span.End = last.Text+"\n"+strings.TrimRight(line.text, " \t"), line.end
			}
			continue
		}
		if n := len(values); n > 0 {
			values[n-1].lines = append(values[n-1].lines, strings.TrimRight(line.text, " \t"))
			values[n-1].span.End = line.end
		}
	}
	return values
}

// extra reads an unregistered field. What looks like a sentence with a colon stays in the
// value of a text before it as well.
func (t *compiledType) extra(line blockLine, style fieldStyle) (Field, bool) {
	f, indent, bullet, ok := splitField(line.text)
	if !ok || bullet && !style.bullets || indent > style.indent+1 || strings.Count(f.name, " ") > 2 ||
		strings.HasPrefix(f.value, "//") || t.keys[foldKey(f.name)] != nil {
		return Field{}, false
	}
	return Field{Key: foldKey(f.name), Name: f.name, Text: f.value, Span: Span{line.start, line.end}}, true
}

// isIdentifier reports whether a name is written as a key is, not as the beginning of a
// sentence: "reviewed_by".
func isIdentifier(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// addField adds the value of one field. It returns the fault of the value, or "".
func (b *Block) addField(v value) string {
	f := Field{Key: v.key.Name, Name: v.name, Span: v.span}
	problem := ""
	switch v.key.Kind {
	case FieldID:
		f.Text = strings.TrimSpace(v.lines[0])
		if f.Text == "" && len(v.lines) > 1 && strings.TrimSpace(v.lines[1]) != "" {
			f.Text, _ = cutMarker(strings.TrimSpace(v.lines[1]))
			for _, more := range v.lines[2:] {
				if id, ok := cutMarker(strings.TrimSpace(more)); ok {
					f.Text += ", " + id
				}
			}
		}
		f.List, problem = readIDs(f.Text, v.key.Name)
		for _, id := range f.List {
			if len(b.IDs) == maxIDs {
				problem = "it names too many assignments"
				break
			}
			if !slices.Contains(b.IDs, id) {
				b.IDs = append(b.IDs, id)
			}
		}
	case FieldPercent:
		f.Text = strings.TrimSpace(v.lines[0])
		for _, line := range v.lines[1:] {
			if f.Text == "" {
				f.Text = strings.TrimSpace(line)
			}
		}
		percent, err := readPercent(f.Text)
		switch {
		case err != nil:
			problem = err.Error()
		case b.Percent != nil && b.Percent.Value != percent.Value:
			problem = fmt.Sprintf("it gives two percentages, %d and %d", b.Percent.Value, percent.Value)
		default:
			b.Percent = percent
		}
	case FieldOptions:
		f.Text, f.List = joinLines(v.lines), readOptions(v.lines)
		for _, text := range f.List {
			b.Options = append(b.Options, readOption(text))
		}
	default:
		f.Text = joinLines(v.lines)
		f.List = readList(v.lines)
	}
	if old := b.Field(f.Key); old != nil {
		old.List = append(old.List, f.List...)
		old.Span.End = f.Span.End
		return problem
	}
	b.Fields = append(b.Fields, f)
	return problem
}

// merge joins the values of a key that is given more than once, where the kind
// of field allows it.
func merge(values []value) []value {
	first := make(map[string]int, len(values))
	kept := values[:0]
	for _, v := range values {
		i, again := first[v.key.Name]
		if !again || v.key.Kind == FieldID || v.key.Kind == FieldPercent {
			first[v.key.Name] = len(kept)
			kept = append(kept, v)
			continue
		}
		kept[i].lines = append(kept[i].lines, v.lines...)
		kept[i].span.End = v.span.End
	}
	return kept
}

// missing returns the name of the first required field that is missing, or "".
func (b *Block) missing(t *compiledType) string {
	for _, k := range t.Keys {
		if !k.Required {
			continue
		}
		if f := b.Field(k.Name); f == nil || f.Text == "" && len(f.List) == 0 {
			return k.Name
		}
	}
	return ""
}

// digest returns a hash that is the same for blocks with the same fields.
func (b *Block) digest() string {
	parts := []string{b.Type}
	for _, f := range b.Fields {
		parts = append(parts, f.Key+"="+strings.Join(strings.Fields(f.Text), " "))
	}
	slices.Sort(parts[1:])
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:12])
}

// markRecommended finds the option that the recommendation names.
func (b *Block) markRecommended() {
	text := strings.ToLower(b.Text(KeyRecommendation))
	if text == "" {
		return
	}
	best := -1
	for i, o := range b.Options {
		name := strings.ToLower(o.Text)
		if strings.HasPrefix(text, name) && (best < 0 || len(name) > len(b.Options[best].Text)) {
			best = i
		}
	}
	if best >= 0 {
		b.Options[best].Recommended = true
	}
}

// jsonBody returns a body that is a JSON object, or nil.
func jsonBody(lines []blockLine) []byte {
	var text bytes.Buffer
	for _, line := range lines {
		if text.Len() == 0 && strings.TrimSpace(line.text) == "" {
			continue
		}
		if text.Len() == 0 && !strings.HasPrefix(strings.TrimSpace(line.text), "{") {
			return nil
		}
		text.WriteString(line.text)
		text.WriteByte('\n')
	}
	return text.Bytes()
}

// jsonValues reads a JSON object as fields.
func jsonValues(t *compiledType, text []byte, offset int) (values []value, extra []Field, problem string) {
	if len(text) > maxBlockJSON {
		return nil, nil, fmt.Sprintf("its JSON has %d bytes, more than %d", len(text), maxBlockJSON)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, nil, "its JSON cannot be read: " + err.Error()
	}
	if decoder.More() {
		return nil, nil, "something follows its JSON"
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	span := Span{offset, offset + len(text)}
	for _, name := range names {
		lines := jsonLines(object[name])
		key := t.keys[foldKey(name)]
		if key == nil {
			extra = append(extra, Field{Key: foldKey(name), Name: name, Text: strings.Join(lines, "\n"), Span: span})
			continue
		}
		values = append(values, value{fieldLine: fieldLine{key: key, name: name}, lines: lines, span: span})
	}
	return values, extra, ""
}

// jsonLines returns a JSON value as the lines of a field.
func jsonLines(v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{""}
	case string:
		return strings.Split(v, "\n")
	case json.Number:
		return []string{v.String()}
	case []any:
		lines := []string{""}
		for _, element := range v {
			if text, ok := element.(string); ok {
				lines = append(lines, "- "+strings.ReplaceAll(text, "\n", " "))
				continue
			}
			encoded, _ := json.Marshal(element)
			lines = append(lines, "- "+string(encoded))
		}
		return lines
	}
	encoded, _ := json.Marshal(v)
	return []string{string(encoded)}
}
