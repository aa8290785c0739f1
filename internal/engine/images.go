package engine

import (
	"slices"
	"time"
)

// Image is an OCI image whose files programs can have in place of the machine's own.
type Image struct {
	Name      string    `json:"name"`      // by which requests name it: "py313"
	Reference string    `json:"reference"` // where it is from: "python:3.13-slim", or the name of an archive
	ID        string    `json:"id"`        // "sha256-" and the digest of its manifest, in hexadecimal
	Size      int64     `json:"size"`      // bytes of its files
	Files     int       `json:"files"`
	AddedAt   time.Time `json:"added_at"`

	// Languages are those that have been seen to run in it, in the order of the language table.
	Languages []ImageLanguage `json:"languages"`
	// Modules are the top-level Python modules that its packages have, sorted; none of the standard library.
	Modules []string `json:"modules,omitempty"`
	// Env is the environment that its configuration sets, as "NAME=value".
	Env []string `json:"env,omitempty"`
	// Preload are the Python modules that its waiting interpreters have imported.
	Preload []string `json:"preload,omitempty"`
	// Archive is the archive of its files in the bucket of a cluster; nil: they are on this machine.
	Archive *Blob `json:"archive,omitempty"`
}

// ImageLanguage is a language that an image has.
type ImageLanguage struct {
	Name    string `json:"name"`    // of the language table
	Version string `json:"version"` // "3.13.1"
	Path    string `json:"path"`    // of its command in the image, absolute: "/usr/local/bin/python3"
}

// Images are the images of this machine, or of the cluster.
type Images interface {
	// Find returns the image of a name, and false if there is none.
	Find(name string) (Image, bool, error)
	// List returns all images, sorted by name.
	List() ([]Image, error)
}

// HostImage is the name that stands for the machine's own environment, which is no image.
const HostImage = "host"

// Language returns a language of the image.
func (i *Image) Language(name string) (ImageLanguage, bool) {
	at := slices.IndexFunc(i.Languages, func(l ImageLanguage) bool { return l.Name == name })
	if at < 0 {
		return ImageLanguage{}, false
	}
	return i.Languages[at], true
}
