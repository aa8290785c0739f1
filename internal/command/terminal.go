package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrInterrupted reports Ctrl-C on an empty line.
var ErrInterrupted = errors.New("interrupted")

// LineEditor reads the prompts of a chat on a terminal, with the keys and the
// history of a shell. It holds the terminal only while it reads a line: between
// lines, Ctrl-C is a signal and questions are answered as in any command.
type LineEditor struct {
	ctx  context.Context // of the line that is read
	in   io.Reader
	out  io.Writer
	term *term.Terminal

	keys    []byte // that term has not read yet
	partial []byte // incomplete key
	pasted  []byte // incomplete paste
	pasting bool
	ended   bool // by Ctrl-C on an empty line

	// completer handles the Tab key. It returns the new text before the cursor, and
	// the choices. If it is nil, Tab does nothing.
	Completer func(before, after string) (becomes string, choices []string)

	lines []string // the history, oldest first
}

// Characters of the last private-use plane, which no keyboard has. The first is a
// key; the others replace characters that term cannot hold in a line, or cannot show
// in one column.
const (
	interruptKey = '\U0010fffa'
	newlineMark  = '\U0010fffb'
	tabMark      = '\U0010fffc'
	unknownMark  = '\U0010fffd' // term reads U+FFFD as an incomplete key
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

	// escapeKeys maps escape sequences to the keys of term. They include Home and End
	// of a Linux console and of tmux, and keys that move by words.
	escapeKeys = map[string]string{
		"\x1b[A": "\x10", "\x1b[B": "\x0e", "\x1b[C": "\x06", "\x1b[D": "\x02", "\x1b[H": "\x01", "\x1b[F": "\x05",
		"\x1bOA": "\x10", "\x1bOB": "\x0e", "\x1bOC": "\x06", "\x1bOD": "\x02", "\x1bOH": "\x01", "\x1bOF": "\x05",
		"\x1b[1~": "\x01", "\x1b[7~": "\x01", "\x1b[4~": "\x05", "\x1b[8~": "\x05", "\x1b[3~": "\x1b[3~",
		"\x1b[1;3C": "\x1b[1;3C", "\x1b[1;5C": "\x1b[1;3C", "\x1bf": "\x1b[1;3C",
		"\x1b[1;3D": "\x1b[1;3D", "\x1b[1;5D": "\x1b[1;3D", "\x1bb": "\x1b[1;3D", "\x1b\x7f": "\x17",
	}
)

// LineEditor returns the editor of a chat, or nil without a terminal that can redraw a line.
func (a *App) LineEditor() *LineEditor {
	if !a.Interactive() || !IsTerminal(a.Streams.Out) || a.Config.Dumb {
		return nil
	}
	return newLineEditor(a.Streams.In, a.Streams.Err)
}

func newLineEditor(in io.Reader, out io.Writer) *LineEditor {
	e := &LineEditor{in: in, out: out}
	e.term = term.NewTerminal(e, "")
	e.term.History = e
	e.term.AutoCompleteCallback = e.complete
	return e
}

// Prefill types the first characters of the next line.
func (e *LineEditor) Prefill(text string) { e.keys = append(e.keys, text...) }

// ReadLine reads a line. The error is io.EOF for Ctrl-D on an empty line,
// errInterrupted for Ctrl-C there, and the context's when it ends.
func (e *LineEditor) ReadLine(ctx context.Context, prompt string) (line string, err error) {
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

// oneKeyAtATime makes a terminal deliver each key, Ctrl-C too, and echo none. Unlike
// term.MakeRaw it keeps the translation of line ends: output meanwhile stays readable,
// and keys typed ahead answer a question.
func oneKeyAtATime(in io.Reader) (restore func() error, err error) {
	f, ok := in.(*os.File)
	if !ok {
		return func() error { return nil }, nil
	}
	return ChangeTerminal(f, func(mode *unix.Termios) {
		mode.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	})
}

// ChangeTerminal changes how a terminal reads, until restore is called.
func ChangeTerminal(f *os.File, change func(*unix.Termios)) (restore func() error, err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	mode := *before
	change(&mode)
	restore = func() error { return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before) }
	return restore, unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &mode)
}

// fit tells term the size of the terminal.
func (e *LineEditor) fit() {
	if f, ok := e.out.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			_ = e.term.SetSize(width, height) // fails only where writing does
		}
	}
}

// complete handles the keys that term does not know.
func (e *LineEditor) complete(line string, pos int, key rune) (string, int, bool) {
	switch {
	case key == interruptKey:
		e.ended = line == ""
		return "", 0, true
	case key == '\t' && e.Completer != nil:
		before, choices := e.Completer(textOfMarks.Replace(line[:pos]), textOfMarks.Replace(line[pos:]))
		if len(choices) > 0 {
			fmt.Fprintln(e.term, strings.Join(choices, "  "))
		}
		before = markText.Replace(before)
		return before + line[pos:], len(before), true
	}
	return "", 0, false
}

