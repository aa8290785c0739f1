package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // for their sizes
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

// interruptInterval is the time between interrupts, of which the first may come before the cell.
const interruptInterval = 100 * time.Millisecond

// runCell runs a cell and streams its outputs. Ctrl-C ends during and interrupts the
// cell; a second one ends the command.
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
		// The cell may not have arrived yet. The events tell how it ends.
		for ctx.Err() == nil {
			_ = r.client.Interrupt(ctx, r.id)
			select {
			case <-done:
				return
			case <-time.After(interruptInterval):
			}
		}
	}()
	defer func() { close(done); <-interrupting }()
	shown := &cellView{repl: r, out: r.screen(r.Streams.Out), err: r.screen(r.Streams.Err)}
	if r.silent {
		shown.out, shown.err = io.Discard, io.Discard
	}
	req := client.CellRequest{Code: code, Timeout: r.options.timeout, Input: r.Interactive()}
	for e, err := range r.client.StreamCell(ctx, r.id, req) {
		if err != nil {
			shown.flush()
			return "", command.Interrupted(ctx, severed(err))
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
			return e.Cell.Status, r.done(ctx, e.Cell, shown.pictures)
		default:
			if r.seen != nil {
				r.seen(e.Output)
			}
			if err := shown.output(e.Output); err != nil {
				return "", err
			}
		}
	}
	return "", severed(io.ErrUnexpectedEOF)
}

// answer passes the question of the code to the user, and the answer back. An interrupt
// or the end of input is no answer.
func (r *repl) answer(ctx, during context.Context, e client.CellEvent) error {
	show := func() {}
	if f := command.FileOf(r.Streams.In); f != nil && e.Password {
		show = hideKeys(f)
	}
	text, err := r.ReadLine(during, command.Printable(e.Prompt))
	show()
	switch {
	case during.Err() != nil: // the cell is being interrupted
		return ctx.Err()
	case err != nil:
		return r.client.Interrupt(ctx, r.id)
	}
	return r.client.Answer(ctx, r.id, strings.ToValidUTF8(text, "\ufffd"))
}

// hideKeys turns the echo of a terminal off until show is called.
func hideKeys(f *os.File) (show func()) {
	restore, err := command.ChangeTerminal(f, func(mode *unix.Termios) {
		mode.Lflag &^= unix.ECHO
		mode.Lflag |= unix.ECHONL
	})
	if err != nil {
		return func() {} // not a terminal
	}
	return func() { _ = restore() }
}

// cellView shows the outputs of a cell.
type cellView struct {
	*repl
	out, err io.Writer
	noted    bool
	pictures []picture
}

// picture is a picture that a cell displayed.
type picture struct {
	mime    string
	content json.RawMessage // a string: base64, or the text of an SVG
	display string          // id for updates; empty: none
}

// bytes returns the picture as a file, or nil.
func (p picture) bytes() []byte {
	var text string
	if json.Unmarshal(p.content, &text) != nil {
		return nil
	}
	if p.mime == "image/svg+xml" {
		return []byte(text)
	}
	content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil
	}
	return content
}

// flush writes text that is held back, and ends the line.
func (s *cellView) flush() {
	flushScreens(s.out, s.err)
	s.EndLine()
}

// note shows what happened to the interpreter.
func (s *cellView) note(cell *client.Cell) {
	message := command.Printable(cell.Message)
	if cell.Restarted && message == "" {
		message = "the interpreter is a new one: variables are gone, files are there"
	}
	switch {
	case cell.Status == client.CellLost && s.told: // with the same message
	case message != "":
		s.noted = true
		s.Say("airlock: %s", message)
	case cell.Status == client.CellTimeout:
		s.Say("airlock: the cell ran out of time: --timeout gives cells more")
	case cell.Status == client.CellLost:
		s.Say("airlock: the interpreter ended in the cell: variables are gone, files stay, and the next cell has a new one")
	}
	for _, d := range cell.Dropped {
		s.Say("airlock: %s was not stored: %s", command.PrintableName(d.Path), command.Printable(d.Reason))
	}
}

func (s *cellView) output(o client.Output) error {
	var err error
	switch o.Type {
	case client.OutputStdout:
		_, err = io.WriteString(s.out, o.Text)
	case client.OutputStderr:
		_, err = io.WriteString(s.err, o.Text)
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
		return command.Fail(command.ExitFailed, "", "the output cannot be written: %w", err)
	}
	return nil
}

// pictureTypes are the types that are saved, by preference.
var pictureTypes = []string{"image/png", "image/jpeg", "image/svg+xml"}

