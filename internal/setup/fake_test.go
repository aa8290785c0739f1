package setup

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shop is a package index in a directory: pip installs from it for real.
type shop struct {
	t   *testing.T
	dir string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	if err := exec.Command(interpreter(), "-m", "pip", "--version").Run(); err != nil {
		t.Skipf("%s has no pip: %v", interpreter(), err)
	}
	s := &shop{t: t, dir: t.TempDir()}
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", s.dir)
	t.Setenv("PIP_CONFIG_FILE", os.DevNull)
	return s
}

// wheel puts a package with one module on the shelf and returns its line of a
// lock.
func (s *shop) wheel(name, version, module, source string, needs ...string) string {
	s.t.Helper()
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, need := range needs {
		metadata += "Requires-Dist: " + need + "\n"
	}
	files := [][2]string{
		{module + ".py", source},
		{module + "_more/part.py", ""},
		{module + "_more/tests/case.py", ""},
		{info + "METADATA", metadata},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	}
	record := info + "RECORD,,\n"
	for _, f := range files {
		record += f[0] + ",,\n"
	}
	files = append(files, [2]string{info + "RECORD", record})

	var content bytes.Buffer
	archive := zip.NewWriter(&content)
	for _, f := range files {
		w, err := archive.Create(f[0])
		s.must(err)
		_, err = w.Write([]byte(f[1]))
		s.must(err)
	}
	s.must(archive.Close())
	s.must(os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)), content.Bytes(),
		0o644))
	sum := sha256.Sum256(content.Bytes())
	return fmt.Sprintf("%s==%s \\\n    --hash=sha256:%s\n", name, version, hex.EncodeToString(sum[:]))
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// journal is a Progress that remembers.
type journal struct{ lines []string }

func (j *journal) Step(title string) { j.add("step " + title) }
func (j *journal) Update(done, total int, now string) {
	j.add(fmt.Sprintf("now %d/%d %s", done, total, now))
}
func (j *journal) Done(result string) { j.add("done " + result) }
func (j *journal) Warn(text string)   { j.add("warn " + text) }
func (j *journal) add(line string)    { j.lines = append(j.lines, line) }
func (j *journal) has(part string) (found bool) {
	return strings.Contains(strings.Join(j.lines, "\n"), part)
}
func (j *journal) String() string { return strings.Join(j.lines, "\n") }
func lockOf(lines ...string) lockFile {
	return func(string, int) ([]byte, error) { return []byte(strings.Join(lines, "")), nil }
}

func rootsOf(names ...string) string { return "# main\n" + strings.Join(names, "\n") + "\n" }

// bench returns an installer of an ordinary user on an empty data directory.
func bench(t *testing.T, lock lockFile, roots string) (*installer, *journal) {
	t.Helper()
	j := &journal{}
	in := newInstaller(Options{Data: filepath.Join(t.TempDir(), "data"), Progress: j})
	in.uid, in.room, in.lock, in.roots = 1000, 0, lock, func(string) string { return roots }
	if err := in.dataDirectory(t.Context()); err != nil {
		t.Fatal(err)
	}
	return in, j
}

// script puts a program into a directory of its own and that in front of PATH.
func script(t *testing.T, name, body string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return path
}
