package cli

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// archiveOf writes an archive as docker save does, with an image of these files of the host and
// others with a content, which are programs.
func archiveOf(t *testing.T, hosts []string, others map[string]string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(name string, content []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range hosts {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		add(name, content)
	}
	for name, content := range others {
		add(name, []byte(content))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(v1.ConfigFile{RootFS: v1.RootFS{Type: "layers",
		DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(layer.Bytes()))}}}})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w = tar.NewWriter(&archive)
	add("config.json", config)
	add("layer.tar", layer.Bytes())
	add("manifest.json", []byte(`[{"Config": "config.json", "Layers": ["layer.tar"]}]`))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shell returns the files of the host that its shell needs.
func shell(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ldd", "/usr/bin/bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"/usr/bin/bash"}, regexp.MustCompile(`/\S+`).FindAllString(string(out), -1)...)
}

// Images are added, listed, used and removed. What is in one and does not run is said.
func TestImages(t *testing.T) {
	needSandbox(t)
	data := t.TempDir()
	run := func(wantCode int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out bytes.Buffer
		code, stderr := execute(t.Context(), t, "", &out, append(args, "--data", data)...)
		if code != wantCode {
			t.Fatalf("airlock %s: code %d, want %d: %s%s", strings.Join(args, " "), code, wantCode, out.String(), stderr)
		}
		return out.String(), stderr
	}
	contains := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("got %q, want it to say %q", text, w)
			}
		}
	}
	out, _ := run(0, "images", "list")
	contains(out, "There are no images.")
	archive := archiveOf(t, shell(t), map[string]string{"usr/bin/python3": "#!/usr/bin/bash\necho kaputt >&2; exit 3",
		"etc/mine": "from the image"})
	out, _ = run(0, "images", "add", "mine", "docker-archive:"+archive)
	contains(out, "warning: python3 is there but does not run: kaputt", "mine: docker-archive:"+archive, "bash 5")
	out, _ = run(0, "images", "list")
	contains(out, "NAME", "mine", "bash 5", archive)
	out, _ = run(0, "images", "show", "mine", "--json")
	var shown struct {
		ID        string
		Languages []struct{ Name, Path string }
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || len(shown.Languages) != 1 ||
		shown.Languages[0].Path != "/usr/bin/bash" {
		t.Errorf("show is %s: %v", out, err)
	}
	out, _ = run(0, "run", "--image", "mine", "--language", "bash", "-c", "echo $(</etc/mine)")
	contains(out, "from the image")
	out, _ = run(0, "doctor")
	contains(out, "mine (bash 5")
	out, _ = run(0, "doctor", "--json")
	contains(out, `"name": "mine"`)
	out, _ = run(0, "images", "update", "--json")
	contains(out, `"changed": false`)

	_, said := run(5, "images", "add", "empty", "docker-archive:"+archiveOf(t, nil, map[string]string{"x": ""}))
	contains(said, "there is no shell in it, and no language")
	broken := archiveOf(t, nil, map[string]string{"bin/sh": "#!/none\n"})
	_, said = run(5, "images", "add", "broken", "docker-archive:"+broken)
	contains(said, "nothing runs in it: sh is there but does not run")
	_, said = run(2, "images", "add", "host", "docker-archive:"+archive)
	contains(said, "stands for the machine's own environment")
	_, said = run(1, "images", "remove", "other")
	contains(said, "there is no image other")
	out, _ = run(0, "images", "remove", "mine")
	contains(out, "Removed mine.")
	if left, _ := filepath.Glob(filepath.Join(data, "images", "sha256-*")); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}
