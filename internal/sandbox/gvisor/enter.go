package gvisor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// Enter implements Cell.
func (w *cell) Enter(c *executor.Command, create executor.Creator) error {
	return create(func() (executor.Entered, error) {
		j, ended, err := w.requests.newJob()
		if err != nil {
			return executor.Entered{}, err
		}
		answer, err := w.requests.ask(request{Start: &startRequest{Job: j.name, Argv: c.Argv, Env: c.Env, Dir: c.Dir,
			User: w.inner(), Terminal: c.Terminal != nil}}, c.Files...)
		if err != nil {
			j.forget()
			unix.Close(ended)
			return executor.Entered{}, notStarted(c, err)
		}
		return executor.Entered{Pidfd: ended, Inner: answer.PID, By: j, Job: j}, nil
	})
}

// notStarted returns the failure of a command that was not started. gVisor has no other form of its errors.
func notStarted(c *executor.Command, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "working directory"):
		return executor.NewFailure(engine.ErrInvalid, "cannot start in that folder: "+reason(text),
			"name a folder of the session to start in, or none for the workspace")
	case strings.Contains(text, "failed to load"), strings.Contains(text, "error finding executable"):
		return &executor.Failure{Kind: engine.ErrInvalid, Field: "argv",
			Text: fmt.Sprintf("cannot execute %s: %s", c.Argv[0], reason(text)),
			Hint: "name a command that is installed, or a file of the workspace that may be executed"}
	}
	return err
}

// reason returns the last part of an error's text, which is that of the error number.
func reason(text string) string { return text[strings.LastIndex(text, ": ")+len(": "):] }

// Interrupt implements Cell.
func (w *cell) Interrupt() {
	// It may have ended.
	_, _ = w.requests.ask(request{Signal: &signalRequest{Job: sandboxID, Group: 1, Number: int(unix.SIGINT)}})
}

// sandboxID is the job of the program.
const sandboxID = "cell"

// ShowTerminals implements Cell. The sandbox has a file system of its own for them.
func (w *cell) ShowTerminals() error { return nil }

// Dial implements Cell.
func (w *cell) Dial(port int) (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "port")
	defer theirs.Close()
	_, err = w.requests.ask(request{Dial: port}, theirs)
	if err != nil {
		ours.Close()
		if strings.Contains(err.Error(), "refused") {
			return nil, unix.ECONNREFUSED
		}
		return nil, err
	}
	return ours, nil
}

// Store implements Cell.
func (w *cell) Store(to *os.File) error {
	_, err := w.requests.ask(request{Store: true}, to)
	return err
}

// Settle implements Cell.
func (w *cell) Settle(goOn bool) error {
	_, err := w.requests.ask(request{Settle: &settleRequest{goOn}})
	return err
}
