package command

import (
	"errors"
	"io"
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
			if strings.ContainsAny(shown, "\u009b\U0010fffa\U0010fffb\U0010fffc\U0010fffd") {
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
	e := newLineEditor(strings.NewReader("pri(1)\x1b[D\x1b[D\x1b[D\t\r\x1b[200~a\nx\x1b[201~\t!\r"), &screen)
	e.Completer = func(before, after string) (string, []string) {
		if before == "    pri" && after == "(1)" {
			return "    print", nil
		}
		return before + "\ny", []string{"xa", "xb"}
	}
	e.Prefill("    ")
	for _, want := range []string{"    print(1)", "a\nx\ny!"} {
		if line, err := e.ReadLine(t.Context(), "> "); err != nil || line != want {
			t.Errorf("%q, want %q: %v", line, want, err)
		}
	}
	if !strings.Contains(screen.String(), "xa  xb") {
		t.Errorf("the choices are not shown: %q", screen.String())
	}
}
