package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/workspace"
)

// output is a file that a run left, as the service describes it. Nothing in
// it is trusted: the service may be another machine.
type output struct {
	ID     string
	Path   string // in the workspace, with slashes
	Size   int64
	SHA256 string // hexadecimal
}

func outputsOf(files []client.File) []output {
	list := make([]output, len(files))
	for i, f := range files {
		list[i] = output{ID: f.ID, Path: f.Path, Size: f.Size, SHA256: f.SHA256}
	}
	return list
}

// savedFile says what became of an output. It is part of what run --json
// prints.
type savedFile struct {
	Path   string    `json:"path"`         // in the workspace
	As     string    `json:"as,omitempty"` // below the folder
	State  saveState `json:"state"`
	Reason string    `json:"reason,omitempty"` // of what is held or refused
}

type saveState string

const (
	saveDone      saveState = "saved"
	saveUnchanged saveState = "unchanged" // the same bytes were there already
	saveExists    saveState = "exists"    // another file has the name, and nobody agreed to anything
	saveSkipped   saveState = "skipped"   // a person said no
	saveFailed    saveState = "failed"    // the error says why
	saveRefused   saveState = "refused"   // the name leads out of the folder, through a link, or into a repository
	saveHeld      saveState = "held"      // tools run or obey such a file by themselves, and nobody agreed to it
)

// choice is what to do about a name that exists.
type choice int

const (
	chooseNothing choice = iota // there is nobody to ask
	chooseSkip
	chooseRename
	chooseReplace
)

// saver puts outputs into one folder and nowhere else. A file appears under
// its name whole and checked, or not at all, and takes the place of another
// only if a person said so.
type saver struct {
	root   *os.Root
	fetch  func(ctx context.Context, id string, to io.Writer) error
	choose func(name string) (choice, error) // asked for each name that exists
	// allow is asked for each file that wants a person's approval, and why.
	allow func(name, why string) (bool, error)

	checked map[string]workspace.Leaving // what the rules say of a path
}

// check applies the rules about names to all that is going to be saved: some
// are harmless alone and not together.
func (s *saver) check(outputs []output) {
	paths := make([]string, len(outputs))
	for i, o := range outputs {
		paths[i] = o.Path
	}
	s.checked = map[string]workspace.Leaving{}
	for i, verdict := range workspace.CheckOutputs(paths, s.has) {
		s.checked[paths[i]] = verdict
	}
}

