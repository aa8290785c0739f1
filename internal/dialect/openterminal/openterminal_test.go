package openterminal

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestPaths(t *testing.T) {
	q := &request{}
	for given, want := range map[string]string{
		"a/b": "/workspace/d/a/b", "../a": "/workspace/a", "../../../etc/passwd": "/etc/passwd", "~": home, "~/a": "/workspace/a",
		"/home/user": home, "/home/user/../../etc": "/etc", "/mnt/data/x": "/workspace/x", "/home/users": "/home/users", "": "/workspace/d",
	} {
		if got := q.absolute(given, "/workspace/d"); got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
	for given, want := range map[string]bool{
		home: true, home + "/a": true, "/app/x": true, "/": true, "/tmp/x": true, "/usr": false, "/usr/bin/x": false, "/usrx": true,
	} {
		if got := (found{Entry: engine.Entry{Path: given}}).writable(); got != want {
			t.Errorf("%s: %t", given, got)
		}
	}
}

func TestUnescape(t *testing.T) {
	for given, want := range map[string]string{
		`ls\n`: "ls\n", `\x03`: "\x03", `a\tb\r`: "a\tb\r", `\\n`: `\n`, `ends in \`: `ends in \`, `\x0`: `\x0`, `\q`: `\q`, "ü\n": "ü\n",
	} {
		if got := unescape(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// An entry never ends within a character, and all of them are the text.
func TestEntries(t *testing.T) {
	text := strings.Repeat("日本\r\n", 4000)
	var whole strings.Builder
	all, skipped := entries(text, 0)
	for _, e := range all {
		whole.WriteString(e.Data)
		if raw, err := json.Marshal(e); err != nil || strings.Contains(string(raw), `\ufffd`) {
			t.Fatalf("%s %v", raw, err)
		}
	}
	if whole.String() != text || skipped {
		t.Error("the text is another one")
	}
	if got, skipped := entries("a\nb\nc", 2); len(got) != 2 || got[0].Data != "b\n" || got[1].Data != "c" || !skipped {
		t.Errorf("%+v, skipped %t", got, skipped)
	}
	if got, skipped := entries("a\nb\nc", 3); len(got) != 3 || skipped {
		t.Errorf("%+v, skipped %t", got, skipped)
	}
}

// No user of a key is one of another key's, or a key's owner, and none a user's chat that has its own terminal.
func TestUserOf(t *testing.T) {
	chat := ""
	owner := func(of engine.Owner, user string) engine.Owner {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("X-User-Id", user)
		r.Header.Set("X-Terminal-Context-Id", chat)
		return userOf(engine.Caller{Owner: of, Admin: true}, r).Owner
	}
	seen := map[engine.Owner]string{}
	for _, chat = range []string{"", "chat:1", "chat:2"} {
		for _, of := range []engine.Owner{"a", "b"} {
			for _, user := range []string{"", "a", "b", "../a", "A", "a/user/b", "achat:1"} {
				got := owner(of, user)
				if other, twice := seen[got]; twice {
					t.Errorf("%s: %q in %q is %s", of, user, chat, other)
				}
				seen[got] = string(of) + " " + user + " " + chat
			}
		}
	}
	if got := owner("", "a"); got != "" {
		t.Errorf("nobody is %s", got)
	}
}
