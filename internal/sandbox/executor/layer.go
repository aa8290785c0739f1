package executor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A live session may write to the whole root: /app, /opt, /etc, /usr/local. What it writes
// goes to a layer over the root, an overlay whose upper folder is on the file system of
// the held workspace. So it counts as files of the workspace do, is out of reach of all
// other sandboxes, and is gone with the last interpreter of the session.
//
// What the root itself has belongs to root. A mount of it that maps root to the session's
// user lies below the overlay, so that everything appears to be the user's own, and
// is copied when it is changed. Mounts in the root stay as they are (image.Root.Kept):
// /usr, /dev and all that is Airlock's own.

// layers are those over the roots in which the interpreters of one held workspace run. All
// interpreters in one root share them.
type layers struct {
	mu   sync.Mutex
	next int
	list []layer

	inodes int // that they have while they are empty
}

type layer struct {
	of *image.Root
	at []string // where they are mounted, one for each base
}

// layersOver returns a mount for each base of a root, attached nowhere; none if this machine
// cannot have them there, which is logged.
func (e *executor) layersOver(h *heldWorkspace, r *image.Root) (mounts []*os.File, err error) {
	if e.noLayers != nil {
		return nil, nil
	}
	n := &h.layers
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.list, func(l layer) bool { return l.of == r })
	if i < 0 {
		at, err := e.layAll(h, r)
		switch {
		case errors.Is(err, unix.ENOSPC):
			return nil, fmt.Errorf("make the root of a session writable: %w", err)
		case err != nil:
			if _, logged := e.coldCauses.LoadOrStore(r.Path, true); !logged {
				fmt.Fprintf(os.Stderr, "airlock executor: the root of live sessions in %s is read-only: %v\n", r.Path, err)
			}
		}
		n.list = append(n.list, layer{r, at})
		i = len(n.list) - 1
	}
	for _, at := range n.list[i].at {
		fd, err := image.OpenTree(at, 0)
		if err != nil {
			CloseAll(mounts...)
			return nil, err
		}
		mounts = append(mounts, os.NewFile(uintptr(fd), at))
	}
	return mounts, nil
}

// layAll mounts a layer over each base of a root.
func (e *executor) layAll(h *heldWorkspace, r *image.Root) (list []string, err error) {
	var owner *os.File // nil without root: all files are the user's
	if e.machine.Root {
		if owner, err = e.wall.Owner(h.uid); err != nil {
			return nil, err
		}
		defer owner.Close()
	}
	_ = h.keepSpare(0) // removes
	free := h.freeInodes()
	defer func() {
		h.layers.inodes += free - h.freeInodes()
		_ = h.keepSpare(spareInodes - h.layers.inodes) // a program beside it may have taken their place
	}()
	for _, base := range r.Bases {
		h.layers.next++
		folder := path.Join(h.disk, strconv.Itoa(h.layers.next))
		err := os.Mkdir(folder, 0o755)
		if err == nil {
			err = e.lay(h.uid, owner, base, folder)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, path.Join(folder, "root"))
	}
	return list, nil
}

// dropLayers removes the layers if no interpreter is left in them.
func (e *executor) dropLayers(h *heldWorkspace) {
	n := &h.layers
	n.mu.Lock()
	defer n.mu.Unlock()
	e.mu.Lock()
	used := h.live > 0
	e.mu.Unlock()
	if used {
		return
	}
	for _, l := range n.list {
		for _, at := range l.at {
			_ = unix.Unmount(at, unix.MNT_DETACH)
			removeLayer(path.Dir(at))
		}
	}
	n.list, n.inodes = nil, 0
	_ = h.keepSpare(spareInodes) // else a program has taken their place already
}

// removeLayer removes the folder of a layer. If that takes too long, the rest goes with the workspace.
func removeLayer(at string) {
	disk, err := os.OpenFile(path.Dir(at), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer disk.Close()
	_ = removeAll(int(disk.Fd()), path.Base(at))
}

// lay mounts an overlay over a base, with its files in a folder.
func (e *executor) lay(uid int, owner *os.File, base image.Base, folder string) error {
	in := func(name string) string { return path.Join(folder, name) }
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(in(name), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chown(in("upper"), uid, uid); err != nil {
		return err
	}
	var lower []string
	for i, l := range base.Layers {
		at := in("lower" + strconv.Itoa(i))
		if err := attachOwned(l, at, owner); err != nil {
			return err
		}
		defer func() {
			_ = unix.Unmount(at, unix.MNT_DETACH) // the overlay has a copy
			_ = os.Remove(at)
		}()
		lower = append(lower, at)
	}
	over, err := newMount("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, func(ctx int) error {
		if e.machine.Root {
			return nil
		}
		return unix.FsconfigSetFlag(ctx, "userxattr")
	}, [2]string{"source", "airlock"}, [2]string{"lowerdir", strings.Join(lower, ":")},
		[2]string{"upperdir", in("upper")}, [2]string{"workdir", in("work")},
		[2]string{"index", "off"}, [2]string{"metacopy", "off"},
		[2]string{"redirect_dir", "nofollow"}) // folders of the root, in which there are mounts, cannot be moved
	if err != nil {
		return err
	}
	defer over.Close()
	return unix.MoveMount(int(over.Fd()), "", unix.AT_FDCWD, in("root"), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// attachOwned mounts a folder where what is root's belongs to the owner. On a file system that
// cannot do that it stays root's.
func attachOwned(folder *os.File, at string, owner *os.File) error {
	fd, err := unix.OpenTree(int(folder.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if owner != nil {
		attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(owner.Fd())}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attributes); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("give its files to the session's user: %w", err)
		}
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// tryLayers finds out whether live sessions can write to their root here.
func (e *executor) tryLayers() error {
	h, err := e.newHeld(1<<20, 8)
	if err != nil {
		return err
	}
	defer e.discard(h)
	at, err := e.layAll(h, e.environments[""].Root)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	hosts := at[0] + "/etc/hosts"
	if err := errors.Join(os.Chmod(hosts, 0o600), unix.Lstat(hosts, &st)); err != nil {
		return err
	}
	if int(st.Uid) != h.uid {
		return errors.New("the files below an overlay stay root's")
	}
	return nil
}

// layersLayer tells whether live sessions can write to their root.
func (e *executor) layersLayer() engine.Layer {
	const name = "session root"
	if e.noLayers != nil {
		return engine.Layer{Name: name, State: engine.LayerMissing, Cure: "Linux 6.6 or later",
			Detail: "live sessions write to their workspace and /tmp alone, not to /opt, /etc or /usr/local: " +
				e.noLayers.Error()}
	}
	return EnforcedLayer(name, "live sessions write to a layer of their own over it; other programs cannot write to it")
}
