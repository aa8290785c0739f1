package workspace

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// Limits of a path, in bytes and components.
const (
	maxName  = 255
	maxPath  = 4096
	maxDepth = 32
)

// CleanPath applies the rules about the text of a path, and returns it with forward
// slashes. A finding with Refuse means that the path must not be used; notes say
// what was read differently from its spelling. Workspace.Plan applies the rules
// about the folder.
func CleanPath(spelled string) (path string, findings []Finding) {
	c := pathCheck{}
	path = spelled
	for _, step := range [...]func(string) string{c.unwrap, c.text, c.slashes, c.shape, c.components} {
		if path = step(path); c.refused() {
			return "", c.findings
		}
	}
	return path, c.findings
}

type pathCheck struct {
	findings []Finding
}

func (c *pathCheck) refused() bool { return worst(c.findings) == Refuse }

func (c *pathCheck) refuse(rule, hint, message string, args ...any) {
	c.findings = append(c.findings, finding(Refuse, rule, hint, message, args...))
}

func (c *pathCheck) note(rule, message string, args ...any) {
	c.findings = append(c.findings, finding(Note, rule, "", message, args...))
}

// unwrap removes one pair of the marks that people put around a path.
func (c *pathCheck) unwrap(s string) string {
	for _, pair := range []string{`""`, "''", "``", "<>"} {
		if len(s) > 2 && s[0] == pair[0] && s[len(s)-1] == pair[1] {
			c.note("path.unwrapped", "the marks around the path were taken off")
			return s[1 : len(s)-1]
		}
	}
	if label, target, ok := strings.Cut(s, "]("); ok && strings.HasPrefix(label, "[") && strings.HasSuffix(target, ")") {
		c.note("path.unwrapped", "the path was taken from a link")
		return strings.TrimSuffix(target, ")")
	}
	return s
}

// text applies the rules about bytes and characters.
func (c *pathCheck) text(s string) string {
	switch {
	case s == "":
		c.refuse("path.empty", "", "the path is empty")
	case len(s) > maxPath:
		c.refuse("path.long", "", "the path has %d bytes, more than %d", len(s), maxPath)
	case !utf8.ValidString(s):
		c.refuse("path.utf8", "", "the path is not valid UTF-8")
	}
	if c.refused() {
		return s
	}
	for _, r := range s {
		switch {
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			c.refuse("path.control", "", "the path has the control character U+%04X", r)
			return s
		case outputrules.Invisible(r):
			c.refuse("path.invisible", "", "the path has the invisible character U+%04X, which makes it look like another one",
				r)
			return s
		case r == 0x2028 || r == 0x2029:
			c.refuse("path.control", "", "the path has the line separator U+%04X", r)
			return s
		}
	}
	return s
}

// slashes reads a backslash as a slash, on every system.
func (c *pathCheck) slashes(s string) string {
	switch {
	case strings.HasPrefix(s, `\\?\`), strings.HasPrefix(s, `\\.\`), strings.HasPrefix(s, `//?/`),
		strings.HasPrefix(s, `//./`):
		c.refuse("path.device-namespace", "", "%q is in Windows' device namespace", s)
		return s
	case strings.HasPrefix(s, `\\`), strings.HasPrefix(s, "//"):
		c.refuse("path.unc", "", "%q is on another computer", s)
		return s
	}
	if strings.Contains(s, `\`) {
		c.note("path.backslash", "backslashes were read as slashes")
		s = strings.ReplaceAll(s, `\`, "/")
	}
	return s
}

// shape refuses paths that are not relative to the folder.
func (c *pathCheck) shape(s string) string {
	const relative = "give the path relative to the project's folder"
	lower := strings.ToLower(s)
	switch {
	case strings.HasPrefix(s, "/"):
		c.refuse("path.absolute", relative, "%q is an absolute path", s)
	case strings.HasPrefix(lower, "file:"), strings.Contains(s, "://"), strings.HasPrefix(lower, "sandbox:"),
		strings.HasPrefix(lower, "data:"):
		c.refuse("path.url", relative, "%q is a URL", s)
	case len(s) >= 2 && s[1] == ':' && (lower[0] >= 'a' && lower[0] <= 'z'):
		c.refuse("path.drive", relative, "%q is on a drive", s)
	case strings.HasPrefix(s, "~"):
		c.refuse("path.home", relative, "%q is in a home directory", s)
	case strings.HasSuffix(s, "/"):
		c.refuse("path.directory", "", "%q names a directory", s)
	}
	return s
}

// components applies the rules about each name on the path.
func (c *pathCheck) components(s string) string {
	var kept []string
	for name := range strings.SplitSeq(s, "/") {
		switch name {
		case "..":
			c.refuse("path.traversal", "name the file from the project's folder on, without \"..\"",
				"%q leads out of where it starts", s)
			return ""
		case "", ".":
			c.note("path.redundant", "an empty or \".\" part of the path was left out")
			continue
		}
		c.name(name)
		kept = append(kept, name)
	}
	if len(kept) > maxDepth {
		c.refuse("path.deep", "", "the path is %d directories deep, more than %d", len(kept), maxDepth)
	}
	if len(kept) == 0 {
		c.refuse("path.empty", "", "the path names no file")
	}
	return strings.Join(kept, "/")
}

// name applies the rules about one name.
func (c *pathCheck) name(name string) {
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	switch {
	case len(name) > maxName:
		c.refuse("path.long", "", "a name on the path has %d bytes, more than %d", len(name), maxName)
	case unicode.IsSpace(first), unicode.IsSpace(last):
		c.refuse("path.space", "", "%q begins or ends with a space", name)
	case last == '.':
		c.refuse("path.trailing-dot", "", "%q ends with a dot, which some systems leave out", name)
	case strings.ContainsAny(name, `<>:"|?*`):
		c.refuse("path.character", "",
			"%q has one of < > : \" | ? *, which are not portable; a colon names a hidden stream on Windows", name)
	case deviceName(name):
		c.refuse("path.device", "", "%q is the name of a device on Windows", name)
	}
	if system := outputrules.VersionControl(name); system != "" {
		c.refuse("path.vcs", "", "%q belongs to %s and is never written to", name, system)
	}
	if strings.HasPrefix(outputrules.Fold(name), outputrules.TempPrefix) {
		c.refuse("path.engine", "", "names that begin with %q are used while files are being written", outputrules.TempPrefix)
	}
}

// deviceName reports whether Windows opens a device in place of a file of this
// name, whatever its extension.
func deviceName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	digit, ok := strings.CutPrefix(stem, "COM")
	if !ok {
		digit, ok = strings.CutPrefix(stem, "LPT")
	}
	return ok && utf8.RuneCountInString(digit) == 1 && strings.Contains("0123456789¹²³", digit)
}
