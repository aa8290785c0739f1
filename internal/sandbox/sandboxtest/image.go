package sandboxtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// Image adds an image to runtimes, with the CPython and the shell of a suite of Debian, which
// scripts/test-pythons has fetched.
func Image(t testing.TB, runtimes, suite string) *engine.Image {
	t.Helper()
	from := filepath.Join(os.Getenv("AIRLOCK_TEST_PYTHONS"), suite)
	found, err := filepath.Glob(from + "/usr/bin/python3.*")
	if err != nil || len(found) == 0 {
		t.Skip("make test fetches this CPython into the folder AIRLOCK_TEST_PYTHONS: none in", from)
	}
	minor := strings.TrimPrefix(filepath.Base(found[0]), "python")
	record := &engine.Image{Name: suite, Reference: "debian:" + suite, ID: fmt.Sprintf("sha256-%x",
		sha256.Sum256([]byte(suite))),
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "IMAGE_OF=" + suite},
		Languages: []engine.ImageLanguage{{Name: "python", Version: minor + ".0", Path: "/usr/bin/python3"},
			{Name: "bash", Version: "5", Path: "/usr/bin/bash"}}}
	at := filepath.Join(runtimes, "images", record.ID)
	text, err := json.Marshal(record)
	if err == nil {
		err = os.MkdirAll(filepath.Join(at, "rootfs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(at, "image.json"), text, 0o644) //nolint:gosec // no secret
	}
	if err != nil {
		t.Fatal(err)
	}
	how := "-al" // no test writes to the files
	if os.Geteuid() != 0 {
		how = "-a" // only the owner may link files
	}
	arguments := []string{how, "-t", filepath.Join(at, "rootfs")}
	for _, name := range []string{"bin", "etc", "lib", "lib64", "sbin", "usr", "var"} {
		arguments = append(arguments, filepath.Join(from, name))
	}
	copying := exec.CommandContext(t.Context(), "cp", arguments...)
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	keepLive(t, runtimes)
	return record
}

// keepLive puts the packages of live interpreters into runtimes: those of an image are taken
// from no other folder.
func keepLive(t testing.TB, runtimes string) {
	t.Helper()
	links, _ := filepath.Glob(filepath.Join(runtimes, "python", "live-3.*")) // a good pattern
	for _, link := range links {
		folder, err := os.Readlink(link)
		if err != nil {
			continue // it was kept for another image
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-al", folder, link).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// InImage returns a sandbox whose programs run in an image.
func InImage(s engine.Sandbox, record *engine.Image) engine.Sandbox { return &inImage{s, record} }

type inImage struct {
	engine.Sandbox
	record *engine.Image
}

// Run implements engine.Sandbox.
func (s *inImage) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	changed := *spec
	changed.Image = s.record
	return s.Sandbox.Run(ctx, &changed, host)
}
