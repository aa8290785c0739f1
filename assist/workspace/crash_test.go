package workspace

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The long run, as documented in docs/workspace.md:
//
//	go test ./workspace -run TestCrash -crash-loops=1000 -timeout 2h
//
//nolint:gochecknoglobals // a flag of the test
var crashLoops = flag.Int("crash-loops", 0, "how often each kind of commit is killed, at a random step or time")

// crashRole makes the test binary a process that commits, or recovers, and is killed during
// that.
const crashRole = "AIRLOCK_WORKSPACE_TEST_ROLE"

// crashCase is a commit that is killed.
type crashCase struct {
	name     string
	old, new map[string]string
	changes  func() []Change
}

func crashCases() []crashCase {
	old := map[string]string{"a.txt": "old a\n", "dir/b.txt": "old b\n", "gone.txt": "going\n", "from.txt": "moving\n",
		"pic.bin": "\x00\x01old\xff", "user.txt": "the user's\n"}
	with := func(name string, changes func() []Change, edit func(map[string]string)) crashCase {
		want := maps.Clone(old)
		want["dir/"] = ""
		edit(want)
		return crashCase{name, old, want, changes}
	}
	all := []crashCase{
		with("create", func() []Change { return []Change{write("n1.txt", "new\n"), write("x/y/n2.txt", "new 2\n")} },
			func(m map[string]string) {
				m["n1.txt"], m["x/"], m["x/y/"], m["x/y/n2.txt"] = "new\n", "", "", "new 2\n"
			}),
		with("update", func() []Change { return []Change{write("a.txt", "new a\n"), write("dir/b.txt", "new b\n")} },
			func(m map[string]string) {
				m["a.txt"], m["dir/b.txt"] = "new a\n", "new b\n"
			}),
		with("delete", func() []Change {
			return []Change{{Verb: Delete, Path: "gone.txt"},
				{Verb: Delete, Path: "dir/b.txt"}}
		}, func(m map[string]string) {
			delete(m, "gone.txt")
			delete(m, "dir/b.txt")
		}),
		with("rename", func() []Change {
			return []Change{{Verb: Rename, Path: "from.txt", To: "z/to.txt"}, {Verb: Rename, Path: "a.txt", To: "dir/a.txt"}}
		}, func(m map[string]string) {
			m["z/"], m["z/to.txt"], m["dir/a.txt"] = "", "moving\n", "old a\n"
			delete(m, "from.txt")
			delete(m, "a.txt")
		}),
		with("binary", func() []Change {
			return []Change{{Verb: Write, Path: "pic.bin", Content: Bytes([]byte("\x00\x02new\xff")), Exact: true},
				{Verb: Write, Path: "p2.bin", Content: Bytes([]byte("\x00new")), Exact: true}}
		}, func(m map[string]string) { m["pic.bin"], m["p2.bin"] = "\x00\x02new\xff", "\x00new" }),
	}
	mixed := with("all", nil, func(m map[string]string) {
		m["n1.txt"], m["x/"], m["x/y/"], m["x/y/n2.txt"] = "new\n", "", "", "new 2\n"
		m["a.txt"] = "new a\n"
		m["pic.bin"] = "\x00\x02new\xff"
		m["z/"], m["z/to.txt"] = "", "moving\n"
		delete(m, "from.txt")
		delete(m, "gone.txt")
	})
	mixed.changes = func() []Change {
		return []Change{
			write("n1.txt", "new\n"), write("x/y/n2.txt", "new 2\n"), write("a.txt", "new a\n"),
			{Verb: Delete, Path: "gone.txt"},
			{Verb: Rename, Path: "from.txt", To: "z/to.txt"}, {Verb: Write, Path: "pic.bin",
				Content: Bytes([]byte("\x00\x02new\xff")), Exact: true},
		}
	}
	return append(all, mixed)
}

// killingStore can also end the process before and after each save.
type killingStore struct {
	*Dir
	at func(string)
}

func (s killingStore) Save(ctx context.Context, r *Record, contents ...*Content) error {
	s.at("saving " + string(r.State))
	err := s.Dir.Save(ctx, r, contents...)
	s.at("saved " + string(r.State))
	return err
}

