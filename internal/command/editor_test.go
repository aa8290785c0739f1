package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// editedLines returns what the editor makes of keys, and how it ended.
func editedLines(t *testing.T, keys string) (lines []string, shown string, err error) {
	t.Helper()
	var screen strings.Builder
	e := newLineEditor(strings.NewReader(keys), &screen)
	for {
		line, err := e.ReadLine(t.Context(), "> ")
		if err != nil {
			return lines, screen.String(), err
		}
		lines = append(lines, line)
	}
}

func TestLineEditor(t *testing.T) {
	tests := []struct{ name, keys, want string }{
		{"plain", "hello\r", "hello"},
		{"line feed", "hello\n", "hello"},
		{"left and right", "hllo\x1b[D\x1b[D\x1b[De\x1b[C!\r", "hel!lo"},
		{"home and end", "b\x1b[Ha\x1b[Fc\r", "abc"},
		{"home and end of a console", "b\x1b[1~a\x1b[4~c\r", "abc"},
		{"home and end in application mode", "b\x1bOHa\x1bOFc\r", "abc"},
		{"ctrl-a and ctrl-e", "b\x01a\x05c\r", "abc"},
		{"ctrl-k", "keep cut\x1b[D\x1b[D\x1b[D\x0b\r", "keep "},
		{"ctrl-u", "cut keep\x1b[D\x1b[D\x1b[D\x1b[D\x15\r", "keep"},
		{"ctrl-w", "one two\x17three\r", "one three"},
		{"delete", "abc\x1b[D\x1b[D\x1b[3~\r", "ac"},
		{"backspace over a letter of two bytes", "gr\u00fcn\x7f\x7fun\r", "grun"},
		{"letters of several bytes", "h\u00e9 \u65e5\u672c \U0001f600\x1b[D!\r", "h\u00e9 \u65e5\u672c !\U0001f600"},
		{"word by word", "one two\x1b[1;5D\x1b[1;5Dx\r", "xone two"},
		{"ctrl-c on a line", "wrong\x03right\r", "right"},
		{"ctrl-d within a line", "abc\x01\x04\r", "bc"},
		{"an unknown sequence", "a\x1b[15~b\x1b[200;5Xc\x1b!d\r", "abcd"},
		{"half a sequence", "a\x1b\rb\r", "a|b"},
		{"not UTF-8", "a\xff\xc3b\ufffdc\xe6\x97d\r", "abcd"},
		{"paste", "\x1b[200~one\ntwo\r\n\tthree\rfour\x1b[201~\r", "one\ntwo\n\tthree\nfour"},
		{"paste within a line", "a\x1b[D\x1b[200~1\n2\x1b[201~ \r", "1\n2 a"},
		{"a paste of keys", "\x1b[200~a\x03\x04\x01\x1b[Db\x9b\u009b\ufffd\x1b[201~\r", "a[Db\ufffd\ufffd"},
		{"a paste edited", "\x1b[200~one\ntwo\x1b[201~\x7f\x7f\x7f\x7f!\r", "one!"},
		{"a long paste", "\x1b[200~" + strings.Repeat("0123456789\n", 1000) + "\x1b[201~\r",
			strings.Repeat("0123456789\n", 1000)},
		{"history", "one\rtwo\r\x1b[A\x1b[A!\r", "one|two|one!"},
		{"history there and back", "one\rtw\x1b[A\x1b[Bo\r", "one|two"},
		{"history of a paste", "\x1b[200~a\nb\x1b[201~\r\x1b[A\r", "a\nb|a\nb"},
		{"no blank line in the history", "one\r  \r\r\x1b[A\r", "one|  ||one"},
		{"nothing before the first", "\x1b[A\x1b[Bone\r", "one"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lines, shown, err := editedLines(t, test.keys+"\x04")
			if got := strings.Join(lines, "|"); got != test.want || !errors.Is(err, io.EOF) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
			if strings.ContainsAny(shown, "\u009b\x03\x04\t") {
				t.Errorf("on the screen: %q", shown)
			}
			if strings.Count(shown, pasteOn) != strings.Count(shown, "> ") || !strings.HasSuffix(shown, pasteOff) {
				t.Errorf("pastes are not announced with each prompt and only there: %q", shown)
			}
		})
	}
}

func TestLineEditorEnds(t *testing.T) {
	for keys, want := range map[string]error{
		"\x04": io.EOF, "\x03": ErrInterrupted, "x\x03\x03": ErrInterrupted, "x\x7f\x04": io.EOF, "": io.EOF,
	} {
		if lines, _, err := editedLines(t, keys); !errors.Is(err, want) || len(lines) > 0 {
			t.Errorf("%q: got %q, %v; want %v", keys, lines, err, want)
		}
	}
}

func TestLineEditorCompletes(t *testing.T) {
	var screen strings.Builder
	e := newLineEditor(strings.NewReader("    pri(1)\x1b[D\x1b[D\x1b[D\t\r\x1b[200~a\nx\x1b[201~\t!\r"), &screen)
	e.Completer = func(before, after string) (string, []string) {
		if before == "    pri" && after == "(1)" {
			return "    print", nil
		}
		return before + "\ny", []string{"xa", "xb"}
	}
	for _, want := range []string{"    print(1)", "a\nx\ny!"} {
		if line, err := e.ReadLine(t.Context(), "> "); err != nil || line != want {
			t.Errorf("%q, want %q: %v", line, want, err)
		}
	}
	if !strings.Contains(screen.String(), "xa  xb") {
		t.Errorf("the choices are not shown: %q", screen.String())
	}
}

