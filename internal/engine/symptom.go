package engine

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// symptom is what the end of a failed program's output says about something that it missed.
type symptom struct {
	kind symptomKind
	name string // of the module, package or file; plain text of a line
}

type symptomKind int

const (
	noSymptom symptomKind = iota
	missingModule
	missingNodePackage
	missingRPackage
	missingFile
	noPip
	noNetwork
	noThreads
	noMemory
	noSpace
	largeFile  // a file
	overMemory // it was stopped
	overTime
)

// symptomBytes is how much of the end of a program's output is examined.
const symptomBytes = 16 << 10

// Lines after a traceback that may still belong to the failure, and lines at the end of other
// output that count as its reason.
const (
	linesAfterTraceback = 40
	lastLines           = 6
)

// findSymptom returns the symptom that the last error in an output has. An earlier error counts
// only if the last one came of it.
func findSymptom(output string) symptom {
	lines := outputLines(output)
	start := lastIndex(lines, isTraceback)
	if start < 0 {
		return symptomOfLines(lines)
	}
	end := exceptionAt(lines, start)
	if end < 0 {
		return symptomOfLines(lines[start+1:])
	}
	after := lines[messageEnd(lines, end):]
	if s := symptomOfLines(after); s.kind != noSymptom {
		return s
	}
	if len(nonEmpty(after)) > linesAfterTraceback {
		return symptom{}
	}
	return symptomOfTraceback(lines, start, end)
}

// controls are escape sequences of a terminal: colours, titles.
var controls = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")
})

// groupMark begins the lines of an ExceptionGroup's traceback.
var groupMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ +[|+][-+0-9 ]*(?:\| ?)?`) })

// outputLines returns the lines of the end of an output, as they look without a terminal.
func outputLines(output string) []string {
	output = output[max(0, len(output)-symptomBytes):]
	if strings.ContainsRune(output, 0x1b) {
		output = controls().ReplaceAllString(output, "")
	}
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		if strings.HasPrefix(line, " ") && strings.ContainsAny(line, "|+") {
			line = groupMark().ReplaceAllString(line, "")
		}
		lines[i] = line
	}
	return lines
}

func isTraceback(line string) bool {
	return strings.Contains(line, "Traceback (most recent call last)")
}

func lastIndex(lines []string, is func(string) bool) int {
	for i, line := range slices.Backward(lines) {
		if is(line) {
			return i
		}
	}
	return -1
}

func nonEmpty(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == "" })
}

// exception matches the line of a traceback that names the error.
var exception = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][\w.]*)(?:: |:?$)`)
})

// exceptionAt returns the index of the line that names the error of a traceback, or -1.
func exceptionAt(lines []string, start int) int {
	for i := start + 1; i < len(lines); i++ {
		if exception().MatchString(lines[i]) {
			return i
		}
	}
	return -1
}

// messageEnd returns the index after an error's message, which may have several lines.
func messageEnd(lines []string, at int) int {
	const most = 6
	end := at + 1
	for end < min(len(lines), at+most) && lines[end] != "" && !exception().MatchString(lines[end]) {
		end++
	}
	return end
}

// The lines of Python between the tracebacks of an error and of one that came of it.
const (
	during = "During handling of the above exception, another exception occurred:"
	direct = "The above exception was the direct cause of the following exception:"
)

// faults are errors of a program's own code. One that is raised while another error is handled
// says nothing about that.
var faults = []string{
	"ArithmeticError", "AssertionError", "AttributeError", "FloatingPointError", "IndentationError", "IndexError",
	"JSONDecodeError", "KeyError", "LookupError", "NameError", "NotImplementedError", "OverflowError", "RecursionError",
	"SyntaxError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "ValueError",
	"ZeroDivisionError",
}

