package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"github.com/airlock-run/airlock/internal/setup"
	"github.com/airlock-run/airlock/internal/trick"
)

// AsUser prepares this binary to be executed again as another user, with the settings and
// secrets in its environment, which only that user and root can read.
func (a *App) AsUser(credential *syscall.Credential, args ...string) *exec.Cmd {
	// By this name that user can execute it, even in a folder that the user cannot enter.
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = slices.Concat(a.Config.Environ(a.Config.Data), a.Config.ServiceSecrets(), trick.Environment())
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, a.Streams.Out, a.Streams.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd
}

// ServiceUser returns the user that the service runs as. Setup makes the user and the data
// directory.
func (a *App) ServiceUser() (*syscall.Credential, error) {
	if _, err := os.Stat(a.Config.Data); os.IsNotExist(err) {
		return nil, &Failure{Code: ExitUnavailable, Word: "no_data",
			Err:  fmt.Errorf("the data directory %s does not exist", a.Config.Data),
			Hint: "run `airlock setup` first, with the same --data"}
	}
	found, err := user.Lookup(setup.User)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return nil, &Failure{Code: ExitUnavailable, Word: "no_service_user",
			Err:  errors.New("the system user " + setup.User + ", which the service runs as, does not exist"),
			Hint: "run `airlock setup` first"}
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if uid == 0 || gid == 0 {
		return nil, Fail(ExitUnavailable, "give it a user and a group of its own", "the user %s is root under another name",
			setup.User)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
