package oci

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Result is what Add and Update did.
type Result struct {
	Image    engine.Image
	Changed  bool     // the name is new, or has another image than before
	InUse    bool     // programs use the files of the image that the name had, which go later
	Warnings []string // what is in the image and cannot be used
}

// Add fetches the image of a source and gives it a name. Its waiting interpreters import the
// Python modules preload; nil: those that the image's label names. It does nothing if the name
// has an image of that source.
func (s *Store) Add(ctx context.Context, name, reference string, preload []string) (Result, error) {
	if err := errors.Join(CheckName(name), checkModules(preload)); err != nil {
		return Result{}, err
	}
	from, err := parseSource(reference)
	if err != nil {
		return Result{}, err
	}
	switch found, ok, err := s.Find(name); {
	case err != nil:
		return Result{}, err
	case ok && found.Reference != from.String():
		return Result{}, errNameTaken(found)
	case ok && (preload == nil || slices.Equal(preload, found.Preload)):
		return Result{Image: found}, nil
	case ok:
		return s.changePreload(ctx, found, preload)
	}
	return s.fetch(ctx, name, from, record{Reference: from.String(), Preload: preload})
}

// changePreload examines an image again, which is not fetched for that.
func (s *Store) changePreload(ctx context.Context, has engine.Image, preload []string) (Result, error) {
	hold, err := s.hold(has.ID)
	if err != nil || hold == nil {
		return Result{}, cmp.Or(err, errNoImage(has.Name))
	}
	defer hold.Close()
	image, warnings, err := s.examine(ctx, has.ID, preload)
	s.Prober.Release()
	if err == nil {
		err = s.name(has.Name, has.ID, record{has.Reference, has.ID, has.AddedAt, preload})
	}
	image.Name, image.Reference, image.AddedAt = has.Name, has.Reference, has.AddedAt
	return Result{Image: image, Changed: true, Warnings: warnings}, err
}

func errNameTaken(has engine.Image) error {
	return refuse(engine.ErrConflict, "choose another name, or `airlock images remove "+has.Name+"` first",
		"there is an image %s already, of %s", has.Name, has.Reference)
}

// Update fetches the image of a name again if its source has another one by now.
func (s *Store) Update(ctx context.Context, name string) (Result, error) {
	if err := CheckName(name); err != nil {
		return Result{}, err
	}
	r, err := s.record(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, errNoImage(name)
	}
	if err != nil {
		return Result{}, err
	}
	from, err := parseSource(r.Reference)
	if err != nil {
		return Result{}, err
	}
	return s.fetch(ctx, name, from, r)
}

func errNoImage(name string) error {
	return refuse(engine.ErrNotFound, "`airlock images list` lists them", "there is no image %.100s", name)
}

// labelPreload is the label of an image that names the modules to preload.
const labelPreload = "run.airlock.preload"

var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// maxPreload bounds the modules to preload.
const maxPreload = 50

func checkModules(names []string) error {
	if len(names) > maxPreload {
		return refuse(engine.ErrInvalid, "name those that take long to import", "%d modules are too many to preload",
			len(names))
	}
	for _, name := range names {
		if len(name) > 100 || !moduleName.MatchString(name) {
			return refuse(engine.ErrInvalid, "write --preload \"numpy pandas\"", "%.100q is no name of a Python module", name)
		}
	}
	return nil
}

// fetch gets the image of a source and gives it the name with the record, whose ID is the one that
// the name had before.
func (s *Store) fetch(ctx context.Context, name string, from source, r record) (result Result, err error) {
	w, err := s.newWork()
	if err != nil {
		return Result{}, err
	}
	defer w.end()
	o, err := s.open(ctx, from, w.path)
	if err != nil {
		return Result{}, inImage(name, err)
	}
	defer o.close()
	before := r.ID
	if before == o.id {
		if found, ok, err := s.Find(name); ok && err == nil {
			return Result{Image: found}, nil
		}
	}
	hold, err := s.keep(ctx, o, w)
	if err != nil {
		return Result{}, inImage(name, err)
	}
	preload := r.Preload
	if preload == nil {
		preload = strings.Fields(o.config.Config.Labels[labelPreload])
	}
	image, warnings, err := s.examine(ctx, o.id, preload)
	if err == nil {
		r.ID, r.AddedAt = o.id, time.Now().UTC().Truncate(time.Second)
		err = s.name(name, before, r)
	}
	s.Prober.Release()
	hold.Close()
	inUse, swept := s.Sweep()
	if err != nil {
		return Result{}, inImage(name, err)
	}
	if swept != nil {
		warnings = append(warnings, "what is not needed any more was not removed: "+swept.Error())
	}
	for _, l := range o.layers {
		if o.remote {
			os.Remove(s.layerPath(l.digest))
		}
	}
	image.Name, image.Reference, image.AddedAt = name, r.Reference, r.AddedAt
	return Result{Image: image, Changed: true, InUse: before != "" && inUse > 0 && exists(s.path(before)),
		Warnings: warnings}, nil
}

