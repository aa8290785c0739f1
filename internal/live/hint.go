package live

import (
	"context"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// hintText is how much of a cell's messages, and of a process's, the engine gets for a hint.
const hintText = 16 << 10

// addHint adds the engine's hint for a cell that fails, if there is one: to its traceback, or where
// that is empty to its stderr. It returns the traceback.
func (it *interpreter) addHint(ctx context.Context, c *cell, traceback []string) []string {
	if c.examined {
		return traceback
	}
	c.examined = true
	messages := c.log.messages()
	text := strings.Join(append([]string{messages}, traceback...), "\n")
	hint := it.at.service.engine.Hint(ctx, it.at.caller.Owner, it.run, text)
	line := hint.Line()
	if line == "" {
		return traceback
	}
	it.at.mu.Lock()
	c.Hint, c.Package = hint.Text, hint.Package
	it.at.mu.Unlock()
	if len(traceback) > 0 {
		return append(slices.Clip(traceback), line)
	}
	if messages != "" && !strings.HasSuffix(messages, "\n") {
		line = "\n" + line
	}
	c.log.write(Stderr, line+"\n", true)
	return nil
}

// messages returns the end of what a cell has written to stderr.
func (l *log) messages() (text string) {
	for _, o := range slices.Backward(l.outputs()) {
		if o.Type == Stderr {
			text = o.Text + text
		}
		if len(text) >= hintText {
			break
		}
	}
	return text
}

// addHint adds the engine's hint for a process that has failed, if there is one, to its output.
func (p *process) addHint(end engine.ProcessEnd) {
	stream, newline := ProcessStderr, "\n"
	if p.started.Stderr() == nil {
		stream, newline = ProcessTerminal, "\r\n"
	}
	if end.ExitCode == 0 || end.Signal != "" || stream == ProcessTerminal && !p.shell { // a person looks at that terminal
		return
	}
	text := p.output.last(stream)
	line := p.session.service.engine.Hint(context.Background(), p.session.caller.Owner, p.run, text).Line()
	if line == "" {
		return
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		line = newline + line
	}
	p.output.write(stream, []byte(line+newline))
}

// last returns the end of what was written to a stream.
func (o *output) last(stream ProcessEventType) (text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range slices.Backward(slices.Concat(o.head, o.chunks)) {
		if c.stream == stream {
			text = string(c.data) + text
		}
		if len(text) >= hintText {
			break
		}
	}
	return text
}
