package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// A secret is put into the headers of requests to its hosts, by HTTPS alone, and taken out of their answers: a
// server that returns the request shows the placeholder. A server that returns the value in a form of its own,
// in pieces, or in the frames of a WebSocket is not seen through.

// secretsFor returns the secrets of the run for a target.
func (r *run) secretsFor(t target) (list []engine.RevealedSecret) {
	for _, s := range r.secrets {
		if slices.Contains(s.Hosts, t.String()) {
			list = append(list, s)
		}
	}
	return list
}

// mostHeaders bounds the headers of a request with the values of secrets in it: a value is longer than its placeholder.
const mostHeaders = 128 << 10

// sealed is a request to a host that has secrets, and its answer.
type sealed struct {
	secrets []engine.RevealedSecret
	needles []needle
}

// needle is what is replaced in an answer.
type needle struct {
	text, shown []byte
	fails       []int32 // of KMP: the length of the longest border of each prefix of text
}

func newNeedle(text, shown string) needle {
	n := needle{[]byte(text), []byte(shown), make([]int32, len(text))}
	for i, k := 1, int32(0); i < len(text); i++ {
		for k > 0 && text[i] != text[k] {
			k = n.fails[k-1]
		}
		if text[i] == text[k] {
			k++
		}
		n.fails[i] = k
	}
	return n
}

// seal puts the values of secrets in place of their placeholders in the headers of a request; nil: there are none.
func (r *run) seal(h http.Header, t target, https bool) (*sealed, error) {
	if !https {
		return nil, nil
	}
	s := &sealed{secrets: r.secretsFor(t)}
	if len(s.secrets) == 0 {
		return nil, nil
	}
	for i := range s.secrets {
		s.needles = append(s.needles, r.needles[s.secrets[i].Placeholder]...)
	}
	size := 0
	for _, values := range h {
		for i, value := range values {
			if size += s.size(value); size > mostHeaders {
				return nil, refuse("the headers are too long with the secrets in them")
			}
			values[i] = s.fill(value)
		}
	}
	return s, nil
}

// size bounds the length of a header with the values of secrets in it.
func (s *sealed) size(value string) int {
	size := len(value)
	plain := basicOf(value) + value
	for i := range s.secrets {
		size += 2 * strings.Count(plain, s.secrets[i].Placeholder) * len(s.secrets[i].Value)
	}
	return size
}

const basic = "Basic "

// basicOf returns the decoded credentials of a header with the scheme Basic.
func basicOf(value string) string {
	if len(value) < len(basic) || !strings.EqualFold(value[:len(basic)], basic) {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value[len(basic):]))
	if err != nil {
		return ""
	}
	return string(text)
}

// fill replaces the placeholders in the value of a header.
func (s *sealed) fill(value string) string {
	if credentials := basicOf(value); strings.Contains(credentials, engine.PlaceholderPrefix) {
		if filled := s.replace(credentials); filled != credentials {
			sent := base64.StdEncoding.EncodeToString([]byte(filled))
			s.needles = append(s.needles, newNeedle(sent, strings.TrimSpace(value[len(basic):])))
			return basic + sent
		}
	}
	return s.replace(value)
}

func (s *sealed) replace(text string) string {
	if !strings.Contains(text, engine.PlaceholderPrefix) {
		return text
	}
	for i := range s.secrets {
		text = strings.ReplaceAll(text, s.secrets[i].Placeholder, s.secrets[i].Value)
	}
	return text
}

// set sets the headers of the secrets that have one, and asks for an answer that can be read: as it is, and whole,
// since the parts of a value are not found.
func (s *sealed) set(h http.Header) {
	for i := range s.secrets {
		if header := s.secrets[i].Header; header != "" {
			name, template := engine.SplitSecretHeader(header)
			h.Set(name, strings.Replace(template, engine.SecretMark, s.secrets[i].Value, 1))
		}
	}
	h.Set("Accept-Encoding", "identity")
	h.Del("Range")
	h.Del("If-Range")
}

// formsOf returns what stands for a secret in an answer: the value as it is, in JSON, in a URL, and in each place of
// base64, whose first and last letter depend on what stands beside it.
func formsOf(secret engine.RevealedSecret) (list []needle) {
	text, err := json.Marshal(secret.Value)
	quoted := strings.Trim(string(text), `"`)
	if err != nil {
		quoted = secret.Value
	}
	forms := []string{secret.Value, quoted, strings.ReplaceAll(quoted, "/", `\/`), url.QueryEscape(secret.Value),
		url.PathEscape(secret.Value)}
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(secret.Value) == nil {
		forms = append(forms, strings.Trim(strings.TrimSpace(plain.String()), `"`))
	}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + secret.Value))
		from := (before*8 + 5) / 6
		encoded = encoded[from : (before+len(secret.Value))*8/6]
		forms = append(forms, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	for i, form := range forms {
		if !slices.Contains(forms[:i], form) {
			list = append(list, newNeedle(form, secret.Placeholder))
		}
	}
	return list
}

