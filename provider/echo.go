package provider

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
)

// silenced takes the credentials of a request out of its answer: a server that
// repeats them, as some do in an error, would have them shown, logged and kept.
// Each is replaced by as many asterisks, so that lengths stay what they are.
// Content of files is left alone.
type silenced struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s silenced) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	failed := resp.StatusCode/100 != 2
	secrets := slices.DeleteFunc(credentials(r), func(secret string) bool {
		return len(secret) < leastSecret || !failed && !inText(secret)
	})
	if len(secrets) == 0 || !failed && isContent(r) {
		return resp, nil
	}
	for _, values := range resp.Header {
		for i := range values {
			values[i] = string(mask([]byte(values[i]), secrets))
		}
	}
	resp.Body = &masked{body: resp.Body, secrets: secrets}
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (s silenced) CloseIdleConnections() {
	if c, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// credentials are what a request proves with who sends it.
func credentials(r *http.Request) (all []string) {
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		value := r.Header.Get(name)
		if _, token, ok := strings.Cut(value, " "); ok {
			value = token
		}
		all = append(all, strings.TrimSpace(value))
	}
	return append(all, r.URL.Query().Get("key"))
}

// mask puts asterisks in the place of secrets.
func mask(text []byte, secrets []string) []byte {
	for _, s := range secrets {
		if bytes.Contains(text, []byte(s)) {
			text = bytes.ReplaceAll(text, []byte(s), bytes.Repeat([]byte("*"), len(s)))
		}
	}
	return text
}

// masked is a body without secrets. It holds back what may be the beginning of
// one, and no more.
type masked struct {
	body    io.ReadCloser
	secrets []string
	ready   []byte // masked
	held    []byte // may be the beginning of a secret
	end     error
	buffer  []byte
}

// Read implements io.Reader.
func (m *masked) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(m.ready) == 0 {
		if m.end != nil {
			return 0, m.end
		}
		if m.buffer == nil {
			m.buffer = make([]byte, 8<<10)
		}
		n, err := m.body.Read(m.buffer)
		m.take(m.buffer[:n], err)
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

func (m *masked) take(more []byte, err error) {
	text := mask(append(m.held, more...), m.secrets)
	cut := len(text)
	if err == nil {
		for _, s := range m.secrets {
			for n := min(len(s)-1, len(text)); n > 0; n-- {
				if bytes.HasSuffix(text, []byte(s[:n])) {
					cut = min(cut, len(text)-n)
					break
				}
			}
		}
	}
	m.ready, m.held, m.end = text[:cut:cut], slices.Clone(text[cut:]), err
}

// Close implements io.Closer.
func (m *masked) Close() error { return m.body.Close() }
