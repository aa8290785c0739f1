package e2b

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestMetadata(t *testing.T) {
	header := http.Header{}
	header.Set("x-metadata-Kind", "a b")
	header.Set("X-Metadata-", "no name")
	header.Set("X-Metadatax", "another")
	given := metadataOf(header)
	if diff := cmp.Diff(texts{"kind": "a b"}, given); diff != "" {
		t.Error(diff)
	}
	var m fileMetadata
	want := func(at string, want texts) {
		t.Helper()
		if diff := cmp.Diff(want, m.of(at)); diff != "" {
			t.Errorf("%s: %s", at, diff)
		}
	}
	m.set("/workspace/d/a", given)
	m.set("/home/user/d/b", texts{"n": "1"})
	m.set("/home/user/da", texts{"n": "2"})
	for _, name := range []string{"/home/user/d/a", "/mnt/data/d/a", "/workspace/d/a"} {
		want(name, given)
	}
	m.move("/home/user/d", "/tmp/e")
	want("/home/user/d/a", nil)
	want("/tmp/e/a", given)
	want("/workspace/da", texts{"n": "2"})
	m.move("/tmp/e/b", "/tmp/e/a") // in its place
	want("/tmp/e/a", texts{"n": "1"})
	m.set("/tmp/e/a", nil) // written again, without any
	want("/tmp/e/a", nil)
	m.remove("/workspace")
	if len(m.byPath) != 0 || m.bytes != 0 {
		t.Errorf("%v, %d bytes", m.byPath, m.bytes)
	}
	large := texts{"k": strings.Repeat("x", maxMetadata/2)}
	m.set("/tmp/a", large)
	if err := m.fits("/tmp/b", large); engine.KindOf(err) != engine.ErrTooLarge {
		t.Error(err)
	}
	if err := m.fits("/tmp/a", large); err != nil {
		t.Error(err)
	}
}
