package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDurations checks how durations are written, and that they come back.
func TestDurations(t *testing.T) {
	for _, c := range []struct{ in, out any }{
		{RunRequest{Code: "<", Timeout: 5 * time.Second, Limits: &Limits{CPUTime: time.Second}}, new(RunRequest)},
		{RunRequest{}, new(RunRequest)},
		{Limits{Timeout: time.Minute, Inodes: 3}, new(Limits)},
		{Run{ID: "r", Duration: 7 * time.Millisecond, CPU: 2 * time.Millisecond}, new(Run)},
		{CellRequest{Code: "x", Timeout: time.Second}, new(CellRequest)},
		{CellUsage{Duration: time.Second, CPU: time.Millisecond, MemoryPeakBytes: 3}, new(CellUsage)},
		{SessionRequest{Kind: KindHeld, TTL: time.Hour}, new(SessionRequest)},
		{Process{ID: "p", CPU: time.Second}, new(Process)},
		{Node{Name: "n", Silent: time.Second}, new(Node)},
		{UsageDay{Used: Amounts{Runs: 1, CPU: time.Second}}, new(UsageDay)},
		{Contact{Host: "h", Took: time.Millisecond}, new(Contact)},
	} {
		text, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, c.out); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		again, err := json.Marshal(c.out)
		if err != nil || string(again) != string(text) || strings.Contains(string(text), "000000") {
			t.Errorf("%s came back as %s, %v", text, again, err)
		}
	}
}

// TestDurationUnits checks the units, and that a fraction counts as one.
func TestDurationUnits(t *testing.T) {
	for in, want := range map[any]string{
		CellRequest{Timeout: time.Second}:        `{"code":"","timeout_ms":1000}`,
		CellRequest{Timeout: time.Microsecond}:   `{"code":"","timeout_ms":1}`,
		CellRequest{Timeout: -time.Millisecond}:  `{"code":"","timeout_ms":-1}`,
		CellRequest{}:                            `{"code":""}`,
		CellUsage{CPU: 1500 * time.Microsecond}:  `{"duration_ms":0,"cpu_ms":2,"memory_peak_bytes":0}`,
		Limits{Timeout: time.Second, CPUTime: 1}: `{"timeout_ms":1000,"cpu_time_ms":1}`,
		CellRequest{Timeout: 61*time.Minute + 1}: `{"code":"","timeout_ms":3660001}`,
	} {
		if got, err := json.Marshal(in); err != nil || string(got) != want {
			t.Errorf("%+v: %s, want %s, %v", in, got, want, err)
		}
	}
	for _, text := range []string{`{"duration_ms":9223372036854775807}`, `{"duration_ms":"1"}`, `{"duration_ms":1.5}`} {
		if err := json.Unmarshal([]byte(text), new(CellUsage)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	got := CellUsage{Duration: 1}
	if err := json.Unmarshal([]byte(`{"duration_ms":null,"cpu_ms":3}`), &got); err != nil || got.CPU != 3*time.Millisecond {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCodes checks that callers branch on codes with errors.Is.
func TestCodes(t *testing.T) {
	err := fmt.Errorf("upload: %w", &Error{Status: 507, Code: ErrFull})
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrBusy) {
		t.Errorf("%v is not ErrFull alone", err)
	}
	if err := error(&Error{Status: 502}); errors.Is(err, Code("")) {
		t.Errorf("%v has a code", err)
	}
}

// TestAll checks that iterators go on to the last page, stop with the loop, and end with an error.
func TestAll(t *testing.T) {
	asked := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Query().Get("after") {
		case "":
			io.WriteString(w, `{"runs":[{"id":"a","duration_ms":5},{"id":"b"}],"next":"b"}`)
		case "b":
			io.WriteString(w, `{"runs":[{"id":"c"}],"next":"c"}`)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error":{"code":"unavailable"}}`)
		}
	})
	var got []string
	for run, err := range c.AllRuns(t.Context(), "s") {
		got = append(got, fmt.Sprint(run.ID, " ", run.Duration, " ", errors.Is(err, ErrUnavailable)))
	}
	want := []string{"a 5ms false", "b 0s false", "c 0s false", " 0s true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	asked = 0
	for range c.AllRuns(t.Context(), "") {
		break
	}
	if asked != 1 {
		t.Errorf("a loop that stops at the first asked for %d pages", asked)
	}
}
