package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// On the disk everything in a volume belongs to the service's user, so that the service can
// measure, copy and remove it. Where each sandbox has a user of its own, the mount maps one user
// to the other: nothing is changed on the disk when a volume goes from one sandbox to the next.

// weakAllocation lets programs reserve space in volumes, and use the ioctls of their file system, in tests.
const weakAllocation = "volume rules"

// volumeRules are the rules of programs with volumes, whose files are on a disk. To reserve space takes no time,
// so that a program could take all of a disk between two measurements: libraries write zeros instead. The ioctls of
// file systems could take the files from the service's hands, by encryption for example, and reach much more of the
// kernel than tmpfs has: only those of terminals, descriptors and sockets are left.
func volumeRules(weaken []string) []argumentRule {
	if slices.Contains(weaken, weakAllocation) {
		return nil
	}
	const command, kind = 1, 0xff00
	return []argumentRule{
		{unix.SYS_FALLOCATE, unconditional(refuse(unix.EOPNOTSUPP))},
		{unix.SYS_IOCTL, append([]bpf.Instruction{
			argument(command), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: kind},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TCGETS & kind, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SIOCGIFCONF & kind, SkipTrue: 1},
			refuse(unix.ENOTTY),
		}, noneOf(command, unix.EPERM, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD)...)},
	}
}

// mapVolumes lets the sandbox's user own what is in its volumes.
func (s *sandbox) mapVolumes() error {
	if !s.wall.Root {
		return nil // it is the service's user
	}
	for i, volume := range s.Volumes {
		if err := s.mapVolume(volume); err != nil {
			return executor.NewFailure(engine.ErrUnavailable,
				fmt.Sprintf("the volume at %s cannot be given to a program: %v", s.Request.Volumes[i].Path, err),
				"the file system of the volumes must know idmapped mounts (ext4, xfs, btrfs; not NFS or overlayfs), which an "+
					"Airlock that runs without root does not need")
		}
	}
	return nil
}

func (s *sandbox) mapVolume(volume *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(volume.Fd()), &st); err != nil {
		return err
	}
	return mapUsers(volume, int(st.Uid), int(st.Gid), s.UID)
}

// mapUsers maps a user and a group of the file system that a copy of a mount shows, and of those below it, to a
// user's. Nobody else's files can be written to there, and no socket or pipe of theirs be opened for that.
func mapUsers(copied *os.File, uid, gid, to int) error {
	users, err := newUsers(uid, gid, image.Users{First: to, Count: 1})
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

// volumeFolders makes the places of volumes, each on a small file system of this sandbox, with what
// the image has there: only the sandbox's own programs see the names.
func (s *sandbox) volumeFolders(root string) (steps []spawn.Step) {
	for _, folder := range s.Request.VolumeFolders() {
		steps = append(steps, mount("mount "+folder, "airlock", root+folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
			"mode=755,size=64k,nr_inodes=64"))
		var places []string
		if folder == path.Dir(image.RootData) {
			places = append(places, image.RootData)
			for _, f := range s.Mounts {
				places = append(places, image.SharedIn(f.Name()))
			}
		}
		for _, v := range s.Request.Volumes {
			if path.Dir(v.Path) == folder {
				places = append(places, v.Path)
			}
		}
		for _, place := range places {
			steps = append(steps, spawn.Call("make "+place, unix.SYS_MKDIRAT, unix.AT_FDCWD, root+place, 0o755))
		}
	}
	return steps
}

// volumeMounts mounts the volumes.
func (s *sandbox) volumeMounts(root string) (steps []spawn.Step) {
	for i, v := range s.Request.Volumes {
		steps = append(steps, moveMount("mount the volume at "+v.Path, s.Volumes[i], root+v.Path))
	}
	for _, folder := range s.Request.VolumeFolders() {
		const flags = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
		steps = append(steps, mount("make "+folder+" read-only", "", root+folder, "", flags, ""))
	}
	return steps
}
