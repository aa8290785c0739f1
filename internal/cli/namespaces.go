package cli

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/airlock-run/airlock/internal/engine"
)

// A sandbox of an ordinary user stands on user namespaces, and distributions
// differ in whom they allow those.

// gates are the kernel settings that close user namespaces to ordinary users,
// with the value that closes them.
var gates = []struct{ file, closed, cure string }{
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"AppArmor keeps user namespaces from ordinary users: as root run `sysctl -w " +
			"kernel.apparmor_restrict_unprivileged_userns=0`, or run airlock as root"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0",
		"user namespaces are off for ordinary users: as root run `sysctl -w kernel.unprivileged_userns_clone=1`, or run " +
			"airlock as root"},
	{"/proc/sys/user/max_user_namespaces", "0",
		"user namespaces are off: as root run `sysctl -w user.max_user_namespaces=10000`, or run airlock as root"},
}

// mountRefused matches what the executor says when it has its namespaces and may
// not mount in them. Over its socket only the words arrive.
var mountRefused = regexp.MustCompile(
	`(make mounts private|mount \S+|open \S+|attach \S+|make \S+ read-only|pivot_root|leave the host's root): (operation not permitted|permission denied)`)

// containerOptions are what docs/containers.md asks of a container.
const containerOptions = "--security-opt seccomp=seccomp.json (deploy/seccomp.json), " +
	"--security-opt systempaths=unconfined and, where AppArmor is in force, --security-opt apparmor=unconfined"

const mountCure = "something beside the kernel's own rules forbids mounts, as AppArmor, SELinux or the seccomp " +
	"profile of a container does: " +
	"in a container add " + containerOptions + "; " +
	"in a service unit allow mounts (no RestrictNamespaces, no SystemCallFilter without @mount); the kernel's log names " +
	"who refused (dmesg, journalctl -k)"

// namespaceCure says what keeps an ordinary user from having namespaces, or
// nothing where no setting does.
func namespaceCure(read func(string) ([]byte, error)) string {
	for _, gate := range gates {
		value, err := read(gate.file)
		if err == nil && strings.TrimSpace(string(value)) == gate.closed {
			return gate.cure
		}
	}
	return ""
}

// sandboxError names the cure for a sandbox that does not start.
func sandboxError(err error, root bool, read func(string) ([]byte, error)) error {
	cure := ""
	if !root {
		cure = namespaceCure(read)
	}
	switch {
	case cure != "":
	case mountRefused.MatchString(err.Error()):
		cure = mountCure
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC):
		cure = "the kernel refused a namespace: run airlock as root; in a container add " + containerOptions
	}
	if cure == "" {
		return err
	}
	return &failure{code: exitUnavailable, word: string(engine.ErrUnavailable), err: err, hint: cure}
}

func (a *app) sandboxError(err error) error {
	return sandboxError(err, a.split || os.Geteuid() == 0, os.ReadFile)
}
