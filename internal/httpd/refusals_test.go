package httpd

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Ten thousand refusals of one owner in a second are one line of the log, with their count.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &refusals{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 10_000 {
			r.add(http.StatusTooManyRequests, refused{owner: "ada", route: "/runs"})
		}
		r.add(http.StatusTooManyRequests, refused{owner: "bob", route: "/runs"})
		if r.add(http.StatusOK, refused{owner: "bob"}) {
			t.Error("an answer is taken for a refusal")
		}
		time.Sleep(refusalsEvery)
		synctest.Wait()
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "owner=ada") ||
			!strings.Contains(text, "count=10000") || !strings.Contains(text, "owner=bob") {
			t.Errorf("the log is\n%s", text)
		}
		log.Reset()
		for i := range 10_000 {
			r.add(http.StatusTooManyRequests, refused{owner: engine.Owner(fmt.Sprint(i))})
		}
		r.close()
		if n := strings.Count(log.String(), "\n"); n != maxRefused+1 {
			t.Errorf("10,000 owners take %d lines, want %d", n, maxRefused+1)
		}
	})
}

// Where it cannot be known whether there are keys, a caller without one is told to try again, not that it needs one.
func TestKeysUnknown(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{keysUnknown: &engine.Error{Kind: engine.ErrUnavailable}}})
	resp, err := http.Get(address + "/api/v1/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s", resp.Status)
	}
}
