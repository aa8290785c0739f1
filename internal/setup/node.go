package setup

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed locks/node/package.json locks/node/package-lock.json
var nodeLock embed.FS

// npmCommand installs the packages of the lock without running their scripts: packages
// with machine code are prebuilt.
var npmCommand = []string{"npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund",
	"--no-update-notifier", "--loglevel=error"}

// nodePackages installs the packages of Node that belong to a set. All programs of Node
// can use them, whatever their set of Python packages is.
func (in *installer) nodePackages(ctx context.Context) error {
	in.progress.Step("npm packages")
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := nodeLock.ReadFile("locks/node/" + name)
		if err != nil {
			return err
		}
		files[name] = content
	}
	set := fmt.Sprintf("%.16s", digest(files["package-lock.json"]))
	target, _ := os.Readlink(in.nodePath("lib")) // there may be none
	if _, err := os.Stat(in.nodePath("lib")); err == nil && target == nodeTarget(set) {
		in.progress.Done("up to date")
		return nil
	}
	if err := in.installNode(ctx, files, set); err != nil {
		return inDirectory(in.data, err)
	}
	in.progress.Done(fmt.Sprintf("%d and what they need", len(NodePackages(in.data))))
	return nil
}

// NodePackages returns the names of the npm packages that are installed in a data
// directory, in order.
func NodePackages(data string) []string {
	modules, err := filepath.EvalSymlinks(filepath.Join(data, runtimesName, "node", "lib"))
	if err != nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(modules), "package.json"))
	if err != nil {
		return nil
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(manifest.Dependencies))
}

func (in *installer) nodePath(names ...string) string {
	return filepath.Join(append([]string{in.data, runtimesName, "node"}, names...)...)
}

func nodeTarget(set string) string { return filepath.Join("sets", set, "node_modules") }

func (in *installer) installNode(ctx context.Context, files map[string][]byte, set string) error {
	if _, err := exec.LookPath(npmCommand[0]); err != nil {
		return &Error{Problem: "there is no npm, which installs the packages of Node",
			Cure: "install it (apt-get install npm), then run setup again"}
	}
	release, err := in.lockSetup()
	if err != nil {
		return err
	}
	defer release()
	work, place := in.nodePath("work"), in.nodePath("sets", set)
	if err := errors.Join(os.RemoveAll(work), os.RemoveAll(place)); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := makeDirectories(in.nodePath(), in.nodePath("sets"), work); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(work, name), content, 0o644); err != nil {
			return err
		}
	}
	in.progress.Update(0, 0, "npm ci")
	cmd := command(ctx, npmCommand...)
	cmd.Dir = work
	cmd.ExtraFiles = []*os.File{in.held}
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return npmError(in.data, string(out))
	}
	if err := os.Rename(work, place); err != nil {
		return err
	}
	if err := pointAt(in.nodePath("lib"), nodeTarget(set)); err != nil {
		return err
	}
	return prune(in.nodePath("sets"), func(string) bool { return true }, set) // what earlier locks installed
}

// npmError explains the failure that npm's output reports.
func npmError(data, said string) error {
	why := ""
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "npm error "); ok && why == "" &&
			!strings.HasPrefix(text, "code ") {
			why = text
		}
	}
	switch {
	case pipFull.MatchString(said) || strings.Contains(said, "ENOSPC"):
		return diskFull(data)
	case strings.Contains(said, "EINTEGRITY"):
		return &Error{"an npm package came with other bytes than the ones that were locked",
			"do not install it; if you use a mirror of the registry, it serves altered files", errors.New(why)}
	}
	return &Error{"the npm packages could not be installed",
		"check the connection (behind a proxy set HTTPS_PROXY), then run setup again",
		errors.New(cmp.Or(why, "npm ci failed"))}
}
