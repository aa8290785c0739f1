package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// What the clients of each protocol call an image, they get.
func TestImageOfClients(t *testing.T) {
	t.Parallel()
	folder := e2bClients(t)
	needPackages(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	archive := sandboxtest.ImageArchive(t, "trixie")
	if added := who.run(t, nil, "images", "add", "--data", data, "py313", "docker-archive:"+archive); added.code != 0 {
		t.Fatalf("images add: %+v", added)
	}
	key := e2bKey(t, who, data, "ann")
	s := serve(t, who, data)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "python/bin/python"), "-c", `
from e2b_code_interpreter import Sandbox
s = Sandbox.create("py313")
print(s.commands.run("python3 -V").stdout, end="")
print(s.run_code("import sys; sys.version_info[:2]").text)
s.kill()
try: Sandbox.create("py399")
except Exception as error: print(error)
`)
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+key, "E2B_API_URL="+s.url+"/e2b", "E2B_SANDBOX_URL="+s.url+"/e2b")
	out, err := cmd.CombinedOutput()
	got := string(out)
	if err != nil || !strings.HasPrefix(got, "Python 3.13.") || !strings.Contains(got, "\n(3, 13)\n") ||
		!strings.Contains(got, "404") || !strings.Contains(got, "py313") {
		t.Errorf("E2B: %v\n%s", err, got)
	}
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", "notebooks")
	specs := s.do("GET", "/jupyter/api/kernelspecs", "", "Authorization", "token "+keyIn(made.stdout))
	for _, name := range []string{`"python3"`, `"py313"`} {
		if !strings.Contains(string(specs.body), name) {
			t.Errorf("Jupyter: %d %s, want %s", specs.status, specs.body, name)
		}
	}
}