// cleanHeader removes the values of secrets from the headers of an answer.
func (s *sealed) cleanHeader(h http.Header) {
	for name, values := range h {
		if s.inName(name) {
			delete(h, name)
			continue
		}
		for i, value := range values {
			out, _ := s.scrub(nil, []byte(value), true)
			values[i] = string(out)
		}
	}
}

// inName reports whether a value is in the name of a header, which is in another case by now.
func (s *sealed) inName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(s.needles, func(n needle) bool {
		return len(n.text) <= len(name) && strings.Contains(name, strings.ToLower(string(n.text)))
	})
}

// clean removes the values of secrets from an answer.
func (s *sealed) clean(answer *http.Response) error {
	s.cleanHeader(answer.Header)
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	if coding := answer.Header.Values("Content-Encoding"); len(coding) > 0 &&
		!strings.EqualFold(strings.Join(coding, ","), "identity") {
		return refuse("the answer is encoded as %.40q though identity was asked for: a secret of this run could be in it",
			strings.Join(coding, ","))
	}
	if answer.Request.Method == http.MethodHead || answer.Body == nil || answer.Body == http.NoBody {
		return nil
	}
	answer.Header.Del("Content-Length")
	answer.ContentLength = -1
	answer.Body = &cleanBody{body: answer.Body, sealed: s, end: func() { s.cleanHeader(answer.Trailer) }}
	return nil
}

// scrub appends text to out without the values of secrets. It returns the end of text that may be the beginning of
// one, unless the text is whole. A value that is found begins before that end.
func (s *sealed) scrub(out, text []byte, whole bool) (cleaned, rest []byte) {
	next := make([]int, len(s.needles)) // where each is found next, from the beginning of text; len(text): nowhere
	for i := range next {
		next[i] = -1
	}
	open := len(text)
	if !whole {
		open = s.open(text)
	}
	for at := 0; ; {
		if at > open {
			open = at + s.open(text[at:])
		}
		first, found := len(text), -1
		for i := range s.needles {
			if next[i] < at {
				if next[i] = bytes.Index(text[at:], s.needles[i].text); next[i] < 0 {
					next[i] = len(text)
				} else {
					next[i] += at
				}
			}
			longer := found >= 0 && next[i] == first && len(s.needles[i].text) > len(s.needles[found].text)
			if next[i] < first || longer {
				first, found = next[i], i
			}
		}
		if found < 0 || first >= open {
			return append(out, text[at:open]...), text[open:]
		}
		out = append(append(out, text[at:first]...), s.needles[found].shown...)
		at = first + len(s.needles[found].text)
	}
}

// open returns the offset from which on a text may be the beginning of a needle.
func (s *sealed) open(text []byte) int {
	longest := 0
	for i := range s.needles {
		n, k := &s.needles[i], int32(0)
		for _, c := range text[max(0, len(text)-len(n.text)+1):] {
			for k > 0 && c != n.text[k] {
				k = n.fails[k-1]
			}
			if c == n.text[k] {
				k++
			}
		}
		longest = max(longest, int(k))
	}
	return len(text) - longest
}

// last appends the end of an answer to out, as scrub returns it. Much of a value counts as the value.
func (s *sealed) last(out, rest []byte) []byte {
	const much = 16
	for i := range s.needles {
		n := &s.needles[i]
		if len(rest) >= min(much, (len(n.text)+1)/2) && bytes.HasPrefix(n.text, rest) {
			return append(out, n.shown...)
		}
	}
	out, _ = s.scrub(out, rest, true)
	return out
}

// cleanBody is the body of an answer without the values of secrets.
type cleanBody struct {
	body   io.ReadCloser
	sealed *sealed
	end    func() // after the last byte, when the trailer has come

	rest  []byte // that may be the beginning of a value
	ready []byte
	err   error
}

func (c *cleanBody) Read(b []byte) (int, error) {
	for len(c.ready) == 0 && c.err == nil {
		buffer := buffers.Get().(*[relaySize]byte)
		n, err := c.body.Read(buffer[:])
		text := slices.Concat(c.rest, buffer[:n])
		c.err = err
		c.ready, c.rest = c.sealed.scrub(c.ready[:0], text, false)
		c.rest = bytes.Clone(c.rest)
		buffers.Put(buffer)
		if errors.Is(err, io.EOF) {
			c.ready = c.sealed.last(c.ready, c.rest)
			c.end()
		}
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	if len(c.ready) > 0 || n > 0 && c.err == nil {
		return n, nil
	}
	return n, c.err
}

func (c *cleanBody) Close() error { return c.body.Close() }

// earlyWriter cleans the headers of answers that come before the answer, such as 103 Early Hints.
type earlyWriter struct {
	http.ResponseWriter
	sealed *sealed
}

func (w *earlyWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		w.sealed.cleanHeader(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the rest.
func (w *earlyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
