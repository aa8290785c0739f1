package workspace

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The long run is
//
//	go test ./workspace -run TestSymlinkRacer -race-time=60s
//
//nolint:gochecknoglobals // a flag of the test
var raceTime = flag.Duration("race-time", time.Second, "how long the racer of symbolic links runs")

// TestSymlinkRacer: another process swaps a directory of the folder for a link to the
// outside and back, as fast as possible, while files below it are planned and
// committed. Nothing outside changes.
func TestSymlinkRacer(t *testing.T) {
	s := newSite(t, map[string]string{"dir/sub/a.txt": "0\n", "dir/gone.txt": "g\n"})
	outside := filepath.Join(filepath.Dir(s.dir), "outside")
	for name, content := range map[string]string{"sub/a.txt": "0\n", "gone.txt": "g\n", "b.txt": "secret\n"} {
		path := filepath.Join(outside, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	before := readTree(t, outside)
	ctx, cancel := context.WithTimeout(t.Context(), *raceTime)
	defer cancel()
	var wg sync.WaitGroup
	link := filepath.Join(s.dir, "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	swaps := 0
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(s.dir, "dir"), unix.AT_FDCWD, link,
				unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			swaps++
		}
	})
	done, refused := 0, 0
	for i := 0; ctx.Err() == nil; i++ {
		p, err := s.w.Plan(t.Context(), Origin{}, write("dir/sub/a.txt", fmt.Sprintf("%d\n", i)),
			write(fmt.Sprintf("dir/n%d/b.txt", i%5), fmt.Sprint(i)), write("dir/gone.txt", fmt.Sprint(i)))
		if err != nil {
			refused++
			continue
		}
		a, err := p.Approve()
		if err != nil || len(a.Files) < 3 {
			refused++
		}
		if len(a.Files) == 0 {
			continue
		}
		if _, err := s.w.Commit(t.Context(), p, a, CommitOptions{}); err != nil {
			refused++
		} else {
			done++
		}
	}
	wg.Wait()
	if diff := cmp.Diff(before, readTree(t, outside)); diff != "" {
		t.Fatalf("something outside has changed:\n%s", diff)
	}
	t.Logf("%d swaps, %d commits done, %d refused", swaps, done, refused)
	if swaps == 0 || refused == 0 || done == 0 {
		t.Errorf("there was no race: %d swaps, %d commits done, %d refused", swaps, done, refused)
	}
	if _, err := s.w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull fills a small file system while a commit is staged. Nothing is
// changed, and the message says what to do.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "2m")
	store, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w, err := Open(t.Context(), dir, Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, store: store, w: w}
	s.put("a.txt", "old\n")
	// The rule that looks for space sees it in time.
	p := s.plan(write("a.txt", strings.Repeat("x\n", 800_000)))
	if len(p.Findings) != 1 || p.Findings[0].Rule != "quota.space" {
		t.Errorf("findings %v; quota.space is wanted", p.Findings)
	}
	// The disk fills up after the plan.
	p = s.plan(write("a.txt", strings.Repeat("x\n", 300_000)), write("b.txt", "b\n"))
	a, err := p.Approve()
	if err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if err := filler.Truncate(1_900_000); err != nil {
		t.Fatal(err)
	}
	before := s.files()
	_, err = w.Commit(t.Context(), p, a, CommitOptions{})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") ||
		!strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a full disk: %v", err)
	}
	s.want(before)
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	s.commit(s.plan(write("b.txt", "b\n")))
}

// TestStateDiskFull: there is no room for the journal. Nothing is changed.
func TestStateDiskFull(t *testing.T) {
	small := smallDisk(t, "1m")
	s := newSite(t, map[string]string{"a.txt": "old\n"})
	s.reopen(filepath.Join(small, "state"))
	p := s.plan(write("a.txt", "new\n"))
	a, _ := p.Approve()
	filler, err := os.Create(filepath.Join(small, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	_, err = s.w.Commit(t.Context(), p, a, CommitOptions{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("no room for the journal: %v", err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want(map[string]string{"a.txt": "old\n"})
}

// smallDisk mounts a small file system.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("this host does not let root mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestReadOnly: a read-only file system and, except for root, a folder without write
// permission.
func TestReadOnly(t *testing.T) {
	t.Run("file system", func(t *testing.T) {
		dir := smallDisk(t, "1m")
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Skipf("this host does not let root remount: %v", err)
		}
		cannotWrite(t, dir, syscall.EROFS)
	})
	t.Run("folder", func(t *testing.T) {
		if os.Geteuid() == 0 {
			// Permissions do not restrict root, so an ordinary user tries.
			asNobody(t)
			return
		}
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.txt"), []byte("old\n"), 0o644),
			os.Chmod(dir, 0o555)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		cannotWrite(t, dir, syscall.EACCES)
	})
}

// asNobody runs the test again as an ordinary user.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "airlock-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(binary, program, 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestReadOnly$/^folder$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestReadOnly/folder") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

func cannotWrite(t *testing.T, dir string, want error) {
	t.Helper()
	store, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w, err := Open(t.Context(), dir, Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, store: store, w: w}
	for _, change := range []Change{write("a.txt", "new\n"), write("b.txt", "new\n"), write("d/c.txt", "new\n"),
		{Verb: Delete, Path: "a.txt"}} {
		p := s.plan(change)
		a, err := p.Approve()
		if err != nil {
			t.Fatal(err)
		}
		before := s.files()
		_, err = w.Commit(t.Context(), p, a, CommitOptions{})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "archive") {
			t.Errorf("%s %s: %v; want %v with a hint", change.Verb, change.Path, err, want)
		}
		s.want(before)
	}
}

// TestTogether: many concurrent commits into one folder. Each is all or nothing, and no two
// mix.
func TestTogether(t *testing.T) {
	s := newSite(t, map[string]string{"a": "start", "b": "start"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 6 {
		wg.Go(func() {
			store, err := OpenDir(s.store.root.Name())
			if err != nil {
				t.Error(err)
				return
			}
			defer store.Close()
			w, err := Open(t.Context(), s.dir, Options{Store: store})
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 8 {
				content := fmt.Sprintf("%d-%d", i, n)
				p, err := w.Plan(t.Context(), Origin{}, write("a", content), write("b", content))
				if err != nil {
					t.Error(err)
					return
				}
				a, err := p.Approve()
				if err != nil {
					t.Error(err)
					return
				}
				_, err = w.Commit(t.Context(), p, a, CommitOptions{})
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					done++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	got := s.files()
	if got["a"] != got["b"] || len(got) != 2 {
		t.Errorf("the folder: %v", got)
	}
	history, err := s.w.History(t.Context(), 0)
	if err != nil || len(history) != done || done == 0 {
		t.Errorf("%d commits were reported, %d are in the history, %v", done, len(history), err)
	}
}

// TestTwoStores: a lock on the folder itself excludes processes with another store.
func TestTwoStores(t *testing.T) {
	s := newSite(t, nil)
	release, err := s.w.hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	w, err := open(s.dir, Options{Store: other})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := w.hold(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("a second holder with another store: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := w.hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	store, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, filepath.Join(file, "x"), filepath.Join(t.TempDir(), "missing")} {
		if _, err := Open(t.Context(), root, Options{Store: store}); err == nil {
			t.Errorf("%s was opened", root)
		}
	}
	if _, err := Open(t.Context(), t.TempDir(), Options{}); err == nil {
		t.Error("it was opened without a store")
	}
}
