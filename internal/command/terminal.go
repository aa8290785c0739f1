package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Interrupts make Ctrl-C end a turn of a chat instead of the chat.
type Interrupts struct {
	mu   sync.Mutex
	stop context.CancelFunc // ends the turn; nil: there is none, or it is ending
}

// EndSignals returns the signals that ask a command to end.
func EndSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// Interruptible returns the context of a chat. At a terminal the first Ctrl-C during
// a turn ends the turn. Every other signal ends the chat, and the next one the process.
func (a *App) Interruptible(ctx context.Context) (context.Context, *Interrupts, func()) {
	if !a.Interactive() {
		return ctx, nil, func() {}
	}
	i := &Interrupts{}
	chat, end := context.WithCancel(context.WithoutCancel(ctx)) // the first signal ends the other one
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, EndSignals()...)
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
	a.EndLine()
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
