package cli

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/index"
)

// A backup that was cut off within a file is called a part of one, wherever it was cut.
func TestCutBackup(t *testing.T) {
	from := &app{App: &command.App{Config: &config.Config{Data: t.TempDir()}}}
	content := make([]byte, 1<<20)
	_, _ = rand.Read(content)
	put(t, from.Config.Data, map[string]string{"files/large": string(content)})
	db, err := index.Open(t.Context(), filepath.Join(from.Config.Data, databases[0]), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if _, err := from.writeBackup(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{whole.Len() / 4, whole.Len() / 2, whole.Len() - 20} {
		to := &app{App: &command.App{Config: &config.Config{Data: t.TempDir()}}}
		_, err := to.readBackup(t.Context(), io.LimitReader(bytes.NewReader(whole.Bytes()), int64(left)))
		if err == nil || !strings.Contains(err.Error(), "only a part of one") {
			t.Errorf("%d of %d bytes: %v", left, whole.Len(), err)
		}
	}
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// packed is a backup with these entries.
func packed(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var text bytes.Buffer
	plain, err := zstd.NewWriter(&text)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(plain)
	names := append([]string{backupEntry}, slices.Sorted(maps.Keys(files))...)
	files[backupEntry] = `{"format":1}`
	for _, name := range names {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(archive, files[name])
	}
	if err := errors.Join(archive.Close(), plain.Close()); err != nil {
		t.Fatal(err)
	}
	return &text
}

// emptyIndex is the content of an index without anything.
func emptyIndex(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "index.db")
	db, err := index.Open(t.Context(), name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A backup puts only data into a data directory: no settings, and nothing of a name that this
// program does not know.
func TestRestoreKnownNames(t *testing.T) {
	to := &app{App: &command.App{Config: &config.Config{Data: t.TempDir()}}}
	put(t, to.Config.Data, map[string]string{"airlock.yaml": "rate: 1\n"})
	good := map[string]string{"index.db": emptyIndex(t), "files/ab/abcd": "bytes", "outputs/o": "o", "contents/c": "c",
		"mirrors/m/a.txt": "m", "switches.json": "{}"}
	bad := map[string]string{"airlock.yaml": "listen: 0.0.0.0:1\n", "unknown/x": "x", "filesx": "x",
		"runtimes/bin/python": "x",
		"locks/l":             "", "airlock.sock": "", "index.db-wal": "x", "files/tmp/x": "x", "cache/c": "c"}
	all := maps.Clone(good)
	maps.Copy(all, bad)
	r, err := to.readBackup(t.Context(), packed(t, all))
	if err != nil {
		t.Fatal(err)
	}
	good["airlock.yaml"] = "rate: 1\n"
	if diff := cmp.Diff(good, tree(t, to.Config.Data)); diff != "" {
		t.Error(diff)
	}
	if r.Files != len(good)-1 || !slices.Contains(r.LeftOut, "airlock.yaml") || !slices.Contains(r.LeftOut, "unknown") {
		t.Errorf("%+v", r)
	}

	// What is not restored is not backed up.
	put(t, to.Config.Data, map[string]string{"airlock.yaml": "rate: 1\n", "unknown/x": "x", "cache/c": "c"})
	var again bytes.Buffer
	if _, err := to.writeBackup(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	other := &app{App: &command.App{Config: &config.Config{Data: t.TempDir()}}}
	if r, err = other.readBackup(t.Context(), &again); err != nil || len(r.LeftOut) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	delete(good, "airlock.yaml")
	got := tree(t, other.Config.Data)
	delete(good, "index.db")
	delete(got, "index.db")
	if diff := cmp.Diff(good, got); diff != "" {
		t.Error(diff)
	}
}

// A backup with a damaged database, or without one, changes nothing, and says so in readable text.
func TestRestoreDamage(t *testing.T) {
	whole := emptyIndex(t)
	torn := []byte(whole)
	for i := range torn[4096:] {
		torn[4096+i] ^= 0x5a
	}
	other := filepath.Join(t.TempDir(), "other.db")
	pool, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.ExecContext(t.Context(), "CREATE TABLE x (y)")
	if err := errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string]string{
		"garbage":        {"index.db": "\x00\x1b[31mgarbage" + strings.Repeat("\xff\x07", 4096)},
		"torn":           {"index.db": string(torn)},
		"cut":            {"index.db": whole[:len(whole)/2]},
		"empty":          {"index.db": ""},
		"something else": {"index.db": string(foreign)},
		"state":          {"index.db": whole, "state.db": "garbage"},
		"no database":    {"files/ab/abcd": "new"},
	} {
		t.Run(name, func(t *testing.T) {
			to := &app{App: &command.App{Config: &config.Config{Data: t.TempDir()}}}
			before := map[string]string{"files/ab/old": "old", "airlock.yaml": "rate: 1\n"}
			put(t, to.Config.Data, before)
			files["files/ab/abcd"] = "new"
			_, err := to.readBackup(t.Context(), packed(t, files))
			if err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return !strconv.IsGraphic(r) }) ||
				!utf8.ValidString(err.Error()) {
				t.Errorf("%q", err)
			}
			if diff := cmp.Diff(before, tree(t, to.Config.Data)); diff != "" {
				t.Error(diff)
			}
		})
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
