package pytool

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Result is the result of a call for the model.
type Result struct {
	Type           string          `json:"type"` // "python_execution"
	Stdout         string          `json:"stdout"`
	Stderr         string          `json:"stderr"`
	ExitCode       *int            `json:"exit_code"` // null after a timeout; -1: it could not be run
	TimedOut       bool            `json:"timed_out"`
	GeneratedFiles []GeneratedFile `json:"generated_files"`
	Error          *string         `json:"error"` // null if the exit code is 0, else stderr
	StagingNotice  *string         `json:"staging_notice"`

	// FileIDs are the ids of the generated files in the application's store.
	FileIDs []string `json:"-"`
}

// GeneratedFile is a file that a script made.
type GeneratedFile struct {
	Filename string `json:"filename"`
	FileLink string `json:"file_link"`
}

// JSON returns the text for the model.
func (r Result) JSON() string { return string(marshal(r)) }

const (
	resultType = "python_execution"
	notRun     = -1
)

// failed returns the result of a call whose code could not be run.
func failed(text string) Result {
	code := notRun
	return Result{Type: resultType, Stderr: text, ExitCode: &code, GeneratedFiles: []GeneratedFile{}, Error: &text}
}

// clip keeps the beginning of a text and counts the rest, so that its memory is bounded.
type clip struct {
	most  int // characters
	text  strings.Builder
	chars int
}

func (c *clip) write(s string) {
	if room := c.most - c.chars; room > 0 {
		c.text.WriteString(firstChars(s, room))
	}
	c.chars += utf8.RuneCountInString(s)
}

func (c *clip) String() string {
	if c.chars <= c.most {
		return c.text.String()
	}
	return c.text.String() + "\n... [output truncated, " + strconv.Itoa(c.chars-c.most) + " characters omitted]"
}

// firstChars returns at most n characters of s.
func firstChars(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
