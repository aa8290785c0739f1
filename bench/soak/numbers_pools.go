package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// mostThreads bounds the executor's threads, whatever runs.
const mostThreads = 64

// poolSessions start a service that has room for so many live sessions, also in memory.
var poolSessions = []string{"--live", "64", "--owner-live", "16", "--concurrency", "64", "--max-memory", "256MiB"}

// measureThreads starts processes beside interpreters, and counts the executor's threads.
func measureThreads(ctx context.Context, o options) (figure, error) {
	const owners, each = 4, 100 // processes of a session
	wanted := cmp.Or(o.runs, 2000)
	return with(ctx, o, func(s *service, _ tenant) (figure, error) {
		var starting sync.WaitGroup
		failed := make([]error, owners)
		for i := range owners {
			c, key, err := s.as(ctx, fmt.Sprint("owner", i))
			if err != nil {
				return figure{}, err
			}
			starting.Go(func() { failed[i] = startMany(ctx, tenant{c, key}, wanted/owners, each) })
		}
		starting.Wait()
		if err := errors.Join(failed...); err != nil {
			return figure{}, err
		}
		running := 0
		for _, p := range lab.Processes() {
			if p.Word(0) == "sleep" && p.Word(1) == sleepLong {
				running++
			}
		}
		threads := int(lab.Status(s.executor, "status", "Threads"))
		return figure{found: fmt.Sprintf("%d threads with %d processes of %d owners", threads, running, owners),
			over: threads > mostThreads || running < wanted}, nil
	}, poolSessions...)
}

// sleepLong is longer than a number takes, and marks its processes.
const sleepLong = "1000.125"

func sleeping() client.ProcessRequest {
	return client.ProcessRequest{Argv: []string{"sleep", sleepLong}}
}

// startMany starts processes in live sessions, with so many in each.
func startMany(ctx context.Context, who tenant, wanted, each int) error {
	var session *client.Session
	for n := range wanted {
		if n%each == 0 {
			var err error
			if session, err = newLive(ctx, who); err != nil {
				return err
			}
		}
		if _, err := who.StartProcess(ctx, session.ID, sleeping()); err != nil {
			return fmt.Errorf("process %d: %w", n, err)
		}
	}
	return nil
}

// newLive creates a live session whose interpreter has started.
func newLive(ctx context.Context, who tenant) (*client.Session, error) {
	session, err := who.CreateSession(ctx, client.SessionRequest{Kind: "live"})
	if err != nil {
		return nil, err
	}
	_, err = who.RunCell(ctx, session.ID, client.CellRequest{Code: "1"})
	return session, err
}

// measurePools has one owner take processes, watches and terminals until it is refused, in
// as many sessions as it may have, and looks what is left, and whether another owner can work.
func measurePools(ctx context.Context, o options) (figure, error) {
	return with(ctx, o, func(s *service, who tenant) (figure, error) {
		ctx, cancel := context.WithCancel(ctx)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		terminal := sleeping()
		terminal.Terminal = &client.TerminalSize{Columns: 80, Rows: 24}
		sessions := cmp.Or(o.runs, 16)
		for range sessions {
			session, err := newLive(ctx, who)
			if refused(err) {
				break
			}
			if err != nil {
				return figure{}, err
			}
			watchAll(ctx, who, session.ID, &watching)
			for _, request := range []client.ProcessRequest{terminal, sleeping()} {
				for range 80 { // of both together as many as it may have
					if _, err := who.StartProcess(ctx, session.ID, request); refused(err) {
						break
					} else if err != nil {
						return figure{}, err
					}
				}
			}
		}
		left, over := s.left()
		other, key, err := s.as(ctx, "bob")
		if err == nil {
			err = works(ctx, tenant{other, key}, terminal)
		}
		return figure{over: over, found: "left: " + strings.Join(left, ", ") +
			"; another owner starts a session, a process and a terminal"}, err
	}, poolSessions...)
}

// watchAll watches a session as often as it is let.
func watchAll(ctx context.Context, who tenant, session string, watching *sync.WaitGroup) {
	for range 40 {
		watching.Go(func() {
			for _, err := range who.WatchLiveFiles(ctx, session, "", true) {
				if err != nil {
					return
				}
			}
		})
	}
}

// refused reports whether an owner has as much as it may have.
func refused(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status == 429
}

// works reports whether an owner can work.
func works(ctx context.Context, who tenant, terminal client.ProcessRequest) error {
	session, err := newLive(ctx, who)
	if err != nil {
		return fmt.Errorf("another owner: %w", err)
	}
	for _, request := range []client.ProcessRequest{sleeping(), terminal} {
		if _, err := who.StartProcess(ctx, session.ID, request); err != nil {
			return fmt.Errorf("another owner: %w", err)
		}
	}
	return nil
}

// left returns what is left of each pool, and whether that is less than half of one.
func (s *service) left() (left []string, over bool) {
	tell := func(name string, used, all int) {
		left = append(left, fmt.Sprintf("%d of %d %s", all-used, all, name))
		over = over || used > all/2
	}
	number := func(path string) int {
		b, _ := os.ReadFile(path)
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return n
	}
	tasks := 0
	for _, pid := range s.below() {
		tasks += int(lab.Status(pid, "status", "Threads"))
	}
	tell("processes and threads", tasks, min(number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max")))
	instances, watches := inotifyOf(s.executor)
	tell("inotify instances", instances, number("/proc/sys/fs/inotify/max_user_instances"))
	tell("inotify watches", watches, number("/proc/sys/fs/inotify/max_user_watches"))
	tell("terminals", number("/proc/sys/kernel/pty/nr"), number("/proc/sys/kernel/pty/max"))
	tellOpen := func(of string, pid int) {
		tell("open files of the "+of, len(lab.OpenFiles(pid)), openLimit(pid))
	}
	tellOpen("service", s.pid)
	tellOpen("executor", s.executor)
	return left, over
}

// openLimit returns how many files a process may have open.
func openLimit(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	_, rest, _ := strings.Cut(string(b), "Max open files")
	if fields := strings.Fields(rest); len(fields) > 0 {
		n, _ := strconv.Atoi(fields[0])
		return n
	}
	return 0
}

// inotifyOf returns the inotify instances of a process, and their watches.
func inotifyOf(pid int) (instances, watches int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if target, _ := os.Readlink(f); !strings.HasSuffix(target, "inotify") {
			continue
		}
		info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, filepath.Base(f)))
		instances, watches = instances+1, watches+strings.Count(string(info), "inotify wd:")
	}
	return instances, watches
}
