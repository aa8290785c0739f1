package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/egress"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
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
	credential, err := a.serviceUser()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
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
		a.log.Error("the service ended unexpectedly and is started again", "error", err, "wait", wait)
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

	cmd := a.asUser(credential, "serve", "--launcher-socket", strconv.Itoa(launcherSocket))
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
		return false, fail(exitUnavailable, "", "the service could not be started as user %s: %w", setup.User, err)
	}

	defer inBackground(context.WithoutCancel(ctx), func(ctx context.Context) {
		if err := linux.ServeLauncher(ctx, ours, a.ownLauncher(cmd.Process.Pid)); err != nil {
			a.log.Error("executors can no longer be started", "error", err)
		}
	}, func(ctx context.Context) {
		if err := egress.ServeLauncher(ctx, egressOurs, egress.NewLauncher()); err != nil {
			a.log.Error("egress processes can no longer be started", "error", err)
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
	linux.RestCalmly()
	err := cmd.Start()
	started <- err
	if err == nil {
		ended <- cmd.Wait()
	}
}

// childError returns the error of a child process, which has printed the reason itself.
func childError(err error) error {
	exited, ok := errors.AsType[*exec.ExitError](err)
	own, said := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return nil
	case said:
		return own
	case ok && exited.ExitCode() > 0:
		return exit(exited.ExitCode())
	}
	return fail(exitFailed, "", "the process of user %s failed: %w", setup.User, err)
}

// asUser prepares this binary to be executed again as another user, with the settings and
// secrets in its environment, which only that user and root can read.
func (a *app) asUser(credential *syscall.Credential, args ...string) *exec.Cmd {
	// By this name that user can execute it, even in a folder that the user cannot enter.
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(a.cfg.Environ(a.cfg.Data), a.cfg.ServiceSecrets()...)
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, a.streams.Out, a.streams.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd
}

// serviceUser returns the user that the service runs as. Setup makes the user and the data
// directory.
func (a *app) serviceUser() (*syscall.Credential, error) {
	if _, err := os.Stat(a.cfg.Data); os.IsNotExist(err) {
		return nil, &failure{code: exitUnavailable, word: "no_data",
			err:  fmt.Errorf("the data directory %s does not exist", a.cfg.Data),
			hint: "run `airlock setup` first, with the same --data"}
	}
	found, err := user.Lookup(setup.User)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return nil, &failure{code: exitUnavailable, word: "no_service_user",
			err:  errors.New("the system user " + setup.User + ", which the service runs as, does not exist"),
			hint: "run `airlock setup` first"}
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if uid == 0 || gid == 0 {
		return nil, fail(exitUnavailable, "give it a user and a group of its own", "the user %s is root under another name",
			setup.User)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
