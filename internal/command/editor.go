package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrInterrupted reports Ctrl-C on an empty line.
var ErrInterrupted = errors.New("interrupted")

// LineEditor reads prompts on a terminal, with the keys and the history of a shell. A prompt may
// have several lines, and characters of any width. It holds the terminal only while it reads:
// between prompts, Ctrl-C is a signal and questions are answered as in any command.
type LineEditor struct {
	in  io.Reader
	out io.Writer

	// Completer handles the Tab key. It returns the new text before the cursor, and
	// the choices. If it is nil, Tab does nothing.
	Completer func(before, after string) (becomes string, choices []string)
	// More reports whether Enter after a text begins another line of it, and how far that is
	// indented. If it is nil, Enter ends the prompt.
	More func(text string) (indent string, more bool)
	// Continuation is the prompt of lines after the first.
	Continuation string

	History History

	keys   keyReader
	prompt string
	text   editedText
	search *historySearch // nil: none
	killed string         // by the last Ctrl-K, Ctrl-U or Ctrl-W
	screen promptScreen
}

const pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"

// LineEditor returns the editor of prompts, or nil without a terminal that can redraw a line.
func (a *App) LineEditor() *LineEditor {
	if !a.Interactive() || !IsTerminal(a.Streams.Out) || a.Config.Dumb {
		return nil
	}
	return newLineEditor(a.Streams.In, a.Streams.Err)
}

func newLineEditor(in io.Reader, out io.Writer) *LineEditor {
	return &LineEditor{in: in, out: out, keys: keyReader{in: in}, screen: promptScreen{width: PageWidth, height: 1000}}
}

// ReadLine reads a prompt's answer. The error is io.EOF for Ctrl-D on an empty line,
// ErrInterrupted for Ctrl-C there, and the context's when it ends.
func (e *LineEditor) ReadLine(ctx context.Context, prompt string) (text string, err error) {
	restore, err := oneKeyAtATime(e.in)
	if err != nil {
		return "", err
	}
	defer func() {
		fmt.Fprint(e.out, e.screen.leave()+"\n"+pasteOff)
		err = errors.Join(err, restore())
	}()
	e.prompt, e.text, e.search = prompt, editedText{}, nil
	e.History.rewind()
	e.screen.forget()
	e.draw()
	fmt.Fprint(e.out, pasteOn)
	for {
		key, err := e.keys.next(ctx)
		if err != nil {
			return "", err
		}
		ended, err := e.press(key)
		e.draw()
		if err != nil {
			return "", err
		}
		if ended {
			e.History.Add(e.text.all)
			return e.text.all, nil
		}
	}
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

// draw shows the prompt and its text as they are now.
func (e *LineEditor) draw() {
	if f, ok := e.out.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 1 && height > 0 {
			e.screen.resize(width, height)
		}
	}
	prompt := e.prompt
	if e.search != nil {
		prompt = e.search.prompt()
	}
	fmt.Fprint(e.out, e.screen.draw(prompt, e.Continuation, e.text.all, e.text.at))
}

// press does what a key means. It reports whether the prompt is answered.
func (e *LineEditor) press(key pressedKey) (ended bool, err error) {
	if e.search != nil && e.searchFor(key) {
		return e.search == nil && key.name == keyEnter, nil
	}
	switch key.name {
	case keyText, keyPaste:
		e.text.insert(key.text)
	case keyEnter:
		return e.enter(), nil
	case keyTab:
		e.complete()
	case keyInterrupt:
		if e.text.all == "" {
			return false, ErrInterrupted
		}
		e.text = editedText{}
	case keyDelete:
		if e.text.all == "" && key.text != "" {
			return false, io.EOF // Ctrl-D
		}
		e.text.cut(e.text.at, e.text.next(e.text.at))
	case keySearch:
		e.search = &historySearch{before: e.text, at: len(e.History.lines)}
	case keyClear:
		e.screen.clear()
	default:
		e.move(key.name)
	}
	return false, nil
}

// move does what keys mean that move the cursor, or remove text that a key brings back.
func (e *LineEditor) move(key keyName) {
	t := &e.text
	kill := func(from, to int) {
		if from < to {
			e.killed = t.all[from:to]
			t.cut(from, to)
		}
	}
	switch key {
	case keyLeft:
		t.at = t.previous(t.at)
	case keyRight:
		t.at = t.next(t.at)
	case keyHome:
		t.at = t.lineStart(t.at)
	case keyEnd:
		t.at = t.lineEnd(t.at)
	case keyWordLeft:
		t.at = t.wordStart(t.at)
	case keyWordRight:
		t.at = t.wordEnd(t.at)
	case keyUp:
		if !t.up() {
			e.browse(e.History.older(t.all))
		}
	case keyDown:
		if !t.down() {
			e.browse(e.History.newer())
		}
	case keyBackspace:
		t.cut(t.previous(t.at), t.at)
	case keyKillToEnd:
		kill(t.at, t.lineEnd(t.at))
	case keyKillToStart:
		kill(t.lineStart(t.at), t.at)
	case keyKillWord:
		kill(t.blankStart(t.at), t.at)
	case keyKillWordRight:
		kill(t.at, t.wordEnd(t.at))
	case keyYank:
		t.insert(e.killed)
	}
}

// browse shows an entry of the history, if there is one.
func (e *LineEditor) browse(line string, ok bool) {
	if ok {
		e.text = editedText{all: line, at: len(line)}
	}
}

// enter ends the prompt, or begins another line of it.
func (e *LineEditor) enter() (ended bool) {
	t := &e.text
	if e.More == nil {
		return true
	}
	if t.lineEnd(t.at) < len(t.all) { // within a text of several lines
		line := t.all[t.lineStart(t.at):t.at]
		t.insert("\n" + line[:len(line)-len(strings.TrimLeft(line, " \t"))])
		return false
	}
	indent, more := e.More(t.all)
	if !more {
		return true
	}
	t.insert("\n" + indent)
	return false
}

// inColumns lays texts out in rows of columns that are equally wide.
func inColumns(texts []string, width int) string {
	const between = 2
	widest := 0
	for _, text := range texts {
		widest = max(widest, Columns(text))
	}
	perRow := max(1, (width-1+between)/(widest+between))
	var b strings.Builder
	for i, text := range texts {
		switch {
		case i == 0:
		case i%perRow == 0:
			b.WriteByte('\n')
		default:
			b.WriteString(strings.Repeat(" ", between))
		}
		if i%perRow < perRow-1 && i < len(texts)-1 {
			text = Pad(text, widest)
		}
		b.WriteString(text)
	}
	return b.String()
}

// complete handles the Tab key.
func (e *LineEditor) complete() {
	if e.Completer == nil {
		return
	}
	before, choices := e.Completer(e.text.all[:e.text.at], e.text.all[e.text.at:])
	if len(choices) > 0 {
		fmt.Fprintf(e.out, "%s\n%s\n", e.screen.leave(), inColumns(choices, e.screen.width))
		e.screen.forget()
	}
	if utf8.ValidString(before) {
		e.text = editedText{all: before + e.text.all[e.text.at:], at: len(before)}
	}
}
