package remote

import (
	"strings"
	"testing"
)

// A worker may answer a request without a program with any frame. None of them may end the api.
func TestFramesWithoutAProgram(t *testing.T) {
	for _, k := range []kind{kindStdout, kindStderr, kindCall, kindRest, kindContact, kindDrain} {
		var r result
		_, err := (&visit{}).react(t.Context(), t.Context(), k, []byte("{}"), &r, nil)
		if err == nil || !strings.Contains(err.Error(), "without a program") {
			t.Errorf("%q: %v", k, err)
		}
	}
}
