package bucket

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// An address that a worker gets is valid for one object, one method, and the bytes that
// have its digest. A second use has the same effect as the first.
func TestSigned(t *testing.T) {
	p := newPlace(t)
	s := p.replica(1 << 20)
	text, other := []byte("what the program left"), []byte("some other bytes here")
	b := engine.Blob{SHA256: sha256.Sum256(text), Size: int64(len(text))}
	secret := p.put(s, other)
	put, header, there, err := s.SignPut(t.Context(), b, "mine")
	if err != nil || put == "" || there {
		t.Fatalf("%q, %v, %v", put, there, err)
	}
	send := func(what, method, address string, header http.Header, body []byte, good bool) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range header {
			r.Header[name] = values
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if (answer.StatusCode/100 == 2) != good {
			t.Errorf("%s: %s %s", what, answer.Status, got)
		}
		return got
	}
	at := func(address string, d engine.Digest) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + p.bucket + "/" + s.name(d)
		return u.String()
	}
	send("other bytes", http.MethodPut, put, header, other, false)
	send("without the digest", http.MethodPut, put, nil, other, false)
	lie := http.Header{"X-Amz-Checksum-Sha256": {"rMnkDvX0sTTsZcMjFOSSkBGIFdbdtuJ9UBS4uLkgvo0="}}
	send("another digest", http.MethodPut, put, lie, other, false)
	forged := header.Clone()
	forged.Set(markHeader, "another's")
	send("another mark", http.MethodPut, put, forged, text, false)
	send("another object", http.MethodPut, at(put, secret.SHA256), header, text, false)
	send("to read", http.MethodGet, put, header, nil, false)
	marked := func(want bool, b engine.Blob, mark string) {
		t.Helper()
		if got, err := s.Marked(t.Context(), b, mark); err != nil || got != want {
			t.Errorf("marked %q: %v, %v", mark, got, err)
		}
	}
	marked(false, b, "mine")
	for range 2 {
		send("the bytes", http.MethodPut, put, header, text, true)
	}
	marked(true, b, "mine")
	marked(false, b, "another's")
	marked(false, secret, "mine")
	if got := p.read(s, b); !bytes.Equal(got, text) {
		t.Errorf("stored: %q", got)
	}
	get, err := s.SignGet(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if got := send("read", http.MethodGet, get, nil, nil, true); !bytes.Equal(got, text) {
		t.Errorf("read: %q", got)
	}
	send("to write", http.MethodPut, get, nil, other, false)
	send("to delete", http.MethodDelete, get, nil, nil, false)
	send("another object", http.MethodGet, at(get, secret.SHA256), nil, nil, false)
	if got := p.read(s, secret); !bytes.Equal(got, other) {
		t.Errorf("the other object: %q", got)
	}
}
