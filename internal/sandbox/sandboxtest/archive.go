package sandboxtest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ImageArchive makes an archive, as docker save writes it, with the CPython and the shell of a suite
// of Debian, which scripts/test-pythons has fetched.
func ImageArchive(t testing.TB, suite string) string {
	t.Helper()
	from := filepath.Join(os.Getenv("AIRLOCK_TEST_PYTHONS"), suite)
	if found, _ := filepath.Glob(from + "/usr/bin/python3.*"); len(found) == 0 {
		t.Skip("make test fetches this CPython into the folder AIRLOCK_TEST_PYTHONS: none in", from)
	}
	folder := t.TempDir()
	pack := func(archive, in string, names ...string) {
		t.Helper()
		arguments := append([]string{"--owner=0", "--group=0", "-C", in, "-cf", archive}, names...)
		cmd := exec.CommandContext(t.Context(), "tar", arguments...)
		// With code 1 the files were packed, and one got another link or time meanwhile: other tests use the folder.
		if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("tar: %v: %s", err, out)
		}
	}
	layer := filepath.Join(folder, "layer.tar")
	pack(layer, from, "bin", "etc", "lib", "lib64", "sbin", "usr", "var")
	f, err := os.Open(layer)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config.json": fmt.Sprintf(`{"os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%x"]},
			"config":{"Env":["PATH=/usr/local/bin:/usr/bin:/bin"]}}`, sum.Sum(nil)),
		"manifest.json": `[{"Config":"config.json","Layers":["layer.tar"]}]`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(folder, "image.tar")
	pack(archive, folder, "layer.tar", "config.json", "manifest.json")
	return archive
}
