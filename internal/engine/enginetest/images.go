package enginetest

import (
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// Images are the images of a test. A nil Images has none.
type Images []engine.Image

// Find implements engine.Images.
func (x Images) Find(name string) (engine.Image, bool, error) {
	at := slices.IndexFunc(x, func(i engine.Image) bool { return i.Name == name })
	if at < 0 {
		return engine.Image{}, false, nil
	}
	return x[at], true, nil
}

// List implements engine.Images.
func (x Images) List() ([]engine.Image, error) {
	list := slices.Clone(x)
	slices.SortFunc(list, func(a, b engine.Image) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// NewImage returns an image with languages, given as name, version, path, name, version, path.
func NewImage(name string, languages ...string) engine.Image {
	image := engine.Image{Name: name, Reference: name + ":latest", ID: "sha256-" + name, Size: 1 << 20, Files: 10}
	for l := range slices.Chunk(languages, 3) {
		image.Languages = append(image.Languages, engine.ImageLanguage{Name: l[0], Version: l[1], Path: l[2]})
	}
	return image
}

// SomeImages returns three images: py313 with Python and Bash, ir with R and a shell, and
// old, which has no Bash.
func SomeImages() Images {
	return Images{
		NewImage("py313", "python", "3.13.1", "/usr/local/bin/python3", "bash", "5.2", "/bin/bash"),
		NewImage("ir", "bash", "5.2", "/bin/bash", "r", "4.4.1", "/usr/bin/Rscript"),
		NewImage("old", "python", "3.9.2", "/usr/bin/python3"),
	}
}
