package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// errInterrupted is Ctrl-C on an empty line.
var errInterrupted = errors.New("interrupted")

// lineEditor reads the prompts of a chat on a terminal, with the keys and the
// history of a shell. It holds the terminal only while it reads a line: between
// lines, Ctrl-C is a signal and questions are answered as in any command.
type lineEditor struct {
	ctx  context.Context // of the line that is read
	in   io.Reader
	out  io.Writer
	term *term.Terminal

	keys    []byte // for term, which has not taken them yet
	partial []byte // of a key
	pasted  []byte // of a paste, while one lasts
	pasting bool
	ended   bool // by Ctrl-C on an empty line

	// completer is asked for the Tab key: what the text before the cursor becomes,
	// and what there is to choose from. nil: Tab does nothing.
	completer func(before, after string) (becomes string, choices []string)

	lines []string // the history, oldest first
}

// Characters of the last private-use plane, which nobody types. The first is a
// key; the others stand in the line for what term cannot hold there, or cannot
// show in one column.
const (
	interruptKey = '\U0010fffa'
	newlineMark  = '\U0010fffb'
	tabMark      = '\U0010fffc'
	unknownMark  = '\U0010fffd' // term takes U+FFFD for an incomplete key
)

const (
	pasteStart, pasteEnd = "\x1b[200~", "\x1b[201~"
	pasteOn, pasteOff    = "\x1b[?2004h", "\x1b[?2004l"
)

var (
	markText = strings.NewReplacer("\r\n", string(newlineMark), "\r", string(newlineMark), "\n", string(newlineMark),
		"\t", string(tabMark), "\ufffd", string(unknownMark))
	textOfMarks = strings.NewReplacer(string(newlineMark), "\n", string(tabMark), "\t", string(unknownMark), "\ufffd")
	// The terminal makes a carriage return and a line feed of a line feed.
	lookOfMarks = strings.NewReplacer(string(newlineMark), "\u2424", string(tabMark), " ", string(unknownMark), "\ufffd",
		"\r\n", "\n")

	// escapeKeys are the sequences that count, by what term knows. They include
	// Home and End of a Linux console and of tmux, and keys that move by words.
	escapeKeys = map[string]string{
		"\x1b[A": "\x10", "\x1b[B": "\x0e", "\x1b[C": "\x06", "\x1b[D": "\x02", "\x1b[H": "\x01", "\x1b[F": "\x05",
		"\x1bOA": "\x10", "\x1bOB": "\x0e", "\x1bOC": "\x06", "\x1bOD": "\x02", "\x1bOH": "\x01", "\x1bOF": "\x05",
		"\x1b[1~": "\x01", "\x1b[7~": "\x01", "\x1b[4~": "\x05", "\x1b[8~": "\x05", "\x1b[3~": "\x1b[3~",
		"\x1b[1;3C": "\x1b[1;3C", "\x1b[1;5C": "\x1b[1;3C", "\x1bf": "\x1b[1;3C",
		"\x1b[1;3D": "\x1b[1;3D", "\x1b[1;5D": "\x1b[1;3D", "\x1bb": "\x1b[1;3D", "\x1b\x7f": "\x17",
	}
)

// lineEditor returns the editor of a chat at a terminal, or nil where there is
// none that could show a line as it changes.
func (a *app) lineEditor() *lineEditor {
	if !a.interactive() || !isTerminal(a.streams.Out) || a.cfg.Dumb {
		return nil
	}
	return newLineEditor(a.streams.In, a.streams.Err)
}

func newLineEditor(in io.Reader, out io.Writer) *lineEditor {
	e := &lineEditor{in: in, out: out}
	e.term = term.NewTerminal(e, "")
	e.term.History = e
	e.term.AutoCompleteCallback = e.complete
	return e
}

// begin types the first characters of the line that is read next.
func (e *lineEditor) begin(text string) { e.keys = append(e.keys, text...) }

// readLine reads a line. The error is io.EOF for Ctrl-D on an empty line,
// errInterrupted for Ctrl-C there, and the context's when it ends.
func (e *lineEditor) readLine(ctx context.Context, prompt string) (line string, err error) {
	restore, err := oneKeyAtATime(e.in)
	if err != nil {
		return "", err
	}
	defer func() {
		fmt.Fprint(e.out, pasteOff)
		err = errors.Join(err, restore())
	}()
	e.ctx = ctx
	e.fit()
	e.term.SetPrompt(prompt + pasteOn)
	line, err = e.term.ReadLine()
	if err != nil {
		fmt.Fprintln(e.out)
	}
	return textOfMarks.Replace(line), err
}

