package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// ended cleans up after an interpreter has exited: its cell is lost, and a new interpreter is
// started for cells that wait.
func (it *interpreter) ended(run *engine.Run) {
	at := it.at
	at.mu.Lock()
	o, keeping := at.current, it.keeping
	at.mu.Unlock()
	if o != nil && o.cell != nil {
		at.nameWholes(o.cell)
		it.save(o.cell)
	}
	if keeping != nil {
		<-keeping
	}
	_ = at.store() // logged: whatever has changed since, also what was too much for the limits of a cell
	if it.vacate && at.dispensable() == nil && !at.service.shares(at) {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		at.service.vacate(ctx, at.record)
		cancel()
	}
	again := run.NoRoom && at.service.makeRoomFor(at)
	at.mu.Lock()
	defer at.mu.Unlock()
	why := it.ending
	if why == "" {
		why = reason(run)
	}
	if it.ending == "" && run.Status != engine.StatusCancelled { // else the service has ended it
		at.service.log.Info("an interpreter ended by itself", "session", at.record.ID, "reason", why)
	}
	at.interpreter, at.current = nil, nil
	at.service.lived.Add(int64(time.Since(it.start)))
	at.service.rooms.notify()
	if at.idle != nil {
		at.idle.Stop()
	}
	if o != nil {
		status := StatusLost
		if o.cell != nil && o.cell.timedOut {
			status = StatusTimeout
		} else if o.cell != nil && o.cell.stopping {
			status = StatusInterrupted
		} else if it.ending == "" {
			at.service.lost.Add(1)
			if o.cell != nil && endedItself(run) {
				o.cell.ExitCode = run.ExitCode
			}
		}
		at.give(o, status, "Its interpreter ended. "+why)
	}
	if !again && (!it.fresh || it.began || at.why == "") && !it.kept {
		at.why = why
	}
	at.orders = slices.DeleteFunc(at.orders, func(o *order) bool { return o.do == setupOrder })
	if len(at.orders) == 0 {
		return
	}
	err := errors.New(why)
	if again || (it.began || o != nil) && (o == nil || o.do != setupOrder) { // it did something: the next one may do more
		if err = at.launch(at.orders[0].cell); err == nil {
			at.interpreter.call()
			return
		}
	}
	for _, waiting := range at.orders {
		at.give(waiting, StatusLost, "There was no interpreter for it. "+err.Error())
	}
	at.orders = nil
}

// endedItself reports whether an interpreter exited, as os._exit, process.exit and the exit of a
// shell do.
func endedItself(run *engine.Run) bool {
	return run.Status == engine.StatusOK || run.Status == engine.StatusError
}

// reason returns why an interpreter exited that was not ended by the service.
func reason(run *engine.Run) string {
	switch {
	case run.Status == engine.StatusOOM:
		return "It was over the memory limit of its session, and was killed."
	case endedItself(run):
		code := 0
		if run.ExitCode != nil {
			code = *run.ExitCode
		}
		return fmt.Sprintf("It ended with exit code %d.", code)
	case run.Signal != "":
		return fmt.Sprintf("It was killed by %s.", run.Signal)
	case run.Message != "":
		return run.Message
	}
	return "It was killed."
}

// filesThere is what the first cell of a new interpreter is told of the files.
const filesThere = "files are there as they were stored last."

// compare compares the workspace of a new interpreter, which has had no order yet, with the stored files: its first
// cell says what is there.
func (it *interpreter) compare(ctx context.Context) {
	at := it.at
	at.mu.Lock()
	done := it.began || !it.fresh || at.why == ""
	at.mu.Unlock()
	if done {
		return
	}
	missing, err := at.service.engine.MissingFiles(ctx, at.record)
	found := filesThere
	switch {
	case err != nil:
		found = "and its files could not be compared with those that are stored."
	case len(missing) > 0:
		found = fmt.Sprintf("and %d of its stored files are not in its workspace: %s.", len(missing),
			strings.Join(missing[:min(len(missing), maxNamed)], ", "))
	}
	if found != filesThere {
		at.service.log.Error("a session does not have its stored files", "session", at.record.ID, "missing", len(missing),
			"error", err)
	}
	at.mu.Lock()
	it.found = found
	at.mu.Unlock()
}

// maxNamed bounds how many missing files a cell names.
const maxNamed = 10
