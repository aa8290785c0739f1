package gvisor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Owner implements Wall. It makes the namespace with a process that is ended before its first step.
func (l *wall) Owner(uid int) (*os.File, error) {
	runtime.LockOSThread() // which traces the process
	defer runtime.UnlockOSThread()
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	c := exec.Command(commandPath)
	c.Env, c.Dir = []string{}, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: root, GidMappings: root,
		Ptrace: true}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	return os.Open(fmt.Sprintf("%s/%d/ns/user", image.ProcPath, c.Process.Pid))
}
