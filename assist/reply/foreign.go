package reply

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

// Other tools have models write files in forms of their own. Those that are not read are
// items that cannot be applied, so that no change is lost without a word.

// foreignTag matches the beginning of a tag by which other tools write, edit, move or delete
// files.
var foreignTag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^<((?:dyad|lov)-(?:write|search-replace|line-replace|delete|rename)|antArtifact|` +
		`(?:write|edit|modify|replace|update|delete|rename|move)_file|str_replace(?:_editor)?|search_replace|` +
		`invoke name="(?:[a-z_]*(?:str_replace|text_editor|write|create|edit|delete|rename)[a-z_]*|Write|Edit|MultiEdit)")` +
		`(?:[ >]|$)`)
})

// foreignPath matches the path of such a tag: an attribute, or an element below it.
var foreignPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:(?:file_?path|path|from|filename|target_file)="([^"\n]{1,500})"|` +
		`<(?:parameter name="(?:file_?path|path|target_file)"|path|file_path|target_file)>\s*([^<\n]{1,500}?)\s*</)`)
})

// openForeign begins a tag of another tool that is not read.
func (p *Parser) openForeign(start, end int, line []byte) bool {
	m := foreignTag().FindSubmatch(line)
	if m == nil {
		return false
	}
	name, _, _ := strings.Cut(string(m[1]), " ")
	p.mode, p.tag = inTag, tag{name: name, start: start, body: start, foreign: string(m[1])}
	if closing := []byte("</" + name + ">"); bytes.Contains(line, closing) || bytes.HasSuffix(line, []byte("/>")) {
		p.endTag(end, p.after(end), false)
	}
	return true
}

// readForeign returns the item of such a tag.
func (p *Parser) readForeign(t *tag, span Span) *Item {
	path := ""
	if m := foreignPath().FindSubmatch(p.buf[span.Start:span.End]); m != nil {
		path = string(m[1]) + string(m[2])
	}
	return p.foreignItem("<"+t.foreign+">", path, span)
}

// foreignItem returns an item that says which form is not read.
func (p *Parser) foreignItem(form, path string, span Span) *Item {
	reason := form + " is a form of another tool, which is not read; ask for a fence with the path, or for a patch"
	if path == "" {
		return &Item{Kind: KindFile, Form: FormTag, RawPath: form, Span: span, Body: span, Verdict: VerdictInvalid,
			Reason: reason}
	}
	it := p.newItem(KindFile, FormTag, tagPath(path), span, span)
	it.downgrade(VerdictInvalid, reason)
	return it
}

// toolCall is a call of a tool in JSON, as some models write it into their answer.
type toolCall struct {
	Command   []string        `json:"command"`
	Name      string          `json:"name"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
}

// writingTool matches names of tools that change files.
var writingTool = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(write|create|edit|replace|patch|delete|rename)_?(to_)?(file|editor|patch)|` +
		`str_replace|apply_patch|^(write|edit)$`)
})

// jsonCall reads a line that is the call of a tool: a patch in it is read, any other change of
// files is named.
func (p *Parser) jsonCall(start, end int, line []byte) bool {
	if len(line) < 12 || line[1] != '"' || line[len(line)-1] != '}' {
		return false
	}
	var call toolCall
	if err := json.Unmarshal(line, &call); err != nil {
		return false
	}
	span := Span{start, p.after(end)}
	if c := call.Command; len(c) == 2 && c[0] == "apply_patch" {
		var lines []bodyLine
		for text := range strings.SplitSeq(c[1], "\n") {
			lines = append(lines, bodyLine{text, start, end})
		}
		items, ok := p.readEnvelope(lines, span, span)
		for _, it := range items {
			p.add(it)
		}
		p.forget()
		return ok
	}
	name := call.Name + call.Tool
	if !writingTool().MatchString(name) || call.Arguments == nil && call.Input == nil {
		return false
	}
	var arguments struct {
		Path     string `json:"path"`
		FilePath string `json:"file_path"`
	}
	_ = json.Unmarshal(call.Arguments, &arguments) // they may be anything
	_ = json.Unmarshal(call.Input, &arguments)
	p.add(p.foreignItem("the JSON call "+name, arguments.Path+arguments.FilePath, span))
	p.forget()
	return true
}
