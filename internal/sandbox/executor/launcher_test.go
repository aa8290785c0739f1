package executor

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// askedLauncher starts nothing, and notes which walls it is asked for.
type askedLauncher struct{ walls []string }

func (l *askedLauncher) Launch(_ context.Context, wall string) (*os.File, error) {
	l.walls = append(l.walls, wall)
	return nil, errors.New("none")
}

func (*askedLauncher) Close() error { return nil }

// The process that starts executors is told their walls.
func TestRemoteLauncherNamesWall(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	served, asked := make(chan error, 1), &askedLauncher{}
	go func() { served <- ServeLauncher(t.Context(), os.NewFile(uintptr(fds[0]), "parent"), asked) }()
	remote := RemoteLauncher(os.NewFile(uintptr(fds[1]), "child"))
	for _, wall := range []string{"", "gvisor"} {
		if _, err := remote.Launch(t.Context(), wall); err == nil {
			t.Error("it started")
		}
	}
	if err := errors.Join(remote.Close(), <-served); err != nil {
		t.Error(err)
	}
	if !slices.Equal(asked.walls, []string{"", "gvisor"}) {
		t.Errorf("%q", asked.walls)
	}
}
