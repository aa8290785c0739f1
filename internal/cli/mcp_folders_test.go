package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

// Without --files an agent may name the files of the folder that it works in, but no hidden ones, nothing of a
// folder that holds the home directory, and nothing if the service is on another machine.
func TestProjectFiles(t *testing.T) {
	top := t.TempDir()
	home, project, other := filepath.Join(top, "home"), filepath.Join(top, "home", "project"), filepath.Join(top, "other")
	for name, text := range map[string]string{"project/a.csv": "1", "project/.env": "KEY", "project/sub/b.csv": "2",
		"project/.git/config": "url", "c.csv": "3", "../other/d.csv": "4"} {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{filepath.Join(project, "env.txt"): ".env",
		filepath.Join(top, "root"): home} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for name, c := range map[string]struct {
		started, server, files string
		roots                  []string
		name, folder, found    string // not found: part of the error
	}{
		"where it was started":   {started: project, name: "a.csv", folder: project, found: "a.csv"},
		"by its path":            {started: project, name: project + "/sub/b.csv", folder: project, found: "sub/b.csv"},
		"hidden":                 {started: project, name: ".env", found: "hidden"},
		"in a hidden folder":     {started: project, name: ".git/config", found: "hidden"},
		"a link to a hidden one": {started: project, name: "env.txt", found: "hidden"},
		"hidden, with --files":   {started: other, files: project, name: ".env", folder: project, found: ".env"},
		"beside":                 {started: project, name: "../c.csv", found: "no name of a file"},
		"beside, by its path":    {started: project, name: home + "/c.csv", found: "no name of a file"},
		"the home directory":     {started: home, name: "c.csv", found: "no folder is shared"},
		"a link to it":           {started: filepath.Join(top, "root"), name: "c.csv", found: "no folder is shared"},
		"above it":               {started: top, name: "home/c.csv", found: "no folder is shared"},
		"the machine":            {started: "/", name: "etc/passwd", found: "no folder is shared"},
		"beside the home":        {started: other, name: "d.csv", folder: other, found: "d.csv"},
		"the host's": {started: "/", roots: []string{"/no", project}, name: "a.csv",
			folder: project, found: "a.csv"},
		"two": {started: "/", roots: []string{other, project}, name: "a.csv",
			folder: project, found: "a.csv"},
		"the host's home": {started: project, roots: []string{home}, name: "c.csv", found: "no folder is shared"},
		"a relative one":  {started: project, roots: []string{"sub"}, name: "b.csv", found: "no folder is shared"},
		"of a service elsewhere": {started: project, server: "https://x.example", name: "a.csv",
			found: "no folder is shared"},
		"of a service by a socket": {started: project, server: "unix:///s", name: "a.csv", folder: project, found: "a.csv"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(c.started)
			d := &mcpServer{app: &app{App: &command.App{Config: &config.Config{Server: c.server}}},
				options: mcpOptions{files: c.files}}
			file, err := d.find(c.name, c.roots)
			if c.folder == "" {
				if err == nil || !strings.Contains(err.Error(), c.found) {
					t.Errorf("%+v, %v", file, err)
				}
				return
			}
			if err != nil || file != (sharedFile{c.folder, c.found}) {
				t.Errorf("%+v, %v", file, err)
			}
		})
	}
}

// The folders of former connections are removed when they are old, and the oldest when they hold too much.
func TestMadeFolder(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	now := time.Now()
	made := filepath.Join(cache, "airlock", "made")
	for name, c := range map[string]struct {
		size int64
		age  time.Duration
	}{"20260101-000000-1": {1, madeTime + time.Hour}, "20260102-000000-1": {madeBytes, time.Hour},
		"20260103-000000-1": {1, time.Hour}} {
		folder := filepath.Join(made, name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(folder, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(c.size); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Chtimes(folder, now.Add(-c.age), now.Add(-c.age)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := madeFolder(now)
	if err != nil || filepath.Dir(folder) != made {
		t.Fatalf("%s, %v", folder, err)
	}
	entries, err := os.ReadDir(made)
	if err != nil || len(entries) != 1 || entries[0].Name() != "20260103-000000-1" {
		t.Errorf("left: %v, %v", entries, err)
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may look: %v, %v", info, err)
	}
}