// has reports whether a directory below the root has an entry of a name, in
// any case.
func (s *saver) has(dir, name string) bool {
	f, err := s.root.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // what cannot be listed cannot be found by Git either
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// openFolder opens the folder to save into, and makes it if need be.
func openFolder(name string) (*os.Root, error) {
	if err := checkFolder(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, folderError(name, err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, folderError(name, err)
	}
	return root, nil
}

// checkFolder finds out before a run what would keep its outputs from being
// saved after it.
func checkFolder(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if above := filepath.Dir(name); above != name {
			return checkFolder(above) // it will be made there
		}
		return nil
	case err != nil:
		return folderError(name, err)
	case !info.IsDir():
		return fail(exitConflict, "name a folder with -o", "%s is a file, not a folder", name)
	case unix.Access(name, unix.W_OK|unix.X_OK) != nil:
		return folderError(name, fs.ErrPermission)
	}
	return nil
}

func folderError(name string, err error) error {
	hint := ""
	if errors.Is(err, fs.ErrPermission) {
		hint = "name a folder that you can write to with -o"
	}
	return fail(exitFailed, hint, "the folder %s cannot be used: %w", name, err)
}

// save puts one output into the folder.
func (s *saver) save(ctx context.Context, out output) (savedFile, error) {
	saved := savedFile{Path: out.Path}
	verdict, known := s.checked[out.Path]
	if !known {
		verdict = workspace.CheckOutputs([]string{out.Path}, s.has)[0]
	}
	dir, err := s.enter(verdict)
	if refusal, ok := errors.AsType[refusedPath](err); ok {
		saved.State, saved.Reason = saveRefused, string(refusal)
		return saved, fail(exitRefused, "", "%s is not saved: %s", printableName(out.Path), string(refusal))
	}
	if err != nil {
		return saved, err
	}
	defer dir.Close()
	err = s.place(ctx, dir, out, verdict, &saved)
	if held, ok := errors.AsType[heldFile](err); ok {
		saved.State, saved.Reason = saveHeld, string(held)
		return saved, nil
	}
	return saved, err
}

// place puts an output into its directory, under a name that is free or that
// a person gave up.
func (s *saver) place(
	ctx context.Context, dir *os.Root, out output, verdict workspace.Leaving, saved *savedFile,
) error {
	folder, name := path.Split(verdict.Path)
	for {
		decided := chooseRename // to the name itself, which is free
		target, free, err := freeName(dir, name, false)
		if err != nil {
			return err
		}
		if !free && sameFile(dir, name, out) {
			saved.State, saved.As = saveUnchanged, verdict.Path
			return nil
		}
		if verdict.Verdict == workspace.Ask {
			if err := s.agreed(verdict.Path, verdict.Reason); err != nil {
				return err
			}
		}
		if !free {
			if decided, err = s.choose(verdict.Path); err == nil && decided == chooseRename {
				target, _, err = freeName(dir, name, true)
			}
			if err != nil {
				return err
			}
		}
		switch decided {
		case chooseNothing:
			saved.State = saveExists
			return nil
		case chooseSkip:
			saved.State = saveSkipped
			return nil
		}
		err = s.write(ctx, dir, target, out, verdict, decided == chooseReplace)
		if errors.Is(err, fs.ErrExist) && decided != chooseReplace {
			continue // somebody took the name meanwhile
		}
		if err != nil {
			return err
		}
		saved.State, saved.As = saveDone, folder+target
		return nil
	}
}

// heldFile says why a file that nobody agreed to is not saved.
type heldFile string

func (h heldFile) Error() string { return string(h) }

// agreed asks about a file that wants a person's approval.
func (s *saver) agreed(name, why string) error {
	if yes, err := s.allow(name, why); err != nil {
		return err
	} else if !yes {
		return heldFile(why)
	}
	return nil
}

// refusedPath says why a path from outside is not followed.
type refusedPath string

func (r refusedPath) Error() string { return string(r) }

// enter opens the folder below the root in which a path lies, and makes what
// is missing on the way. It follows no symbolic links.
func (s *saver) enter(verdict workspace.Leaving) (*os.Root, error) {
	if verdict.Verdict == workspace.Refuse {
		return nil, refusedPath(verdict.Reason)
	}
	dir, err := s.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(path.Dir(verdict.Path), "/") {
		next, err := step(dir, part)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func step(dir *os.Root, name string) (*os.Root, error) {
	if err := dir.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, refusedPath("it leads through the symbolic link " + printableName(name))
	case !info.IsDir():
		return nil, fail(exitConflict, "save into another folder with -o", "%s is a file where a folder is needed",
			printableName(name))
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// The name may have become a link to elsewhere in the folder since.
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		next.Close()
		return nil, refusedPath(printableName(name) + " was changed meanwhile")
	}
	return next, nil
}

// freeName returns name if nothing has it. Else, with renaming, it returns
// the first free one of plot-1.png, plot-2.png, and so on.
func freeName(dir *os.Root, name string, rename bool) (_ string, free bool, err error) {
	stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	if stem == "" { // .profile
		stem, ext = name, ""
	}
	candidate := name
	for n := 1; n < 10_000; n++ {
		_, err := dir.Lstat(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			return candidate, true, nil
		}
		if err != nil || !rename {
			return candidate, false, err
		}
		candidate = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	return "", false, fail(exitConflict, "save into another folder with -o", "%s and all its numbered names exist",
		printableName(name))
}

// sameFile reports whether the regular file of that name has an output's
// bytes already.
func sameFile(dir *os.Root, name string, out output) bool {
	info, err := dir.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != out.Size {
		return false
	}
	f, err := dir.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == out.SHA256
}

// write downloads an output under a temporary name, checks it, and moves it
// to its own.
func (s *saver) write(
	ctx context.Context, dir *os.Root, name string, out output, verdict workspace.Leaving, replace bool,
) (err error) {
	temporary := ".airlock-" + rand.Text() + ".part"
	f, err := dir.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			_ = dir.Remove(temporary) // what went wrong before is what counts
		}
	}()
	sum := sha256.New()
	if err := s.fetch(ctx, out.ID, &boundedWriter{to: io.MultiWriter(f, sum), left: out.Size}); err != nil {
		return fmt.Errorf("%s could not be fetched: %w", printableName(out.Path), err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != out.SHA256 {
		return fail(exitFailed, "run it again", "%s did not arrive as it was sent: its checksum is another",
			printableName(out.Path))
	}
	if err := s.look(ctx, f, out, verdict); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if replace {
		err = dir.Rename(temporary, name)
	} else {
		err = renameNew(dir, temporary, name)
	}
	if err != nil {
		return err
	}
	return syncFolder(dir)
}

// look asks about a file that is a program by its content. A name that was
// agreed to covers it.
func (s *saver) look(ctx context.Context, f *os.File, out output, verdict workspace.Leaving) error {
	if verdict.Verdict == workspace.Ask {
		return nil
	}
	hash, err := workspace.ParseHash(out.SHA256)
	if err != nil {
		return err
	}
	content, err := workspace.File(ctx, f, out.Size, hash)
	if err != nil {
		return err
	}
	why, err := workspace.CheckContent(ctx, verdict.Path, content)
	if err != nil || why == "" {
		return err
	}
	return s.agreed(verdict.Path, why)
}

// boundedWriter refuses more bytes than were announced.
type boundedWriter struct {
	to   io.Writer
	left int64
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, errors.New("it is longer than announced")
	}
	w.left -= int64(len(p))
	return w.to.Write(p)
}

// renameNew renames a file unless the new name exists, in one step.
func renameNew(dir *os.Root, from, to string) error {
	self, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	fd := int(self.Fd())
	err = unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		// This file system cannot, but may know hard links.
		if err = dir.Link(from, to); err == nil {
			err = dir.Remove(from)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func syncFolder(dir *os.Root) error {
	self, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	if err := self.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
