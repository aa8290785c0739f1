package conversation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/outputrules"
	"github.com/airlock-run/airlock/internal/redact"
)

// relayed redacts the events of the provider. Texts come in pieces: a possible beginning of
// a secret is held back until the next piece.
type relayed struct {
	redactor *redact.Redactor
	streams  []*pieces
}

// pieces is a text that comes in pieces.
type pieces struct {
	redact.Stream
	make func(text string) provider.Event
	key  [3]string // identifies the text
}

// pass returns the events that can be passed on now, in their order: a text ends where
// something else begins.
func (r *relayed) pass(e provider.Event) []provider.Event {
	if _, more := e.(provider.TextDelta); more {
		return append(r.rest(func(p *pieces) bool { return p.key[0] == "code" }), r.redact(e)...)
	}
	return append(r.rest(func(p *pieces) bool { return p.key[0] == "text" }), r.redact(e)...)
}

func (r *relayed) redact(e provider.Event) []provider.Event {
	switch e := e.(type) {
	case provider.TextDelta:
		return r.piece([3]string{"text"}, e.Text, func(text string) provider.Event { return provider.TextDelta{Text: text} })
	case provider.CodeDelta:
		return r.piece([3]string{"code", e.StepID}, e.Code, func(text string) provider.Event {
			return provider.CodeDelta{StepID: e.StepID, Language: e.Language, Code: text}
		})
	case provider.OutputDelta:
		return r.piece([3]string{"output", e.StepID, e.Stream}, e.Data, func(text string) provider.Event {
			return provider.OutputDelta{StepID: e.StepID, Stream: e.Stream, Data: text}
		})
	case provider.StepStarted:
		e.Step = redactStep(r.redactor, e.Step)
		return append(r.rest(func(p *pieces) bool { return p.key[1] == e.Step.ID && p.key[0] == "code" }), e)
	case provider.StepDone:
		e.Step = redactStep(r.redactor, e.Step)
		return append(r.rest(func(p *pieces) bool { return p.key[1] == e.Step.ID }), e)
	case provider.Notice:
		return []provider.Event{provider.Notice{Text: r.redactor.Error(e.Text)}}
	}
	return []provider.Event{e}
}

func (r *relayed) piece(key [3]string, text string, make func(string) provider.Event) []provider.Event {
	i := slices.IndexFunc(r.streams, func(p *pieces) bool { return p.key == key })
	if i < 0 {
		r.streams = append(r.streams, &pieces{Stream: redact.Stream{Redactor: r.redactor}, make: make,
			key: key})
		i = len(r.streams) - 1
	}
	if ready := r.streams[i].Add(text); ready != "" {
		return []provider.Event{make(ready)}
	}
	return nil
}

// rest ends texts, and returns what was held back of them.
func (r *relayed) rest(which func(*pieces) bool) (all []provider.Event) {
	r.streams = slices.DeleteFunc(r.streams, func(p *pieces) bool {
		if !which(p) {
			return false
		}
		if text := p.Rest(); text != "" {
			all = append(all, p.make(text))
		}
		return true
	})
	return all
}

func redactStep(r *redact.Redactor, s provider.Step) provider.Step {
	s.Code, s.Stdout, s.Stderr, s.Detail = r.Text(s.Code), r.Text(s.Stdout), r.Text(s.Stderr), r.Error(s.Detail)
	return s
}

func redactSteps(r *redact.Redactor, steps []provider.Step) []provider.Step {
	list := make([]provider.Step, len(steps))
	for i, s := range steps {
		list[i] = redactStep(r, s)
	}
	return list
}

// redactProblem redacts the texts of an error.
func redactProblem(r *redact.Redactor, p *Problem) *Problem {
	if p != nil {
		p.Message, p.Hint = r.Error(p.Message), r.Error(p.Hint)
	}
	return p
}

// redactExchange removes known secrets from an exchange. Text that only looks like a key
// stays: it may be a part of a signature.
func redactExchange(r *redact.Redactor, turns []provider.Turn) []provider.Turn {
	turns = slices.Clone(turns)
	for i := range turns {
		turns[i].Text = r.Known(turns[i].Text)
		if len(turns[i].Raw) > 0 {
			turns[i].Raw = json.RawMessage(r.Known(string(turns[i].Raw)))
		}
	}
	return turns
}

// Sensitivity returns why the file may contain a secret, or "". Such a file leaves the
// machine only with the user's consent.
func (f File) Sensitivity() string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(f.Path, `\`, "/")))
	if secretName(name) {
		return "files of this name hold secrets"
	}
	content, err := f.Open()
	if err != nil {
		return ""
	}
	defer content.Close()
	head, err := io.ReadAll(io.LimitReader(content, 64<<10))
	if err != nil {
		return ""
	}
	for _, mark := range secretMarks() {
		if bytes.Contains(head, []byte(mark)) {
			return "it seems to hold a key"
		}
	}
	return ""
}

func secretName(name string) bool {
	return slices.ContainsFunc([]string{"*.{pem,key,p12,pfx,jks,keystore,kdbx}", ".env", ".env.*",
		"id_{rsa,ed25519,ecdsa}*", ".npmrc", ".pypirc", ".netrc", ".pgpass", ".htpasswd", ".git-credentials", "kubeconfig",
		"credentials", "credentials.json", "secrets.{yaml,yml,json}"},
		func(pattern string) bool { return outputrules.MatchPath(pattern, name) })
}

// secretMarks returns the beginnings of the most common keys.
func secretMarks() []string {
	return []string{"-----BEGIN PRIVATE KEY", "-----BEGIN RSA PRIVATE KEY", "-----BEGIN OPENSSH PRIVATE KEY",
		"-----BEGIN EC PRIVATE KEY",
		"AKIA", "ghp_", "github_pat_", "sk-ant-", "sk-proj-", "xai-", "AIzaSy", "xoxb-"}
}

// sumOf returns the SHA-256 of a reader's content.
func sumOf(r io.Reader) (string, error) {
	s := sha256.New()
	if _, err := io.Copy(s, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(s.Sum(nil)), nil
}

// sameAs reports whether a file of an earlier turn has not changed.
func sameAs(f File) bool {
	content, err := f.Open()
	if err != nil {
		return false
	}
	defer content.Close()
	now, err := sumOf(content)
	return err == nil && now == f.was
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(0, n))) }
