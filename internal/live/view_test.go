package live

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// By an absolute path there is what programs find by it, through links too.
func TestFilesAsProgramsSeeThem(t *testing.T) {
	p := open(t, Config{})
	session, ctx := p.session("bash"), t.Context()
	p.run(session, `mkdir -p real/deep && echo w > real/deep/f && echo tmp > /tmp/t && ln -s real link && ln -s /tmp/t out &&
		ln -s /workspace/real /tmp/in && ln -s /etc etc && ln -s self self && ln -s ../nowhere/x broken && mkfifo pipe`)
	read := func(name string) string {
		e, f, err := p.OpenFile(ctx, p.caller, session, name)
		if err != nil {
			return fmt.Sprint(engine.KindOf(err))
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		if err != nil || e.Path != path.Clean(name) || e.Size != int64(len(text)) {
			t.Errorf("%s: %+v %v", name, e, err)
		}
		return strings.TrimSpace(string(text))
	}
	release := read("/etc/debian_version")
	for name, want := range map[string]string{
		"real/deep/f": "w", "link/deep/f": "invalid", "/workspace/link/deep/f": "w", "/home/user/real/deep/f": "w", "/mnt/data/out": "tmp", "/tmp/t": "tmp",
		"/tmp/in/deep/f": "w", "/var/tmp/t": "tmp", "/workspace/etc/debian_version": release, "/proc/self/cwd/real/deep/f": "w", "/workspace/self": "invalid",
		"/workspace/broken": "not_found", "/workspace/pipe": "invalid", "/dev/zero": "invalid", "/tmp": "invalid", "/etc/shadow": "not_found", "/nowhere/at/all": "not_found",
		"/tmp/../workspace/real/deep/f": "w", "/workspace/real/deep/f/x": "not_found",
	} {
		if got := read(name); got != want && (want != "not_found" || got != "invalid") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	write := func(name string) error {
		_, err := p.WriteFile(ctx, p.caller, session, name, strings.NewReader("new"))
		return err
	}
	for name, seen := range map[string]string{"/tmp/a/b": "/tmp/a/b", "/workspace/out": "/tmp/t", "/workspace/link/n": "real/n",
		"/tmp/in/m": "real/m", "/var/tmp/v": "/tmp/v", "/etc/x": "/etc/x", "/app/deep/x": "/app/deep/x", "/dev/shm/x": "/dev/shm/x"} {
		if err := write(name); err != nil {
			t.Errorf("write %s: %v", name, err)
		}
		if got := read("/workspace/" + strings.TrimPrefix(seen, "/workspace/")); !strings.HasPrefix(seen, "/") && got != "new" || strings.HasPrefix(seen, "/") && read(seen) != "new" {
			t.Errorf("%s was not written to %s", name, seen)
		}
	}
	for _, name := range []string{"/proc/x", "/dev/x", "/usr/bin/x", "/opt/airlock/x"} {
		if err := write(name); !errors.Is(err, engine.ErrForbidden) {
			t.Errorf("write %s: %v", name, err)
		}
	}
	for _, name := range []string{"/proc/version", "/dev/null", "/usr/bin/env", "/etc/fonts"} {
		if err := p.RemoveFile(ctx, p.caller, session, name, true); !errors.Is(err, engine.ErrForbidden) {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	if _, err := p.MoveFile(ctx, p.caller, session, "/usr/bin/env", "/workspace/env", false); !errors.Is(err, engine.ErrForbidden) ||
		read("/workspace/env") != "not_found" {
		t.Errorf("a file that stays, moved: %v, and %q is there", err, read("/workspace/env"))
	}
	if e, err := p.MoveFile(ctx, p.caller, session, "/tmp/a/b", "/tmp/c", false); err != nil || e.Path != "/tmp/c" {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := p.MoveFile(ctx, p.caller, session, "/tmp/c", "/workspace/pipe", false); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("onto another: %v", err)
	}
	if e, err := p.MoveFile(ctx, p.caller, session, "/tmp/c", "/workspace/c", false); err != nil || e.Path != "/workspace/c" || read("/workspace/c") != "new" || read("/tmp/c") != "not_found" {
		t.Errorf("into another file system: %+v %v", e, err)
	}
	// A link is moved and removed itself.
	if err := p.RemoveFile(ctx, p.caller, session, "/workspace/out", true); err != nil || read("/tmp/t") != "new" {
		t.Error(err)
	}
	list, _, err := p.ListFiles(ctx, p.caller, session, "/tmp/in", 2)
	if err != nil || len(list) == 0 || list[0].Path != "/tmp/in/deep" || list[1].Path != "/tmp/in/deep/f" {
		t.Errorf("%+v %v", list, err)
	}
	if list, _, err = p.ListFiles(ctx, p.caller, session, "/etc", 1); err != nil || len(list) < 3 || !strings.HasPrefix(list[0].Path, "/etc/") {
		t.Errorf("%+v %v", list, err)
	}
	for _, e := range list { // or each would be asked for by itself
		if (e.Kind == engine.EntryLink) != (e.Leads != "") {
			t.Errorf("%s, a %s, leads to %q", e.Path, e.Kind, e.Leads)
		}
	}
	if !slices.ContainsFunc(list, func(e engine.Entry) bool { return e.Kind == engine.EntryLink }) {
		t.Error("no link is in /etc")
	}
	if e, err := p.RealFile(ctx, p.caller, session, "/workspace/link/deep"); err != nil || e.Path != "/workspace/real/deep" || e.Kind != engine.EntryFolder {
		t.Errorf("%+v %v", e, err)
	}
	if e, err := p.StatFile(ctx, p.caller, session, "/workspace/link"); err != nil || e.Kind != engine.EntryLink || e.Target != "real" {
		t.Errorf("%+v %v", e, err)
	}
	if list, err := p.Processes(ctx, p.caller, session); err != nil || len(list) > 0 {
		t.Errorf("the service's own commands are processes of the session: %+v %v", list, err)
	}
	other := engine.Caller{Owner: "bob"}
	_, _, openErr := p.OpenFile(ctx, other, session, "/tmp/t")
	_, realErr := p.RealFile(ctx, other, session, "/tmp/t")
	_, searchErr := p.SearchFiles(ctx, other, session, "glob", Search{Path: "/", Query: "*", Most: 1})
	_, portsErr := p.Ports(ctx, other, session)
	_, textErr := p.DocumentText(ctx, other, session, "/tmp/t")
	for _, err := range []error{openErr, realErr, searchErr, portsErr, textErr} {
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("of another owner: %v", err)
		}
	}
}

func TestSearchFiles(t *testing.T) {
	p := open(t, Config{})
	session, ctx := p.session("bash"), t.Context()
	p.run(session, `mkdir -p a/.git .h; echo 'one Two' > a/x.py; printf 'two\ntwo\n' > a/two.txt; echo two > a/.git/c; echo two > .h/y; head -c 9000 /dev/zero > bin`)
	for _, row := range []struct {
		way  string
		q    Search
		want string
	}{
		{"grep", Search{Path: "/workspace", Query: "t.o", Regex: true, PerLine: true, Most: 9}, `.h/y 1 a/two.txt 1 a/two.txt 2`},
		{"grep", Search{Path: "/workspace", Query: "two", IgnoreCase: true, Most: 2, Include: []string{"*.py", "*.txt"}}, `a/two.txt 0 a/x.py 0`},
		{"grep", Search{Path: "/workspace", Query: "t.o", Most: 9}, ``},
		{"glob", Search{Path: "/workspace", Query: "**/*.py", Most: 9}, `a/x.py 0`},
		{"glob", Search{Path: "/workspace", Query: "*", Kind: "directory", Exclude: []string{".h"}, Most: 9}, `a 0`},
		{"search", Search{Path: "/workspace", Query: "TWO", Most: 9}, `a/two.txt 0`},
		{"matches", Search{Path: "/workspace", Query: "two", Most: 1}, `a/two.txt 0 more`},
		{"matches", Search{Path: "/workspace", Query: "two", Offset: 1, Most: 1}, `a/x.py 0`},
	} {
		found, err := p.SearchFiles(ctx, p.caller, session, row.way, row.q)
		if err != nil {
			t.Errorf("%s %+v: %v", row.way, row.q, err)
			continue
		}
		if got := shown(t, found); got != row.want {
			t.Errorf("%s %+v: %q, want %q", row.way, row.q, got, row.want)
		}
	}
	if _, err := p.SearchFiles(ctx, p.caller, session, "grep", Search{Path: "/workspace", Query: "(", Regex: true, Most: 1}); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "Invalid regex") {
		t.Errorf("%v", err)
	}
}

// shown are the files and lines of what was found.
func shown(t *testing.T, found Found) string {
	t.Helper()
	var list []struct {
		File, Path string
		Line       int
	}
	if err := json.Unmarshal(found.Matches, &list); err != nil {
		t.Fatalf("%s: %v", found.Matches, err)
	}
	var words []string
	for _, m := range list {
		words = append(words, fmt.Sprintf("%s %d", strings.TrimPrefix(cmp.Or(m.File, m.Path), "/workspace/"), m.Line))
	}
	if found.More {
		words = append(words, "more")
	}
	return strings.Join(words, " ")
}
