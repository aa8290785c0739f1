package sse_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/sse"
)

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	stream := ": hello\n\nid: 7\r\nevent: a\r\ndata: 1\r\n\r\ndata:2\ndata: 3\n\ndata: " + long + "\n\ndata: cut off"
	var got []sse.Event
	for e, err := range sse.Read(iotest.HalfReader(strings.NewReader(stream)), 1<<20) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []sse.Event{{ID: "7", Type: "a", Data: []byte("1")}, {Data: []byte("2\n3")}, {Data: []byte(long)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenStream(t *testing.T) {
	var failed error
	for _, err := range sse.Read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("data: 1\n\n"))), 1<<20) {
		failed = err
	}
	if failed == nil {
		t.Error("a stream that broke seems to have ended well")
	}
}

func TestTooLong(t *testing.T) {
	for _, stream := range []string{
		"data: " + strings.Repeat("x", 100) + "\n\n", strings.Repeat("data: 1234567890\n", 10) + "\n",
	} {
		var failed error
		for _, err := range sse.Read(strings.NewReader(stream), 90) {
			failed = err
		}
		if !errors.Is(failed, sse.ErrTooLong) {
			t.Errorf("%d bytes: %v", len(stream), failed)
		}
	}
}
