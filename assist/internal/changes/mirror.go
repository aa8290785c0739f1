package changes

import (
	"context"
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

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/regular"
)

// A mirror is a copy of the files that replies are about, from a folder on a user's own
// computer. The user's browser uploads them, and repeats each commit of the mirror in the
// folder. So a reply is planned, reviewed and undone as in any folder.

// A MirrorFile is a file of a mirror.
type MirrorFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// The bounds of mirrors: of a file as of a proposal's, of all files, of an owner.
const (
	MirrorFileBytes = 100 << 20
	mirrorBytes     = 512 << 20
	mostMirrors     = 20
	mostMirrorFiles = 5000
)

const mirrorTemp = ".airlock-" // begins the name of a partial file

// ErrMirrorFull is returned if a file does not fit into a mirror.
var ErrMirrorFull = errors.New("the copy of the folder would have more than 512 MiB or 5,000 files")

// Mirrored reports whether a folder is a mirror.
func (r *Scoped) Mirrored(root string) bool {
	return r.Mirrors != "" && Within([]string{r.Mirrors}, root)
}

// LinkMirror links a project with its mirror or, if it has none, with a new one.
func (r *Scoped) LinkMirror(ctx context.Context, owner, project string) (Link, error) {
	if !assignment.ValidID(project) {
		return Link{}, fmt.Errorf("%w: %q cannot be the id of a project: letters, digits, '.', '_' and '-', at most 64",
			ErrInvalid, project)
	}
	links, err := r.Store.Links(ctx, owner)
	if err != nil {
		return Link{}, err
	}
	mirrors := 0
	for _, l := range links {
		if mirrored := r.Mirrored(l.Root); l.Project == project && mirrored {
			return l, nil
		} else if l.Project == project {
			return Link{}, fmt.Errorf("%w: the project %q is linked with a folder of the service: unlink it first", ErrInvalid,
				project)
		} else if mirrored {
			mirrors++
		}
	}
	if mirrors >= mostMirrors {
		return Link{}, fmt.Errorf("%w: %d projects have a folder in a browser: unlink one first", ErrInvalid, mirrors)
	}
	root := filepath.Join(r.Mirrors, assignment.NewID())
	if err := os.MkdirAll(root, 0o700); err != nil {
		return Link{}, err
	}
	return r.Link(ctx, Link{Owner: owner, Project: project, Root: root})
}

// Mirror returns the link of a project that has a mirror.
func (r *Scoped) Mirror(ctx context.Context, owner, project string) (Link, error) {
	l, err := r.Linked(ctx, owner, project)
	if err == nil && !r.Mirrored(l.Root) {
		err = fmt.Errorf("a folder in a browser of the project %q: %w", project, ErrNotFound)
	}
	return l, err
}

// Unlink removes the link of a project, and its mirror if it has one.
func (r *Scoped) Unlink(ctx context.Context, owner, project string) error {
	l, err := r.Store.Link(ctx, owner, project)
	if err != nil {
		return err
	}
	if err := r.Store.DropLink(ctx, owner, project); err != nil {
		return err
	}
	if r.Mirrored(l.Root) {
		return os.RemoveAll(l.Root)
	}
	return nil
}

// MirrorFiles lists the files of a mirror.
func MirrorFiles(root string) ([]MirrorFile, error) {
	files := []MirrorFile{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), mirrorTemp) {
			return err
		}
		f, err := regular.Open(filepath.Join(root, name))
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		files = append(files, MirrorFile{Path: name, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: info.Size()})
		return err
	})
	return files, err
}

// PutMirrorFile writes a file of the user's folder into a mirror.
func PutMirrorFile(root, name string, content io.Reader) error {
	folder, err := openMirror(root, name)
	if err != nil {
		return err
	}
	defer folder.Close()
	most, err := mirrorCapacity(root, name)
	if err != nil {
		return err
	}
	if err := folder.MkdirAll(path.Dir(name), 0o700); err != nil {
		return fmt.Errorf("%w: %s: a file is where a folder has to be", ErrInvalid, name)
	}
	// Into a temp file first: a connection that is cut leaves the file as it was.
	temp := path.Join(path.Dir(name), mirrorTemp+assignment.NewID())
	f, err := folder.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(content, most+1))
	if err = errors.Join(err, f.Close()); err == nil && n > most {
		err = ErrMirrorFull
	}
	if err == nil {
		if err = folder.Rename(temp, name); errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EISDIR) {
			err = fmt.Errorf("%w: %s: a folder is where the file has to be", ErrInvalid, name)
		}
	}
	if err != nil {
		return errors.Join(err, folder.Remove(temp))
	}
	return nil
}

// DropMirrorFile removes a file that the folder does not have from a mirror.
func DropMirrorFile(root, name string) error {
	folder, err := openMirror(root, name)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if folder.Remove(dir) != nil {
			break // it has other files
		}
	}
	return nil
}

// ProjectPath reports whether a name can be the path of a file in a project.
func ProjectPath(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00") && !slices.ContainsFunc(
		strings.Split(name, "/"), func(part string) bool { return strings.EqualFold(part, ".git") })
}

func openMirror(root, name string) (*os.Root, error) {
	if !ProjectPath(name) || len(name) > 1024 {
		return nil, fmt.Errorf("%w: %q cannot be the path of a file", ErrInvalid, name)
	}
	return os.OpenRoot(root)
}

// mirrorCapacity returns how large a file may be.
func mirrorCapacity(root, name string) (int64, error) {
	left, count := int64(mirrorBytes), 0
	err := fs.WalkDir(os.DirFS(root), ".", func(other string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || other == name {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			left, count = left-info.Size(), count+1
		}
		return err
	})
	if err == nil && (left <= 0 || count >= mostMirrorFiles) {
		err = ErrMirrorFull
	}
	return min(left, MirrorFileBytes), err
}

// UndoUnwritten undoes a transaction of a mirror that could not be repeated in the folder.
func (r *Scoped) UndoUnwritten(ctx context.Context, l Link, txn string) error {
	w, err := r.Workspace(ctx, l.Root)
	if err != nil {
		return err
	}
	p, err := w.Undo(ctx, txn)
	if err != nil {
		return err
	}
	p.Origin.Note = "It could not be written into the folder, where nothing was changed."
	approval, err := p.Approve()
	if err != nil {
		return err
	}
	approval.By = l.Owner
	_, err = w.Commit(ctx, p, approval, workspace.CommitOptions{})
	return err
}
