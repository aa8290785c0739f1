// Package workspacetest has the suite that every workspace.Store passes.
package workspacetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/airlock-run/airlock/assist/workspace"
)

// TestStore runs the suite. open opens a store; called again with the same
// directory it opens the same store, as another process would.
func TestStore(t *testing.T, open func(t *testing.T, dir string) workspace.Store) {
	t.Run("records", func(t *testing.T) { testRecords(t, open) })
	t.Run("contents", func(t *testing.T) { testContents(t, open) })
	t.Run("wrong content", func(t *testing.T) { testWrongContent(t, open) })
	t.Run("lock", func(t *testing.T) { testLock(t, open) })
	t.Run("prune by age", func(t *testing.T) { testPruneAge(t, open) })
	t.Run("prune by size", func(t *testing.T) { testPruneSize(t, open) })
}

func newRecord(
	id, space string, state workspace.State, age time.Duration, contents ...*workspace.Content,
) *workspace.Record {
	at := time.Now().Add(-age).UTC().Truncate(time.Microsecond)
	r := &workspace.Record{ID: strings.Repeat(id, 24), Workspace: space, State: state, Created: at, Updated: at,
		Root: "/project"}
	for _, c := range contents {
		r.Files = append(r.Files, workspace.FileChange{ID: "f1", Op: workspace.OpCreate, Path: "a",
			Post: workspace.Fact{Exists: true, Hash: c.Hash(), Size: c.Size()}})
	}
	return r
}

func ids(records []*workspace.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, r.ID[:1])
	}
	return strings.Join(all, " ")
}

