package command

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
	"github.com/airlock-run/airlock/internal/outputrules"
	"github.com/airlock-run/airlock/internal/regular"
)

// SaveFlags are the flags of the commands that save outputs.
type SaveFlags struct {
	Folder string // empty: not named
	flag   *pflag.Flag
	allow  []string // patterns of names that want an approval
	Yes    bool     // rename what would overwrite a file
}

// Add adds the flags, but --yes if it has no help.
func (o *SaveFlags) Add(flags *pflag.FlagSet, folderHelp, yesHelp string) {
	flags.StringVarP(&o.Folder, "output", "o", o.Folder, folderHelp)
	o.flag = flags.Lookup("output")
	flags.StringArrayVar(&o.allow, "allow", nil,
		"save hidden files, programs and files that tools run by themselves whose names match `GLOB`; may be repeated")
	if yesHelp != "" {
		flags.BoolVarP(&o.Yes, "yes", "y", false, yesHelp)
	}
}

// Allows reports whether the command line agrees to a file that wants an approval.
func (o *SaveFlags) Allows(name string) bool {
	return slices.ContainsFunc(o.allow, func(pattern string) bool { return outputrules.MatchPath(pattern, name) })
}

// Check reports what would keep outputs from being saved, before anything is run.
func (o *SaveFlags) Check() error {
	switch {
	case o.Folder != "":
	case o.flag != nil && o.flag.Changed:
		return Fail(ExitUsage, "name a folder, or leave -o out", "-o names no folder: its value is empty")
	default:
		return nil
	}
	return CheckFolder(o.Folder)
}

// SavedFile is the state of an output. It is a part of what run --json prints.
type SavedFile struct {
	Path   string    `json:"path"`         // in the sandbox
	As     string    `json:"as,omitempty"` // in the folder
	State  SaveState `json:"state"`
	Reason string    `json:"reason,omitempty"` // if it is held or refused
}

// SaveState is what became of an output.
type SaveState string

// The states of outputs.
const (
	SaveDone      SaveState = "saved"
	SaveUnchanged SaveState = "unchanged" // the same bytes were there already
	SaveExists    SaveState = "exists"    // another file has the name, and no user could be asked
	saveSkipped   SaveState = "skipped"   // the user declined
	SaveFailed    SaveState = "failed"    // the error says why
	SaveRefused   SaveState = "refused"   // the name leads out of the folder, through a link, or into a repository
	SaveHeld      SaveState = "held"      // tools run such a file by themselves, and it was not approved
)

// Choice is what to do about a name that exists.
type Choice int

// The choices.
const (
	chooseNothing Choice = iota // no user can be asked
	chooseSkip
	ChooseRename
	ChooseReplace
)

// Saver puts outputs into one folder and nowhere else. A file appears under
// its name whole and checked, or not at all, and replaces another only if the
// user agreed to it.
//
// Of an output the saver reads the id, the path, the size and the SHA-256. It trusts
// none of them: the service may be another machine.
type Saver struct {
	Root   *os.Root
	Fetch  func(ctx context.Context, id string, to io.Writer) error
	Choose func(name string) (Choice, error) // decides about a name that exists
	// allow decides about a file that wants an approval.
	Allow func(name, why string) (bool, error)

	checked map[string]outputrules.Leaving // verdicts of the rules, by path
}

// NewSaver opens a folder to save into. Names that exist and files that want an
// approval are decided by the command line, else by the user.
func NewSaver(
	ctx context.Context, a *App, folder string, o SaveFlags, fetch func(ctx context.Context, id string,
		to io.Writer) error,
) (*Saver, error) {
	root, err := OpenFolder(folder)
	if err != nil {
		return nil, err
	}
	s := &Saver{Root: root, Fetch: fetch}
	s.Choose = func(name string) (Choice, error) {
		switch {
		case o.Yes:
			return ChooseRename, nil
		case !a.Interactive():
			return chooseNothing, nil
		}
		answer, err := a.AskLine(ctx, fmt.Sprintf("%s exists. Overwrite it? [y/N/rename] ",
			PrintableName(filepath.Join(folder, name))))
		switch {
		case err != nil:
			return chooseSkip, err
		case answer == "y" || answer == "yes":
			return ChooseReplace, nil
		case answer == "r" || answer == "rename":
			return ChooseRename, nil
		}
		return chooseSkip, nil
	}
	s.Allow = func(name, why string) (bool, error) {
		if o.Allows(name) || !a.Interactive() {
			return o.Allows(name), nil
		}
		answer, err := a.AskLine(ctx, fmt.Sprintf("%s: %s. Save it? [y/N] ", PrintableName(filepath.Join(folder, name)),
			Printable(why)))
		return answer == "y" || answer == "yes", err
	}
	return s, nil
}

// Check applies the rules about names to all outputs together: some names are harmless
// only alone.
func (s *Saver) Check(outputs []client.File) {
	paths := make([]string, len(outputs))
	for i, o := range outputs {
		paths[i] = o.Path
	}
	s.checked = map[string]outputrules.Leaving{}
	for i, verdict := range outputrules.CheckOutputs(paths, s.Has) {
		s.checked[paths[i]] = verdict
	}
}

