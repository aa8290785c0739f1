package setup

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Installed is the record of one set of Python packages of a data directory.
type Installed struct {
	Set          string    `json:"set"`          // "onyx"; empty: current
	Python       string    `json:"python"`       // "3.11.2"; empty: nothing is installed
	Lock         string    `json:"lock"`         // SHA-256 of the lock, hexadecimal
	Requirements string    `json:"requirements"` // SHA-256 of the user's own file; empty: none
	Packages     []Package `json:"packages"`     // in order of name
}

// Package is a main package of a set, or one of the user's.
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

// Inspect returns the record of the default set. If setup never finished, the record is
// empty.
func Inspect(data string) (Installed, error) {
	sets, err := InspectSets(data)
	if err != nil || len(sets) == 0 {
		return Installed{}, err
	}
	return sets[0], nil
}

// InspectSets returns the records of all sets in a data directory, current first.
func InspectSets(data string) ([]Installed, error) {
	var sets []Installed
	for _, k := range kinds {
		installed, err := inspect(data, k)
		if err != nil {
			return nil, err
		}
		if installed.Python != "" {
			sets = append(sets, installed)
		}
	}
	return sets, nil
}

func inspect(data string, k kind) (Installed, error) {
	var installed Installed
	path := filepath.Join(Dir(data), k.suffixed("manifest", ".json"))
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return installed, nil
	}
	if err != nil {
		return installed, fmt.Errorf("reading the list of Python packages: %w", err)
	}
	if err := json.Unmarshal(raw, &installed); err != nil {
		return Installed{}, &Error{
			Problem: "the list of Python packages in " + path + " is damaged",
			Cure:    "remove it and run setup again",
			Err:     err,
		}
	}
	installed.Set = k.name
	return installed, nil
}

func (in *installer) writeManifest(installed Installed) error {
	raw, err := json.MarshalIndent(installed, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(in.path(in.kind.suffixed("manifest", ".json")), append(raw, '\n'))
}

// replaceFile replaces a file, which every user can read, atomically.
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

//go:embed locks/*.txt
var locks embed.FS

// requirements name the main packages of a set, in SET.in. A lock lists these and their
// dependencies.
//
//go:embed locks/*.in
var requirements embed.FS

// lockFile returns the lock of a set for CPython 3.minor.
type lockFile func(set string, minor int) ([]byte, error)

func embeddedLock(set string, minor int) ([]byte, error) {
	return locks.ReadFile(fmt.Sprintf("locks/%s-3.%d.txt", set, minor))
}

// embeddedRoots returns the names of a set's main packages, one a line.
func embeddedRoots(set string) string {
	text, err := requirements.ReadFile("locks/" + set + ".in")
	if err != nil {
		return "" // the set own has the packages of the user's file
	}
	return string(text)
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// named matches the package name that a line of a requirements file begins
// with. Lines that begin with a path, an address or an option do not match.
var named = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)

// packageNames lists the packages that a requirements file names, one a line.
func packageNames(requirements string) []string {
	var names []string
	for line := range strings.Lines(requirements) {
		if name := named.FindString(strings.TrimLeft(line, " \t")); name != "" && !strings.HasPrefix(line, " ") {
			names = append(names, name)
		}
	}
	return names
}

// pins turns a lock into constraints: the same versions without hashes, which
// pip would otherwise demand of everything else, too.
func pins(lock []byte) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(lock)) {
		if packageNames(line) != nil {
			pin, _, _ := strings.Cut(line, "\\")
			out.WriteString(strings.TrimSpace(pin) + "\n")
		}
	}
	return []byte(out.String())
}

// SetsWith returns the names of the sets whose locks have a package, whatever is installed.
func SetsWith(distribution string) (found []string) {
	distribution = strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(distribution))
	for _, k := range kinds {
		if slices.ContainsFunc(k.minors, func(minor int) bool {
			lock, err := embeddedLock(k.name, minor)
			return err == nil && slices.Contains(packageNames(string(lock)), distribution)
		}) {
			found = append(found, k.name)
		}
	}
	return found
}

// HasModule reports whether an installed set has a module of Python, such as "google.cloud".
func HasModule(data, set, module string) bool {
	k, known := findKind(set)
	parts := strings.Split(module, ".")
	if !known || slices.ContainsFunc(parts, func(p string) bool { return p == "" || strings.ContainsAny(p, `/*?[\`) }) {
		return false
	}
	path := filepath.Join(append([]string{Dir(data), k.suffixed("lib", "")}, parts...)...)
	if info, err := os.Stat(path); err == nil {
		return info.IsDir()
	}
	for _, pattern := range []string{".py", ".*.so", ".so"} {
		if found, _ := filepath.Glob(path + pattern); len(found) > 0 { // the name is no pattern
			return true
		}
	}
	return false
}
