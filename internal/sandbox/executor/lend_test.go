package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// startLending starts a sandbox that lends inputs, and returns it with the folder of its files.
func startLending(t *testing.T, warm bool) (*Sandbox, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: an ordinary user's inputs are copied")
	}
	folder := t.TempDir()
	lending := filepath.Join(folder, "lending")
	launcher := NewLauncher(LaunchOptions{Lending: lending, Warm: warm, WarmFirst: warm})
	s, err := Start(t.Context(), Config{Launcher: launcher, Lending: lending, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, folder
}

// largeFile writes a file that is large enough to be lent, with different content for each seed.
func largeFile(t *testing.T, folder string, seed uint64) (path string, sum string) {
	t.Helper()
	content := make([]byte, leastLent+4096)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = source.Read(content)
	path = filepath.Join(folder, fmt.Sprintf("blob-%d", seed))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, fmt.Sprintf("%x", sha256.Sum256(content))
}

func openInput(t *testing.T, name, path string) engine.Input {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return engine.Input{Path: name, File: f, Size: info.Size()}
}

func lendingSpec(lang, code string, inputs ...engine.Input) *engine.Spec {
	spec := sandboxtest.Spec(lang, code)
	spec.Limits.Workspace, spec.Inputs = 128<<20, inputs
	return spec
}

// isLent checks that the workspace has lent inputs.
const isLent = "import os\nassert 'trusted' not in ''.join(os.listxattr('IN'))\n" +
	"assert any(' /workspace ' in l and ' overlay ' in l for l in open('/proc/self/mountinfo')), 'it was copied'\n"

// A program cannot change the stored file of a lent input, and the next program sees
// the original.
func TestLentInputsAreNotChanged(t *testing.T) {
	for _, warm := range []bool{false, true} {
		s, folder := startLending(t, warm)
		for name, code := range map[string]string{
			"overwrite":  "open('IN', 'r+b').write(b'changed')",
			"append":     "open('IN', 'ab').write(b'changed')",
			"truncate":   "os.truncate('IN', 5)",
			"grow":       "os.truncate('IN', os.path.getsize('IN') + 10)",
			"rewrite":    "open('IN', 'wb').write(b'changed')",
			"shared map": "import mmap\nf = open('IN', 'r+b'); m = mmap.mmap(f.fileno(), 0)\nm[0:7] = b'changed'; m.flush()",
			"private map": "import mmap\nf = open('IN', 'rb')\n" +
				"m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, 3)\nm[0:7] = b'changed'",
			"upgraded map": "import mmap\nf = open('IN', 'rb')\n" +
				"try: m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, 3); m[0:7] = b'changed'; m.flush()\nexcept OSError: pass",
			"direct": "import mmap\nm = mmap.mmap(-1, 4096); m[0:7] = b'changed'\n" +
				"f = os.open('IN', os.O_RDWR | os.O_DIRECT); os.pwrite(f, m, 0)",
			"allocate": "f = os.open('IN', os.O_RDWR); os.posix_fallocate(f, 0, os.path.getsize('IN') + 4096)",
			"punch": "import ctypes\nf = os.open('IN', os.O_RDWR)\n" +
				"ctypes.CDLL(None).fallocate(f, 3, ctypes.c_long(0), ctypes.c_long(4096))",
			"mode":      "os.chmod('IN', 0o777); os.chmod('IN', 0o4755)",
			"owner":     "os.chown('IN', os.getuid(), os.getgid())",
			"times":     "os.utime('IN', (1, 1))",
			"attribute": "try: os.setxattr('IN', 'user.x', b'1')\nexcept OSError: pass",
			"flags": "import fcntl\nf = os.open('IN', os.O_RDONLY)\n" +
				"try: fcntl.ioctl(f, 0x40086602, (0x10).to_bytes(8, 'little'))\nexcept OSError: pass",
			"rename over": "open('new', 'wb').write(b'changed'); os.rename('new', 'IN')",
			"rename":      "os.rename('IN', 'other'); open('other', 'r+b').write(b'changed'); os.rename('other', 'IN')",
			"rename of it": "os.mkdir('d'); os.rename('IN', 'd/IN'); os.rename('d', 'e')\n" +
				"open('e/IN', 'r+b').write(b'changed'); os.rename('e/IN', 'IN')",
			"link": "os.link('IN', 'other'); open('other', 'r+b').write(b'changed')\n" +
				"assert open('IN', 'rb').read(7) == b'changed'",
			"remove":    "os.remove('IN'); open('IN', 'wb').write(b'changed')",
			"by number": "f = os.open('IN', os.O_RDONLY); open(f'/proc/self/fd/{f}', 'r+b').write(b'changed')",
			"lend again": "import errno\nfor p in ('/', '/workspace', '/mnt', '/proc/self/root'):\n" +
				"    assert not {'taken', 'lending', 'upper', 'lower', 'work'} & set(os.listdir(p)), p",
		} {
			t.Run(fmt.Sprintf("%s/%v", name, warm), func(t *testing.T) {
				path, sum := largeFile(t, folder, 1)
				code = strings.ReplaceAll(isLent+code, "IN", "in.bin")
				r := sandboxtest.Run(t, s, lendingSpec("python", code, openInput(t, "in.bin", path)))
				if r.Code() != 0 {
					t.Errorf("%+v: %s", r.Outcome, r.Stderr)
				}
				content, err := os.ReadFile(path)
				if got := fmt.Sprintf("%x", sha256.Sum256(content)); err != nil || got != sum {
					t.Fatalf("the stored file has changed: %v", err)
				}
				info, err := os.Stat(path)
				if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
					t.Errorf("the stored file is another: %v %v", info.Mode(), err)
				}
				r = sandboxtest.Run(t, s, lendingSpec("bash", "sha256sum < in.bin", openInput(t, "in.bin", path)))
				if r.Stdout != sum+"  -\n" {
					t.Errorf("the next program reads %s%s", r.Stdout, r.Stderr)
				}
			})
		}
	}
}

