package cli

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/engine"
)

// gates are the kernel settings that deny user namespaces, on which the sandbox of an
// ordinary user depends, with the value that denies them.
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

// mountRefused matches the error of an executor that may not mount in its namespaces. Its
// socket carries only the text of errors.
var mountRefused = regexp.MustCompile(
	`(make mounts private|mount \S+|open \S+|attach \S+|make \S+ read-only|pivot_root|leave the host's root): (operation not permitted|permission denied)`)

// rootNoMount matches the error of an executor whose root directory is no mount.
var rootNoMount = regexp.MustCompile(`(make mounts private|pivot_root): invalid argument`)

const rootNoMountCure = "the root directory here is not the root of a mount, as in a chroot: as root run " +
	"`mount --bind DIR DIR` on the directory before `chroot DIR`, or use a container or systemd-nspawn in place of chroot"

// containerOptions are the options of a container that docs/containers.md asks for.
const containerOptions = "--security-opt seccomp=seccomp.json (deploy/seccomp.json), " +
	"--security-opt systempaths=unconfined and, where AppArmor is in force, --security-opt apparmor=unconfined"

const mountCure = "something beside the kernel's own rules forbids mounts, as AppArmor, SELinux or the seccomp " +
	"profile of a container does: " +
	"in a container add " + containerOptions + "; " +
	"in a service unit allow mounts (no RestrictNamespaces, no SystemCallFilter without @mount); the kernel's log names " +
	"who refused (dmesg, journalctl -k)"

// namespaceCure returns the remedy for the kernel setting that denies namespaces to
// ordinary users, or "".
func namespaceCure(read func(string) ([]byte, error)) string {
	for _, gate := range gates {
		value, err := read(gate.file)
		if err == nil && strings.TrimSpace(string(value)) == gate.closed {
			return gate.cure
		}
	}
	return ""
}

// sandboxError adds a remedy to the error of a sandbox that does not start.
func sandboxError(err error, root bool, read func(string) ([]byte, error)) error {
	cure := ""
	if !root {
		cure = namespaceCure(read)
	}
	switch {
	case cure != "":
	case mountRefused.MatchString(err.Error()):
		cure = mountCure
	case rootNoMount.MatchString(err.Error()):
		cure = rootNoMountCure
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC):
		cure = "the kernel refused a namespace: run airlock as root; in a container add " + containerOptions
	}
	if cure == "" {
		return err
	}
	return &command.Failure{Code: command.ExitUnavailable, Word: string(engine.ErrUnavailable), Err: err, Hint: cure}
}

func (a *app) sandboxError(err error) error {
	return sandboxError(err, a.split || os.Geteuid() == 0, os.ReadFile)
}
