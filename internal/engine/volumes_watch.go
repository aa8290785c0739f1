package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// No quota of a common file system holds for a folder without set-up by root. So the volumes that a
// program writes to are measured while it runs, and the program is ended when its owner would have
// more than it may. The less is left, the more often: no later than when a program that writes
// at fillRate could have filled the rest. The file system's free space, one system call, tells whether
// anything was written at all.
const (
	fillRate = 2 << 30 // bytes a second
	minPause = 20 * time.Millisecond
	maxPause = time.Second

	// Measuring takes at most one part in busyShare of a program's time while the disk fills, and in
	// idleShare while it does not: others may free as much as the program writes.
	busyShare, idleShare = 20, 100
	idlePause            = 2 * time.Second
	noticedFill          = 64 << 20 // measured if there is so much less free space, in any case
)

// watchedVolume is a volume that a program writes to.
type watchedVolume struct {
	Volume
	leastBytes int64 // since the program began: less than that is no growth
	leastFiles int
}

// volumeWatch watches the volumes that a job writes to.
type volumeWatch struct {
	service *Service
	job     *job
	stop    context.CancelCauseFunc // of the program
	list    []watchedVolume
	ended   chan struct{} // closed when the watch has ended; nil: there is nothing to watch
	end     context.CancelFunc

	left   int64         // that the owner may add
	free   int64         // of the file system, when they were last measured
	looked time.Time     // when that was
	took   time.Duration // how long it took
	full   error         // why the program was ended
}

// volumeFull is the cause of ending a program that filled a volume.
type volumeFull struct{ message string }

func (e *volumeFull) Error() string { return e.message }

// watchVolumes measures the volumes of a job, and watches those that it writes to until finish is called. It bounds the
// files of its program there.
func (s *Service) watchVolumes(
	ctx context.Context, j *job, spec *Spec, stop context.CancelCauseFunc,
) (*volumeWatch, error) {
	w := &volumeWatch{service: s, job: j, stop: stop}
	for i, v := range j.volumes {
		if !j.places[i].ReadOnly {
			w.list = append(w.list, watchedVolume{v, math.MaxInt64, math.MaxInt})
		}
	}
	if len(w.list) == 0 {
		return w, nil
	}
	if err := w.measure(ctx, true); err != nil {
		return nil, err
	}
	spec.FileSize = w.fileSize()
	ctx, w.end = context.WithCancel(context.WithoutCancel(ctx))
	w.ended = make(chan struct{})
	go w.run(ctx)
	return w, nil
}

// finish ends the watch, and the use of all volumes. The program has ended.
func (w *volumeWatch) finish(ctx context.Context) {
	defer w.service.releaseVolumes(w.job)
	if w.ended == nil {
		return
	}
	w.end()
	<-w.ended
	ctx = context.WithoutCancel(ctx)
	if err := w.measure(ctx, false); err != nil { // the next one to write, or the next start, tries again
		w.service.logFailure(ctx, "measure volumes", err)
	}
}

// describe tells of a program that was ended.
func (w *volumeWatch) describe(o *Outcome, run *Run) {
	if w.full != nil && o.Cancelled {
		run.Status, run.Message = StatusKilled, w.full.Error()
	}
}

func (w *volumeWatch) run(ctx context.Context) {
	defer close(w.ended)
	timer := time.NewTimer(w.pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.full = err
			w.stop(err)
			return
		}
		timer.Reset(w.pause())
	}
}

func (w *volumeWatch) pause() time.Duration {
	return min(max(time.Duration(float64(w.left)/fillRate*float64(time.Second)), minPause), maxPause)
}

// look measures the volumes if there is a reason to, and returns why the program must end.
func (w *volumeWatch) look(ctx context.Context) error {
	free, err := w.service.cfg.Volumes.Free()
	if err != nil {
		return w.unmeasured(err)
	}
	since, fell := time.Since(w.looked), w.free-free
	if since < busyShare*w.took || fell <= min(w.left/2, noticedFill) && since < max(idlePause, idleShare*w.took) {
		return nil
	}
	if err := w.measure(ctx, true); err != nil {
		return w.unmeasured(err)
	}
	return w.over(ctx)
}

func (w *volumeWatch) unmeasured(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == ErrTooLarge {
		return &volumeFull{fmt.Sprintf("The program was ended: in a volume, %v.", e.Err)}
	}
	w.service.log.Error("a volume cannot be measured", "run", w.job.id, "error", err)
	return &volumeFull{"The program was ended: a volume that it writes to cannot be measured."}
}

// measure records the sizes of the volumes, and what is left. written says that the program goes on.
func (w *volumeWatch) measure(ctx context.Context, written bool) (err error) {
	s, began := w.service, time.Now()
	if w.free, err = s.cfg.Volumes.Free(); err != nil {
		return err
	}
	for i := range w.list {
		v := &w.list[i]
		if v.Bytes, v.Files, err = s.cfg.Volumes.Measure(ctx, v.ID); err != nil {
			return failure(opRun, v.Name, err)
		}
		v.leastBytes, v.leastFiles = min(v.leastBytes, v.Bytes), min(v.leastFiles, v.Files)
		if err = s.index.SetVolume(ctx, v.ID, v.Bytes, v.Files, written); err != nil {
			return failure(opRun, v.Name, err)
		}
	}
	w.left = math.MaxInt64
	all, err := s.kept(ctx, opRun, w.job.owner)
	for _, k := range all {
		_, room := k.quota.room(k.usage)
		w.left = min(w.left, room)
	}
	w.took, w.looked = time.Since(began), time.Now()
	return err
}

// over returns why the program must end, if it has written more than it may.
func (w *volumeWatch) over(ctx context.Context) error {
	grown := false
	for i := range w.list {
		v := &w.list[i]
		if v.Files > MaxVolumeFiles && v.Files > v.leastFiles {
			return &volumeFull{fmt.Sprintf("The program was ended: the volume %s has %d files and folders, and %d are the "+
				"most. A program may still read it, and delete files in it.", v.Name, v.Files, MaxVolumeFiles)}
		}
		grown = grown || v.Bytes > v.leastBytes
	}
	if !grown {
		return nil
	}
	all, err := w.service.kept(ctx, opRun, w.job.owner)
	if err == nil {
		for _, k := range all {
			if err = k.quota.Check(opRun, Usage{Bytes: k.usage.Bytes}); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = w.service.RoomFor(opRun)
	}
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != ErrFull {
		return w.unmeasured(err)
	}
	return &volumeFull{fmt.Sprintf("The program was ended while it wrote to the volume %s. %s What it has written "+
		"stays: a program may read it, and delete files in it.", volumeNames(w.list), e.Hint)}
}

// fileSize returns how large a file in a volume may become.
func (w *volumeWatch) fileSize() int64 {
	largest := int64(0)
	for i := range w.list {
		largest = max(largest, w.list[i].Bytes)
	}
	if w.left > math.MaxInt64-largest {
		return math.MaxInt64
	}
	return w.left + largest
}
