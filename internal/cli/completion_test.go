package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Bash completes commands, flags and their values, without the package bash-completion.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to complete in")
	}
	dir := t.TempDir()
	script, err := os.Create(filepath.Join(dir, "completion"))
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	if err := WriteBashCompletion(Command(), script, false); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "airlock")); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"airlock ru":                    "run",
		"airlock mcp ins":               "install",
		"airlock mcp install open":      "opencode",
		"airlock run --langu":           "--language",
		"airlock run --language=pyt":    "python",
		"airlock run --language pyt":    "python",
		"airlock mcp install codex --w": "--write",
		"airlock completion ":           "bash",
	} {
		cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", `source "$1"; COMP_LINE=$2 COMP_POINT=${#2}
			read -ra COMP_WORDS <<<"$2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9 COMP_KEY=9
			__start_airlock 2>&1; printf '%s\n' "${COMPREPLY[@]}"`, "bash", script.Name(), line)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), completeAsAirlock + "=1", "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		found := false
		for candidate := range strings.FieldsSeq(string(out)) {
			found = found || candidate == want
		}
		if err != nil || !found || strings.Contains(string(out), "not found") {
			t.Errorf("%q: %v, %q, want %q", line, err, out, want)
		}
	}
}
