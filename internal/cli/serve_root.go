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
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/egress"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
	"github.com/airlock-run/airlock/internal/setup"
)

// As root the service is two processes. A small parent keeps root's rights
// and does nothing with them but start executors; the service itself, which
// talks to the network and reads what strangers send, is this binary executed
// again as an ordinary user. They share one socket, over which the service
// asks for an executor and gets the socket to it.

// launcherSocket is the number of that socket in the service.
const launcherSocket = 3

// egressSocket is that of the one over which it asks for egress processes.
const egressSocket = launcherSocket + 1

// serveAsRoot is the parent. It ends when the service does, with its exit code. A
// service that was killed, as for want of memory, or that crashed, it starts again.
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

// How soon a service that crashed is started again: at first almost at once, then
// ever later, until one has lived for a while.
const (
	firstRestart = 200 * time.Millisecond
	lastRestart  = 30 * time.Second
	steadyAfter  = time.Minute

	panicked  = 2 // the exit code of Go's runtime, which is also that of bad usage:
	usageTime = 2 * time.Second
)

// crashed reports whether a service ended otherwise than it wanted to.
func crashed(err error, lived time.Duration) bool {
	exited, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	return !exited.Exited() || exited.ExitCode() == panicked && lived > usageTime
}

// serveOnce starts the service and returns how it ended, and whether it was asked
// to.
func (a *app) serveOnce(
	ctx context.Context, credential *syscall.Credential, signals <-chan os.Signal,
) (asked bool, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "service"), os.NewFile(uintptr(fds[1]), "launcher")
	if fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return false, errors.Join(err, ours.Close(), theirs.Close())
	}
	egressOurs, egressTheirs := os.NewFile(uintptr(fds[0]), "service"), os.NewFile(uintptr(fds[1]), "launcher")

	cmd := a.asUser(credential, "serve", "--launcher-socket", strconv.Itoa(launcherSocket))
	cmd.ExtraFiles = []*os.File{theirs, egressTheirs}
	// Nothing of ours survives us, however we end.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A session of its own: the terminal's Ctrl-C comes to us, once, and we
	// pass it on.
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

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var launching sync.WaitGroup
	launching.Go(func() {
		if err := linux.ServeLauncher(serving, ours, a.ownLauncher(cmd.Process.Pid)); err != nil {
			a.log.Error("executors can no longer be started", "error", err)
		}
	})
	launching.Go(func() {
		if err := egress.ServeLauncher(serving, egressOurs, egress.NewLauncher()); err != nil {
			a.log.Error("egress processes can no longer be started", "error", err)
		}
	})
	defer launching.Wait()
	defer stop()

	if ctx.Err() != nil {
		asked = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // it came before we listened
	}
	for {
		select {
		case s := <-signals:
			asked = true
			_ = cmd.Process.Signal(s) // it may just have ended, and then so do we
		case err := <-ended:
			return asked, err
		}
	}
}

// runOnOneThread starts a command from a thread that lives until the command
// has ended: the kernel ties Pdeathsig to the thread, not to the process.
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

// childError passes on how a child process ended. It said why itself.
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

// asUser prepares this binary to be executed again as another user, with our
// settings in its environment, secrets too: nobody but that user and root can read them.
func (a *app) asUser(credential *syscall.Credential, args ...string) *exec.Cmd {
	// By this name it can be executed wherever it lies: that user may have no
	// way into the folder.
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(a.cfg.Environ(a.cfg.Data), a.cfg.ServiceSecrets()...)
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, a.streams.Out, a.streams.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd
}

// serviceUser finds the user that the service runs as. Setup makes it, and the
// data directory that it can write to.
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