// Has reports whether a directory below the root has an entry of a name, in
// any case.
func (s *Saver) Has(dir, name string) bool {
	f, err := s.Root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) // a pipe of that name would wait
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // Git cannot list the folder either
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// OpenFolder opens the folder to save into. It makes the folder if it is missing.
func OpenFolder(name string) (*os.Root, error) {
	if err := CheckFolder(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, FolderError(name, err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, FolderError(name, err)
	}
	return root, nil
}

// CheckFolder reports why outputs could not be saved into a folder. It is called before
// a run.
func CheckFolder(name string) error {
	for missing := false; ; missing = true {
		info, err := os.Stat(name)
		_, entry := os.Lstat(name)
		above := filepath.Dir(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && entry == nil:
			return Fail(ExitConflict, "name a folder with -o", "%s is a link to what does not exist", name)
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && above != name:
			name = above // the folder will be made there, unless it is a file
			continue
		case err != nil:
			return FolderError(name, err)
		case !info.IsDir():
			return Fail(ExitConflict, "name a folder with -o", "%s is a file, not a folder", name)
		case unix.Access(name, unix.W_OK|unix.X_OK) != nil:
			return FolderError(name, fs.ErrPermission)
		case missing: // as root /proc, for one, refuses only what is made there
			made, err := os.MkdirTemp(name, ".airlock-")
			if err == nil {
				err = os.Remove(made)
			}
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				return Fail(ExitFailed, "name another folder with -o", "no folder can be made in %s: %w", name, e.Err)
			}
		}
		return nil
	}
}

// FolderError returns the error of a folder that cannot be used.
func FolderError(name string, err error) error {
	hint := ""
	if errors.Is(err, fs.ErrPermission) {
		hint = "name a folder that you can write to with -o"
	}
	return Fail(ExitFailed, hint, "the folder %s cannot be used: %w", name, err)
}

// Save puts one output into the folder.
func (s *Saver) Save(ctx context.Context, out client.File) (SavedFile, error) {
	saved := SavedFile{Path: out.Path}
	verdict, known := s.checked[out.Path]
	if !known {
		verdict = outputrules.CheckOutputs([]string{out.Path}, s.Has)[0]
	}
	dir, err := s.enter(verdict)
	if refusal, ok := errors.AsType[refusedPath](err); ok {
		saved.State, saved.Reason = SaveRefused, string(refusal)
		return saved, Fail(ExitRefused, "", "%s is not saved: %s", PrintableName(out.Path), string(refusal))
	}
	if err != nil {
		return saved, err
	}
	defer dir.Close()
	err = s.place(ctx, dir, out, verdict, &saved)
	if held, ok := errors.AsType[heldFile](err); ok {
		saved.State, saved.Reason = SaveHeld, string(held)
		return saved, nil
	}
	return saved, err
}

// place puts an output into its directory, under a free name or one that the user
// agreed to replace.
func (s *Saver) place(
	ctx context.Context, dir *os.Root, out client.File, verdict outputrules.Leaving, saved *SavedFile,
) error {
	folder, name := path.Split(verdict.Path)
	for {
		decided := ChooseRename // a free name needs no decision
		target, free, err := freeName(dir, name, false)
		if err != nil {
			return err
		}
		if !free && sameFile(dir, name, out) {
			saved.State, saved.As = SaveUnchanged, verdict.Path
			return nil
		}
		if verdict.Verdict == outputrules.Ask {
			if err := s.agreed(verdict.Path, verdict.Reason); err != nil {
				return err
			}
		}
		if !free {
			if decided, err = s.Choose(verdict.Path); err == nil && decided == ChooseRename {
				target, _, err = freeName(dir, name, true)
			}
			if err != nil {
				return err
			}
		}
		switch decided {
		case chooseNothing:
			saved.State = SaveExists
			return nil
		case chooseSkip:
			saved.State = saveSkipped
			return nil
		}
		err = s.write(ctx, dir, target, out, verdict, decided == ChooseReplace)
		if errors.Is(err, fs.ErrExist) && decided != ChooseReplace {
			continue // the name was taken meanwhile
		}
		if err != nil {
			return err
		}
		saved.State, saved.As = SaveDone, folder+target
		return nil
	}
}

// heldFile is the reason why a file that was not approved is not saved.
type heldFile string

func (h heldFile) Error() string { return string(h) }

// agreed returns a heldFile unless the file is approved.
func (s *Saver) agreed(name, why string) error {
	if yes, err := s.Allow(name, why); err != nil {
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
func (s *Saver) enter(verdict outputrules.Leaving) (*os.Root, error) {
	if verdict.Verdict == outputrules.Refuse {
		return nil, refusedPath(verdict.Reason)
	}
	dir, err := s.Root.OpenRoot(".")
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
		return nil, refusedPath("it leads through the symbolic link " + PrintableName(name))
	case !info.IsDir():
		return nil, Fail(ExitConflict, "save into another folder with -o", "%s is a file where a folder is needed",
			PrintableName(name))
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// The name may have become a link to another place in the folder since.
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		next.Close()
		return nil, refusedPath(PrintableName(name) + " was changed meanwhile")
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
	return "", false, Fail(ExitConflict, "save into another folder with -o", "%s and all its numbered names exist",
		PrintableName(name))
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
func (s *Saver) write(
	ctx context.Context, dir *os.Root, name string, out client.File, verdict outputrules.Leaving, replace bool,
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
	if err := s.Fetch(ctx, out.ID, &boundedWriter{to: io.MultiWriter(f, sum), left: out.Size}); err != nil {
		return fmt.Errorf("%s could not be fetched: %w", PrintableName(out.Path), err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != out.SHA256 {
		return Fail(ExitFailed, "run it again", "%s did not arrive as it was sent: its checksum is another",
			PrintableName(out.Path))
	}
	if err := s.checkContent(f, out, verdict); err != nil {
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
func (s *Saver) checkContent(f *os.File, out client.File, verdict outputrules.Leaving) error {
	if verdict.Verdict == outputrules.Ask {
		return nil
	}
	why, err := outputrules.CheckContent(verdict.Path, f, out.Size)
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
