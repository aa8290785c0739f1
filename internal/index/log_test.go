package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

func FuzzLog(f *testing.F) {
	f.Add([]byte("out"), []byte("err"), []byte{6, 7})
	f.Add([]byte{}, []byte{}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, stdout, stderr, chunks []byte) {
		log, err := logText{stdout: stdout, stderr: stderr, chunks: chunks}.split()
		if err != nil {
			return
		}
		back, err := joinLog(log, &engine.Run{Stdout: string(stdout), Stderr: string(stderr)})
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.split()
		if err != nil || !cmp.Equal(again, log) {
			t.Fatalf("%v came back as %v, %v", log, again, err)
		}
	})
}