// inImage adds the name of an image to an error.
func inImage(name string, err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		named := *e
		named.ID = name
		return &named
	}
	return err
}

// keep writes the files of an image unless they are there, and locks them against their removal.
func (s *Store) keep(ctx context.Context, o *opened, w *work) (hold *os.File, err error) {
	if err := o.check(s.Limits); err != nil {
		return nil, err
	}
	err = s.locked(func() error {
		hold, err = s.hold(o.id)
		return err
	})
	if hold != nil || err != nil {
		return hold, err
	}
	if err := s.checkRoom(o); err != nil {
		return nil, err
	}
	fresh := filepath.Join(w.path, "image")
	if err := s.write(ctx, o, fresh); err != nil {
		return nil, err
	}
	return s.place(fresh, o.id)
}

// place gives the folder of a complete image its name, unless another process was faster.
func (s *Store) place(fresh, id string) (hold *os.File, err error) {
	dir, err := os.Open(fresh)
	if err != nil {
		return nil, err
	}
	err = unix.Syncfs(int(dir.Fd()))
	if dir.Close(); err != nil {
		return nil, err
	}
	return hold, s.locked(func() error {
		if hold, err = s.hold(id); hold != nil || err != nil {
			return err
		}
		if err = os.Rename(fresh, s.path(id)); err == nil {
			hold, err = s.hold(id)
		}
		return err
	})
}

// write writes the files of an image, and what is known of it so far, into a new folder.
func (s *Store) write(ctx context.Context, o *opened, dir string) error {
	root := filepath.Join(dir, rootName)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(root, 0o755)); err != nil {
		return err
	}
	tree, err := newTree(root, s.Limits, s.room)
	if err != nil {
		return err
	}
	defer tree.close()
	twins, closeTwins := s.openTwins()
	defer closeTwins()
	tree.twins = twins
	if o.start != nil {
		o.start()
	}
	for i, l := range o.layers {
		name := layerName(i, len(o.layers))
		err := l.read(ctx, s.Limits, func(done int64) { s.progress("unpack", name, done, l.size) }, tree.apply)
		if err != nil {
			return inLayer(name, err)
		}
	}
	image := engine.Image{ID: o.id, Env: environment(o.config.Config.Env)}
	if image.Size, image.Files, err = measure(root); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, imageName), image)
}

// inLayer adds the number of a layer to an error.
func inLayer(name string, err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return refuse(e.Kind, e.Hint, "%s: %w", name, e.Err)
	}
	return err
}

// measure returns the size of the files in a folder, and how many there are.
func measure(root string) (size int64, files int, err error) {
	linked := map[uint64]bool{}
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		stat, ok := info.Sys().(*syscall.Stat_t)
		if ok && stat.Nlink > 1 {
			if linked[stat.Ino] {
				return nil
			}
			linked[stat.Ino] = true
		}
		size += info.Size()
		return nil
	})
	return size, files, err
}

// Limits of an image's environment.
const (
	maxVariables   = 200
	maxEnvironment = 64 << 10 // bytes
)

// environment returns the variables of an image that its programs get.
func environment(all []string) []string {
	var kept []string
	size := 0
	for _, variable := range all {
		name, _, ok := strings.Cut(variable, "=")
		if !ok || name == "" || name == "HOME" || name == "USER" || strings.ContainsRune(variable, 0) {
			continue
		}
		if size += len(variable); size > maxEnvironment || len(kept) == maxVariables {
			break
		}
		kept = append(kept, variable)
	}
	return kept
}

// name gives an image its name, if the name still has the image before, or none.
func (s *Store) name(name, before string, r record) error {
	return s.locked(func() error {
		switch has, err := s.record(name); {
		case errors.Is(err, fs.ErrNotExist) && before == "":
		case errors.Is(err, fs.ErrNotExist):
			return refuse(engine.ErrConflict, "", "the image was removed meanwhile")
		case err == nil && has.ID != before && has.ID != r.ID:
			return refuse(engine.ErrConflict, "`airlock images list` lists them", "the name was given to another image meanwhile")
		}
		return writeJSON(s.path(namesFolder, name+".json"), r)
	})
}

// Remove takes the name of an image away, and its files unless another name has them. It reports
// whether programs use them, so that they go later.
func (s *Store) Remove(name string) (inUse bool, err error) {
	var id string
	err = s.locked(func() error {
		r, err := s.record(name)
		if errors.Is(err, fs.ErrNotExist) {
			return errNoImage(name)
		}
		id = r.ID // none of a damaged record, which may go
		return os.Remove(s.path(namesFolder, name+".json"))
	})
	if err != nil {
		return false, err
	}
	inUses, err := s.Sweep()
	return inUses > 0 && id != "" && exists(s.path(id)) && !s.isNamed(id), err
}

// isNamed reports whether an image has a name.
func (s *Store) isNamed(id string) bool {
	names, _ := s.names()
	return slices.ContainsFunc(names, func(name string) bool {
		r, err := s.record(name)
		return err == nil && r.ID == id
	})
}
