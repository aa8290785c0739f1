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

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/regular"
	"github.com/airlock-run/airlock/workspace"
)

// saveFlags are the flags of the commands that save outputs.
type saveFlags struct {
	folder string   // empty: not named
	allow  []string // patterns of names that want an approval
	yes    bool     // rename what would overwrite a file
}

// add adds the flags, but --yes if it has no help.
func (o *saveFlags) add(flags *pflag.FlagSet, folderHelp, yesHelp string) {
	flags.StringVarP(&o.folder, "output", "o", o.folder, folderHelp)
	flags.StringArrayVar(&o.allow, "allow", nil,
		"save hidden files, programs and files that tools run by themselves whose names match `GLOB`; may be repeated")
	if yesHelp != "" {
		flags.BoolVarP(&o.yes, "yes", "y", false, yesHelp)
	}
}

// allows reports whether the command line agrees to a file that wants an approval.
func (o *saveFlags) allows(name string) bool {
	return slices.ContainsFunc(o.allow, func(pattern string) bool { return workspace.MatchPath(pattern, name) })
}

// check reports what would keep outputs from being saved, before anything is run.
func (o *saveFlags) check() error {
	if o.folder == "" {
		return nil
	}
	return checkFolder(o.folder)
}

// savedFile is the state of an output. It is a part of what run --json prints.
type savedFile struct {
	Path   string    `json:"path"`         // in the sandbox
	As     string    `json:"as,omitempty"` // in the folder
	State  saveState `json:"state"`
	Reason string    `json:"reason,omitempty"` // if it is held or refused
}

type saveState string

const (
	saveDone      saveState = "saved"
	saveUnchanged saveState = "unchanged" // the same bytes were there already
	saveExists    saveState = "exists"    // another file has the name, and no user could be asked
	saveSkipped   saveState = "skipped"   // the user declined
	saveFailed    saveState = "failed"    // the error says why
	saveRefused   saveState = "refused"   // the name leads out of the folder, through a link, or into a repository
	saveHeld      saveState = "held"      // tools run such a file by themselves, and it was not approved
)

// choice is what to do about a name that exists.
type choice int

const (
	chooseNothing choice = iota // no user can be asked
	chooseSkip
	chooseRename
	chooseReplace
)

// saver puts outputs into one folder and nowhere else. A file appears under
// its name whole and checked, or not at all, and replaces another only if the
// user agreed to it.
//
// Of an output the saver reads the id, the path, the size and the SHA-256. It trusts
// none of them: the service may be another machine.
type saver struct {
	root   *os.Root
	fetch  func(ctx context.Context, id string, to io.Writer) error
	choose func(name string) (choice, error) // decides about a name that exists
	// allow decides about a file that wants an approval.
	allow func(name, why string) (bool, error)

	checked map[string]workspace.Leaving // verdicts of the rules, by path
}

// newSaver opens a folder to save into. Names that exist and files that want an
// approval are decided by the command line, else by the user.
func (a *app) newSaver(
	ctx context.Context, folder string, o saveFlags, fetch func(ctx context.Context, id string, to io.Writer) error,
) (*saver, error) {
	root, err := openFolder(folder)
	if err != nil {
		return nil, err
	}
	s := &saver{root: root, fetch: fetch}
	s.choose = func(name string) (choice, error) {
		switch {
		case o.yes:
			return chooseRename, nil
		case !a.interactive():
			return chooseNothing, nil
		}
		answer, err := a.askLine(ctx, fmt.Sprintf("%s exists. Overwrite it? [y/N/rename] ",
			printableName(filepath.Join(folder, name))))
		switch {
		case err != nil:
			return chooseSkip, err
		case answer == "y" || answer == "yes":
			return chooseReplace, nil
		case answer == "r" || answer == "rename":
			return chooseRename, nil
		}
		return chooseSkip, nil
	}
	s.allow = func(name, why string) (bool, error) {
		if o.allows(name) || !a.interactive() {
			return o.allows(name), nil
		}
		answer, err := a.askLine(ctx, fmt.Sprintf("%s: %s. Save it? [y/N] ", printableName(filepath.Join(folder, name)),
			printable(why)))
		return answer == "y" || answer == "yes", err
	}
	return s, nil
}

// check applies the rules about names to all outputs together: some names are harmless
// only alone.
func (s *saver) check(outputs []client.File) {
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
	f, err := s.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) // a pipe of that name would wait
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // Git cannot list the folder either
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// openFolder opens the folder to save into. It makes the folder if it is missing.
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

// checkFolder reports why outputs could not be saved into a folder. It is called before
// a run.
func checkFolder(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if above := filepath.Dir(name); above != name {
			return checkFolder(above) // the folder will be made there
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
func (s *saver) save(ctx context.Context, out client.File) (savedFile, error) {
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

// place puts an output into its directory, under a free name or one that the user
// agreed to replace.
func (s *saver) place(
	ctx context.Context, dir *os.Root, out client.File, verdict workspace.Leaving, saved *savedFile,
) error {
	folder, name := path.Split(verdict.Path)
	for {
		decided := chooseRename // a free name needs no decision
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
			continue // the name was taken meanwhile
		}
		if err != nil {
			return err
		}
		saved.State, saved.As = saveDone, folder+target
		return nil
	}
}

// heldFile is the reason why a file that was not approved is not saved.
type heldFile string

func (h heldFile) Error() string { return string(h) }

// agreed returns a heldFile unless the file is approved.
func (s *saver) agreed(name, why string) error {
	if yes, err := s.allow(name, why); err != nil {
		return err
	} else if !yes {
		return heldFile(why)
	}
	return nil
}

// refusedPath is the reason why an untrusted path is not followed.
type refusedPath string

func (r refusedPath) Error() string { return string(r) }

// enter opens the folder of a path below the root, and makes missing folders. It follows
// no symbolic links.
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
	// The name may have become a link to another place in the folder since.
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		next.Close()
		return nil, refusedPath(printableName(name) + " was changed meanwhile")
	}
	return next, nil
}

// freeName returns name if it is free, or with rename the first free one of plot-1.png,
// plot-2.png, and so on.
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

// sameFile reports whether the regular file of that name has the output's bytes.
func sameFile(dir *os.Root, name string, out client.File) bool {
	info, err := dir.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != out.Size {
		return false
	}
	f, err := regular.OpenIn(dir, name)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == out.SHA256
}

// write downloads an output under a temporary name, checks it, and renames it.
func (s *saver) write(
	ctx context.Context, dir *os.Root, name string, out client.File, verdict workspace.Leaving, replace bool,
) (err error) {
	temporary := ".airlock-" + rand.Text() + ".part"
	f, err := dir.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			_ = dir.Remove(temporary) // the first error counts
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
	if err := s.checkContent(ctx, f, out, verdict); err != nil {
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

// checkContent asks about a file that is a program by its content, unless its name was
// approved.
func (s *saver) checkContent(ctx context.Context, f *os.File, out client.File, verdict workspace.Leaving) error {
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
		// This file system may know hard links instead.
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
