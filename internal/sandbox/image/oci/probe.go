package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"

	_ "embed"
)

// A Prober runs commands in images of this store.
type Prober interface {
	// Run runs a command in a sandbox whose root is an image, with its environment. An error means
	// that this machine could not run it at all.
	Run(ctx context.Context, image *engine.Image, argv []string) (Output, error)
	// Release unmounts the images, so that their files can be removed. Run mounts them again.
	Release()
}

// Output is what a command of an image left.
type Output struct {
	Stdout, Stderr string
	Code           int    // 0: it succeeded
	Failure        string // what ended it in place of an exit code: "it was killed"
}

// command is how a language is found in an image.
type command struct {
	names   []string // of its program, in order of preference
	beside  string   // a program that it needs in the same folder
	version []string // arguments
}

// commandOf returns the command of a language.
func commandOf(l language.Language) command {
	c := command{names: []string{path.Base(l.Tool())}, version: l.Version[1:]}
	switch l.Name {
	case "python":
		c = command{names: []string{"python3", "python"}, version: []string{"-c", probeScript}}
	case "bash":
		c.names = append(c.names, "sh")
	case "js", "ts":
		c.names = append(c.names, "nodejs")
	case "java":
		c = command{names: []string{"java"}, beside: "javac", version: []string{"-version"}} // also of Java 8
	}
	return c
}

// usualPath is the path of an image that sets none.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// examine finds the languages of an image and writes down what it found. Programs of the image
// run in the sandbox only.
func (s *Store) examine(
	ctx context.Context, id string, preload []string,
) (i engine.Image, warnings []string, err error) {
	if i, err = s.image(id); err != nil {
		return engine.Image{}, nil, err
	}
	e := examination{store: s, image: &i, path: strings.Split(pathOf(i.Env), ":")}
	root, err := os.OpenRoot(s.path(id, rootName))
	if err != nil {
		return engine.Image{}, nil, err
	}
	defer root.Close()
	e.tree = &tree{root: root}
	i.Languages, i.Modules = nil, nil
	for _, l := range language.All() {
		s.progress("examine", l.Title, 0, 0)
		if err := e.find(ctx, l); err != nil {
			return engine.Image{}, nil, err
		}
	}
	if len(i.Languages) == 0 {
		const hint = "add a language or a shell to the image; FROM scratch has neither"
		if len(e.warnings) > 0 {
			return engine.Image{}, nil, refuse(engine.ErrForbidden, hint, "nothing runs in it: %s",
				strings.Join(e.warnings, "; "))
		}
		return engine.Image{}, nil, refuse(engine.ErrForbidden, hint, "there is no shell in it, and no language")
	}
	if i.Preload, err = e.preload(ctx, preload); err != nil {
		return engine.Image{}, nil, err
	}
	return i, e.warnings, writeJSON(s.path(id, imageName), i)
}

func pathOf(env []string) string {
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			return value
		}
	}
	return usualPath
}

// examination is the search for languages in an image.
type examination struct {
	store    *Store
	image    *engine.Image
	tree     *tree
	path     []string
	warnings []string
}

