package oci

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// The variables with which TestKilledAdd starts its own process.
const (
	killedDir       = "AIRLOCK_TEST_ADD_DIR"
	killedReference = "AIRLOCK_TEST_ADD_REFERENCE"
)

// What a killed command leaves is removed by the next one, but whole layers.
func TestKilledAdd(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		_, err := New(Config{Dir: dir, Prober: fakeProber{}}).Add(t.Context(), "it", os.Getenv(killedReference), nil)
		t.Fatalf("it was not killed: %v", err)
	}
	registry, reference, layers := serveAltered(t)
	s := newStore(t)
	asked, killed := make(chan struct{}), make(chan struct{})
	registry.set(ofBlob(layers[1], func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "500")
		w.Write(make([]byte, 100))
		_ = http.NewResponseController(w).Flush()
		close(asked)
		<-killed
	}))
	child := exec.Command(os.Args[0], "-test.run=^TestKilledAdd$")
	child.Env = append(os.Environ(), killedDir+"="+s.Dir, killedReference+"="+reference)
	var said bytes.Buffer
	child.Stdout, child.Stderr = &said, &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if inUse, err := s.Sweep(); inUse != 0 || err != nil {
		t.Errorf("sweep: in use %d, %v", inUse, err)
	}
	adding, _ := filepath.Glob(s.path(addingPrefix + "*"))
	if len(adding) != 1 {
		t.Errorf("a sweep removed what another command was writing: %q is left", adding)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	close(killed)
	registry.set(nil)
	if _, err := s.Sweep(); err != nil {
		t.Errorf("sweep: %v", err)
	}
	for _, left := range contents(t, s) {
		if left != ".layers/sha256-"+layers[0].Hex {
			t.Errorf("it left %q", left)
		}
	}
	add(t, s, "it", reference)
}

// Layers that nobody came back for are removed after a day, and what a killed command was writing
// at once.
func TestSweep(t *testing.T) {
	s := newStore(t)
	if err := s.makeFolders(); err != nil {
		t.Fatal(err)
	}
	old, young := s.path(layersFolder, "sha256-old"), s.path(layersFolder, "sha256-young")
	long := time.Now().Add(-2 * keepLayers)
	for _, path := range []string{old, young, s.path(namesFolder, newPrefix+"1")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{addingPrefix + "1", removingPrefix + "1", imagePrefix + strings.Repeat("0", 64)} {
		if err := os.MkdirAll(s.path(name, "rootfs/x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s); len(got) != 1 || got[0] != ".layers/sha256-young" {
		t.Errorf("it left %q, want the young layer", got)
	}
}

// A disk that fills while an image is unpacked is said, and has its room back.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	free := func() uint64 {
		var stat syscall.Statfs_t
		if err := syscall.Statfs(dir, &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Bfree
	}
	s := newStore(t, func(c *Config) { c.Dir = filepath.Join(dir, "images") })
	if err := s.makeFolders(); err != nil {
		t.Fatal(err)
	}
	before := free()
	// 16 MB, compressed to a few KB
	large := append(simple("one"), file("large", strings.Repeat("0123456789abcdef", 1<<20)))
	packed := "oci:" + writeLayout(t, imageOf(t, large), "it")
	_, err := s.Add(t.Context(), "it", packed, nil)
	checkError(t, err, engine.ErrFull, "layer 1 of 1", "is full")
	checkEmpty(t, s)
	plain := filepath.Join(t.TempDir(), "docker.tar")
	tag, err := name.NewTag("it:1")
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, large)
	if err := tarball.WriteToFile(plain, tag, image); err != nil {
		t.Fatal(err)
	}
	_, err = s.Add(t.Context(), "it", "docker-archive:"+plain, nil)
	checkError(t, err, engine.ErrFull)
	// Without the look at the free space before, the disk itself says it.
	hidden := newStore(t, func(c *Config) { c.Dir, c.MinFree = s.Dir, -1<<40 })
	_, err = hidden.Add(t.Context(), "it", packed, nil)
	checkError(t, err, engine.ErrFull, "no space left")
	checkEmpty(t, s)
	if after := free(); after+64 < before { // pages of folders
		t.Errorf("%d blocks are free, want %d", after, before)
	}
	add(t, s, "it", "oci:"+writeLayout(t, imageOf(t, simple("small")), "it"))
	s.MinFree = 1 << 40
	_, err = s.Add(t.Context(), "other", "oci:"+writeLayout(t, imageOf(t, simple("other")), "it"), nil)
	checkError(t, err, engine.ErrFull, "needs about", "does not have")
}

// A file of 8 GB without a byte in it is refused before it is written.
func TestSparseFile(t *testing.T) {
	folder := t.TempDir()
	file, err := os.Create(filepath.Join(folder, "zeros"))
	if err == nil {
		err = file.Truncate(8 << 30)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	for _, format := range []string{"gnu", "posix"} {
		command := exec.CommandContext(t.Context(), "tar", "-S", "--format="+format, "-c", "-C", folder, "zeros")
		archive, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		s := newStore(t)
		tree, err := newTree(t.TempDir(), s.Limits, func(int64) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		err = tree.apply(bytes.NewReader(archive))
		tree.close()
		checkError(t, err, engine.ErrTooLarge, "zeros", "more than the 6.0 GiB")
		if tree.bytes != 0 {
			t.Errorf("%d bytes were written", tree.bytes)
		}
	}
}
