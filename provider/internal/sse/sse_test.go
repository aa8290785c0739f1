package sse_test

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/provider/internal/sse"
)

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	stream := ": hello\n\nevent: a\r\ndata: 1\r\n\r\ndata:2\ndata: 3\n\ndata: " + long + "\n\ndata: cut off"
	var got []sse.Event
	for e, err := range sse.Read(iotest.HalfReader(strings.NewReader(stream))) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []sse.Event{{Type: "a", Data: []byte("1")}, {Data: []byte("2\n3")}, {Data: []byte(long)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenStream(t *testing.T) {
	var failed error
	for _, err := range sse.Read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("data: 1\n\n")))) {
		failed = err
	}
	if failed == nil {
		t.Error("a stream that broke seems to have ended well")
	}
}
