package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program run by hand sees a folder of the person's, and doctor tells of those of the settings.
func TestRunMount(t *testing.T) {
	needSandbox(t)
	folder := filepath.Join(t.TempDir(), "My Data")
	if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // programs read it
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "x"), []byte("in it"), 0o644); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	for _, at := range []string{filepath.Dir(folder), filepath.Dir(filepath.Dir(folder))} { // of this test alone
		if err := os.Chmod(at, 0o755); err != nil { //nolint:gosec // as above
			t.Fatal(err)
		}
	}
	data := t.TempDir()
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "--mount", folder, "-l", "bash", "-c", "cat /mnt/my-data/x"}, 0, "in it"},
		{[]string{"run", "--mount", folder, "--mount", folder, "-l", "bash", "-c", "cat /mnt/my-data-2/x"}, 0, "in it"},
		{[]string{"run", "--mount", folder + "/x", "-c", "1"}, 2, "is no folder"},
		{[]string{"run", "--mount", folder + "/none", "-c", "1"}, 2, "is no folder"},
		{[]string{"run", "--mount", "datasets", "-c", "1"}, 2, "no service runs the program"},
		{[]string{"run", "--mount", folder, "--server", "http://127.0.0.1:1", "-c", "1"}, 2, "sees no folder of yours"},
	} {
		var out bytes.Buffer
		code, stderr := execute(t.Context(), t, "", &out, append(test.args, "--data", data)...)
		if said := out.String() + stderr; code != test.code || !strings.Contains(said, test.want) {
			t.Errorf("%s: code %d, %s, want %d, %s", strings.Join(test.args, " "), code, said, test.code, test.want)
		}
	}
}

func TestMountName(t *testing.T) {
	for folder, want := range map[string]string{"/srv/Data": "folder", "/": "folder", "/srv/x y.z": "x-y-z",
		"/srv/дом": "folder", "/srv/" + strings.Repeat("a", 99): strings.Repeat("a", 24)} {
		if got := mountNameOf(folder, nil); got != want {
			t.Errorf("%s is called %q, want %q", folder, got, want)
		}
	}
}
