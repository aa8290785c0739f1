package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// javaScriptClient makes a copy of the client's sources with what builds them, and returns its folder.
func javaScriptClient(t *testing.T) (folder, modules string) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "this needs %s: scripts/test-deps installs it", tool)
		}
	}
	installed, err := filepath.Abs("../.cache/javascript")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "javascript/install", installed).CombinedOutput(); err != nil {
		skip(t, "what the client for JavaScript needs cannot be installed: %v: %s", err, out)
	}
	folder, modules = filepath.Join(t.TempDir(), "client"), filepath.Join(installed, "node_modules")
	if err := os.CopyFS(folder, os.DirFS("../client/javascript")); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Join(folder, "node_modules"))
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return folder, modules
}

// inFolder runs a program in a folder, and returns what it has said.
func inFolder(t *testing.T, folder string, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// TestJavaScriptClient checks the client's types, runs its tests against a service, and generates its types again.
func TestJavaScriptClient(t *testing.T) {
	t.Parallel()
	folder, _ := javaScriptClient(t)
	inFolder(t, folder, nil, "npm", "run", "--silent", "check")
	inFolder(t, folder, nil, "npm", "run", "--silent", "build")
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	s := serve(t, who, dataWithPackages(t, who))
	inFolder(t, folder, []string{"AIRLOCK_SERVER=" + s.url}, "npm", "test")

	const types = "src/schema.d.ts"
	before, err := os.ReadFile(filepath.Join(folder, types))
	if err != nil {
		t.Fatal(err)
	}
	openapi, err := filepath.Abs("../internal/dialect/native/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, folder, []string{"OPENAPI=" + openapi}, "npm", "run", "--silent", "generate")
	if after, err := os.ReadFile(filepath.Join(folder, types)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v; client/javascript/%s is not what openapi.yaml makes: run `make generate-javascript`", err, types)
	}
}

// TestNpmPackages installs the packages of this binary in a folder of their own, and runs the command from there.
func TestNpmPackages(t *testing.T) {
	t.Parallel()
	_, modules := javaScriptClient(t)
	folder := t.TempDir()
	inFolder(t, ".", nil, "../scripts/npm-packages", binary, "amd64", "0.0.0-test", modules, folder)
	list, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(list) != 2 {
		t.Fatalf("%q %v", list, err)
	}
	inFolder(t, folder, nil, append([]string{"npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
		"--prefer-offline", "--silent"}, list...)...)
	if got, want := inFolder(t, folder, nil, "npx", "airlock", "version"), inFolder(t, folder, nil, binary,
		"version"); got != want {
		t.Errorf("the package's command says %q, not %q", got, want)
	}
	cmd := exec.Command("npx", "airlock", "nosuchcommand")
	cmd.Dir = folder
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitCode(t, "nosuchcommand") {
		t.Errorf("%v: the exit code is not the command's", err)
	}
	imported := inFolder(t, folder, nil, "node", "--input-type=module", "-e",
		`import * as airlock from '@airlock-run/airlock'; console.log(Object.keys(airlock).sort().join())`)
	if got := strings.TrimSpace(imported); got != "Airlock,AirlockError,RunFailed,Session,check,command,stdoutOf" {
		t.Errorf("the package exports %s", got)
	}
}

// exitCode returns that of the binary itself.
func exitCode(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command(binary, args...)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}
