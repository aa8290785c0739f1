// Package indextest has what tests of the network need beside this machine: a network namespace of their own, and in it
// an index of packages for pip and npm.
package indextest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Place is a network namespace of a test's own, which a veth pair joins to this one. Its
// addresses are private: a service needs network_private to reach them. No switch of the
// binary is needed for that, and the machine's own addresses stay refused.
type Place struct {
	namespace     string
	Subnet        string // for network_private
	Here, Address string // of this namespace, and of that one
}

// Elsewhere makes a place. skip ends a test on a machine that cannot have one.
func Elsewhere(t *testing.T, skip func(t *testing.T, format string, args ...any)) *Place {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "making a network namespace needs root")
	}
	number := os.Getpid() % 10000
	third := 20 + number%200
	p := &Place{namespace: fmt.Sprintf("airlock-net-%d", number), Subnet: fmt.Sprintf("10.214.%d.0/30", third),
		Here: fmt.Sprintf("10.214.%d.1", third), Address: fmt.Sprintf("10.214.%d.2", third)}
	near, far := fmt.Sprintf("alk-n0-%d", number), fmt.Sprintf("alk-n1-%d", number)
	t.Cleanup(func() {
		_ = exec.Command("ip", "netns", "del", p.namespace).Run()
		_ = exec.Command("ip", "link", "del", near).Run()
	})
	for _, args := range [][]string{
		{"netns", "add", p.namespace},
		{"link", "add", near, "type", "veth", "peer", "name", far, "netns", p.namespace},
		{"addr", "add", p.Here + "/30", "dev", near},
		{"link", "set", near, "up"},
		{"-n", p.namespace, "addr", "add", p.Address + "/30", "dev", far},
		{"-n", p.namespace, "link", "set", far, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Logf("ip %s: %v: %s", strings.Join(args, " "), err, out)
			skip(t, "this kernel does not let us make a network")
		}
	}
	return p
}

// Listen listens there.
func (p *Place) Listen(t *testing.T, port string) net.Listener {
	t.Helper()
	type made struct {
		listener net.Listener
		err      error
	}
	done := make(chan made)
	go func() {
		// Never unlocked, and it does not end: the thread stays in the other namespace, and a process that it has
		// started, to be killed with it, goes on.
		runtime.LockOSThread()
		defer func() { select {} }()
		namespace, err := os.Open(filepath.Join("/run/netns", p.namespace))
		if err != nil {
			done <- made{nil, err}
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", net.JoinHostPort(p.Address, port))
		done <- made{l, err}
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(func() { m.listener.Close() })
	return m.listener
}

// Index serves packages of Python and of Node.
type Index struct {
	*Place
	URL   string
	skip  func(t *testing.T, format string, args ...any)
	mu    sync.Mutex
	files map[string][]byte // by path
	asked []string          // paths, in order
}

// New starts one, with a small package of each, greeting. skip is as for Elsewhere.
func New(t *testing.T, skip func(t *testing.T, format string, args ...any)) *Index {
	t.Helper()
	x := &Index{Place: Elsewhere(t, skip), skip: skip, files: map[string][]byte{}}
	l := x.Listen(t, "0")
	x.URL = "http://" + l.Addr().String()
	server := &http.Server{Handler: x, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	x.AddWheel("greeting-1.0-py3-none-any.whl", Wheel(t, "greeting", `def greet(): return "hello from a package"`))
	x.addNode(t, "greeting", `exports.greet = () => "hello from a module"`)
	return x
}

// AddUV adds the wheel of uv, which is downloaded once. The test is one of the package above this one.
func (x *Index) AddUV(t *testing.T) {
	t.Helper()
	folder, err := filepath.Abs("../.cache/network")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "network/install", folder).CombinedOutput(); err != nil {
		x.skip(t, "uv cannot be downloaded: %v: %s", err, out)
	}
	wheels, _ := filepath.Glob(folder + "/uv-*.whl")
	for _, name := range wheels {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		x.AddWheel(filepath.Base(name), content)
	}
}

// ServeHTTP serves what there is.
func (x *Index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	content, ok := x.files[r.URL.Path]
	x.asked = append(x.asked, r.URL.Path)
	x.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/simple/"):
		w.Header().Set("Content-Type", "text/html")
	case strings.HasPrefix(r.URL.Path, "/npm/") && path.Ext(r.URL.Path) == "":
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = w.Write(content)
}

// Times returns how often a path was asked for.
func (x *Index) Times(wanted string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, asked := range x.asked {
		if asked == wanted {
			n++
		}
	}
	return n
}

// Env configures pip and npm of a service's user for this index.
func (x *Index) Env() []string {
	return []string{"PIP_INDEX_URL=" + x.URL + "/simple/", "PIP_TRUSTED_HOST=" + x.Address,
		"npm_config_registry=" + x.URL + "/npm/"}
}

// AddWheel adds a wheel to the pages of PEP 503.
func (x *Index) AddWheel(name string, content []byte) {
	project, _, _ := strings.Cut(name, "-")
	x.files["/files/"+name] = content
	x.files["/simple/"+project+"/"] = fmt.Appendf(nil, `<!DOCTYPE html><a href="/files/%s#sha256=%x">%s</a>`,
		name, sha256.Sum256(content), name)
}

// Wheel makes a wheel of one module.
func Wheel(t *testing.T, name, code string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-1.0.dist-info/"
	for _, file := range [][2]string{
		{name + ".py", code + "\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(file[0])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(file[1])) // into memory
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// addNode adds a package of one module, as npm's registry describes it.
func (x *Index) addNode(t *testing.T, name, code string) {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	packed := tar.NewWriter(zipped)
	about := fmt.Sprintf(`{"name":%q,"version":"1.0.0","main":"index.js"}`, name)
	for _, file := range [][2]string{{"package/package.json", about}, {"package/index.js", code + "\n"}} {
		if err := packed.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))}); err != nil {
			t.Fatal(err)
		}
		_, _ = packed.Write([]byte(file[1])) // into memory
	}
	packed.Close()
	zipped.Close()
	sum := sha512.Sum512(b.Bytes())
	x.files["/npm/"+name+"/-/"+name+"-1.0.0.tgz"] = b.Bytes()
	x.files["/npm/"+name] = fmt.Appendf(nil, `{"name":%q,"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":`+
		`{"name":%[1]q,"version":"1.0.0","main":"index.js","dist":{"tarball":"%[2]s/npm/%[1]s/-/%[1]s-1.0.0.tgz",`+
		`"integrity":"sha512-%[3]s"}}}}`, name, x.URL, base64.StdEncoding.EncodeToString(sum[:]))
}