// crashChild is the main function of the killed process. Its arguments are the folder, the
// state, the case, the step at which it ends itself (0: never), and how files are
// exchanged.
func crashChild(role string) int {
	args := os.Args[len(os.Args)-5:]
	kill, _ := strconv.Atoi(args[3])
	var steps atomic.Int64
	at := func(string) {
		if steps.Add(1) == int64(kill) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	ctx := context.Background()
	err := func() error {
		dir, err := OpenDir(args[1])
		if err != nil {
			return err
		}
		w, err := open(args[0], Options{Store: killingStore{dir, at}})
		if err != nil {
			return err
		}
		w.noExchange = args[4] == "aside"
		fmt.Println("ready")
		if role == "recover" {
			w.at = at
			_, err := w.Recover(ctx)
			return err
		}
		for _, c := range crashCases() {
			if c.name != args[2] {
				continue
			}
			p, err := w.Plan(ctx, Origin{}, c.changes()...)
			if err != nil {
				return err
			}
			a, err := p.Approve()
			if err != nil {
				return err
			}
			w.at = at
			_, err = w.Commit(ctx, p, a, CommitOptions{})
			return err
		}
		return fmt.Errorf("there is no case %q", args[2])
	}()
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println("steps", steps.Load())
	return 0
}

// crash runs a process and returns whether it was killed, and its last output. after > 0
// kills it from outside.
func crash(
	t *testing.T, role, dir, state, name string, kill int, way string, after time.Duration,
) (killed bool, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir, state, name, strconv.Itoa(kill), way)
	cmd.Env = append(os.Environ(), crashRole+"="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = lines.Text()
		if said == "ready" && after > 0 {
			timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
	}
	err = cmd.Wait()
	if exit, ok := err.(*exec.ExitError); ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL { //nolint:errorlint // as Wait gives it
		return true, said
	}
	if err != nil {
		t.Fatalf("the process: %v: %s", err, said)
	}
	return false, said
}

// survive checks a folder after a crash and its recovery: all files are old, or all are
// new; nothing is left over; and undo restores the old files.
func survive(t *testing.T, c crashCase, dir, state, where string) string {
	t.Helper()
	store, err := OpenDir(state)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w, err := Open(t.Context(), dir, Options{Store: store})
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	got := readTree(t, dir)
	old := maps.Clone(c.old)
	old["dir/"] = ""
	if unfinished, err := store.List(t.Context(), w.ID(), 0, Staging, Committing, Published); err != nil ||
		len(unfinished) > 0 {
		t.Fatalf("%s: %d transactions are not at rest, %v", where, len(unfinished), err)
	}
	if cmp.Equal(old, got) {
		return "old"
	}
	if diff := cmp.Diff(c.new, got); diff != "" {
		t.Fatalf("%s: the folder is neither old nor new; against new:\n%s", where, diff)
	}
	p, err := w.UndoLatest(t.Context())
	if err != nil {
		t.Fatalf("%s: undo: %v", where, err)
	}
	a, err := p.Approve()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if _, err := w.Commit(t.Context(), p, a, CommitOptions{}); err != nil {
		t.Fatalf("%s: undo: %v", where, err)
	}
	if diff := cmp.Diff(old, readTree(t, dir)); diff != "" {
		t.Fatalf("%s: undo does not give the old folder:\n%s", where, diff)
	}
	return "new"
}

func crashSite(t *testing.T, c crashCase) (dir, state string) {
	t.Helper()
	base := inMemory(t)
	if *crashLoops > 0 { // the long run is on a disk
		base = t.TempDir()
	}
	dir, state = filepath.Join(base, "project"), filepath.Join(base, "state")
	for name, content := range c.old {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, state
}

// TestCrashAtEveryStep kills a commit with all operations at each of its steps, and then a
// recovery at each of its own.
func TestCrashAtEveryStep(t *testing.T) {
	c := crashCases()[5]
	for _, way := range []string{"exchange", "aside"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for step, killed := 1, true; killed; step++ {
				dir, state := crashSite(t, c)
				var said string
				killed, said = crash(t, "commit", dir, state, c.name, step, way, 0)
				if killed && step%4 == 0 {
					crash(t, "recover", dir, state, c.name, 1+step%11, way, 0)
				}
				where := fmt.Sprintf("killed at step %d (%s)", step, way)
				outcome := survive(t, c, dir, state, where)
				seen[outcome]++
				if !killed && (outcome != "new" || !strings.HasPrefix(said, "steps")) {
					t.Fatalf("it was not killed, and the folder is %s: %s", outcome, said)
				}
			}
			if seen["old"] < 5 || seen["new"] < 5 {
				t.Errorf("outcomes %v: some of both are expected", seen)
			}
			t.Logf("outcomes %v", seen)
		})
	}
}

// TestCrashLoop is the long run.
func TestCrashLoop(t *testing.T) {
	if *crashLoops == 0 {
		t.Skip("it is long: -crash-loops=1000 runs it")
	}
	for _, c := range crashCases() {
		t.Run(c.name, func(t *testing.T) {
			seen := map[string]int{}
			most := 0
			for i := range *crashLoops {
				way := []string{"exchange", "aside"}[i/2%2]
				dir, state := crashSite(t, c)
				kill, after := 0, time.Duration(0)
				if i%2 == 0 {
					kill = 1 + rand.IntN(max(most, 30))
				} else {
					after = time.Duration(rand.IntN(12000)) * time.Microsecond
				}
				killed, said := crash(t, "commit", dir, state, c.name, kill, way, after)
				if n, err := strconv.Atoi(strings.TrimPrefix(said, "steps ")); err == nil {
					most = max(most, n)
				}
				if killed && i%3 == 0 {
					crash(t, "recover", dir, state, c.name, 1+rand.IntN(20), way, 0)
				}
				seen[fmt.Sprintf("%s, killed %v", survive(t, c, dir, state, fmt.Sprintf("loop %d", i)), killed)]++
				if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d loops: %v", *crashLoops, seen)
		})
	}
}