// emulated is what a terminal shows of what an editor writes.
type emulated struct {
	width       int
	rows        [][]string // cells; "" is the second half of a wide character
	row, column int
}

var sequence = regexp.MustCompile("^\x1b\\[([?0-9]*)([A-Za-z])")

func (s *emulated) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if found := sequence.FindStringSubmatch(text); found != nil {
			n, _ := strconv.Atoi(found[1])
			s.control(found[2], max(n, 1))
			text = text[len(found[0]):]
			continue
		}
		first, wide := cluster(text)
		text = text[len(first):]
		switch first {
		case "\r":
			s.column = 0
		case "\n":
			s.row, s.column = s.row+1, 0
		default:
			if s.column+wide > s.width {
				s.row, s.column = s.row+1, 0
			}
			s.line()[s.column] = first
			for i := 1; i < wide; i++ {
				s.line()[s.column+i] = ""
			}
			s.column += wide
		}
	}
	return len(p), nil
}

func (s *emulated) line() []string {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, slices.Repeat([]string{" "}, s.width))
	}
	return s.rows[s.row]
}

func (s *emulated) control(name string, n int) {
	switch name {
	case "A":
		s.row = max(0, s.row-n)
	case "C":
		s.column = min(s.width-1, s.column+n)
	case "J":
		s.rows = s.rows[:min(len(s.rows), s.row+1)]
		fallthrough
	case "K":
		for i := s.column; i < s.width; i++ {
			s.line()[i] = " "
		}
	}
}

func (s *emulated) String() string {
	var lines []string
	for _, row := range s.rows {
		lines = append(lines, strings.TrimRight(strings.Join(row, ""), " "))
	}
	return strings.Join(lines, "|")
}

// Characters have the columns that a terminal gives them: the cursor stands where the next one goes.
func TestLineEditorColumns(t *testing.T) {
	const left, up = "\x1b[D", "\x1b[A"
	for _, test := range []struct {
		name, keys, shown string
		row, column       int
	}{
		{"wide", "print('日本語')", "> print('日本語')", 0, 17},
		{"a letter in front of a wide one", "日本" + left + "a", "> 日a本", 0, 5},
		{"a wide one is removed", "日本語" + left + "\x7f", "> 日語", 0, 4},
		{"an accent of its own", "e\u0301x" + left + left, "> e\u0301x", 0, 2},
		{"a family", "👨‍👩‍👧!" + left, "> 👨‍👩‍👧!", 0, 4},
		{"a wide one that does not fit", strings.Repeat("a", 17) + "日", "> aaaaaaaaaaaaaaaaa|日", 1, 2},
		{"a full row", strings.Repeat("a", 18), "> aaaaaaaaaaaaaaaaaa|", 1, 0},
		{"back over rows", strings.Repeat("日", 12) + "\x01x", "> x日日日日日日日日|日日日日", 0, 3},
		{"up", "ab日\r本c" + up, "> ab日|. 本c", 0, 4},
		{"up in the middle of a wide one", "日日\rabc" + up, "> 日日|. abc", 0, 4},
		{"Enter within a text", "  a\rb" + up + "\x05\rx", ">   a|.   x|. b", 1, 5},
		{"several lines become one", "a\rb\x7f\x7fc", "> ac", 0, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			screen := &emulated{width: 20}
			e := newLineEditor(strings.NewReader(test.keys), screen)
			e.screen.width, e.Continuation = 20, ". "
			e.More = func(string) (string, bool) { return "", true }
			at := [2]int{}
			// The editor leaves the prompt where the keys end; before that the cursor stands where it types.
			e.Completer = func(before, after string) (string, []string) {
				at = [2]int{screen.row, screen.column}
				return before, nil
			}
			e.in = strings.NewReader(test.keys + "\t")
			e.keys = keyReader{in: e.in}
			if _, err := e.ReadLine(t.Context(), "> "); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			got := strings.TrimRight(screen.String(), "|")
			if got != strings.TrimRight(test.shown, "|") || at != [2]int{test.row, test.column} {
				t.Errorf("%q with the cursor at %v, want %q at %d, %d", got, at, test.shown, test.row, test.column)
			}
		})
	}
}

// The history outlives the editor, and is searched while the text is typed.
func TestLineEditorHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history")
	lines := func(keys string) string {
		e := newLineEditor(strings.NewReader(keys), io.Discard)
		e.More = func(text string) (string, bool) { return "", strings.HasSuffix(text, ":") }
		e.History = OpenHistory(file)
		var all []string
		for {
			line, err := e.ReadLine(t.Context(), "> ")
			if err != nil {
				return strings.Join(all, "|")
			}
			all = append(all, line)
		}
	}
	lines("\x1b[200~for x in y:\n  日本\x1b[201~\rprint(1)\r secret\rprint(2)\r")
	for _, test := range []struct{ keys, want string }{
		{"\x1b[A\x1b[A\r", "print(1)"},
		{"\x12print\r", "print(1)"}, // the one before was the last
		{"\x12print\x12\r", "print(2)"},
		{"\x12print\x12\x13\r", "print(2)"},
		{"\x12日\r", "for x in y:\n  日本"},
		{"\x12日\x05!\r", "for x in y:\n  日本!"},
		{"typed\x12日\x07\r", "typed"},
		{"\x12nothing\x7f\x7f\x7f\x7f\x7f\x7f\x7f2\r", "print(2)"},
		{"\x12secret\x07\x1b[A\r", "print(2)"},
	} {
		if got := lines(test.keys); got != test.want {
			t.Errorf("%q: %q, want %q", test.keys, got, test.want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
