package gemini_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/gemini"
)

// A stream that breaks off prints nothing behind our back, and comments in a
// stream are no fault of it.
func TestStreamsAreQuiet(t *testing.T) {
	var printed bytes.Buffer
	log.SetOutput(&printed)
	defer log.SetOutput(io.Discard)
	breaks := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": keep-alive\n\nevent: message\ndata: "+
			"{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"half \"}]}}]}\r\n\r\n")
		if breaks {
			fmt.Fprint(w, `data: {"candidates":[{"cont`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"whole\"}]},"+
			"\"finishReason\":\"STOP\"}]}\n\n: bye\n\n")
	}))
	defer server.Close()
	c, err := gemini.New(gemini.Options{Key: "k", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ask := provider.RunRequest{Model: "m", Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}
	got, err := c.Run(t.Context(), ask, nil)
	if provider.KindOf(err) != provider.Transient {
		t.Errorf("%+v, %v", got, err)
	}
	breaks = false
	if got, err := c.Run(t.Context(), ask, nil); err != nil || got.Text != "half whole" {
		t.Errorf("%+v, %v", got, err)
	}
	if printed.Len() > 0 {
		t.Errorf("printed: %s", printed.String())
	}
}
