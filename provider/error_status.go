package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

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
