package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// User is the system user that the service runs as when root starts it.
const User = "airlock"

// runtimesName is the directory in the data directory that root keeps.
const runtimesName = "runtimes"

// dataDirectory makes the data directory. As root it belongs to root and to the group of
// the service, with the sticky bit: the service stores its files and its index there, and
// cannot replace the runtimes.
func (in *installer) dataDirectory(ctx context.Context) error {
	in.progress.Step("Data directory")
	if err := CheckData(in.data); err != nil {
		return err
	}
	var owner *user.User
	if in.uid == 0 {
		var err error
		if owner, err = in.systemUser(ctx); err != nil {
			return err
		}
	}
	if err := in.layOut(owner); err != nil {
		return inDirectory(in.data, err)
	}
	in.progress.Done(in.data)
	return nil
}

// CheckData refuses a directory with other content, before its owner is changed or files
// are put into it: --data /home/me is a mistake.
func CheckData(data string) error {
	entries, err := os.ReadDir(data)
	switch {
	case os.IsNotExist(err), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return inDirectory(data, err)
	}
	for _, entry := range entries {
		if entry.Name() == runtimesName || serviceOwns(entry.Name()) {
			return nil
		}
	}
	return &Error{Problem: data + " holds other things than Airlock's data",
		Cure: "choose an empty or a new directory with --data"}
}

// serviceOwns reports whether an entry of the data directory is the service's.
func serviceOwns(name string) bool {
	// Root may have stored state here before there was a service.
	return slices.Contains([]string{"files", "cache", "reserve", "locks", "contents", "outputs"}, name) ||
		strings.HasPrefix(name, "index.") || strings.HasPrefix(name, "state.") || strings.HasPrefix(name, "airlock.")
}

func (in *installer) systemUser(ctx context.Context) (*user.User, error) {
	if found, err := user.Lookup(User); err == nil {
		return found, nil
	}
	out, err := command(ctx, "useradd", "--system", "--user-group", "--no-create-home",
		"--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", User).CombinedOutput()
	if err != nil {
		return nil, &Error{
			Problem: "the system user " + User + " could not be made: " + strings.TrimSpace(string(out)),
			Cure:    "make it with useradd --system --user-group " + User + ", then run setup again",
			Err:     err,
		}
	}
	return user.Lookup(User)
}

// layOut makes the directories of the data directory, which belong to owner unless it is nil.
func (in *installer) layOut(owner *user.User) error {
	mode := os.FileMode(0o700)
	if owner != nil {
		mode = 0o771 | os.ModeSticky
	}
	_, err := os.Stat(in.data)
	if fresh := os.IsNotExist(err); fresh || owner != nil {
		if err := makeDirectory(in.data, mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(in.data, "files"), 0o700); err != nil {
		return err
	}
	runtimes := filepath.Join(in.data, runtimesName)
	if _, err := os.Stat(Dir(in.data)); os.IsNotExist(err) {
		if err := makeDirectories(runtimes, Dir(in.data)); err != nil {
			return err
		}
	}
	if owner == nil {
		return nil
	}
	return in.giveTo(owner)
}

// makeDirectory makes dir with exactly this mode, whatever the umask is.
func makeDirectory(dir string, mode os.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// makeDirectories makes directories that everybody can read.
func makeDirectories(dirs ...string) error {
	for _, dir := range dirs {
		if err := makeDirectory(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// giveTo changes the owner of everything but the runtimes. It does not walk what the owner
// has already, which may be many files.
func (in *installer) giveTo(owner *user.User) error {
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return fmt.Errorf("user id of %s: %w", owner.Username, err)
	}
	gid, err := strconv.Atoi(owner.Gid)
	if err != nil {
		return fmt.Errorf("group id of %s: %w", owner.Username, err)
	}
	if err := os.Chown(in.data, 0, gid); errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
		in.progress.Warn("root of this container may not give files away: " + in.data + " stays root's")
		return nil
	} else if err != nil {
		return err
	}
	// Changing the owner may clear the special bits of the mode.
	if err := os.Chmod(in.data, 0o771|os.ModeSticky); err != nil {
		return err
	}
	entries, err := os.ReadDir(in.data)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(in.data, entry.Name())
		if !serviceOwns(entry.Name()) || ownedBy(path, uid) {
			continue
		}
		err := filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, gid)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func ownedBy(path string, uid int) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}
