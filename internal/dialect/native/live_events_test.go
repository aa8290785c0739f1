package native

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCellEvents checks that events come as they are and that a client comes back.
func TestCellEvents(t *testing.T) {
	r, f := liveRig(t)
	whole := parseEvents(t, r.send("POST", f.spell("/sessions/{id}/cells"), accept, `{"code":"1"}`).Body)
	events := f.spell("/sessions/{id}/cells/{cell}/events")
	var names []string
	for i, e := range whole {
		names = append(names, e.event)
		if e.id != i+1 {
			t.Errorf("event %d has the id %d", i+1, e.id)
		}
	}
	if diff := cmp.Diff([]string{"started", "input", "stdout", "stderr", "display", "result", "error", "done"},
		names); diff != "" {
		t.Fatal(diff)
	}
	if whole[2].data["text"] != nasty || whole[3].data["text"] != "" || len(whole[7].data["outputs"].([]any)) > 0 {
		t.Errorf("%v", whole)
	}
	for _, from := range []string{"Last-Event-ID: 5", ""} {
		query := ""
		if from == "" {
			query = "?after=5"
		}
		rest := parseEvents(t, r.send("GET", events+query, from, "").Body)
		if diff := cmp.Diff(whole[5:], rest, cmp.AllowUnexported(parsed{}), cmp.FilterPath(func(p cmp.Path) bool {
			return strings.Contains(p.String(), "files") || p.Last().String() == `["files"]`
		}, cmp.Ignore())); diff != "" {
			t.Error(diff)
		}
	}
}

// TestProcessEvents checks that bytes which are not text arrive, and that the id of
// an event is where the next one begins.
func TestProcessEvents(t *testing.T) {
	r, f := liveRig(t)
	path := f.spell("/sessions/{id}/processes/{process}/events")
	events := parseEvents(t, r.send("GET", path, "", "").Body)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.id, e.event, e.data["offset"], e.data["text"], e.data["base64"], e.data["bytes"],
			e.data["exit_code"]))
	}
	want := []string{
		fmt.Sprint(2, "dropped", 0, "\n[... 2 bytes of output left out ...]\n", nil, 2, nil),
		fmt.Sprint(6, "terminal", 2, "a\n\nb", nil, nil, nil),
		fmt.Sprint(7, "terminal", 6, nil, "/w==", nil, nil), fmt.Sprint(7, "exit", nil, nil, nil, nil, 137),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for from, left := range map[int]int{2: 3, 6: 2, 7: 1} {
		if got := parseEvents(t, r.send("GET", path, fmt.Sprint("Last-Event-ID: ", from), "").Body); len(got) != left {
			t.Errorf("from %d: %v", from, got)
		}
	}
}

// TestLiveFileDownload checks that no browser runs what a program left.
func TestLiveFileDownload(t *testing.T) {
	r, f := liveRig(t)
	w := r.send("GET", f.spell("/sessions/{id}/fs/read?path=d/index.html"), "Range: bytes=2-4", "")
	check(t, w, http.StatusPartialContent)
	h := w.Header()
	if w.Body.String() != "234" || h.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q %v", w.Body, h)
	}
}
