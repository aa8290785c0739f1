package live

import (
	"cmp"
	"context"
	"errors"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A TreeProcess is one process of a session's sandbox, whatever started it.
type TreeProcess struct {
	ID          string    // number and start, for EndTreeProcess: numbers are used again
	PID, Parent int       // in the sandbox; a Parent of 0 is outside
	Command     string    // its arguments, separated by spaces; at most 4 KiB
	State       string    // a letter, as in proc_pid_stat(5)
	Interpreter bool      // it runs the cells
	Process     engine.ID // the Process that started it, or an ancestor; zero: none, or it is not known any more
	CPU         time.Duration
	Memory      int64 // bytes in memory, of which it may share some with others
	StartedAt   time.Time
}

// Tree returns the processes in the sandbox of a session, by number, and whether there are more
// than it returns. A session without an interpreter has none, and gets none.
func (s *Service) Tree(
	ctx context.Context, caller engine.Caller, session engine.ID,
) (all []TreeProcess, more bool, err error) {
	if there, err := s.hasInterpreter(ctx, caller, session); err != nil || !there {
		return nil, false, err
	}
	var answer struct {
		Processes []listed
		More      bool
	}
	if err := s.look(ctx, caller, session, &answer, "tree"); err != nil {
		return nil, false, err
	}
	commands, err := s.Processes(ctx, caller, session)
	if err != nil {
		return nil, false, err
	}
	owners := ownersOf(answer.Processes, commands)
	ours, err := s.looksIn(ctx, caller, session)
	if err != nil {
		return nil, false, err
	}
	for _, p := range answer.Processes {
		if ours[p.PID] {
			continue
		}
		seconds, rest := math.Modf(p.Started)
		all = append(all, TreeProcess{ID: p.ID, PID: p.PID, Parent: p.Parent, Command: p.Command, State: p.State,
			Interpreter: p.Interpreter, CPU: time.Duration(p.CPU * float64(time.Second)),
			Process: owners[p.PID], Memory: p.Memory, StartedAt: time.Unix(int64(seconds), int64(rest*1e9)).UTC()})
	}
	return all, answer.More, nil
}

// looksIn returns the processes by which the service looks into a session, or did a moment ago.
func (s *Service) looksIn(ctx context.Context, caller engine.Caller, session engine.ID) (map[int]bool, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	ours := map[int]bool{}
	for pid := range at.looks {
		ours[pid] = true
	}
	return ours, nil
}

// lookKept is how long a look is remembered after its end: a list of processes may have it.
const lookKept = 5 * time.Second

// noteLook remembers a look until forget is called, and a little longer.
func (at *session) noteLook(pid int) (forget func()) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.looks == nil {
		at.looks = map[int]time.Time{}
	}
	for old, ended := range at.looks {
		if !ended.IsZero() && time.Since(ended) > lookKept {
			delete(at.looks, old)
		}
	}
	at.looks[pid] = time.Time{}
	return func() {
		at.mu.Lock()
		defer at.mu.Unlock()
		at.looks[pid] = time.Now()
	}
}

// listed is a process as look.py lists it.
type listed struct {
	ID                   string
	PID, Parent, Session int
	Command              string
	State                string
	Interpreter          bool
	CPU                  float64 // seconds
	Memory               int64
	Started              float64 // seconds since 1970
}

// ownersOf returns whose each process is, by number: a Process is the first of a session of the
// kernel's, which those that outlive their parent stay in unless they call setsid.
func ownersOf(all []listed, commands []Process) map[int]engine.ID {
	first := map[int]engine.ID{}
	for _, c := range commands {
		if c.PID > 0 && (c.Running || c.Background) {
			first[c.PID] = c.ID
		}
	}
	parents, owners := map[int]listed{}, map[int]engine.ID{}
	for _, p := range all {
		parents[p.PID] = p
	}
	for _, p := range all {
		for at, more := p, true; more; {
			owner := cmp.Or(first[at.PID], first[at.Session])
			if owners[p.PID] = owner; owner != (engine.ID{}) || at.Parent >= at.PID {
				break // numbers grow, but for those that are used again
			}
			at, more = parents[at.Parent]
		}
	}
	return owners
}

var treeID = regexp.MustCompile(`^([1-9][0-9]{0,8})-([0-9]{1,18})$`)

// EndTreeProcess kills a process of Tree with all that it has started, and returns when they have
// ended. It is no error if they had before. The one that runs the cells is ErrConflict.
func (s *Service) EndTreeProcess(ctx context.Context, caller engine.Caller, session engine.ID, id string) error {
	there, err := s.hasInterpreter(ctx, caller, session)
	parts := treeID.FindStringSubmatch(id)
	switch {
	case err != nil:
		return err
	case parts == nil:
		return missing("process " + id)
	case !there:
		return nil
	}
	pid, _ := strconv.Atoi(parts[1])
	start, _ := strconv.ParseInt(parts[2], 10, 64)
	var left int
	if err := s.look(ctx, caller, session, &left, "end", pid, start); err != nil {
		return err
	}
	if left < 0 {
		return &engine.Error{Op: "end process", Kind: engine.ErrConflict, ID: id,
			Err: errors.New("this process runs the cells"), Hint: "It runs the cells: restart the session instead."}
	}
	if left > 0 {
		return &engine.Error{Op: "end process", Kind: engine.ErrUnavailable, ID: id,
			Err: errors.New("the kernel has not ended the process yet"), Hint: "Try again.", RetryAfter: time.Second}
	}
	return nil
}

// hasInterpreter reports whether a session has an interpreter, and thus a sandbox.
func (s *Service) hasInterpreter(ctx context.Context, caller engine.Caller, session engine.ID) (bool, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return false, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	it := at.interpreter
	return it != nil && it.began && it.ending == "", nil
}
