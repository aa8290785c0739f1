package provider

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Removed stands where a key was taken out of a text.
const Removed = "[key removed]"

// keyForms match what the keys of providers, of services that speak OpenAI's API,
// and of Airlock look like.
var keyForms = regexp.MustCompile(
	`\b(?:sk-|sess-|xai-|gsk_|hf_|nvapi-|pplx-|r8_|gh[opsu]_|ghr_|github_pat_|ak_|AIza|AQ\.)[A-Za-z0-9_-]{16,}`)

// keyStart matches the end of a text in which such a key may have begun.
var keyStart = regexp.MustCompile(
	`\b(?:s|se|ses|sess|sk|x|xa|xai|g|gs|gsk|h|hf|n|nv|nva|nvap|nvapi|p|pp|ppl|pplx|r|r8|gh|gh[oprsu]|gi|git|gith|githu|github|github_|github_p|github_pa|github_pat|a|ak|A|AI|AIz|AQ|` +
		`(?:sk-|sess-|xai-|gsk_|hf_|nvapi-|pplx-|r8_|gh[opsu]_|ghr_|github_pat_|ak_|AIza|AQ\.)[A-Za-z0-9_-]*)$`)

// RedactKeys takes out of a text whatever looks like a key of a provider. Words
// that only begin like one, such as sk-learn-contrib-packages, stay: a key has a
// digit or a capital letter.
func RedactKeys(text string) string {
	return keyForms.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "AIza") || strings.HasPrefix(found, "AQ.") ||
			strings.ContainsAny(found, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return Removed
		}
		return found
	})
}

// Redactor takes secrets out of what is shown, logged and kept: those that it
// knows, and whatever looks like a key of a provider. A nil one knows none.
type Redactor struct {
	mu      sync.RWMutex
	secrets []string // the longest first
}

// Bounds of what counts as a secret. People give servers of their own keys such
// as "ollama" and "lm-studio", which are words.
const (
	leastSecret = 6  // in an error
	leastInText = 20 // in other texts, where it has no digit
)

// NewRedactor returns one that knows these secrets.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	r.Learn(secrets...)
	return r
}

// Learn adds secrets to those that r knows.
func (r *Redactor) Learn(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = slices.Clone(r.secrets)
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= leastSecret && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// known are the secrets as they are now.
func (r *Redactor) known() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.secrets
}

// Error redacts the words of an error.
func (r *Redactor) Error(text string) string {
	return RedactKeys(r.replace(text, func(string) bool { return true }))
}

// Text redacts any other text.
func (r *Redactor) Text(text string) string { return RedactKeys(r.Known(text)) }

// Known redacts only the secrets that r knows, for what a provider wants back as
// it was.
func (r *Redactor) Known(text string) string { return r.replace(text, inText) }

// inText reports whether a secret cannot be taken for a word.
func inText(secret string) bool {
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

// RedactStream redacts a text that comes in pieces, between any two of which a
// secret may be divided.
type RedactStream struct {
	Redactor *Redactor
	held     string
}

// maxHeld is more than a key is long.
const maxHeld = 1024

// Add takes a piece, and returns what can be shown now.
func (s *RedactStream) Add(piece string) string {
	s.held += piece
	cut := s.cut()
	if len(s.held)-cut > maxHeld {
		cut = len(s.held)
	}
	ready := s.held[:cut]
	s.held = s.held[cut:]
	return s.Redactor.Text(ready)
}

// Rest returns what was held back, at the end of a text.
func (s *RedactStream) Rest() string {
	rest := s.held
	s.held = ""
	return s.Redactor.Text(rest)
}

// cut is where in what is held a secret may begin that is not whole yet.
func (s *RedactStream) cut() int {
	cut := len(s.held)
	if at := keyStart.FindStringIndex(s.held[max(0, len(s.held)-maxHeld-1):]); at != nil {
		cut = max(0, len(s.held)-maxHeld-1) + at[0]
	}
	if s.Redactor == nil {
		return cut
	}
	return min(cut, openSecret(s.held, s.Redactor.known()))
}

// openSecret returns the offset in a text from which on it may be the beginning of a secret.
func openSecret(text string, secrets []string) int {
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