func testRecords(t *testing.T, open func(*testing.T, string) workspace.Store) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	for _, r := range []*workspace.Record{
		newRecord("a", "one", workspace.Committed, 4*time.Hour), newRecord("b", "one", workspace.Proposed, 3*time.Hour),
		newRecord("c", "two", workspace.Committed, 2*time.Hour), newRecord("d", "one", workspace.Committed, time.Hour),
	} {
		if err := s.Save(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	changed := newRecord("b", "one", workspace.Discarded, 3*time.Hour)
	changed.Attached = []byte(`{"x":1}`)
	if err := s.Save(ctx, changed); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	got, err := s.Load(ctx, changed.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, got, cmpopts.EquateEmpty(),
		cmpopts.IgnoreUnexported(workspace.FileChange{})); diff != "" {
		t.Error(diff)
	}
	for _, tc := range []struct {
		space  string
		limit  int
		states []workspace.State
		want   string
	}{
		{"one", 0, nil, "d b a"},
		{"one", 2, nil, "d b"},
		{"one", 0, []workspace.State{workspace.Committed}, "d a"},
		{"one", 0, []workspace.State{workspace.Discarded, workspace.Proposed}, "b"},
		{"two", 0, nil, "c"},
		{"three", 0, nil, ""},
	} {
		list, err := s.List(ctx, tc.space, tc.limit, tc.states...)
		if err != nil || ids(list) != tc.want {
			t.Errorf("List(%s, %d, %v) = %q, %v; want %q", tc.space, tc.limit, tc.states, ids(list), err, tc.want)
		}
	}
	for _, id := range []string{strings.Repeat("z", 24), "../records/a", "", "A"} {
		if _, err := s.Load(ctx, id); !errors.Is(err, workspace.ErrNotFound) {
			t.Errorf("Load(%q): %v", id, err)
		}
	}
}

func noise(n int) []byte {
	data := make([]byte, n)
	rand.Read(data)
	return data
}

func testContents(t *testing.T, open func(*testing.T, string) workspace.Store) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	large := noise(3 << 20)
	file, err := workspace.File(ctx, bytes.NewReader(large), int64(len(large)), workspace.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]*workspace.Content{
		"empty": workspace.Bytes(nil), "short": workspace.Bytes([]byte("x")),
		"text":  workspace.Bytes([]byte(strings.Repeat("text ", 1000))),
		"noise": workspace.Bytes(noise(5000)), "large text": workspace.Bytes(bytes.Repeat([]byte("many words "), 200_000)),
		"large file": file,
	}
	i := 0
	for name, c := range contents {
		r := newRecord(string(rune('a'+i)), "one", workspace.Committed, 0, c)
		i++
		// Twice: the second time it is there already.
		for range 2 {
			if err := s.Save(ctx, r, c, c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	s = open(t, dir)
	for name, c := range contents {
		want, err := c.Bytes(ctx, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Open(ctx, c.Hash())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	if _, err := s.Open(ctx, workspace.Sum([]byte("other"))); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("a content that is not there: %v", err)
	}
}

// testWrongContent saves a file whose bytes are not those of the hash: neither
// it nor the record is kept.
func testWrongContent(t *testing.T, open func(*testing.T, string) workspace.Store) {
	for _, size := range []int{100, 2 << 20} {
		s := open(t, t.TempDir())
		hash := workspace.Sum([]byte("what was approved"))
		c, err := workspace.File(t.Context(), bytes.NewReader(noise(size)), int64(size), hash)
		if err != nil {
			t.Fatal(err)
		}
		r := newRecord("a", "one", workspace.Committed, 0, c)
		if err := s.Save(t.Context(), r, c); err == nil {
			t.Errorf("%d bytes that are not those of the hash were kept", size)
		}
		if _, err := s.Load(t.Context(), r.ID); !errors.Is(err, workspace.ErrNotFound) {
			t.Errorf("the record was kept without its content: %v", err)
		}
		if _, err := s.Open(t.Context(), hash); !errors.Is(err, workspace.ErrNotFound) {
			t.Errorf("the content: %v", err)
		}
	}
}

func testLock(t *testing.T, open func(*testing.T, string) workspace.Store) {
	dir := t.TempDir()
	one, two := open(t, dir), open(t, dir)
	unlock, err := one.Lock(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	other, err := two.Lock(t.Context(), "other")
	if err != nil {
		t.Fatalf("another workspace: %v", err)
	}
	if err := other(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := two.Lock(short, "w"); !errors.Is(err, workspace.ErrBusy) {
		t.Errorf("a second holder: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = two.Lock(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, s workspace.Store, c *workspace.Content) bool {
	t.Helper()
	r, err := s.Open(t.Context(), c.Hash())
	if errors.Is(err, workspace.ErrNotFound) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	return true
}

func testPruneAge(t *testing.T, open func(*testing.T, string) workspace.Store) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	shared, own, fresh, large := workspace.Bytes([]byte("shared")), workspace.Bytes([]byte("own")),
		workspace.Bytes([]byte("fresh")), workspace.Bytes(noise(1<<20))
	old := newRecord("a", "one", workspace.Committed, 48*time.Hour, shared, own, large)
	young := newRecord("b", "one", workspace.Committed, time.Hour, shared, fresh)
	atWork := newRecord("c", "one", workspace.Committing, 48*time.Hour)
	for _, save := range []struct {
		r *workspace.Record
		c []*workspace.Content
	}{{old, []*workspace.Content{shared, own, large}}, {young, []*workspace.Content{shared, fresh}}, {atWork, nil}} {
		if err := s.Save(ctx, save.r, save.c...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Prune(ctx, workspace.Keep{Age: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(ctx, "one", 0)
	if err != nil || ids(list) != "b c" {
		t.Errorf("left are %q, %v; want the young one and the one at work", ids(list), err)
	}
	if !kept(t, s, shared) || !kept(t, s, fresh) || kept(t, s, own) || kept(t, s, large) {
		t.Errorf("contents: shared %v, fresh %v, own %v, large %v; the last two belong to nobody", kept(t, s, shared),
			kept(t, s, fresh), kept(t, s, own), kept(t, s, large))
	}
}

func testPruneSize(t *testing.T, open func(*testing.T, string) workspace.Store) {
	s := open(t, t.TempDir())
	var contents []*workspace.Content
	for i := range 6 {
		c := workspace.Bytes(noise(100_000))
		contents = append(contents, c)
		if err := s.Save(t.Context(), newRecord(string(rune('a'+i)), "one", workspace.Committed, time.Duration(6-i)*time.Hour,
			c), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Prune(t.Context(), workspace.Keep{Bytes: 350_000}); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context(), "one", 0)
	if err != nil || ids(list) != "f e d" {
		t.Errorf("left are %q, %v; want the three newest", ids(list), err)
	}
	for i, c := range contents {
		if kept(t, s, c) != (i >= 3) {
			t.Errorf("content %d is kept: %v", i, kept(t, s, c))
		}
	}
}
