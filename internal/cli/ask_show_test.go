package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/conversation"
)

// In a pipe a large file tells each quarter once, and a small one nothing. As
// JSON nothing is told.
func TestTransfersInAPipe(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{streams: Streams{Err: &out, Out: &out}, cfg: &config.Config{}, json: quiet}
		s := a.showTurns(false)
		const size = 20 << 20
		for done := int64(0); done <= size; done += 1 << 20 {
			s.tell(conversation.Uploading{Name: "big.bin", Sent: done, Size: size})
			s.tell(conversation.Downloading{Name: "small.bin", Done: done / 20, Size: size / 20})
		}
		s.tell(conversation.Downloading{Name: "big.bin", Done: 19 << 20, Size: size})
		s.tell(conversation.Downloading{Name: "unknown.bin", Done: 19 << 20, Size: -1})
		want := "sending big.bin: 25 % of 20 MiB\nsending big.bin: 50 % of 20 MiB\nsending big.bin: 75 % of 20 MiB\n" +
			"fetching big.bin: 75 % of 20 MiB\n"
		if quiet {
			want = ""
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}
