package workspace

import (
	"strings"
	"testing"
)

// TestParsePolicyRefuses has policies with a mistake, each of which would leave a file to a
// later rule that allows it.
func TestParsePolicyRefuses(t *testing.T) {
	for rules, want := range map[string]string{
		`{"glob":"secrets/{key.txt,b","decision":"deny"},{"decision":"allow"}`: "malformed",
		`{"glob":"secrets/[*","decision":"deny"},{"decision":"allow"}`:         "malformed",
		`{"ops":["updat"],"decision":"deny"},{"decision":"allow"}`:             "updat",
		`{"glob":"/secrets/**","decision":"deny"},{"decision":"allow"}`:        "matches no file",
		`{"glob":"./secrets/**","decision":"deny"},{"decision":"allow"}`:       "matches no file",
		`{"glob":"a/../secrets/**","decision":"deny"},{"decision":"allow"}`:    "matches no file",
		`{"glob":"secrets/","decision":"deny"},{"decision":"allow"}`:           "matches no file",
		`{"max_bytes":-1,"decision":"allow"}`:                                  "max_bytes",
		`{"decision":"allow"},{"glob":"secrets/**","decision":"deny"}`:         "never reached",
		`{"decision":"alow"}`:                   "alow",
		`{"glob":"secrets/**","choice":"deny"}`: "choice",
	} {
		if _, err := ParsePolicy([]byte(`{"rules":[` + rules + `]}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", rules, err, want)
		}
	}
	if _, err := ParsePolicy([]byte(`{"rules":[{"glob":"{a,b}/**/*.md","ops":["create"],"decision":"allow"},` +
		`{"glob":"*.go","decision":"deny"},{"decision":"hold"}]}`)); err != nil {
		t.Error(err)
	}
}

// TestPolicyFailsClosed uses policies with a mistake that were not parsed.
func TestPolicyFailsClosed(t *testing.T) {
	s := newSite(t, nil)
	p := s.plan(write("secrets/key.txt", "x\n"))
	for name, policy := range map[string]Policy{
		"deny":  {Rules: []PolicyRule{{Glob: "secrets/{key.txt,b", Decision: Deny}, {Decision: Allow}}},
		"hold":  {Rules: []PolicyRule{{Ops: []Op{"creat"}, Decision: Hold}, {Decision: Allow}}},
		"allow": {Rules: []PolicyRule{{Glob: "secrets/[*", Decision: Allow}}},
	} {
		if a, _ := p.ApproveBy(policy); len(a.Files) > 0 {
			t.Errorf("a rule with a mistake that is to %s lets a file be written", name)
		}
	}
}
