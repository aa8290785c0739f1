package executor

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The guard kills living processes at their time, and not before.
func TestGuard(t *testing.T) {
	g, err := startGuard()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	sleep := func(deadline time.Duration) (*exec.Cmd, time.Time) {
		t.Helper()
		command, pidfd := exec.Command("sleep", "600"), -1
		command.SysProcAttr = &unix.SysProcAttr{PidFD: &pidfd, Pdeathsig: unix.SIGKILL}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(deadline)
		g.end(pidfd, at)
		unix.Close(pidfd)
		return command, at
	}
	later, _ := sleep(time.Hour)
	ended, _ := sleep(10 * time.Millisecond)
	if err := ended.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ended.Wait() // killed
	for range 3 {
		command, at := sleep(20 * time.Millisecond)
		if err := command.Wait(); err == nil || err.Error() != "signal: killed" || time.Now().Before(at) {
			t.Errorf("%v, %v after its time", err, time.Since(at))
		}
	}
	if err := later.Process.Signal(unix.Signal(0)); err != nil {
		t.Error(err)
	}
	if err := later.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = later.Wait() // killed
}