// Write implements io.Writer for term.
func (e *LineEditor) Write(shown []byte) (int, error) {
	_, err := io.WriteString(e.out, lookOfMarks.Replace(string(shown)))
	return len(shown), err
}

// Read implements io.Reader for term. It reads single bytes from the terminal: the
// bytes after the line belong to the next reader.
func (e *LineEditor) Read(p []byte) (int, error) {
	var one [1]byte
	for len(e.keys) == 0 {
		if e.ended {
			e.ended = false
			return 0, ErrInterrupted
		}
		if err := Readable(e.ctx, e.in); err != nil {
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
		e.translateByte(one[0])
	}
	n := copy(p, e.keys)
	e.keys = e.keys[n:]
	return n, nil
}

// translateByte turns bytes of the terminal into keys for term. Term waits for ever for the rest
// of a key that it does not know, so it gets complete, known keys only.
func (e *LineEditor) translateByte(b byte) {
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
			e.translateByte(b) // it begins another key
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

// pastedText returns a paste as it is shown in the line: on one line, without control
// characters.
func pastedText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) || r >= interruptKey {
			return -1
		}
		return r
	}, text)
	return markText.Replace(text)
}

// Add implements term.History. It leaves out blank and repeated lines.
func (e *LineEditor) Add(line string) {
	const most = 1000
	if strings.TrimSpace(line) == "" || len(e.lines) > 0 && e.lines[len(e.lines)-1] == line {
		return
	}
	if e.lines = append(e.lines, line); len(e.lines) > most {
		e.lines = slices.Delete(e.lines, 0, 1)
	}
}

// Len implements term.History.
func (e *LineEditor) Len() int { return len(e.lines) }

// At implements term.History.
func (e *LineEditor) At(i int) string { return e.lines[len(e.lines)-1-i] }

// Interrupts make Ctrl-C end a turn of a chat instead of the chat.
type Interrupts struct {
	mu   sync.Mutex
	stop context.CancelFunc // ends the turn; nil: there is none, or it is ending
}

// Interruptible returns the context of a chat. At a terminal the first Ctrl-C during
// a turn ends the turn. Every other signal ends the chat, and the next one the process.
func (a *App) Interruptible(ctx context.Context) (context.Context, *Interrupts, func()) {
	if !a.Interactive() {
		return ctx, nil, func() {}
	}
	asked := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		asked = append(asked, syscall.SIGHUP)
	}
	i := &Interrupts{}
	chat, end := context.WithCancel(context.WithoutCancel(ctx)) // the first signal ends the other one
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, asked...)
	stop := InBackground(context.Background(), func(ctx context.Context) {
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGINT || !i.interrupt() {
					end()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return chat, i, func() { stop(); end() }
}

// interrupt ends the turn, and reports whether there was one to end.
func (i *Interrupts) interrupt() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stop == nil {
		return false
	}
	i.stop()
	i.stop = nil
	return true
}

// Turn returns the context of a turn, and a function to call at its end.
func (i *Interrupts) Turn(ctx context.Context) (context.Context, func()) {
	if i == nil {
		return ctx, func() {}
	}
	during, stop := context.WithCancel(ctx)
	i.mu.Lock()
	i.stop = stop
	i.mu.Unlock()
	return during, func() {
		i.mu.Lock()
		i.stop = nil
		i.mu.Unlock()
		stop()
	}
}

// Confirm asks a yes-or-no question. Any answer that begins with y is a yes.
func (a *App) Confirm(ctx context.Context, question string) (bool, error) {
	line, err := a.AskLine(ctx, question)
	return strings.HasPrefix(line, "y"), err
}

// AskLine asks a question and waits for a line, or for the end of the context. The
// end of input counts as an empty line.
func (a *App) AskLine(ctx context.Context, question string) (string, error) {
	line, err := a.ReadLine(ctx, question)
	if errors.Is(err, io.EOF) {
		a.Say("")
		err = nil
	}
	return strings.ToLower(strings.TrimSpace(line)), err
}

// ReadLine reads a line byte by byte: the bytes after it belong to the next reader.
func (a *App) ReadLine(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.Streams.Err, prompt)
	var line bytes.Buffer
	var one [1]byte
	for {
		if err := Readable(ctx, a.Streams.In); err != nil {
			fmt.Fprintln(a.Streams.Err)
			return "", err
		}
		n, err := a.Streams.In.Read(one[:])
		switch {
		case n == 1 && one[0] == '\n':
			return line.String(), nil
		case n == 1:
			line.WriteByte(one[0])
		case err != nil:
			return line.String(), err
		}
	}
}

// Readable waits until the reader has data, or the context ends.
func Readable(ctx context.Context, in io.Reader) error {
	f, ok := in.(*os.File)
	if !ok {
		return ctx.Err()
	}
	ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n, err := unix.Poll(ready, 100); n != 0 && !errors.Is(err, unix.EINTR) {
			return nil // or an error, which the read will have too
		}
	}
}
