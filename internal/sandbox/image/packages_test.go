package image

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The folder's name determines the interpreter of a set.
func TestInterpreterOfASet(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"python3.12", "python3.13"} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	usual := filepath.Join(bin, "python3.13")
	for folder, want := range map[string]string{
		"/sets/onyx-3.12-0123456789abcdef":             filepath.Join(bin, "python3.12"),
		"/sets/3.12-0123456789abcdef-0123456789abcdef": filepath.Join(bin, "python3.12"),
		"/sets/3.13-0123456789abcdef":                  "", "/sets/onyx-3.11-0123456789abcdef": "", "/sets/odd": "",
	} {
		if got := otherPython(folder, usual); got != want {
			t.Errorf("%s: %q, want %q", folder, got, want)
		}
	}
	s := Sets{Default: "onyx", All: map[string]Set{"onyx": {Python: "/usr/bin/python3.12"}, "current": {}}}
	if others := s.Others(); !slices.Equal(others, []string{"current", "onyx"}) {
		t.Errorf("to be mounted: %v", others)
	}
}
