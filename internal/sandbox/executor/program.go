package executor

import (
	"errors"
	"iter"
	"os"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// run handles a run on the executor's side, from the request to the answer.
func (e *executor) run(l *Link, r *RunRequest, files []*os.File) error {
	env, leave, err := e.environmentOf(r)
	if err != nil {
		return err
	}
	defer leave()
	r.env, r.python, r.cold = env, env.Python, e.startsCold(r)
	if err := r.check(); err != nil {
		return NewFailure(engine.ErrInvalid, err.Error())
	}
	if err := checkLive(r); err != nil {
		return err
	}
	if r.Env == nil {
		r.Env = env.Usual
	}
	if r.tasks, err = e.machine.shares.tasks.reserve(r.Owner, e.machine.tasksFor(r)); err != nil {
		return err
	}
	defer r.tasks.release()
	ends, err := programFiles(r, files)
	if err != nil {
		return err
	}
	if p := r.env.pools[r.Tier]; p != nil && !r.Resumes {
		p.learn(r.Imports)
	}
	var w *waiting
	if r.Make {
		if w, err = e.house(l, r); err != nil {
			return err
		}
	}
	if r.Network {
		e.mayInstall(r.Held)
	}
	var lent *Workspace
	if r.Lends > 0 && r.Held == "" && e.lender != nil {
		if w = e.borrowWaiting(r); w == nil {
			lent, err = e.borrow(l, r)
		}
		if err != nil {
			return err
		}
	}
	r.counted = e.countProgram()
	defer r.counted.count(false)
	if w == nil && !r.Resumes {
		w, err = e.warm(r, lent)
	}
	switch {
	case err != nil:
		return err
	case w != nil:
		return w.run(l, r, files, ends)
	}
	return e.runOther(l, r, lent, files, ends)
}

// runOther runs a program for which no zygote's sandbox waits: in a waiting process, or
// cold, in the workspace created for it if there is one.
func (e *executor) runOther(l *Link, r *RunRequest, made *Workspace, files, ends []*os.File) (err error) {
	if !r.Stdin {
		if ends[0], err = openNull(); err != nil {
			return err
		}
		defer ends[0].Close()
	}
	var w *waiting
	if made == nil && !r.Resumes {
		w = e.takeProcess(r)
	}
	r.drive()
	if w != nil {
		return w.run(l, r, files, ends)
	}
	b := &Box{Machine: e.machine, Environment: r.env, Request: r}
	defer b.release()
	if r.Held != "" {
		h, err := e.occupy(r.Held, r.Live)
		if err != nil {
			return err
		}
		defer e.leave(h, r.Live)
		b.Workspace, b.HeldAt, b.UID = h.view(), h.at, h.uid
		if r.Live {
			if b.Layers, err = e.layersOver(h, r.env.Root); err != nil {
				return err
			}
		}
	} else {
		if made == nil {
			made, err = e.houseWorkspace(func(uid int) (*Workspace, error) { return newWorkspace(r.Workspace, r.Inodes, uid) })
			if err != nil {
				return err
			}
		}
		defer e.closeWorkspace(made)
		b.Workspace, b.UID = made, made.uid
	}
	if err := b.receiveInputs(l); err != nil {
		return err
	}
	if err := l.Send(answer{Accepted: true}); err != nil {
		return err
	}
	if err := errors.Join(b.furnish(), b.openMounts(), b.openVolumes()); err != nil {
		return err
	}
	done, err := e.runCold(l, b, files, ends)
	if err != nil {
		return err
	}
	b.closeVolumes()
	return b.answer(l, done)
}

// runCold runs the program of a box in a new sandbox, and returns when every process of
// it has exited.
func (e *executor) runCold(l *Link, b *Box, files, ends []*os.File) (*outcome, error) {
	cell, err := e.wall.Make(b)
	if err != nil {
		return nil, err
	}
	defer cell.Close()
	proxy, err := b.openNetwork(cell)
	if err != nil {
		return nil, err
	}
	if err := l.sendProxy(proxy); err != nil {
		return nil, err
	}
	b.Group.Idle(false) // the group's last program may have ended idle
	b.ownPipes(ends)
	if err := cell.Start(ends); err != nil {
		return nil, err
	}
	b.closeLayers()
	CloseAll(files...) // the sandbox has its own copies; the write ends must not stay open here
	w := &watch{executor: e, cell: cell, link: l, cold: true}
	return w.supervise(b)
}

// programFiles returns the program's stdin, nil if it has none, its stdout and stderr,
// and its channel for calls if it has one, from the files of the request.
func programFiles(r *RunRequest, files []*os.File) ([]*os.File, error) {
	want := 2
	if r.Stdin {
		want++
	}
	if r.Calls {
		want += 2
	}
	if r.Resumes {
		want++
	}
	if len(files) != want {
		return nil, NewFailure(engine.ErrInvalid, "wrong number of open files")
	}
	rest := files[2:]
	if r.Stdin {
		return append([]*os.File{rest[0], files[0], files[1]}, rest[1:]...), nil
	}
	return append([]*os.File{nil, files[0], files[1]}, rest...), nil
}

// openNull opens the stdin of a program without input. Each program gets its own open
// file: programs would otherwise share its flags, locks and owner.
func openNull() (*os.File, error) {
	fd, err := unix.Open(image.Path+"/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "null"), nil
}

// send sends the outputs, in packets of bounded size.
func (found *left) send(l *Link) error {
	for batch := range batches(found.files, func(f leftFile) string { return f.path }) {
		var a answer
		files := make([]*os.File, len(batch))
		for i, f := range batch {
			a.Outputs = append(a.Outputs, output{f.path, f.size, f.input, f.respelled})
			files[i] = f.file
		}
		if err := l.Send(a, files...); err != nil {
			return err
		}
	}
	for batch := range batches(found.deleted, func(path string) string { return path }) {
		if err := l.Send(answer{Deleted: batch}); err != nil {
			return err
		}
	}
	for batch := range batches(found.dropped, func(d dropped) string { return d.Path }) {
		if err := l.Send(answer{Dropped: batch}); err != nil {
			return err
		}
	}
	return nil
}

// batches splits a list into parts that fit into a packet each, however long their
// names become as JSON.
func batches[T any](list []T, name func(T) string) iter.Seq[[]T] {
	const perByte = 6 // \u0000
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n, size := 0, 0
			for n < len(list) && n < maxFiles {
				size += len(name(list[n]))*perByte + 128
				if n > 0 && size > maxPacket/2 {
					break
				}
				n++
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}
