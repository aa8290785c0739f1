package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/volume"
)

// A program sees the folders of the host that it asks for and can change nothing there. It writes to its volumes, and
// the next one finds what it left.
func TestSharedFolders(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(os.Mkdir(folder+"/a", 0o755), os.WriteFile(folder+"/a/one.txt", []byte("one"), 0o644),
		os.WriteFile(folder+"/secret", []byte("s"), 0o644), os.Symlink(folder+"/secret", folder+"/a/out"),
		exec.CommandContext(t.Context(), "chmod", "755", folder, filepath.Dir(folder)).Run()); err != nil {
		t.Fatal(err)
	}
	volumes := filepath.Join(folder, "volumes")
	store, err := volume.Open(volumes)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	id := engine.NewID()
	if err := errors.Join(store.Create(id),
		exec.CommandContext(t.Context(), "chown", "-R", "4321:4321", volumes).Run()); err != nil {
		t.Fatal(err)
	}
	s := startWith(t, executor.LaunchOptions{Runtimes: t.TempDir(), Volumes: volumes, Mounts: executor.Folders{
		"a": {Path: folder + "/a"}, "w": {Path: folder + "/a", Write: true}}})
	run := func(code string, readOnly bool, mounts ...string) sandboxtest.Result {
		t.Helper()
		spec := sandboxtest.Python("import os\n" + code)
		spec.Mounts, spec.Volumes = mounts, []engine.VolumePlace{{ID: id, Path: "/volumes/data", ReadOnly: readOnly}}
		return sandboxtest.Run(t, s, spec)
	}
	const look = `print(open("/mnt/a/one.txt").read(), os.path.exists("/mnt/a/out"), os.listdir("/mnt/w"))
for do in (lambda: open("/mnt/a/new", "w"), lambda: os.remove("/mnt/a/one.txt"), lambda: os.mkdir("/mnt/x")):
    try: do(); print("changed")
    except OSError: print("kept")
`
	if r := run(look+`open("/volumes/data/f", "w").write("left"); os.mkdir("/volumes/data/d")`, false, "a"); r.Code() != 0 ||
		r.Stdout != "one False []\n"+strings.Repeat("kept\n", 3) {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	const again = `print(open("/volumes/data/f").read(), os.stat("/volumes/data/f").st_uid == os.getuid())
try: open("/volumes/data/f", "w"); print("changed")
except OSError: print("kept")`
	if r := run(again, true); r.Stdout != "left True\nkept\n" {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	spec := sandboxtest.Python("print(1)")
	spec.Mounts = []string{"w"}
	_, err = s.Run(t.Context(), spec, sandboxtest.Host{})
	if err == nil || !strings.Contains(err.Error(), "leaving links") {
		t.Errorf("a mount that can be written to: %v", err)
	}
}
