package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Installed is the record of the Python packages of a data directory.
type Installed struct {
	Python       string    `json:"python"`       // "3.11.2"; empty: nothing is installed
	Lock         string    `json:"lock"`         // SHA-256 of the lock, hexadecimal
	Requirements string    `json:"requirements"` // SHA-256 of the user's own file; empty: none
	Packages     []Package `json:"packages"`     // in order of name
}

// Package is one package that programs were promised.
type Package struct {
	Name    string `json:"name"`    // "beautifulsoup4"
	Version string `json:"version"` // "4.15.0"; empty: not installed
	Module  string `json:"module"`  // "bs4"; empty: it has none
	OK      bool   `json:"ok"`      // the module can be imported
	Error   string `json:"error"`   // why not
}

// Failed returns the packages that cannot be imported.
func (i Installed) Failed() []Package {
	var failed []Package
	for _, p := range i.Packages {
		if !p.OK {
			failed = append(failed, p)
		}
	}
	return failed
}

// Inspect reads what setup recorded in a data directory. Where it never
// finished, the answer is empty and no error.
func Inspect(data string) (Installed, error) {
	var installed Installed
	raw, err := os.ReadFile(manifestPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return installed, nil
	}
	if err != nil {
		return installed, fmt.Errorf("reading the list of Python packages: %w", err)
	}
	if err := json.Unmarshal(raw, &installed); err != nil {
		return Installed{}, &Error{
			Problem: "the list of Python packages in " + manifestPath(data) + " is damaged",
			Cure:    "remove it and run setup again",
			Err:     err,
		}
	}
	return installed, nil
}

func manifestPath(data string) string { return filepath.Join(Dir(data), "manifest.json") }

func writeManifest(data string, installed Installed) error {
	raw, err := json.MarshalIndent(installed, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(manifestPath(data), append(raw, '\n'))
}

// replaceFile writes a file that anyone may read, whole or not at all.
func replaceFile(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
