package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// npm installs what the lock says, once; and one that fails leaves nothing.
func TestNodePackages(t *testing.T) {
	in, j := bench(t, lockOf(""), "")
	calls := filepath.Join(t.TempDir(), "calls")
	script(t, "npm", `echo "$*" >>'`+calls+`'
echo 'npm error code ENOTFOUND' >&2
echo 'npm error network request failed' >&2
exit 1
`)
	if err := in.nodePackages(t.Context()); err == nil || !strings.Contains(err.Error(), "network request failed") ||
		!strings.Contains(err.Error(), "HTTPS_PROXY") {
		t.Errorf("a failure: %v", err)
	}
	if found := NodePackages(in.data); found != nil {
		t.Errorf("after it there is %v", found)
	}
	if _, err := os.Stat(in.nodePath("work")); !os.IsNotExist(err) {
		t.Errorf("the work directory is still there: %v", err)
	}
	script(t, "npm", `echo "$*" >>'`+calls+`'
test -s package-lock.json && mkdir -p node_modules/lodash
`)
	for range 2 {
		if err := in.nodePackages(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, j)
		}
	}
	if found := NodePackages(in.data); len(found) != 32 || found[0] != "adm-zip" {
		t.Errorf("there is %v", found)
	}
	if _, err := os.Stat(in.nodePath("lib", "lodash")); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(calls)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 2 ||
		!strings.Contains(lines[1], "ci --ignore-scripts") {
		t.Errorf("npm was called with %q, %v", lines, err)
	}
	if !j.has("done up to date") {
		t.Errorf("said:\n%s", j)
	}

	// Packages that were deleted since are installed again.
	if err := os.RemoveAll(in.nodePath("sets")); err != nil {
		t.Fatal(err)
	}
	if err := in.nodePackages(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, j)
	}
	if _, err := os.Stat(in.nodePath("lib", "lodash")); err != nil {
		t.Error(err)
	}

	for said, want := range map[string]string{"npm error code EINTEGRITY\n": "other bytes",
		"npm error code ENOSPC\n": "is full", "Killed": "npm ci failed"} {
		if err := npmError("/data", said); !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", said, err)
		}
	}
}
