package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/egress"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/setup"
)

// As root the service is two processes. A small parent keeps root's rights, and uses
// them only to start executors. The service itself, which handles network input, is
// this binary executed again as an ordinary user. Over a shared socket it asks for
// executors and gets the sockets to them.

// launcherSocket is the number of that socket in the service.
const launcherSocket = 3

// egressSocket is the number of the socket over which it asks for egress processes.
const egressSocket = launcherSocket + 1

// serveAsRoot runs the parent. It restarts a service that was killed or crashed, and else
// ends with the service's exit code.
func (a *app) serveAsRoot(ctx context.Context) error {
	credential, err := a.ServiceUser()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, command.EndSignals()...)
	defer signal.Stop(signals)
	wait := firstRestart
	for {
		began := time.Now()
		asked, err := a.serveOnce(ctx, credential, signals)
		lived := time.Since(began)
		if asked || !crashed(err, lived) {
			return childError(err)
		}
		if lived > steadyAfter {
			wait = firstRestart
		}
		a.Log.Error("the service ended unexpectedly and is started again", "error", err, "wait", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-signals:
			timer.Stop()
			return childError(err)
		}
		wait = min(2*wait, lastRestart)
	}
}

// The delay before a crashed service is restarted grows from firstRestart to lastRestart.
// It is reset once a service has run for steadyAfter.
const (
	firstRestart = 200 * time.Millisecond
	lastRestart  = 30 * time.Second
	steadyAfter  = time.Minute

	panicked  = 2 // the exit code of Go's runtime, which is also that of bad usage:
	usageTime = 2 * time.Second
)

// crashed reports whether a service did not end by itself.
func crashed(err error, lived time.Duration) bool {
	exited, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	return !exited.Exited() || exited.ExitCode() == panicked && lived > usageTime
}

// serveOnce starts the service and returns how it ended, and whether it was asked to end.
func (a *app) serveOnce(
	ctx context.Context, credential *syscall.Credential, signals <-chan os.Signal,
) (asked bool, err error) {
	ours, theirs, err := launcherSockets()
	if err != nil {
		return false, err
	}
	egressOurs, egressTheirs, err := launcherSockets()
	if err != nil {
		return false, errors.Join(err, ours.Close(), theirs.Close())
	}

	cmd := a.AsUser(credential, "serve", "--launcher-socket", strconv.Itoa(launcherSocket))
	cmd.ExtraFiles = []*os.File{theirs, egressTheirs}
	// The service never survives the parent.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// In a session of its own it does not get the terminal's Ctrl-C. The parent forwards it.
	cmd.SysProcAttr.Setsid = true

	started, ended := make(chan error), make(chan error, 1)
	go runOnOneThread(cmd, started, ended)
	err = <-started
	theirs.Close()
	egressTheirs.Close()
	if err != nil {
		ours.Close()
		egressOurs.Close()
		return false, command.Fail(command.ExitUnavailable, "", "the service could not be started as user %s: %w", setup.User,
			err)
	}

	defer command.InBackground(context.WithoutCancel(ctx), func(ctx context.Context) {
		if err := executor.ServeLauncher(ctx, ours, a.ownLauncher(cmd.Process.Pid)); err != nil {
			a.Log.Error("executors can no longer be started", "error", err)
		}
	}, func(ctx context.Context) {
		if err := egress.ServeLauncher(ctx, egressOurs, egress.NewLauncher()); err != nil {
			a.Log.Error("egress processes can no longer be started", "error", err)
		}
	})()

	if ctx.Err() != nil {
		asked = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // the signal came before Notify
	}
	for {
		select {
		case s := <-signals:
			asked = true
			if s == syscall.SIGHUP { // the terminal is gone, which the service does not have
				s = syscall.SIGTERM
			}
			_ = cmd.Process.Signal(s) // the service may have ended
		case err := <-ended:
			return asked, err
		}
	}
}

// launcherSockets returns the ends of a socket: the parent's, and that of the service.
func launcherSockets() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "service"), os.NewFile(uintptr(fds[1]), "launcher"), nil
}

// runOnOneThread starts a command from a thread that lives until the command has ended:
// the kernel ties Pdeathsig to the thread, not to the process.
func runOnOneThread(cmd *exec.Cmd, started, ended chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	executor.RestCalmly()
	err := cmd.Start()
	started <- err
	if err == nil {
		ended <- cmd.Wait()
	}
}

// childError returns the error of a child process, which has printed the reason itself.
func childError(err error) error {
	exited, ok := errors.AsType[*exec.ExitError](err)
	own, said := errors.AsType[*command.Failure](err)
	switch {
	case err == nil:
		return nil
	case said:
		return own
	case ok && exited.ExitCode() > 0:
		return command.Exit(exited.ExitCode())
	}
	return command.Fail(command.ExitFailed, "", "the process of user %s failed: %w", setup.User, err)
}