// oneKeyAtATime has a terminal hand over each key, Ctrl-C too, and show none.
// Unlike term.MakeRaw it leaves the translation of line ends alone: what others
// print meanwhile stays readable, and what is typed ahead answers a question.
func oneKeyAtATime(in io.Reader) (restore func() error, err error) {
	f, ok := in.(*os.File)
	if !ok {
		return func() error { return nil }, nil
	}
	return changeTerminal(f, func(mode *unix.Termios) {
		mode.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	})
}

// changeTerminal changes how a terminal reads, until restore is called.
func changeTerminal(f *os.File, change func(*unix.Termios)) (restore func() error, err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	mode := *before
	change(&mode)
	restore = func() error { return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before) }
	return restore, unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &mode)
}

// fit follows the size of the terminal.
func (e *lineEditor) fit() {
	if f, ok := e.out.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			_ = e.term.SetSize(width, height) // fails only where writing does
		}
	}
}

// complete is called for the keys that term does not know.
func (e *lineEditor) complete(line string, pos int, key rune) (string, int, bool) {
	switch {
	case key == interruptKey:
		e.ended = line == ""
		return "", 0, true
	case key == '\t' && e.completer != nil:
		before, choices := e.completer(textOfMarks.Replace(line[:pos]), textOfMarks.Replace(line[pos:]))
		if len(choices) > 0 {
			fmt.Fprintln(e.term, strings.Join(choices, "  "))
		}
		before = markText.Replace(before)
		return before + line[pos:], len(before), true
	}
	return "", 0, false
}

// Write implements io.Writer for term.
func (e *lineEditor) Write(shown []byte) (int, error) {
	_, err := io.WriteString(e.out, lookOfMarks.Replace(string(shown)))
	return len(shown), err
}

// Read implements io.Reader for term. It takes single bytes from the terminal:
// what follows the line is not ours.
func (e *lineEditor) Read(p []byte) (int, error) {
	var one [1]byte
	for len(e.keys) == 0 {
		if e.ended {
			e.ended = false
			return 0, errInterrupted
		}
		if err := readable(e.ctx, e.in); err != nil {
			return 0, err
		}
		n, err := e.in.Read(one[:])
		if n == 0 {
			if err != nil {
				return 0, err
			}
			continue
		}
		e.fit()
		e.take(one[0])
	}
	n := copy(p, e.keys)
	e.keys = e.keys[n:]
	return n, nil
}

// take makes keys for term of what the terminal sends. Term holds on to an
// key that it cannot read for ever, so it gets whole and known ones only.
func (e *lineEditor) take(b byte) {
	if e.pasting {
		e.pasted = append(e.pasted, b)
		if text, ok := bytes.CutSuffix(e.pasted, []byte(pasteEnd)); ok {
			e.pasting, e.pasted = false, nil
			e.keys = append(e.keys, pasteStart+pastedText(string(text))+pasteEnd...)
		}
		return
	}
	const ctrlC, escape = 3, 0x1b
	if b < ' ' && (b != escape || len(e.partial) > 0) {
		e.partial = nil // a control character ends what was not complete
	}
	e.partial = append(e.partial, b)
	key := string(e.partial)
	switch {
	case key == pasteStart:
		e.pasting = true
	case key == string(rune(ctrlC)):
		e.keys = append(e.keys, string(interruptKey)...)
	case key[0] == escape:
		if !wholeSequence(key) {
			return
		}
		e.keys = append(e.keys, escapeKeys[key]...)
	case !utf8.FullRuneInString(key):
		return
	default:
		r, size := utf8.DecodeRuneInString(key)
		if r != utf8.RuneError && r < interruptKey {
			e.keys = append(e.keys, key...)
		} else if r == utf8.RuneError && size < len(key) {
			e.partial = nil
			e.take(b) // not part of what was broken
			return
		}
	}
	e.partial = nil
}

// wholeSequence reports whether an escape sequence has its last byte.
func wholeSequence(key string) bool {
	if len(key) < 2 {
		return false
	}
	last := key[len(key)-1]
	switch key[1] {
	case '[':
		return len(key) > 2 && last >= '@' && last <= '~'
	case 'O':
		return len(key) > 2
	}
	return true
}

// pastedText is a paste as it stands in the line: on one line, without what
// would drive the terminal.
func pastedText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) || r >= interruptKey {
			return -1
		}
		return r
	}, text)
	return markText.Replace(text)
}

// Add implements term.History. Blank lines and repeated ones do not count.
func (e *lineEditor) Add(line string) {
	const most = 1000
	if strings.TrimSpace(line) == "" || len(e.lines) > 0 && e.lines[len(e.lines)-1] == line {
		return
	}
	if e.lines = append(e.lines, line); len(e.lines) > most {
		e.lines = slices.Delete(e.lines, 0, 1)
	}
}

// Len implements term.History.
func (e *lineEditor) Len() int { return len(e.lines) }

// At implements term.History.
func (e *lineEditor) At(i int) string { return e.lines[len(e.lines)-1-i] }