// find adds a language to the image if it runs.
func (e *examination) find(ctx context.Context, l language.Language) error {
	c := commandOf(l)
	var broken []string
	for _, name := range c.names {
		at := e.lookUp(name)
		if at == "" || c.beside != "" && !e.isProgram(path.Join(path.Dir(at), c.beside)) {
			continue
		}
		argv := append([]string{at}, c.version...)
		if name == "sh" { // which has no version
			argv = []string{at, "-c", "echo 0.0"}
		}
		out, err := e.store.Prober.Run(ctx, e.image, argv)
		if err != nil {
			return err
		}
		version, why := e.read(l, out)
		if why == "" {
			if name == "sh" {
				version = ""
			}
			e.image.Languages = append(e.image.Languages, engine.ImageLanguage{Name: l.Name, Version: version, Path: at})
			return nil
		}
		broken = append(broken, name+why)
	}
	if l.Name != "ts" { // which js has said
		e.warnings = append(e.warnings, broken...)
	}
	return nil
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// read returns the version that a command printed, else why the language cannot be used.
func (e *examination) read(l language.Language, out Output) (version, why string) {
	if out.Code != 0 || out.Failure != "" {
		return "", " is there but does not run: " + lastWords(out)
	}
	if l.Name == "python" {
		return e.readPython(out)
	}
	if version = versionNumber.FindString(out.Stdout + "\n" + out.Stderr); version == "" {
		return "", " is there but does not say its version"
	}
	return version, ""
}

// lastWords returns the last line that a command wrote, which says why it failed.
func lastWords(out Output) string {
	lines := strings.Split(strings.TrimSpace(out.Stderr+"\n"+out.Failure), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return fmt.Sprintf("%.200s", strings.ToValidUTF8(last, "?"))
	}
	return fmt.Sprintf("it ends with code %d", out.Code)
}

//go:embed probe.py
var probeScript string

// Limits of what an image's Python says about itself.
const (
	oldestPython = 8 // of CPython 3
	maxModules   = 5000
	maxModule    = 100 // bytes of a name
)

// readPython reads what probe.py wrote.
func (e *examination) readPython(out Output) (version, why string) {
	var found struct {
		Version []int    `json:"version"`
		Modules []string `json:"modules"`
	}
	line := strings.TrimSpace(out.Stdout)
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if err := json.Unmarshal([]byte(line), &found); err != nil || len(found.Version) != 3 {
		return "", " is there but does not say its version"
	}
	version = fmt.Sprintf("%d.%d.%d", found.Version[0], found.Version[1], found.Version[2])
	if found.Version[0] != 3 || found.Version[1] < oldestPython {
		return "", fmt.Sprintf(" is Python %s, and programs need at least 3.%d", version, oldestPython)
	}
	for _, name := range found.Modules {
		if len(name) <= maxModule && moduleName.MatchString(name) && len(e.image.Modules) < maxModules {
			e.image.Modules = append(e.image.Modules, name)
		}
	}
	slices.Sort(e.image.Modules)
	e.image.Modules = slices.Compact(e.image.Modules)
	return version, ""
}

// preload returns the modules of those that can be imported.
func (e *examination) preload(ctx context.Context, names []string) (kept []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	python, ok := e.image.Language("python")
	if err := checkModules(names); err != nil || !ok {
		e.warnings = append(e.warnings, fmt.Sprintf("nothing is preloaded: %.200q", strings.Join(names, " ")))
		return nil, nil //nolint:nilerr // a label is not worth a failure
	}
	for _, name := range names {
		out, err := e.store.Prober.Run(ctx, e.image, []string{python.Path, "-c", "import " + name})
		if err != nil {
			return nil, err
		}
		if out.Code != 0 || out.Failure != "" {
			e.warnings = append(e.warnings, name+" is not preloaded: "+lastWords(out))
			continue
		}
		kept = append(kept, name)
	}
	return kept, nil
}

// lookUp returns the path of a program that everybody may execute, or "".
func (e *examination) lookUp(name string) string {
	for _, dir := range e.path {
		if !path.IsAbs(dir) {
			continue
		}
		if at := path.Join(dir, name); e.isProgram(at) {
			return at
		}
	}
	return ""
}

func (e *examination) isProgram(at string) bool {
	info, err := e.tree.stat(at)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o001 != 0
}

// stat returns what a path of the image leads to.
func (t *tree) stat(name string) (fs.FileInfo, error) {
	links := 0
	for {
		dir, base := path.Split(name)
		real, err := t.follow(".", dir, &links, false)
		if err != nil {
			return nil, err
		}
		info, err := t.root.Lstat(path.Join(real, base))
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return info, err
		}
		if links++; links > maxLinks {
			return nil, fs.ErrInvalid
		}
		target, err := t.root.Readlink(path.Join(real, base))
		if err != nil {
			return nil, err
		}
		if name = target; !path.IsAbs(target) {
			name = "/" + real + "/" + target
		}
	}
}
