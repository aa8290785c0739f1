package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// largestSettings is the size up to which .gitignore and its like are read.
const largestSettings = 256 << 10

// settings returns a small text of the project, "" if it is missing or not a regular
// file.
func (t *tree) settings(name string) string {
	f, _, err := t.openFile(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, largestSettings))
	if err != nil {
		return ""
	}
	return string(data)
}

// rulesOf calls visit for each line of the files of that name on the way from
// the root to path. rest is the path as seen from the line's directory.
func (t *tree) rulesOf(path, file string, visit func(line, rest string)) {
	for _, dir := range append([]string{"."}, parents(path)...) {
		name, rest := file, path
		if dir != "." {
			name, rest = dir+"/"+file, strings.TrimPrefix(path, dir+"/")
		}
		for line := range strings.Lines(t.settings(name)) {
			visit(strings.TrimSpace(line), rest)
		}
	}
}

// ignored reports whether Git ignores the path, according to the .gitignore files above it.
func (t *tree) ignored(path string) bool {
	ignored := false
	t.rulesOf(path, ".gitignore", func(line, rest string) {
		pattern, negated := strings.CutPrefix(line, "!")
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			return
		}
		if gitMatches(pattern, rest) {
			ignored = !negated
		}
	})
	return ignored
}

// gitMatches reports whether a pattern of a .gitignore covers a file.
func gitMatches(pattern, file string) bool {
	pattern, onlyDir := strings.CutSuffix(pattern, "/")
	anchored := strings.Contains(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "/")
	if !anchored {
		pattern = "**/" + pattern
	}
	pattern = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern)
	for _, dir := range parents(file) {
		if outputrules.MatchFrom(pattern, dir) {
			return true
		}
	}
	return !onlyDir && outputrules.MatchFrom(pattern, file)
}

// newEOL returns the line end of a new text: from .editorconfig, from .gitattributes, or
// from the files beside it; LF otherwise.
func (t *tree) newEOL(ctx context.Context, file string) string {
	if eol := t.editorEOL(file); eol != "" {
		return eol
	}
	eol := ""
	t.rulesOf(file, ".gitattributes", func(line, rest string) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(line, "#") || !gitMatches(fields[0], rest) {
			return
		}
		for _, attribute := range fields[1:] {
			switch attribute {
			case "eol=crlf":
				eol = "\r\n"
			case "eol=lf":
				eol = "\n"
			}
		}
	})
	if eol != "" {
		return eol
	}
	return t.siblingEOL(ctx, file)
}

// editorEOL reads end_of_line from the .editorconfig files; the nearest wins,
// and within one the last section.
func (t *tree) editorEOL(file string) string {
	eol, section, preamble := "", false, true
	var from string
	t.rulesOf(file, ".editorconfig", func(line, rest string) {
		if rest != from { // another file begins
			from, section, preamble = rest, false, true
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			return
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			pattern := strings.TrimPrefix(line[1:len(line)-1], "/")
			if !strings.Contains(line, "/") {
				pattern = "**/" + pattern
			}
			section, preamble = outputrules.MatchFrom(pattern, rest), false
			return
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.ToLower(strings.TrimSpace(value))
		switch {
		case preamble && key == "root" && value == "true":
			eol = ""
		case section && key == "end_of_line":
			eol = map[string]string{"crlf": "\r\n", "lf": "\n"}[value]
		}
	})
	return eol
}

// siblingEOL returns the line end of most files beside a new one with the same extension,
// LF if there are none.
func (t *tree) siblingEOL(ctx context.Context, file string) string {
	parent, base := splitPath(file)
	d, err := t.dir(parent)
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return "\n"
	}
	names, err := d.names()
	if err != nil {
		return "\n"
	}
	const asked = 8
	crlf, lf, opened := 0, 0, 0
	for _, name := range names {
		if path.Ext(name) != path.Ext(base) || opened == asked || ctx.Err() != nil {
			continue
		}
		f, _, err := d.open(name)
		if err != nil {
			continue
		}
		opened++
		head := make([]byte, 4096)
		n, _ := io.ReadFull(f, head) // a short file is as good
		f.Close()
		text := string(head[:n])
		pairs := strings.Count(text, "\r\n")
		if pairs > 0 && pairs*2 > strings.Count(text, "\n") {
			crlf++
		} else if strings.Contains(text, "\n") {
			lf++
		}
	}
	if crlf > lf {
		return "\r\n"
	}
	return "\n"
}
