package executor

import (
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A job is a process that entered a sandbox with all that it starts, also in sessions of
// their own and after its end. With control groups it has a group. Without them it has
// a namespace of host names, which no process of a sandbox can leave.
type job struct {
	at    *runningSandbox
	group *cgroup.Job // nil without control groups
	names string      // its namespace of host names, without them
	Entered
}

// newJob makes the job of the next process that enters. The caller holds starting.
func (s *runningSandbox) newJob() (*job, error) {
	j := &job{at: s}
	if s.box.Group == nil || s.box.Machine.can.Jobs {
		return j, nil
	}
	s.entered.jobs++
	var err error
	j.group, err = s.box.Group.Job(strconv.Itoa(s.entered.jobs))
	return j, err
}

// HostNamesOf returns the namespace of host names of a process or thread, by its folder
// of /proc.
func HostNamesOf(name string) string {
	namespace, _ := os.Readlink(image.ProcPath + "/" + name + "/ns/uts")
	return namespace
}

// processes lists the processes of the job.
func (j *job) processes() []int {
	if j.group != nil {
		return j.group.Processes()
	}
	if j.names == "" {
		return nil
	}
	return slices.DeleteFunc(j.at.entered.list(j.at.pid), func(pid int) bool {
		return HostNamesOf(strconv.Itoa(pid)) != j.names
	})
}

// empty reports whether no process of the job is left.
func (j *job) empty() bool {
	switch {
	case j.Job != nil:
		return j.Job.Empty()
	case j.group != nil:
		return j.group.Empty()
	}
	return len(j.processes()) == 0
}

// kill kills all processes of the job.
func (j *job) kill() {
	switch {
	case j.Job != nil:
		j.Job.SignalAll(unix.SIGKILL)
		return
	case j.group != nil:
		j.group.Kill()
		return
	}
	stopped := map[int]bool{}
	for fresh := true; fresh && len(stopped) <= j.at.box.Request.Processes; { // what is stopped starts no others
		fresh = false
		for _, pid := range j.processes() {
			if !stopped[pid] {
				stopped[pid], fresh = true, true
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
	}
	cgroup.KillListed(j.processes)
}

// signal sends a signal to the group of the process or, if that has ended, to all that it
// left.
func (j *job) signal(signal unix.Signal) {
	if signal == unix.SIGKILL {
		j.kill()
	}
	switch {
	case j.at.entered.signal(j.Entered, signal):
	case j.Job != nil:
		j.Job.SignalAll(signal)
	default:
		for _, pid := range j.processes() {
			_ = unix.Kill(pid, signal)
		}
	}
}

// Times between looks at what a process has left.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = time.Second
)

// outlast carries out the service's messages until nothing of the job is left. If the
// service leaves, outlast kills what there is. It returns early if the sandbox ends.
func (j *job) outlast(l *Link) error {
	service, err := l.number()
	if err != nil {
		return err
	}
	list := []unix.PollFd{{Fd: int32(service), Events: unix.POLLIN}}
	polled, err := newPollSet(list)
	if err != nil {
		return err
	}
	defer polled.close()
	defer j.at.entered.forget(polled)
	wait := firstLook
	for !j.empty() && j.at.entered.awaitUntil(polled, time.Now().Add(wait)) {
		n, err := polled.wait(list)
		if err != nil {
			return err
		}
		if n == 0 {
			wait = min(2*wait, lastLook)
			continue
		}
		var c processControl
		files, err := l.Receive(&c)
		CloseAll(files...)
		if err != nil {
			j.kill()
			return err
		}
		j.signal(unix.Signal(c.Signal))
		wait = firstLook
	}
	return nil
}

// close kills what is left of the job and removes its group.
func (j *job) close() {
	if j.Job != nil && !j.Job.Empty() {
		j.Job.SignalAll(unix.SIGKILL)
	}
	if j.group == nil {
		return
	}
	if !j.group.Empty() {
		j.group.Kill()
	}
	j.group.Remove()
}
