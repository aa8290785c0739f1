package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// record is what is known of a name, in names/NAME.json.
type record struct {
	Reference string    `json:"reference"`
	ID        string    `json:"id"`
	AddedAt   time.Time `json:"added_at"`
	Preload   []string  `json:"preload,omitempty"` // asked for, in place of what the image's label says
}

// found is an image that was read, with the states of its two files.
type found struct {
	image        engine.Image
	name, record stamp
}

// stamp tells one state of a file from another: files are replaced, and not written again.
type stamp struct {
	inode        uint64
	seconds, sub int64
}

func stampOf(path string) (stamp, error) {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return stamp{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stamp{stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec}, nil
}

// Find implements engine.Images. It reads files only if they have changed since the last call.
func (s *Store) Find(name string) (engine.Image, bool, error) {
	if CheckName(name) != nil {
		return engine.Image{}, false, nil
	}
	path := s.Dir + "/" + namesFolder + "/" + name + ".json"
	named, err := stampOf(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		delete(s.found, name)
		return engine.Image{}, false, nil
	}
	if err != nil {
		return engine.Image{}, false, err
	}
	if f, ok := s.found[name]; ok && f.name == named {
		if recorded, err := stampOf(s.Dir + "/" + f.image.ID + "/" + imageName); err == nil && recorded == f.record {
			return f.image, true, nil
		}
	}
	f, err := s.load(name)
	if err != nil {
		return engine.Image{}, false, err
	}
	s.found[name] = f
	return f.image, true, nil
}

// load reads the files of a name.
func (s *Store) load(name string) (f found, err error) {
	r, err := s.record(name)
	if err != nil {
		return found{}, err
	}
	if f.name, err = stampOf(s.path(namesFolder, name+".json")); err != nil {
		return found{}, err
	}
	if f.record, err = stampOf(s.path(r.ID, imageName)); err == nil {
		f.image, err = s.image(r.ID)
	}
	if err != nil {
		return found{}, refuse(engine.ErrUnavailable, "`airlock images update "+name+"` fetches it again",
			"the files of the image %s are damaged: %w", name, err)
	}
	f.image.Name, f.image.Reference, f.image.AddedAt = name, r.Reference, r.AddedAt
	return f, nil
}

func (s *Store) record(name string) (r record, err error) {
	path := s.path(namesFolder, name+".json")
	if err := readJSON(path, &r); err != nil {
		return record{}, err
	}
	if !isID(r.ID) {
		return record{}, fmt.Errorf("%s names no image", path)
	}
	return r, nil
}

// image reads what is known of the image of an id.
func (s *Store) image(id string) (i engine.Image, err error) {
	err = readJSON(s.path(id, imageName), &i)
	i.ID = id
	return i, err
}

// List implements engine.Images.
func (s *Store) List() ([]engine.Image, error) {
	names, err := s.names()
	images := []engine.Image{}
	for _, name := range names {
		i, ok, failed := s.Find(name)
		if err = errors.Join(err, failed); ok {
			images = append(images, i)
		}
	}
	return images, err
}

// names returns all names, sorted.
func (s *Store) names() ([]string, error) {
	entries, err := os.ReadDir(s.path(namesFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

func readJSON(path string, to any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

const newPrefix = ".new-"

// writeJSON replaces a file, in one step.
func writeJSON(path string, value any) (err error) {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), newPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(append(content, '\n'))
	err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