// A lent input is an ordinary file, and changes to it are collected as for a copy.
func TestLentInputsAreFiles(t *testing.T) {
	for _, warm := range []bool{false, true} {
		s, folder := startLending(t, warm)
		for range 3 { // from the second run on a sandbox may wait for it
			spec := lendingSpec("python", strings.ReplaceAll(isLent, "IN", "same")+`import stat
for n in 'same', 'a/b/deep', 'a/fixed':
    st = os.stat(n)
    print(n, st.st_size, oct(st.st_mode), st.st_uid == os.getuid(), st.st_gid == os.getgid(), st.st_nlink,
        st.st_dev == os.stat('.').st_dev)
inode = os.stat('changed').st_ino
with open('changed', 'r+b') as f: f.write(b'1')
print(os.stat('changed').st_ino == inode, sorted(os.listdir('.')), sorted(os.listdir('a')))
open('unchanged', 'r+b').close()
os.rename('a/b', 'a/c')
os.rename('renamed', 'new name')
os.link('same', 'second')
os.symlink('same', 'link')
os.remove('gone')
for code in "open('a/fixed', 'ab')", "os.remove('a/fixed')", "os.rename('a/fixed', 'x')", "os.rename('a', 'x')":
    try: exec(code); print(code)
    except PermissionError: pass
`)
			path, sum := largeFile(t, folder, 1)
			for _, name := range []string{"same", "a/b/deep", "changed", "unchanged", "renamed", "gone", "a/fixed"} {
				spec.Inputs = append(spec.Inputs, openInput(t, name, path))
			}
			spec.Inputs[6].ReadOnly = true
			spec.Inputs = append(spec.Inputs, sandboxtest.Input(t, "a/small", "small"), sandboxtest.Input(t, "small", "small"))
			spec.Limits.Workspace = 256 << 20
			spec.Limits.Files = engine.FileLimit{Count: 10, Bytes: 64 << 20, Total: 256 << 20}
			r := sandboxtest.Run(t, s, spec)
			const size = leastLent + 4096
			want := fmt.Sprintf("same %d 0o100644 True True 1 True\na/b/deep %[1]d 0o100644 True True 1 True\n"+
				"a/fixed %[1]d 0o100444 False False 1 True\n"+
				"True ['a', 'changed', 'gone', 'main.py', 'renamed', 'same', 'small', 'unchanged'] ['b', 'fixed', 'small']\n", size)
			if r.Stdout != want || r.Stderr != "" {
				t.Errorf("%s%s\nwant\n%s", r.Stdout, r.Stderr, want)
			}
			var got []string
			for _, o := range r.Outputs {
				same := fmt.Sprintf("%x", sha256.Sum256([]byte(r.Files[o.Path]))) == sum
				got = append(got, fmt.Sprint(o.Path, " ", o.Input, " ", same))
			}
			// The sandbox reports the open for writing; the engine finds unchanged
			// content.
			if fmt.Sprint(got) != "[a/c/deep false true changed true false new name false true same true true "+
				"second false true unchanged true true]" {
				t.Errorf("outputs %q", got)
			}
			if fmt.Sprint(r.Deleted) != "[a/b/deep gone renamed]" {
				t.Errorf("deleted %q", r.Deleted)
			}
			if left := leftIn(t, folder); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		}
	}
}

// TestSuiteLending runs the suite with lent inputs.
func TestSuiteLending(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			s, _ := startLending(t, true)
			s.leastLent = 0
			return s
		},
		Root: true, Brief: true,
	})
}

// leftIn lists the names that have not been removed.
func leftIn(t *testing.T, folder string) (left []string) {
	t.Helper()
	for _, pattern := range []string{"lending/*", "lending/taken/*"} {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, names...)
	}
	return slices.DeleteFunc(left, func(name string) bool { return filepath.Base(name) == takenFolder })
}

