package modelhttp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/redact"
)

// layer is the part that the transports of this package share.
type layer struct{ next http.RoundTripper }

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (l layer) CloseIdleConnections() {
	if c, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// maskTransport replaces the credentials of a request in its answer. Some servers repeat
// them in an error, which is then shown, logged and stored. Each is replaced by as many
// asterisks, so that lengths stay the same. Content of files is not changed.
type maskTransport struct{ layer }

func (s maskTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	failed := resp.StatusCode/100 != 2
	secrets := slices.DeleteFunc(credentials(r), func(secret string) bool {
		return len(secret) < redact.LeastSecret || !failed && !redact.InText(secret)
	})
	if len(secrets) == 0 || !failed && isContent(r) {
		return resp, nil
	}
	for _, values := range resp.Header {
		for i := range values {
			values[i] = string(mask([]byte(values[i]), secrets))
		}
	}
	resp.Body = &maskedBody{ReadCloser: resp.Body, secrets: secrets}
	return resp, nil
}

// credentials returns the values in a request that authenticate its sender.
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

// mask replaces secrets by asterisks.
func mask(text []byte, secrets []string) []byte {
	for _, s := range secrets {
		if bytes.Contains(text, []byte(s)) {
			text = bytes.ReplaceAll(text, []byte(s), bytes.Repeat([]byte("*"), len(s)))
		}
	}
	return text
}

// maskedBody is a body without secrets. It holds back no more than what may be the
// beginning of a secret.
type maskedBody struct {
	io.ReadCloser
	secrets []string
	ready   []byte // masked
	held    []byte // may be the beginning of a secret
	end     error
	buffer  []byte
}

func (m *maskedBody) Read(p []byte) (int, error) {
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
		n, err := m.ReadCloser.Read(m.buffer)
		m.maskNext(m.buffer[:n], err)
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

func (m *maskedBody) maskNext(more []byte, err error) {
	text := mask(append(m.held, more...), m.secrets)
	cut := len(text)
	if err == nil {
		cut = redact.OpenSecret(string(text), m.secrets)
	}
	m.ready, m.held, m.end = text[:cut:cut], slices.Clone(text[cut:]), err
}

// errorStatusTransport turns an error body with status 200 into a 502, which is retried:
// some gateways pass on a provider's 404 as a 200 (LiteLLM PR 37737), and a list read from
// such a body is empty. It does not look at the content of files, which may look the same;
// the Collector checks it.
type errorStatusTransport struct{ layer }

const errorPeek = 4096

func (h errorStatusTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 2 || !strings.Contains(resp.Header.Get("Content-Type"), "json") ||
		isContent(r) {
		return resp, err
	}
	peek := bufio.NewReaderSize(resp.Body, errorPeek)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{peek, resp.Body}
	if head, err := peek.Peek(errorPeek); err == io.EOF { // all of it: errors are short
		if isError(head) {
			resp.Body.Close()
			// As text, lest the error be parsed: it may say that a file does not exist.
			text := "an error came as a success: " + string(head)
			resp.StatusCode, resp.Status = http.StatusBadGateway, http.StatusText(http.StatusBadGateway)
			resp.Header = resp.Header.Clone()
			resp.Header.Set("Content-Type", "text/plain")
			resp.Header.Del("Content-Length")
			resp.ContentLength, resp.Body = int64(len(text)), io.NopCloser(strings.NewReader(text))
		}
	}
	return resp, nil
}

// isContent reports whether a request is for the bytes of a file.
func isContent(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/content") || strings.HasSuffix(r.URL.Path, ":download") ||
		r.URL.Query().Get("alt") == "media"
}

// isError recognises an error body. A failed response of OpenAI has an error and an id.
func isError(body []byte) bool {
	var v map[string]json.RawMessage
	if json.Unmarshal(body, &v) != nil {
		return false
	}
	e, has := v["error"]
	_, id := v["id"]
	_, name := v["name"]
	return has && !id && !name && !bytes.Equal(e, []byte("null")) && !bytes.Equal(e, []byte(`""`))
}
