package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// shellImage returns an archive as docker save writes it, with Bash and a file.
func shellImage(t *testing.T, d *deployment, content string) string {
	t.Helper()
	libraries, err := exec.CommandContext(t.Context(), "ldd", "/usr/bin/bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"etc/mine": []byte(content)}
	for _, name := range append(regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1), "/usr/bin/bash") {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	layer := tarOf(t, files)
	archive := tarOf(t, map[string][]byte{"layer.tar": layer, "config.json": fmt.Appendf(nil,
		`{"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256(layer)),
		"manifest.json": []byte(`[{"Config":"config.json","Layers":["layer.tar"]}]`)})
	at := filepath.Join(dataFolder(t, d.who), "image.tar")
	if err := os.WriteFile(at, archive, 0o644); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	return at
}

func tarOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
		if _, failed := w.Write(content); errors.Join(err, failed) != nil {
			t.Fatal(err, failed)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}

// An image that one machine adds is on all workers, which fetch it once. Runs that name it after its
// removal are refused.
func TestClusterImages(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := newRoles(t, 2, 2)
	airlock := func(args ...string) string {
		t.Helper()
		cmd := r.who.command(t, r.env(), append(args, "--data", dataFolder(t, r.who))...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	archive := shellImage(t, r.deployment, "of the image")
	airlock("images", "add", "mine", "docker-archive:"+archive)
	if got := airlock("images", "list"); !strings.Contains(got, "mine") || !strings.Contains(got, "bash 5") {
		t.Errorf("the list is %s", got)
	}
	const body = `{"language":"bash","image":"mine","code":"echo $(</etc/mine)"}`
	ran := func() (answer, run) {
		got := r.apis[1].do("POST", runs, body)
		var of run
		_ = json.Unmarshal(got.body, &of)
		return got, of
	}
	eventually(t, waitTime, "a run in the image", func() bool {
		_, of := ran()
		return of.Stdout == "of the image\n"
	})

	// Without the worker that has it, another one fetches it.
	var has, other *service
	for _, w := range r.workers {
		if found, _ := filepath.Glob(filepath.Join(w.data, "image-cache", "sha256-*")); len(found) > 0 {
			has = w
		} else {
			other = w
		}
	}
	if has == nil || other == nil {
		t.Fatal("not one worker alone has the image, which its runs prefer")
	}
	stopped(family(has.cmd.Process.Pid)).signal(syscall.SIGKILL)
	eventually(t, waitTime, "a run on the other worker", func() bool {
		_, of := ran()
		return of.Stdout == "of the image\n"
	})
	if !strings.Contains(other.log.String(), "fetched an image") {
		t.Error("the other worker did not say that it fetched the image")
	}

	airlock("images", "remove", "mine")
	eventually(t, waitTime, "the removal is seen", func() bool {
		got, _ := ran()
		return got.status == http.StatusBadRequest || got.status == http.StatusNotFound
	})
	if got := r.apis[0].do("POST", runs, `{"language":"bash","code":"true"}`); got.status != http.StatusOK {
		t.Errorf("a run without an image: %d %s", got.status, got.body)
	}
}
