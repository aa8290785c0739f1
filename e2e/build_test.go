package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build runs scripts/build-progress with a `go` of the test.
func build(t *testing.T, script string) (stderr string, err error) {
	t.Helper()
	bin := t.TempDir()
	writeProgram(t, filepath.Join(bin, "go"), "#!/bin/sh\n"+script)
	cmd := exec.Command("scripts/build-progress", "env", "A=b", "go", "build", "-o", "bin/x", "./cmd/airlock")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GO=go")
	var text bytes.Buffer
	cmd.Stderr = &text
	err = cmd.Run()
	return text.String(), err
}

// The first build says how far it is; one that has little to do says nothing; and
// one that fails says why, and where a newer Go is to be had.
func TestBuildProgress(t *testing.T) {
	t.Parallel()
	if stderr, err := build(t, "echo internal/goarch >&2\n"); err != nil || stderr != "" {
		t.Errorf("a quick build: %v, %q", err, stderr)
	}
	slow := `if [ "$1" = list ]; then
	case "$*" in *" -o "*|*bin/x*) exit 9 ;; esac
	printf 'fmt\n\nnet/http\nnet\nio\ngithub.com/airlock-run/airlock/client\n'
	exit 0
fi
[ "$1 $2" = "build -v" ] || exit 9
for package in fmt net/http github.com/airlock-run/airlock/client; do echo $package >&2; done
sleep 13
`
	if stderr, err := build(t, slow); err != nil || !strings.Contains(stderr, "Compiling: 3 of 5 packages") {
		t.Errorf("a slow build: %v, %q", err, stderr)
	}
	broken := `[ "$1" != version ] || { echo go version go1.19.8 linux/amd64; exit 0; }
echo fmt >&2
echo 'go: errors parsing go.mod: invalid go version' >&2
exit 3
`
	stderr, err := build(t, broken)
	if err == nil || !strings.Contains(stderr, "invalid go version") || strings.Contains(stderr, "fmt") ||
		!strings.Contains(stderr, "and this is 1.19.8: the README says where to get it") {
		t.Errorf("a broken build: %v, %q", err, stderr)
	}
}
