package cgroup

import (
	"io/fs"
	"os"
	"slices"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"golang.org/x/sys/unix"
)

// A Job is a control group below that of a program, for one process that was started
// beside the program and all that this process starts. It has no limits of its own: it
// tells what belongs to the process, and kills it.
type Job struct {
	version int
	folder  string
	join    []*os.File // like those of a Group
	opened  *os.File   // the one of them that is the job's own
	procs   *os.File   // nil before Procs
}

// Job creates a group below g. The name is unique in g.
func (g *Group) Job(name string) (*Job, error) {
	above := g.folder("pids")
	j := &Job{version: g.tree.Version, folder: above + "/" + name, join: slices.Clone(g.join)}
	g.split.Store(true)
	if err := unix.Mkdir(j.folder, 0o755); err != nil {
		return nil, &fs.PathError{Op: "mkdir", Path: j.folder, Err: err}
	}
	file, flag := "tasks", unix.O_WRONLY
	if j.version == 2 {
		file, flag = ".", unix.O_RDONLY
	}
	var err error
	if j.opened, err = openControl(j.folder, file, flag); err != nil {
		j.Remove()
		return nil, err
	}
	for i, folder := range g.folders {
		if folder == above {
			j.join[i] = j.opened
		}
	}
	return j, nil
}

// Folder returns what Folder of a Group does.
func (j *Job) Folder() int {
	if j == nil || j.version != 2 {
		return -1
	}
	return int(j.opened.Fd())
}

// Tasks returns what Tasks of a Group does.
func (j *Job) Tasks() []*os.File {
	if j == nil || j.version != 1 {
		return nil
	}
	return j.join
}

// Procs returns the files by which a process joins the job that was not born in it.
func (j *Job) Procs() (_ []*os.File, err error) {
	if j.version == 1 {
		return j.join, nil
	}
	j.procs, err = openControl(j.folder, "cgroup.procs", unix.O_WRONLY)
	return []*os.File{j.procs}, err
}

// Processes lists the processes of the job.
func (j *Job) Processes() []int { return processesIn(j.folder) }

// Empty reports whether no process of the job is left.
func (j *Job) Empty() bool {
	if j.version == 2 {
		return kernelfile.Value(kernelfile.Read(j.folder, "cgroup.events"), "populated") == 0
	}
	return kernelfile.Int(kernelfile.Read(j.folder, "pids.current")) == 0
}

// Kill sends SIGKILL to all processes of the job, which cannot start others meanwhile.
func (j *Job) Kill() {
	if j.version == 2 {
		if writeFile(j.folder, "cgroup.kill", "1") == nil { // since Linux 5.14
			return
		}
		_ = writeFile(j.folder, "cgroup.freeze", "1") // what is frozen can be killed
	} else {
		_ = writeFile(j.folder, "pids.max", "0")
	}
	KillListed(j.Processes)
}

// Close closes the files by which the process enters.
func (j *Job) Close() {
	if j != nil {
		j.opened.Close() // nil if it could not be opened
		j.procs.Close()
	}
}

// Remove removes the group, whose processes have ended.
func (j *Job) Remove() { removeGroup(j.folder) }