// symptomOfTraceback returns the symptom of an error, or of the one that it came of.
func symptomOfTraceback(lines []string, start, end int) symptom {
	text := strings.Join(lines[end:messageEnd(lines, end)], "\n")
	if s := symptomOfException(text, lines[start:end]); s.kind != noSymptom {
		return s
	}
	if strings.Contains(text, "CalledProcessError: ") { // a program that it started has said why
		return findSymptom(strings.Join(lines[:start], "\n"))
	}
	between := start - 1
	for between >= 0 && lines[between] == "" {
		between--
	}
	if between < 0 || lines[between] != during && lines[between] != direct {
		return symptom{}
	}
	before := lines[:between]
	start = lastIndex(before, isTraceback) // -1: it is cut off
	if end = exceptionAt(before, start); start < 0 {
		end = lastIndex(before, exception().MatchString)
	}
	if end < 0 {
		return symptom{}
	}
	cause := symptomOfTraceback(before, max(start, 0), end)
	if lines[between] == during && isFault(text) && !strings.Contains(text, cause.name) {
		return symptom{}
	}
	return cause
}

func isFault(text string) bool {
	name := exception().FindStringSubmatch(text)[1]
	return slices.Contains(faults, name[strings.LastIndexByte(name, '.')+1:]) || strings.Contains(text,
		"cannot import name")
}

// Texts of errors, in whatever library and language.
var (
	noModuleText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`No module named (?:'([^'\n]*)'|([\w.-]+)$)`)
	})
	noNodeText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Cannot find (?:module|package) '([^'\n]*)'`)
	})
	noRText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`there is no package called [‘'"]([^’'"\n]*)[’'"]`)
	})
	noFileText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`No such file or directory: b?(?:'([^'\n]*)'|"([^"\n]*)")$|` +
			`ENOENT: no such file or directory, (?:open|stat|lstat|access) '([^'\n]*)'|` +
			`cannot open file '([^'\n]*)': No such file or directory`)
	})
	noNetworkText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Name or service not known|[Tt]emporary failure in name resolution|` +
			`No address associated with hostname|Failed to resolve '|Could not resolve (?:host|proxy)|` +
			`unable to resolve host address|\bgetaddrinfo E[A-Z_]+|\bE(?:NOTFOUND|AI_AGAIN)\b|` +
			`Network is unreachable|\bENETUNREACH\b|NameResolutionError|` +
			`403 network_denied|CONNECT tunnel failed, response 403`)
	})
	noThreadsText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`can't start new thread|fork: (?:retry: )?Resource temporarily unavailable|` +
			`(?i:cannot fork|pthread_create.*(?:failed|Resource temporarily unavailable))|\bspawn\w* \S+ EAGAIN`)
	})
	noMemoryText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Unable to allocate [\d.]+ \w+ for an array|JavaScript heap out of memory|` +
			`cannot allocate vector of size|std::bad_alloc|^MemoryError`)
	})
	noSpaceText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`No space left on device|Disk quota exceeded`)
	})
	largeFileText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\[Errno 27\]|\bEFBIG\b|File size limit exceeded|: File too large$`)
	})
	stackText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ +at |^ +\^|^Require stack:|^- /`) })
)

// symptomOfException returns the symptom that an error's message has. The frames are those of its
// traceback.
func symptomOfException(text string, frames []string) symptom {
	if strings.HasPrefix(text, "FileNotFoundError") || strings.Contains(text, "No such file or directory") {
		if inFrames(frames, "_execute_child") || inFrames(frames, "posix_spawn") { // a command, not a file
			return symptom{}
		}
		if name := firstGroup(noFileText(), strings.TrimRight(text, "\n")); isPlain(name) {
			return symptom{missingFile, name}
		}
		return symptom{}
	}
	if strings.HasPrefix(text, "BlockingIOError: [Errno 11]") &&
		(inFrames(frames, "_execute_child") || inFrames(frames, "fork(")) {
		return symptom{kind: noThreads}
	}
	if s := symptomOfModule(text); s.kind != noSymptom {
		return s
	}
	return symptomOfText(text)
}

func inFrames(frames []string, text string) bool {
	return slices.ContainsFunc(frames, func(line string) bool { return strings.Contains(line, text) })
}

// symptomOfModule returns the module of Python that a text says is missing.
func symptomOfModule(text string) symptom {
	all := noModuleText().FindAllStringSubmatch(text, -1)
	if len(all) == 0 || strings.Contains(text, "is not a package") { // a file of the program hides the package
		return symptom{}
	}
	last := all[len(all)-1]
	if name := last[1] + last[2]; isModule(name) {
		return symptom{missingModule, name}
	}
	return symptom{}
}

// symptomOfText returns the symptom of a text that looks the same wherever it stands.
func symptomOfText(text string) symptom {
	switch {
	case noNetworkText().MatchString(text):
		return symptom{kind: noNetwork}
	case noThreadsText().MatchString(text):
		return symptom{kind: noThreads}
	case noMemoryText().MatchString(text):
		return symptom{kind: noMemory}
	case noSpaceText().MatchString(text):
		return symptom{kind: noSpace}
	case largeFileText().MatchString(text):
		return symptom{kind: largeFile}
	}
	return symptom{}
}

// symptomOfLines returns the symptom of the last error that is no traceback of Python. What a
// stack of Node follows counts further up than other lines.
func symptomOfLines(lines []string) symptom {
	seen, stack := 0, false
	for _, line := range slices.Backward(lines) {
		if line == "" {
			continue
		}
		if seen++; seen > linesAfterTraceback {
			break
		}
		if stackText().MatchString(line) {
			stack = true
			continue
		}
		if s := symptomOfLine(line, seen <= lastLines); s.kind != noSymptom {
			return s
		}
		if stack && nodeError().MatchString(line) {
			break // the last error is another one
		}
	}
	return symptom{}
}

var nodeError = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:Uncaught |Unhandled: )?\w*(?:Error|Exception)(?: \[\w+\])?(?::|$)`)
})

