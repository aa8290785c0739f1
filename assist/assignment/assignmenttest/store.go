// Package assignmenttest has the suite that every assignment.Store passes.
package assignmenttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/assignment"
)

// TestStore is the suite. open returns an empty store.
func TestStore(t *testing.T, open func(*testing.T) assignment.Store) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, assignment.Store)
	}{
		{"lanes", testLanes}, {"a change that fails", testFailure}, {"no shared memory", testShared},
		{"changes at once", testAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func lane(api, project, id string) assignment.LaneID {
	return assignment.LaneID{API: "https://" + api, Project: project, Assignment: id}
}

// add adds one post to a lane.
func add(t *testing.T, s assignment.Store, id assignment.LaneID, key string, holds ...assignment.Hold) {
	t.Helper()
	p := assignment.Post{ID: key, Key: key, LaneID: id, Kind: assignment.Submission, Holds: holds, Body: []byte(`{}`)}
	err := s.Change(t.Context(), id, func(l *assignment.Lane) error {
		l.Add([]assignment.Post{p}, time.Unix(1, 0).UTC())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// load returns the keys of the posts of each lane.
func load(t *testing.T, s assignment.Store, q assignment.Query) (found []string) {
	t.Helper()
	lanes, err := s.Load(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lanes {
		text := fmt.Sprint(l.API, " ", l.Project, " ", l.Assignment)
		for _, p := range l.Posts {
			text += " " + p.Key
		}
		found = append(found, text)
	}
	return found
}

func testLanes(t *testing.T, s assignment.Store) {
	add(t, s, lane("y", "P", "A2"), "one")
	add(t, s, lane("y", "P", "A1"), "two", assignment.Hold{Reason: assignment.HoldConfirm})
	add(t, s, lane("y", "O", "A9"), "three")
	add(t, s, lane("x", "P", "A1"), "four")
	add(t, s, lane("y", "P", "A2"), "five")
	for _, c := range []struct {
		query assignment.Query
		want  []string
	}{
		{assignment.Query{}, []string{"https://x P A1 four", "https://y O A9 three", "https://y P A1 two",
			"https://y P A2 one five"}},
		{assignment.Query{API: "https://y", Project: "P"}, []string{"https://y P A1 two", "https://y P A2 one five"}},
		{assignment.Query{Project: "P", Waiting: true}, []string{"https://x P A1 four", "https://y P A2 one five"}},
		{assignment.Query{Project: "Q"}, nil},
	} {
		if diff := cmp.Diff(c.want, load(t, s, c.query)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.query, diff)
		}
	}
}

func testFailure(t *testing.T, s assignment.Store) {
	id := lane("x", "P", "A1")
	add(t, s, id, "one")
	no := errors.New("no")
	err := s.Change(t.Context(), id, func(l *assignment.Lane) error {
		l.Posts[0].Key = "changed"
		return no
	})
	if !errors.Is(err, no) {
		t.Errorf("error %v, want that of the change", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	err = s.Change(ended, id, func(l *assignment.Lane) error { l.Posts = nil; return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: error %v", err)
	}
	if diff := cmp.Diff([]string{"https://x P A1 one"}, load(t, s, assignment.Query{})); diff != "" {
		t.Errorf("something was saved (-want +got):\n%s", diff)
	}
}

func testShared(t *testing.T, s assignment.Store) {
	id := lane("x", "P", "A1")
	add(t, s, id, "one")
	lanes, err := s.Load(t.Context(), assignment.Query{})
	if err != nil || len(lanes) != 1 {
		t.Fatalf("%d lanes, %v", len(lanes), err)
	}
	lanes[0].Posts[0].Key = "changed"
	if diff := cmp.Diff([]string{"https://x P A1 one"}, load(t, s, assignment.Query{})); diff != "" {
		t.Errorf("a caller changed the store (-want +got):\n%s", diff)
	}
}

func testAtOnce(t *testing.T, s assignment.Store) {
	id := lane("x", "P", "A1")
	const width, each = 4, 10
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for range each {
				if err := s.Change(t.Context(), id, func(l *assignment.Lane) error { l.Status.Percent++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	lanes, err := s.Load(t.Context(), assignment.Query{})
	if err != nil || len(lanes) != 1 || lanes[0].Status.Percent != width*each {
		t.Errorf("%+v, %v; want %d changes", lanes, err, width*each)
	}
}
