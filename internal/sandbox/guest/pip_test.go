package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a network pip agrees if all is there that it is to install, and else names what is not.
func TestPip(t *testing.T) {
	folder := t.TempDir()
	of := filepath.Join(folder, "some_thing-1.2.dist-info")
	if err := os.Mkdir(of, 0o755); err != nil {
		t.Fatal(err)
	}
	const metadata = "Metadata-Version: 2.1\nName: some-thing\nVersion: 1.2\n"
	if err := os.WriteFile(filepath.Join(of, "METADATA"), []byte(metadata), 0o644); err != nil {
		t.Fatal(err)
	}
	const there = "Requirement already satisfied: some-thing\n"
	for arguments, want := range map[string]string{
		"install some-thing":                there,
		"-q install -q some-thing":          there,
		"install -U some-thing":             "some-thing",
		"install some-thing -r needs":       "some-thing",
		"install some-thing==1.3":           "some-thing",
		"install some-thing other[x]>=2":    "other",
		"install -r requirements.txt":       "packages",
		"install -r needs":                  "packages",
		"install ./a-1.0-py3-none-any.whl":  "packages",
		"install --index-url x some-other.": "some-other",
		"download other":                    "packages",
		"--version":                         "packages",
	} {
		cmd := exec.Command("/usr/bin/python3", append([]string{"pip.py"}, strings.Fields(arguments)...)...)
		cmd.Env = []string{"PYTHONPATH=" + folder}
		out, err := cmd.CombinedOutput()
		if want != there {
			want = "pip: " + want + " cannot be installed here: there is no network to the package registries.\n"
		}
		if got := string(out); !strings.HasPrefix(got, want) || (err == nil) != (want == there) {
			t.Errorf("pip %s: %v, %q, want %q", arguments, err, got, want)
		}
	}
}
