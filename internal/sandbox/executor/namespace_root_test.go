package executor

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// namespaceRoot is the variable with which the test below starts its own process.
const namespaceRoot = "AIRLOCK_TEST_NAMESPACE_ROOT"

// Root of a user namespace, as in a container with remapped users, gets an error that
// names the users that can run programs.
func TestNamespaceRoot(t *testing.T) {
	if os.Getenv(namespaceRoot) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestNamespaceRoot$", "-test.v")
		command.Env = append(os.Environ(), namespaceRoot+"=1")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if os.Geteuid() != 0 || !inUserNamespace() {
		t.Fatalf("user %d, in a user namespace: %t", os.Geteuid(), inUserNamespace())
	}
	launcher := NewLauncher(LaunchOptions{Runtimes: t.TempDir()})
	defer launcher.Close()
	socket, err := launcher.Launch(t.Context(), "")
	if err == nil {
		socket.Close()
	}
	refused, ok := errors.AsType[*engine.Error](err)
	if !ok || refused.Kind != engine.ErrUnavailable || !strings.Contains(refused.Hint, "--user airlock") {
		t.Errorf("error %v", err)
	}
}
