package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
)

// interruptAgain is how long after an interrupt that met no cell the next one is sent.
const interruptAgain = 100 * time.Millisecond

// runCell runs a cell and shows what it puts out as it comes. Ctrl-C ends during and
// interrupts the cell; a second one ends the command.
func (r *repl) runCell(ctx, during context.Context, code string) (client.CellStatus, error) {
	done := make(chan struct{})
	interrupting := make(chan struct{})
	go func() {
		defer close(interrupting)
		select {
		case <-during.Done():
		case <-done:
			return
		}
		// The cell may not have arrived yet. One that has is awaited by the service, and
		// its events tell how it ends.
		for ctx.Err() == nil {
			_ = r.client.Interrupt(ctx, r.id)
			select {
			case <-done:
				return
			case <-time.After(interruptAgain):
			}
		}
	}()
	defer func() { close(done); <-interrupting }()
	shown := &cellShown{repl: r, out: r.screen(r.streams.Out), err: r.screen(r.streams.Err)}
	req := client.CellRequest{Code: code, TimeoutMS: r.options.timeout.Milliseconds(), Input: r.interactive()}
	for e, err := range r.client.StreamCell(ctx, r.id, req) {
		if err != nil {
			return "", interrupted(ctx, err)
		}
		switch e.Type {
		case client.OutputStarted:
			if r.count++; e.Cell.ExecutionCount > 0 {
				r.count = e.Cell.ExecutionCount
			}
			if e.Cell.Restarted {
				shown.note(e.Cell)
			}
		case client.OutputInput:
			shown.flush()
			if err := r.answer(ctx, during, e); err != nil {
				return "", err
			}
		case client.OutputDone:
			r.count = e.Cell.ExecutionCount
			shown.flush()
			if !shown.noted {
				shown.note(e.Cell)
			}
			return e.Cell.Status, r.saving.save(ctx, e.Cell, shown.pictures)
		default:
			if err := shown.output(e.Output); err != nil {
				return "", err
			}
		}
	}
	return "", io.ErrUnexpectedEOF
}

// answer asks the person what the code asks for. One who interrupts, or ends the
// input, answers with nothing.
func (r *repl) answer(ctx, during context.Context, e client.CellEvent) error {
	show := func() {}
	if f := fileOf(r.streams.In); f != nil && e.Password {
		show = hideKeys(f)
	}
	text, err := r.readLine(during, printable(e.Prompt))
	show()
	switch {
	case during.Err() != nil: // it is being interrupted
		return ctx.Err()
	case err != nil:
		return r.client.Interrupt(ctx, r.id)
	}
	return r.client.Answer(ctx, r.id, strings.ToValidUTF8(text, "\ufffd"))
}

// hideKeys has a terminal not show what is typed, until it is told to.
func hideKeys(f *os.File) (show func()) {
	restore, err := changeTerminal(f, func(mode *unix.Termios) {
		mode.Lflag &^= unix.ECHO
		mode.Lflag |= unix.ECHONL
	})
	if err != nil {
		return func() {} // it is none
	}
	return func() { _ = restore() }
}

// cellShown shows the outputs of a cell.
type cellShown struct {
	*repl
	out, err io.Writer
	noted    bool
	midLine  bool // the text does not end a line yet
	pictures []picture
}

// picture is one that a cell showed.
type picture struct {
	mime    string
	content json.RawMessage // a string: base64, or text of SVG
	display string          // what is updated later; empty: nothing
}

// flush writes what is held back of text.
func (s *cellShown) flush() {
	flushScreens(s.out, s.err)
	if s.midLine && s.interactive() {
		fmt.Fprintln(s.streams.Out)
	}
	s.midLine = false
}

// note says what has become of the interpreter.
func (s *cellShown) note(cell *client.Cell) {
	message := printable(cell.Message)
	if cell.Restarted && message == "" {
		message = "the interpreter is a new one: variables are gone, files are there"
	}
	switch {
	case message != "":
		s.noted = true
		s.say("airlock: %s", message)
	case cell.Status == client.CellTimeout || cell.Status == client.CellLost:
		s.say("airlock: the cell ended as %s", cell.Status)
	}
	for _, d := range cell.Dropped {
		s.say("airlock: %s was not stored: %s", printableName(d.Path), printable(d.Reason))
	}
}

func (s *cellShown) output(o client.Output) error {
	var err error
	switch o.Type {
	case client.OutputStdout:
		_, err = io.WriteString(s.out, o.Text)
		s.midLine = o.Text != "" && !strings.HasSuffix(o.Text, "\n")
	case client.OutputStderr:
		_, err = io.WriteString(s.err, o.Text)
		s.midLine = o.Text != "" && !strings.HasSuffix(o.Text, "\n")
	case client.OutputError:
		s.flush()
		lines := o.Traceback
		if len(lines) == 0 {
			lines = []string{o.Name + ": " + o.Value}
		}
		_, err = io.WriteString(s.err, strings.Join(lines, "\n")+"\n")
	case client.OutputDisplay, client.OutputResult:
		s.flush()
		err = s.show(o)
	}
	if err != nil {
		return fail(exitFailed, "", "the output cannot be written: %w", err)
	}
	return nil
}

// pictureTypes are those that are saved, the best first.
var pictureTypes = []string{"image/png", "image/jpeg", "image/svg+xml"}

// show writes the text of a value, and keeps its picture.
func (s *cellShown) show(o client.Output) error {
	for _, mime := range pictureTypes {
		if content, ok := o.Data[mime]; ok {
			s.pictures = append(s.pictures, picture{mime, content, o.DisplayID})
			if o.Type == client.OutputDisplay {
				return nil // its name says it
			}
			break
		}
	}
	var text string
	for _, mime := range []string{"text/plain", "text/markdown", "text/latex"} {
		if json.Unmarshal(o.Data[mime], &text) == nil {
			break
		}
	}
	if text == "" && len(s.pictures) == 0 {
		var types []string
		for mime := range o.Data {
			types = append(types, mime)
		}
		slices.Sort(types)
		text = "(" + strings.Join(types, ", ") + ")"
	}
	label := ""
	if o.Type == client.OutputResult && s.interactive() && s.lang == "python" {
		label = fmt.Sprintf("Out[%d]: ", s.count)
		if strings.Contains(text, "\n") {
			label += "\n"
		}
	}
	_, err := io.WriteString(s.out, label+strings.TrimSuffix(text, "\n")+"\n")
	return err
}
