package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// mountFolders returns the folders of the setting mounts, by name.
func mountFolders(mounts []string) executor.Folders {
	folders := executor.Folders{}
	for _, m := range mounts {
		name, folder, write := config.Mount(m)
		folders[name] = image.Folder{Path: folder, Write: write}
	}
	return folders
}

// mountFound is a folder of the setting mounts.
type mountFound struct {
	Name   string `json:"name"`
	Folder string `json:"folder"`
	Write  bool   `json:"writable,omitempty"`
	OK     bool   `json:"ok"`
	Denied bool   `json:"denied,omitempty"` // to write, for this user
}

func findMounts(mounts []string) (found []mountFound) {
	for _, m := range mounts {
		name, folder, write := config.Mount(m)
		info, err := os.Stat(folder)
		found = append(found, mountFound{Name: name, Folder: folder, Write: write, OK: err == nil && info.IsDir(),
			Denied: write && unix.Access(folder, unix.W_OK) != nil})
	}
	return found
}

// WriteText writes a row.
func (m mountFound) WriteText(p *command.Page) {
	shown := command.Printable(m.Folder) + " as /mnt/" + m.Name
	if m.Write {
		shown += ", to write to"
	}
	switch {
	case m.OK && m.Denied:
		p.Row("mount", 13, command.Yellow, "read-only", shown+": this user may not. Cure: give it the folder")
	case m.OK:
		p.Row("mount", 13, command.Green, "ok", shown)
	default:
		p.Row("mount", 13, command.Yellow, "missing", shown+": programs that ask for it are refused. Cure: create or mount "+
			"it, then restart the service")
	}
}

// mountRules returns the rules for mounts. A cluster has none: each machine would have others.
func mountRules(c *config.Config) engine.MountRules {
	if c.Role != config.RoleAll {
		return engine.MountRules{}
	}
	rules := engine.MountRules{Names: slices.Sorted(maps.Keys(mountFolders(c.Mounts))), Keys: map[string][]string{}}
	for _, rule := range c.MountAccess {
		if key, name := config.MountAccess(rule); key != "" {
			rules.Keys[key] = append(rules.Keys[key], name)
		} else {
			rules.All = append(rules.All, name)
		}
	}
	return rules
}

// mount returns the mounts of one program, as a request names them. Where it runs in this process they are those
// of the person's own folders; a service has its own mounts.
func (a *app) mount(ctx context.Context, opts *runOptions) (names []string, err error) {
	asked := slices.Concat(opts.mounts, opts.writable)
	if a.Config.Server != "" || len(asked) > 0 && a.socketAnswers(ctx) {
		for i, name := range asked {
			if strings.ContainsRune(name, filepath.Separator) {
				return nil, command.Fail(command.ExitUsage, "name one of the service's, which its setting mounts lists, or put "+
					"files beside the program with -f", "--mount %s: a service runs the program, and sees no folder of yours", name)
			}
			if i < len(opts.mounts) {
				name = strings.TrimSuffix(name, ":ro") + ":ro"
			}
			names = append(names, name)
		}
		return names, nil
	}
	for i, folder := range asked {
		at, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		at, err = filepath.EvalSymlinks(at)
		if err != nil && !strings.ContainsRune(folder, filepath.Separator) {
			return nil, command.Fail(command.ExitUsage, "name a folder as ./"+folder+"; mounts of a service have names, "+
				"where one runs the program", "--mount %s is no folder here, and no service runs the program", folder)
		}
		if info, failed := os.Stat(at); err != nil || failed != nil || !info.IsDir() {
			return nil, command.Fail(command.ExitUsage, "name a folder; a single file goes beside the program with -f",
				"--mount %s is no folder", folder)
		}
		how := "/" // the folder's own name may end like this
		if i >= len(opts.mounts) {
			if err := a.allowWrites(ctx, at, opts.Yes); err != nil {
				return nil, err
			}
			how = ":rw"
		}
		name := mountNameOf(at, names)
		names = append(names, name)
		a.Config.Mounts = append(a.Config.Mounts, name+"="+at+how)
		a.Config.MountAccess = append(a.Config.MountAccess, name)
	}
	return names, nil
}

// allowWrites returns an error unless the person lets a program write to a folder.
func (a *app) allowWrites(ctx context.Context, folder string, yes bool) error {
	home, _ := os.UserHomeDir()
	for _, own := range []string{home, a.Config.Data} {
		if at, err := filepath.EvalSymlinks(own); err == nil && within(folder, at) {
			return command.Fail(command.ExitRefused, "name a folder below it for what the program writes",
				"--mount-rw %s has %s in it, with what your shell or Airlock runs", folder, own)
		}
	}
	shown := command.Printable(folder)
	if !yes && a.Interactive() {
		var err error
		yes, err = a.Confirm(ctx, "May the program change and delete all that is in "+shown+
			", also what you or your tools run there? [y/N] ")
		if err != nil {
			return err
		}
	}
	if !yes {
		return command.Fail(command.ExitApproval, "agree on a terminal or with --yes, or use --mount to read",
			"--mount-rw %s: you did not agree to it, so nothing was run", shown)
	}
	return nil
}

// within reports whether a path is a folder or below it.
func within(folder, at string) bool {
	rel, err := filepath.Rel(folder, at)
	return err == nil && filepath.IsLocal(rel)
}

var noMountName = regexp.MustCompile(`[^a-z0-9_-]+`)

// mountNameOf returns a name for the mount of a folder that none of taken is, of the folder's own.
func mountNameOf(folder string, taken []string) string {
	base := strings.Trim(noMountName.ReplaceAllString(strings.ToLower(filepath.Base(folder)), "-"), "-_")
	base = base[:min(len(base), 24)]
	if base == "" || base == "data" { // /mnt/data is the program's own
		base = "folder"
	}
	name := base
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}
