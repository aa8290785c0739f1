package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/engine"
)

func TestSandboxErrorNamesTheSetting(t *testing.T) {
	refused := &engine.Error{Op: "start the sandbox", Kind: engine.ErrUnavailable, Hint: "plain",
		Err: fmt.Errorf("clone: %w", syscall.EPERM)}
	mounts := &engine.Error{Op: "start the sandbox", Kind: engine.ErrUnavailable, Hint: "see `airlock doctor`",
		Err: errors.New("make mounts private: permission denied")}
	chroot := &engine.Error{Op: "start the sandbox", Kind: engine.ErrUnavailable, Hint: "see `airlock doctor`",
		Err: errors.New("make mounts private: invalid argument")}
	other := &engine.Error{Op: "start the sandbox", Kind: engine.ErrUnavailable, Hint: "plain",
		Err: errors.New("less than strict")}
	tests := []struct {
		name     string
		err      error
		root     bool
		settings map[string]string
		want     string
	}{
		{"ubuntu", other, false, map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1\n"},
			"kernel.apparmor_restrict_unprivileged_userns=0"},
		{"debian before 11", refused, false, map[string]string{"kernel/unprivileged_userns_clone": "0\n"},
			"kernel.unprivileged_userns_clone=1"},
		{"hardened", refused, false, map[string]string{"kernel/unprivileged_userns_clone": "1\n",
			"user/max_user_namespaces": "0\n"}, "user.max_user_namespaces"},
		{"container", refused, false, map[string]string{"user/max_user_namespaces": "96000\n"}, "--security-opt seccomp="},
		{"container as root", refused, true, map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1\n"},
			"--security-opt seccomp="},
		{"mounts", mounts, false, nil, "--security-opt apparmor=unconfined"},
		{"mounts as root", mounts, true, nil, "--security-opt apparmor=unconfined"},
		{"chroot", chroot, true, nil, "mount --bind DIR DIR"},
		{"something else", other, false, nil, "plain"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			read := func(name string) ([]byte, error) {
				if text, ok := test.settings[strings.TrimPrefix(name, "/proc/sys/")]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			}
			got := command.Explain(sandboxError(test.err, test.root, read))
			if got.Exit != command.ExitUnavailable || got.Code != "unavailable" || !strings.Contains(got.Hint, test.want) ||
				got.Message != test.err.Error() {
				t.Errorf("got %+v", got)
			}
		})
	}
}
