package e2e

import (
	"os"
	"strings"
	"testing"
)

// A directory that was not set up is refused in words that name who cannot use it.
func TestRootOnAPlainDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "this needs root")
	}
	for _, mode := range []os.FileMode{0o700, 0o755} {
		dir := folder(t, nil)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		got := root(t).run(t, nil, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		if got.code != 7 || !strings.Contains(got.stderr, "runs as the user airlock") ||
			!strings.Contains(got.stderr, "airlock setup --data "+dir) {
			t.Errorf("mode %o: exit code %d, stderr %q", mode, got.code, got.stderr)
		}
	}
}
