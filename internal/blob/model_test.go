package blob

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// modelDisk is the real disk with two additions: the n-th call of one
// operation fails, and the power can be cut. It knows what a power cut leaves:
// bytes that were fsynced, under names whose directory was fsynced after.
// After an fsync that failed a second one says yes and saves nothing, as on
// Linux.
type modelDisk struct {
	disk
	mu      sync.Mutex
	failOp  string
	failOn  int // which call of failOp fails; 0: none
	failErr error
	calls   map[string]int
	failed  bool

	inodes  map[string]*inode   // by the name that a process sees
	pending map[string][]string // names in a directory since its last fsync
	durable map[string]*inode   // by the name that survives
	madeDir map[string]bool     // directories that survive
}

type inode struct {
	data, synced []byte
	broken       bool
}

func newModelDisk(s *Store) *modelDisk {
	m := &modelDisk{disk: s.disk, calls: map[string]int{}, inodes: map[string]*inode{},
		pending: map[string][]string{}, durable: map[string]*inode{}, madeDir: map[string]bool{}}
	s.disk = m
	return m
}

// operations are the operations that modelDisk can fail.
var operations = []string{"create", "write", "fsync", "close", "mkdir", "open dir", "rename", "fsync dir", "close dir",
	"remove"}

// call counts a call of op and says whether it is the one to fail.
func (m *modelDisk) call(op string) error {
	m.calls[op]++
	if op == m.failOp && m.calls[op] == m.failOn {
		m.failed = true
		return &os.PathError{Op: op, Path: "injected", Err: m.failErr}
	}
	return nil
}

func (m *modelDisk) create(name string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("create"); err != nil {
		return nil, err
	}
	f, err := m.disk.create(name)
	if err != nil {
		return nil, err
	}
	m.inodes[name] = &inode{}
	return &modelFile{file: f, disk: m, inode: m.inodes[name]}, nil
}

func (m *modelDisk) mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("mkdir"); err != nil {
		return err
	}
	err := m.disk.mkdir(name)
	if err == nil {
		m.pending["."] = append(m.pending["."], name)
	}
	return err
}

func (m *modelDisk) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("rename"); err != nil {
		return err
	}
	if err := m.disk.rename(from, to); err != nil {
		return err
	}
	m.inodes[to] = m.inodes[from]
	delete(m.inodes, from)
	m.pending[path.Dir(to)] = append(m.pending[path.Dir(to)], to)
	return nil
}

func (m *modelDisk) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("remove"); err != nil {
		return err
	}
	delete(m.inodes, name)
	delete(m.durable, name)
	return m.disk.remove(name)
}

func (m *modelDisk) openDir(name string) (dir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("open dir"); err != nil {
		return nil, err
	}
	d, err := m.disk.openDir(name)
	return &modelDir{dir: d, disk: m, name: name}, err
}

type modelFile struct {
	file
	disk  *modelDisk
	inode *inode
}

func (f *modelFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call("write"); err != nil {
		n, _ := f.file.Write(p[:len(p)/2]) // a short write comes before the error
		return n, err
	}
	f.inode.data = append(f.inode.data, p...)
	return f.file.Write(p)
}

func (f *modelFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call("fsync"); err != nil {
		f.inode.broken = true
		return err
	}
	if !f.inode.broken {
		f.inode.synced = bytes.Clone(f.inode.data)
	}
	return f.file.Sync()
}

func (f *modelFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.call("close")
	if closed := f.file.Close(); err == nil {
		err = closed
	}
	return err
}

type modelDir struct {
	dir
	disk *modelDisk
	name string
}

func (d *modelDir) Sync() error {
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	names := d.disk.pending[d.name]
	delete(d.disk.pending, d.name)
	if err := d.disk.call("fsync dir"); err != nil {
		return err // and the names are lost, also for a second call
	}
	for _, name := range names {
		if d.name == "." {
			d.disk.madeDir[name] = true
		} else if inode := d.disk.inodes[name]; inode != nil {
			d.disk.durable[name] = inode
		}
	}
	return d.dir.Sync()
}

func (d *modelDir) Close() error {
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	err := d.disk.call("close dir")
	if closed := d.dir.Close(); err == nil {
		err = closed
	}
	return err
}

// cutPower writes to a new directory what the disk would hold after a power
// cut at this moment.
func (m *modelDisk) cutPower(t *testing.T) string {
	t.Helper()
	after := t.TempDir()
	for name, inode := range m.durable {
		shard := path.Dir(name)
		if !m.madeDir[shard] {
			continue
		}
		if err := os.MkdirAll(filepath.Join(after, shard), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(after, name), inode.synced, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return after
}

var errInjected = syscall.EIO
