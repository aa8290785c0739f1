package engine

import (
	"regexp"
	"strings"
	"testing"
)

func TestIDSpellings(t *testing.T) {
	native := regexp.MustCompile(`^[A-Za-z0-9_-]{21}$`)
	uuid4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[ID]bool{}
	for range 10_000 {
		id := NewID()
		if seen[id] {
			t.Fatal("an ID came twice")
		}
		seen[id] = true
		if !native.MatchString(id.String()) || !uuid4.MatchString(id.UUID()) {
			t.Fatalf("spelled %q and %q", id.String(), id.UUID())
		}
		if back, err := ParseID(id.String()); err != nil || back != id {
			t.Fatalf("ParseID(%q) = %v, %v", id.String(), back, err)
		}
		if back, err := ParseUUID(id.UUID()); err != nil || back != id {
			t.Fatalf("ParseUUID(%q) = %v, %v", id.UUID(), back, err)
		}
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := NewID()
	bad := []string{"", "../x", "/etc/passwd", good.String() + "A", good.String()[1:], strings.Repeat("A", 20) + "/",
		strings.Repeat("A", 20) + "\x00", strings.Repeat("_", 21), good.UUID(), strings.Repeat("A", 1<<20)}
	for _, s := range bad {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%.40q) = %v", s, id)
		}
	}
	for _, s := range []string{"", good.String(), strings.ToUpper(good.UUID()) + "A", "{" + good.UUID() + "}",
		strings.ReplaceAll(good.UUID(), "-", ""),
		good.UUID()[:14] + "1" + good.UUID()[15:], good.UUID() + "/", "zzzzzzzz-zzzz-4zzz-8zzz-zzzzzzzzzzzz"} {
		if id, err := ParseUUID(s); err == nil {
			t.Errorf("ParseUUID(%q) = %v", s, id)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(NewID().String())
	f.Add(strings.Repeat("_", 21))
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != s {
			t.Errorf("%q reads as an ID that is spelled %q", s, id.String())
		}
	})
}
