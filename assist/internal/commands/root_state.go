package commands

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/setup"
)

// If root starts the service, it runs as the user airlock, which owns its state. Root
// must not trust that state: it says what is written where. So a command about folders
// that root runs does one of two things.
//
// If the service's user can write to the folder, the command becomes that user for good
// and works on the service's state, so that the terminal and the page show the same. It
// can do no more than the service can.
//
// Otherwise the command stays root and uses a state of root's own, which no other user can
// write to. A process of the service's user also tells the service about links and
// proposals, so that the page shows them.

// sharedState reports whether this process is root's and the service's user can write to
// the data directory, so that it must not be trusted.
func (a *Assistant) sharedState() (bool, error) {
	if os.Geteuid() != 0 {
		return false, nil
	}
	info, err := os.Stat(a.Config.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // root makes it; setup changes its owner later
	}
	if err != nil {
		return false, command.DataError(a.Config.Data, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Uid != 0 || info.Mode().Perm()&0o022 != 0, nil
}

// stateDir returns the directory of the state: the data directory, unless root must not
// trust it.
func (a *Assistant) stateDir() (string, error) {
	shared, err := a.sharedState()
	if err != nil || !shared {
		return a.Config.Data, err
	}
	return a.rootState(), nil
}

// rootState returns the directory of root's own state.
func (a *Assistant) rootState() string {
	return filepath.Join(a.Input.Home, ".local", "share", "airlock")
}

// openStateFor opens the state for a command about a folder, "" for none. Afterwards the
// process may be the service's user: files that only root can read must be read before.
func (a *Assistant) openStateFor(ctx context.Context, folder string) (*localState, error) {
	shared, err := a.sharedState()
	if err != nil {
		return nil, err
	}
	if !shared {
		return a.openState(ctx)
	}
	service, err := a.ServiceUser()
	if err != nil || folder != "" && !canUse(service, folder, unix.W_OK) {
		d, opened := a.openState(ctx)
		if opened == nil && err == nil {
			d.service = service
		}
		return d, opened
	}
	if err := become(service); err != nil {
		return nil, command.Fail(command.ExitUnavailable, "", "root could not become the user %s: %w", setup.User, err)
	}
	return a.openState(ctx)
}

// withStateFor calls do with the state for a command about a folder, and closes it.
func (a *Assistant) withStateFor(ctx context.Context, folder string, do func(*localState) error) error {
	d, err := a.openStateFor(ctx, folder)
	return command.Using(d, err, do)
}

// become changes the user of the whole process, without a way back.
func become(c *syscall.Credential) error {
	if err := syscall.Setgroups([]int{int(c.Gid)}); err != nil {
		return err
	}
	if err := syscall.Setresgid(int(c.Gid), int(c.Gid), int(c.Gid)); err != nil {
		return err
	}
	return syscall.Setresuid(int(c.Uid), int(c.Uid), int(c.Uid))
}

// canUse reports whether a user has access to a folder. It asks the kernel from a thread
// that has that user's file system rights for the moment.
func canUse(c *syscall.Credential, folder string, how uint32) bool {
	runtime.LockOSThread()
	groups, err := unix.Getgroups()
	if err != nil || setThreadGroups(nil) != nil {
		runtime.UnlockOSThread()
		return false
	}
	_ = unix.Setfsgid(int(c.Gid)) // they report no errors: the result is read back
	_ = unix.Setfsuid(int(c.Uid))
	uid, _ := unix.SetfsuidRetUid(-1)
	can := uid == int(c.Uid) && unix.Faccessat(unix.AT_FDCWD, folder, how|unix.X_OK, unix.AT_EACCESS) == nil
	_ = unix.Setfsuid(0)
	_ = unix.Setfsgid(os.Getegid())
	if setThreadGroups(groups) == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
	return can
}

// setThreadGroups sets the supplementary groups of the calling thread alone.
func setThreadGroups(groups []int) error {
	ids := make([]uint32, len(groups)+1) // never empty, for its address
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	if _, _, err := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])),
		0); err != 0 {
		return err
	}
	return nil
}

