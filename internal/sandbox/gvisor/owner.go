package gvisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Owner implements Wall.
func (l *wall) Owner(uid int) (*os.File, error) { return mapped(0, 0, uid) }

// mapped makes a user namespace in which a user of sandboxes, and its group, have other numbers. That of its kernel,
// which makes files before it gives them to the program, has its own. A process makes the namespace that is ended
// before its first step.
func mapped(uid, gid, to int) (*os.File, error) {
	runtime.LockOSThread() // which traces the process
	defer runtime.UnlockOSThread()
	c := exec.Command(commandPath)
	c.Env, c.Dir = []string{}, "/"
	own := syscall.SysProcIDMap{ContainerID: to + kernelUsers, HostID: to + kernelUsers, Size: 1}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Ptrace: true,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: to, Size: 1}, own},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: to, Size: 1}, own}}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	return os.Open(fmt.Sprintf("%s/%d/ns/user", image.ProcPath, c.Process.Pid))
}

// giveVolumes lets the program own what is in its volumes.
func (w *cell) giveVolumes() error {
	for i, volume := range w.Volumes {
		if err := w.mapOwner(volume); err != nil {
			return executor.NewFailure(engine.ErrUnavailable,
				fmt.Sprintf("the volume at %s cannot be given to a program: %v", w.Request.Volumes[i].Path, err),
				"the file system of the volumes must know idmapped mounts (ext4, xfs, btrfs; not NFS or overlayfs)")
		}
	}
	return nil
}

// mapOwner has the owner of a file system that a copy of a mount shows appear as the user of the box.
func (w *cell) mapOwner(copied *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(copied.Fd()), &st); err != nil {
		return err
	}
	users, err := mapped(int(st.Uid), int(st.Gid), w.UID)
	if err != nil {
		return err
	}
	defer users.Close()
	err = unix.MountSetattr(int(copied.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())})
	if errors.Is(err, unix.EINVAL) {
		return errors.New("its file system does not map users")
	}
	return err
}