// show writes the text of a value, and keeps its picture for saving.
func (s *cellView) show(o client.Output) error {
	for _, mime := range pictureTypes {
		if content, ok := o.Data[mime]; ok {
			shown := picture{mime, content, o.DisplayID}
			s.pictures = append(s.pictures, shown)
			if !o.Update {
				s.drawn.Draw(shown.bytes())
			}
			if o.Type == client.OutputDisplay {
				return nil // the name of the saved file is shown
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
	if o.Type == client.OutputResult && s.Interactive() && s.lang == "python" {
		label = fmt.Sprintf("Out[%d]: ", s.count)
		if strings.Contains(text, "\n") {
			label += "\n"
		}
	}
	_, err := io.WriteString(s.out, label+strings.TrimSuffix(text, "\n")+"\n")
	return err
}

// replFiles saves what cells make: pictures under new names, files under their own.
type replFiles struct {
	*liveSession
	folder  string // empty: none
	saver   *command.Saver
	unsaved []client.File // what cells made while there was no folder, newest last

	count   int               // number of pictures
	shown   map[string]string // names of pictures that can be updated, by display id
	own     map[string]bool   // saved names, which later files replace
	content map[string][]byte // of pictures that are not saved yet, by id
}

// mostUnsaved bounds the pictures and files that are remembered for :save.
const mostUnsaved = 100

func (f *replFiles) close() {
	if f.saver != nil {
		f.saver.Root.Close()
	}
}

// save saves the pictures and files of a cell, and shows their names.
func (f *replFiles) save(ctx context.Context, cell *client.Cell, pictures []picture) error {
	if len(pictures) == 0 && len(cell.Files) == 0 {
		return nil
	}
	return f.saveOutputs(ctx, append(f.name(pictures), cell.Files...))
}

// saveInto saves what there is, and from now on what cells make, into a folder.
func (f *replFiles) saveInto(ctx context.Context, folder string) error {
	if folder == "" {
		return command.Fail(command.ExitUsage, "as :save out", ":save needs the folder to save into")
	}
	f.close()
	f.folder, f.saver, f.own = folder, nil, map[string]bool{}
	outputs := f.unsaved
	f.unsaved = nil
	if len(outputs) == 0 {
		f.Say("what cells make is saved into %s from now on", command.PrintableName(folder))
	}
	return f.saveOutputs(ctx, outputs)
}

// remember lists outputs that are not saved, which :save does.
func (f *replFiles) remember(outputs []client.File) {
	how := "-o DIR"
	if f.Interactive() {
		how = ":save DIR"
	}
	for _, o := range outputs {
		f.Say("not saved (%s saves it): %s  %s%s", how, command.PrintableName(o.Path),
			humanize.IBytes(uint64(max(0, o.Size))), f.look(o))
		f.unsaved = slices.DeleteFunc(f.unsaved, func(old client.File) bool { return old.Path == o.Path })
		if f.unsaved = append(f.unsaved, o); len(f.unsaved) > mostUnsaved {
			delete(f.content, f.unsaved[0].ID)
			f.unsaved = f.unsaved[1:]
		}
	}
}

func (f *replFiles) saveOutputs(ctx context.Context, outputs []client.File) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	if f.saver == nil {
		f.remember(outputs)
		return nil
	}
	f.saver.Check(outputs)
	for _, o := range outputs {
		saved, err := f.saver.Save(ctx, o)
		if err != nil {
			if ctx.Err() != nil {
				return command.Interrupted(ctx, err)
			}
			f.Out.Fail(err)
			continue
		}
		switch saved.State {
		case command.SaveDone:
			f.own[saved.As] = true
			f.Say("saved %s%s", command.PrintableName(filepath.Join(f.folder, saved.As)), f.look(o))
		case command.SaveHeld:
			f.Say("not saved: %s: %s; --allow %s saves it", command.PrintableName(o.Path), command.Printable(saved.Reason),
				command.QuoteForShell(command.PrintableName(o.Path)))
		}
		delete(f.content, o.ID)
	}
	return nil
}

// name returns pictures as outputs. A picture that updates another has its name.
func (f *replFiles) name(pictures []picture) (outputs []client.File) {
	if f.content == nil {
		f.content = map[string][]byte{}
	}
	for _, p := range pictures {
		content := p.bytes()
		if content == nil {
			continue
		}
		name := f.shown[p.display]
		if name == "" || p.display == "" {
			f.count++
			name = fmt.Sprintf("figure-%d%s", f.count, map[string]string{
				"image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg"}[p.mime])
		}
		if p.display != "" {
			f.shown[p.display] = name
		}
		sum := sha256.Sum256(content)
		out := client.File{ID: "a picture: " + name, Path: name, Size: int64(len(content)),
			SHA256: hex.EncodeToString(sum[:])}
		if i := slices.IndexFunc(outputs, func(o client.File) bool { return o.Path == name }); i >= 0 {
			outputs[i] = out // the newest
		} else {
			outputs = append(outputs, out)
		}
		f.content[out.ID] = content
	}
	return outputs
}

// look returns the size of a picture as text, or "".
func (f *replFiles) look(o client.File) string {
	config, _, err := image.DecodeConfig(bytes.NewReader(f.content[o.ID]))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%dx%d)", config.Width, config.Height)
}

// open opens the folder, if there is one.
func (f *replFiles) open(ctx context.Context) error {
	if f.folder == "" || f.saver != nil {
		return nil
	}
	fetch := func(ctx context.Context, id string, to io.Writer) error {
		content, ok := f.content[id]
		if !ok {
			return f.download(ctx, id, to)
		}
		_, err := to.Write(content)
		return err
	}
	s, err := command.NewSaver(ctx, f.App, f.folder, f.options.SaveFlags, fetch)
	if err != nil {
		return err
	}
	s.Choose = func(name string) (command.Choice, error) {
		if f.own[name] {
			return command.ChooseReplace, nil
		}
		return command.ChooseRename, nil
	}
	f.saver = s
	return nil
}