// A program keeps the content of a lent file that is deleted while it runs.
func TestLentInputIsDeleted(t *testing.T) {
	s, folder := startLending(t, false)
	path, sum := largeFile(t, folder, 2)
	code := strings.ReplaceAll(isLent, "IN", "in") + `import hashlib
os.link('in', 'second')
m = b'{"id": 1, "name": "delete", "input": {}}'
os.write(4, len(m).to_bytes(4, 'big') + m)
os.read(3, 1)
os.rename('in', 'other')
for name in 'other', 'second': print(hashlib.sha256(open(name, 'rb').read()).hexdigest())
`
	spec := lendingSpec("python", code, openInput(t, "in", path))
	spec.Calls, spec.Limits.Timeout = true, 2*time.Minute // a busy machine drops its caches slowly
	host := &deleting{path: path}
	o, err := s.Run(t.Context(), spec, host)
	if err != nil || o.ExitCode == nil || *o.ExitCode != 0 || host.text.String() != sum+"\n"+sum+"\n" {
		t.Errorf("%+v, %v\n%s", o, err, host.text.String())
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was not deleted")
	}
}

// deleting deletes a file when the program asks for it.
type deleting struct {
	sandboxtest.Host
	path string
	text bytes.Buffer
}

func (d *deleting) Output(_ engine.Stream, p []byte) { d.text.Write(p) }

func (d *deleting) Call(context.Context, string, []byte) ([]byte, error) {
	// The kernel drops unneeded names: all but those of open files. In a container,
	// which may not request that, it may keep them.
	for range 3 {
		_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0)
	}
	return []byte("1"), os.Remove(d.path)
}

// Reading a lent input uses no memory of the program's limit; writing to it does.
func TestLentInputsTakeNoMemory(t *testing.T) {
	s, folder := startLending(t, false)
	path := filepath.Join(folder, "huge")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<30)); err != nil {
		t.Fatal(err)
	}
	for code, ok := range map[string]bool{
		"f = open('in', 'rb')\nwhile f.read(1 << 20): pass":                                              true,
		"import mmap\nm = mmap.mmap(os.open('in', 0), 0, prot=1)\nfor i in range(0, len(m), 4096): m[i]": true,
		// Holes are not copied.
		"open('in', 'r+b').write(b'1')": true,
	} {
		spec := lendingSpec("python", strings.ReplaceAll(isLent, "IN", "in")+code, openInput(t, "in", path))
		spec.Limits.Workspace, spec.Limits.Memory = 2<<30, 100<<20
		r := sandboxtest.Run(t, s, spec)
		if got := r.Code() == 0 && !r.OOM; got != ok {
			t.Errorf("%q: %+v\n%s", code, r.Outcome, r.Stderr)
		}
	}
	full, _ := largeFile(t, folder, 5)
	spec := lendingSpec("python", strings.ReplaceAll(isLent, "IN", "in")+"open('in', 'r+b').write(b'1')",
		openInput(t, "in", full))
	spec.Limits.Memory = leastLent
	if r := sandboxtest.Run(t, s, spec); !r.OOM {
		t.Errorf("what is written is counted for nobody: %+v\n%s", r.Outcome, r.Stderr)
	}
	spec = lendingSpec("python", "", openInput(t, "in", path))
	spec.Limits.Workspace = 1 << 29
	if _, err := s.Run(t.Context(), spec, silent{}); engine.KindOf(err) != engine.ErrTooLarge {
		t.Errorf("an input that is larger than the workspace: %v", err)
	}
}

// The executor lends only the file that it received.
func TestOnlyTheInputIsLent(t *testing.T) {
	s, folder := startLending(t, false)
	path, sum := largeFile(t, folder, 3)
	other, _ := largeFile(t, folder, 4)
	in := openInput(t, "in", path)
	for name, place := range map[string]func(at string) error{
		"another file": func(at string) error { return os.Link(other, at) },
		"a link":       func(at string) error { return os.Symlink("/etc/passwd", at) },
		"a folder":     func(at string) error { return os.Mkdir(at, 0o700) },
		"nothing":      func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newProgram(lendingSpec("bash", "sha256sum < in", in))
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			id := engine.NewID().String()
			if err := place(filepath.Join(folder, "lending", id)); err != nil {
				t.Fatal(err)
			}
			p.list[0].Lent, p.request.Lends = id, 1
			host := &deleting{}
			l, err := s.open(t.Context(), request{Run: &p.request}, p.theirs...)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p.closeTheirs()
			if err := l.sendInputs(p.list, p.files); err != nil {
				t.Fatal(err)
			}
			var a answer
			if _, err := l.Receive(&a); err != nil || !a.Accepted {
				t.Fatalf("%+v, %v", a, err)
			}
			p.outputs.pump(host)
			if _, _, err := collectAnswers(l, host, nil); err != nil || host.text.String() != sum+"  -\n" {
				t.Errorf("it reads %q, %v", host.text.String(), err)
			}
			_ = os.Remove(filepath.Join(folder, "lending", id))
		})
	}
	for _, bad := range []string{"..", "../blob-4", "a/b", "/etc/passwd"} {
		w := &Workspace{loan: &loan{}}
		if w.borrowInput(input{Path: "in", Lent: bad}, nil) {
			t.Errorf("%q was taken", bad)
		}
	}
}