// symptomOfLine returns the symptom of a line. Unless the line is one of the last, only those of
// Node count, which prints an error above its stack.
func symptomOfLine(line string, last bool) symptom {
	if found := noNodeText().FindStringSubmatch(line); found != nil {
		if name := nodePackage(found[1]); name != "" {
			return symptom{missingNodePackage, name}
		}
		return symptom{}
	}
	if nodeError().MatchString(line) || strings.Contains(line, "[cause]") || strings.HasPrefix(line, "FATAL ERROR") {
		if name := firstGroup(noFileText(), line); strings.Contains(line, "ENOENT") && isPlain(name) {
			return symptom{missingFile, name}
		}
		if s := symptomOfText(line); s.kind != noSymptom {
			return s
		}
	}
	if !last {
		return symptom{}
	}
	if found := noRText().FindStringSubmatch(line); found != nil && isModule(found[1]) {
		return symptom{missingRPackage, found[1]}
	}
	if name := firstGroup(noFileText(), line); isPlain(name) && !strings.Contains(line, "ENOENT") {
		return symptom{missingFile, name}
	}
	name, _, found := strings.Cut(strings.TrimPrefix(line, "pip: "), " cannot be installed here") // of guest/pip.py
	if found && isModule(name) {
		return symptom{noPip, name}
	}
	if s := symptomOfModule(line); s.kind != noSymptom {
		return s
	}
	return symptomOfText(line)
}

// firstGroup returns the first group of a match that is not empty.
func firstGroup(re *regexp.Regexp, text string) string {
	for i, group := range re.FindStringSubmatch(text) {
		if i > 0 && group != "" {
			return group
		}
	}
	return ""
}

// longestName bounds the names from an output that a hint repeats.
const longestName = 100

// isModule reports whether a name can be that of a module or package.
func isModule(name string) bool {
	return len(name) <= longestName && isPlain(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) && strings.Trim(name, ".-") == name
}

// isPlain reports whether a name from an output can be shown as it is.
func isPlain(name string) bool {
	return name != "" && len(name) <= longestName && utf8.ValidString(name) && ShownName(name) == name &&
		!strings.ContainsAny(name, "`\"\\")
}

// nodePackage returns the package of a specifier of Node, or "" if it is a file of the program or a
// module of Node.
func nodePackage(specifier string) string {
	if strings.HasPrefix(specifier, "node:") || path.IsAbs(specifier) || strings.HasPrefix(specifier, "#") {
		return ""
	}
	parts := strings.SplitN(specifier, "/", 3)
	name := parts[0]
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		name += "/" + parts[1]
	}
	if !isModule(strings.TrimPrefix(strings.Replace(name, "/", "-", 1), "@")) {
		return ""
	}
	return name
}
