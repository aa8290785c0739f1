package wire

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// What operators want, as a drain or a quota, is no error in their log; what fails is one.
func TestMeantRefusalsAreNoErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		logged bool
	}{
		{&engine.Error{Op: "run", Kind: engine.ErrUnavailable, Refusal: engine.RefusedDrain}, false},
		{&engine.Error{Op: "run", Kind: engine.ErrSpent}, false},
		{&engine.Error{Op: "run", Kind: engine.ErrFull, Err: engine.ErrQuota}, false},
		{&engine.Error{Op: "run", Kind: engine.ErrUnavailable}, true},
		{errors.New("no kind"), true},
	} {
		var log bytes.Buffer
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		Failed(httptest.NewRecorder(), r, slog.New(slog.NewTextHandler(&log, nil)), 503, c.err, nil)
		if (log.Len() > 0) != c.logged {
			t.Errorf("%v: logged %q", c.err, log.String())
		}
	}
}
