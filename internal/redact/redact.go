// Package redact removes secrets from texts: known ones, and whatever has the form of a
// provider's key.
package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Removed replaces a key in a text.
const Removed = "[key removed]"

// keyForms matches the keys of providers, of services with OpenAI's API, and of Airlock.
var keyForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`\b(?:sk-|sess-|xai-|gsk_|hf_|nvapi-|pplx-|r8_|gh[opsu]_|ghr_|github_pat_|ak_|AIza|AQ\.)[A-Za-z0-9_-]{16,}`)
})

// keyStart matches the end of a text that may be the beginning of such a key.
var keyStart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`\b(?:s|se|ses|sess|sk|x|xa|xai|g|gs|gsk|h|hf|n|nv|nva|nvap|nvapi|p|pp|ppl|pplx|r|r8|gh|gh[oprsu]|gi|git|gith|githu|github|github_|github_p|github_pa|github_pat|a|ak|A|AI|AIz|AQ|` +
			`(?:sk-|sess-|xai-|gsk_|hf_|nvapi-|pplx-|r8_|gh[opsu]_|ghr_|github_pat_|ak_|AIza|AQ\.)[A-Za-z0-9_-]*)$`)
})

// Keys removes the keys of providers from a text. A key has a digit or a capital
// letter, so that words such as sk-learn-contrib-packages stay.
func Keys(text string) string {
	return keyForms().ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "AIza") || strings.HasPrefix(found, "AQ.") ||
			strings.ContainsAny(found, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return Removed
		}
		return found
	})
}

// Redactor removes secrets from texts that are shown, logged or stored: known secrets and
// the keys of providers. A nil Redactor knows no secrets.
type Redactor struct {
	mu      sync.RWMutex
	secrets []string // the longest first
}

// The least lengths of a secret. Users give local servers keys such as "ollama" and
// "lm-studio", which are words.
const (
	LeastSecret = 6  // in an error
	leastInText = 20 // in other texts, where it has no digit
)

// New returns a Redactor with these secrets.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	r.Learn(secrets...)
	return r
}

// Learn adds secrets.
func (r *Redactor) Learn(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = slices.Clone(r.secrets)
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= LeastSecret && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// known returns the present secrets.
func (r *Redactor) known() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.secrets
}

// Error redacts the text of an error.
func (r *Redactor) Error(text string) string {
	return Keys(r.replace(text, func(string) bool { return true }))
}

// Text redacts any other text.
func (r *Redactor) Text(text string) string { return Keys(r.Known(text)) }

// Known redacts only the known secrets, for texts that a provider needs unchanged.
func (r *Redactor) Known(text string) string { return r.replace(text, InText) }

// InText reports whether a secret cannot be an ordinary word.
func InText(secret string) bool {
	return len(secret) >= leastInText || len(secret) >= 8 && strings.ContainsAny(secret, "0123456789")
}

func (r *Redactor) replace(text string, which func(string) bool) string {
	if r == nil {
		return text
	}
	for _, s := range r.known() {
		if which(s) {
			text = strings.ReplaceAll(text, s, Removed)
		}
	}
	return text
}

// Stream redacts a text in pieces. A secret may span several pieces.
type Stream struct {
	Redactor *Redactor
	held     string
}

// maxHeld bounds the length of a key.
const maxHeld = 1024

// Add adds a piece and returns the text that can be shown.
func (s *Stream) Add(piece string) string {
	s.held += piece
	cut := s.cut()
	if len(s.held)-cut > maxHeld {
		cut = len(s.held)
	}
	ready := s.held[:cut]
	s.held = s.held[cut:]
	return s.Redactor.Text(ready)
}

// Rest returns the rest at the end of a text.
func (s *Stream) Rest() string {
	rest := s.held
	s.held = ""
	return s.Redactor.Text(rest)
}

// cut returns the offset from which on held may be the beginning of a secret.
func (s *Stream) cut() int {
	cut := len(s.held)
	if at := keyStart().FindStringIndex(s.held[max(0, len(s.held)-maxHeld-1):]); at != nil {
		cut = max(0, len(s.held)-maxHeld-1) + at[0]
	}
	if s.Redactor == nil {
		return cut
	}
	return min(cut, OpenSecret(s.held, s.Redactor.known()))
}

// OpenSecret returns the offset in a text from which on it may be the beginning of a secret.
func OpenSecret(text string, secrets []string) int {
	cut := len(text)
	for _, s := range secrets {
		for n := min(len(s)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, s[:n]) {
				cut = min(cut, len(text)-n)
				break
			}
		}
	}
	return cut
}
