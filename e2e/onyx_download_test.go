package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A file that is served from memory is gone the moment it is deleted, through
// whichever API, and when its bytes are no longer what was stored.
func TestOnyxDownloadFromMemory(t *testing.T) {
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	s := serve(t, who, dataWithoutPackages(t, who))
	get := func(id string) answer { return s.do("GET", "/onyx/v1/files/"+id, "") }
	const text = "kept in memory, as small files are"
	first, second, third := s.onyxUpload("a.txt", text), s.onyxUpload("b.txt", text), s.onyxUpload("c.txt", text)
	for range 3 {
		for _, id := range []string{first, second, third} {
			if got := get(id); got.status != 200 || string(got.body) != text {
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
	}
	if got := s.do("DELETE", "/onyx/v1/files/"+first, ""); got.status != 204 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := s.do("DELETE", "/api/v1/files/"+packed(t, second), ""); got.status != 204 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, id := range []string{first, second} {
		if got := get(id); got.status != 404 {
			t.Errorf("after its deletion: %d %s", got.status, got.body)
		}
	}
	if got := get(third); got.status != 200 || string(got.body) != text {
		t.Errorf("another file with the same bytes: %d %s", got.status, got.body)
	}
	_ = filepath.WalkDir(filepath.Join(s.data, "files"), func(name string, d os.DirEntry, _ error) error {
		if content, err := os.ReadFile(name); err == nil && string(content) == text {
			if err := os.WriteFile(name, bytes.ToUpper(content), 0o600); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if got := get(third); got.status != 404 {
		t.Errorf("after its bytes were changed: %d %s", got.status, got.body)
	}
}

// packed spells the id of the Onyx API as the native one does: its 122 random
// bits in 21 characters.
func packed(t *testing.T, uuid string) string {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		t.Fatalf("%q is no id", uuid)
	}
	bits := ""
	for _, b := range raw {
		bits += fmt.Sprintf("%08b", b)
	}
	bits = "0000" + bits[:48] + bits[52:64] + bits[66:] // without version and variant
	text := ""
	for ; len(bits) > 0; bits = bits[6:] {
		digit, _ := strconv.ParseUint(bits[:6], 2, 8)
		text += string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[digit])
	}
	return text
}