// fromRoot calls do with root's own state, if there is one beside the service's.
func (a *Assistant) fromRoot(ctx context.Context, do func(*localState) error) error {
	shared, err := a.sharedState()
	if err != nil || !shared {
		return err
	}
	if _, err := os.Stat(filepath.Join(a.rootState(), state.Name)); err != nil {
		return nil //nolint:nilerr // root has no state
	}
	d, err := a.openState(ctx)
	return command.Using(d, err, do)
}

// folderOf returns the folder of a reply: the one that it names, or that with which root
// has linked its project. If it returns "", the service's state may know the folder.
func (a *Assistant) folderOf(ctx context.Context, o applyOptions, m changes.Message) (folder string, err error) {
	switch {
	case o.zip != "", o.message != "":
		return "/", nil // the command writes a file of root's
	case m.Root != "":
		return m.Root, nil
	}
	err = a.fromRoot(ctx, func(d *localState) error {
		if o.approve != "" {
			if h, _, err := d.Open(ctx, owner, o.approve); err == nil {
				folder = h.Root
			}
		} else if l, err := d.Store.Link(ctx, owner, m.Project); err == nil {
			folder = l.Root
		}
		return nil
	})
	return folder, err
}

// withOutbox calls do with the state whose reports wait: root's own while it has any, else
// the service's.
func (a *Assistant) withOutbox(ctx context.Context, do func(*localState) error) error {
	waits := false
	err := a.fromRoot(ctx, func(d *localState) error {
		lanes, err := d.Outbox.Lanes(ctx, assignment.Query{})
		if waits = len(lanes) > 0; err != nil || !waits {
			return err
		}
		a.Say("note: these reports wait in root's own state, %s", a.rootState())
		return do(d)
	})
	if err != nil || waits {
		return err
	}
	return a.withStateFor(ctx, "", do)
}

// tell runs an Airlock command as the service's user, so that the service's state knows
// what root's own state does. A failure is only a note, since the page then shows less,
// and nothing wrong.
func (a *Assistant) tell(d *localState, folder string, in io.Reader, args ...string) {
	if d.service == nil {
		return
	}
	if !canUse(d.service, folder, unix.R_OK) {
		a.Say("note: the page cannot show this: the service's user %s may not read %s", setup.User,
			command.PrintableName(folder))
		return
	}
	if a.Config.API != "" {
		args = append(args, "--api", a.Config.API)
	}
	cmd := a.AsUser(d.service, args...)
	var said strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, nil, &said
	if err := cmd.Run(); err != nil {
		a.Say("note: the page does not show this (%s)", command.Printable(strings.TrimSpace(said.String())))
		return
	}
	if !canUse(d.service, folder, unix.W_OK) {
		a.Say("note: the page shows this and cannot apply it: the service's user %s may not write to %s", setup.User,
			command.PrintableName(folder))
	}
}

// allLinks returns the links of root's own state and of the service's.
func (a *Assistant) allLinks(ctx context.Context) (links []changes.Link, err error) {
	collect := func(d *localState) error {
		more, err := d.Store.Links(ctx, owner)
		for _, l := range more {
			if !slices.ContainsFunc(links, func(k changes.Link) bool { return k.Project == l.Project }) {
				links = append(links, l)
			}
		}
		return err
	}
	if err := a.fromRoot(ctx, collect); err != nil {
		return nil, err
	}
	return links, a.withStateFor(ctx, "", collect)
}

// unlink drops a link from both states.
func (a *Assistant) unlink(ctx context.Context, project string) error {
	dropped := false
	drop := func(d *localState) error {
		err := d.Store.DropLink(ctx, owner, project)
		if err == nil {
			dropped = true
		}
		if errors.Is(err, conversation.ErrNotFound) && dropped {
			return nil
		}
		return err
	}
	if err := a.fromRoot(ctx, drop); err != nil && !errors.Is(err, conversation.ErrNotFound) {
		return err
	}
	return a.withStateFor(ctx, "", drop)
}
