package setup

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// command prepares a child process whose files every user can read, whatever the umask
// is, and which is interrupted before it is killed.
func command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `umask 022 && exec "$@"`, "sh"}, argv...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// pythonCommand prepares a child that runs Python. Its environment has env, and no
// variables that redirect Python or pip.
func pythonCommand(ctx context.Context, env []string, argv ...string) *exec.Cmd {
	cmd := command(ctx, argv...)
	for _, entry := range cmd.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE",
			"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_NO_BINARY", "PIP_REQUIREMENT", "PIP_CONSTRAINT",
			"PIP_REQUIRE_VIRTUALENV", "PIP_QUIET", "PIP_VERBOSE", "PIP_NO_COLOR", "MPLCONFIGDIR", "TMPDIR":
		default:
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "PYTHONNOUSERSITE=1", "PYTHONIOENCODING=utf-8", "MPLBACKEND=Agg",
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_INPUT=1", "PIP_ROOT_USER_ACTION=ignore", "PIP_NO_COLOR=1")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// tail keeps the end of what a child wrote.
type tail struct{ buf []byte }

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }

// last returns the last line that is not blank.
func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.buf), []byte("\n"))
	return string(bytes.TrimSpace(lines[len(lines)-1]))
}
