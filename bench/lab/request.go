package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// NewRequest returns a request. A body is nothing, JSON as a string, bytes, or a value of which JSON is made.
func NewRequest(ctx context.Context, method, url string, body any) (*http.Request, error) {
	kind, content := "application/json", io.Reader(http.NoBody)
	switch given := body.(type) {
	case nil:
		kind = ""
	case string:
		content = strings.NewReader(given)
	case []byte:
		kind, content = "application/octet-stream", bytes.NewReader(given)
	default:
		text, err := json.Marshal(given)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, content)
	if err == nil && kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return r, err
}

// Answer is a whole answer, and how long it took.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Took   time.Duration
}

// Send sends a request, and reads the answer into the memory of buffer, as far as that goes.
func Send(client *http.Client, r *http.Request, buffer []byte) (a Answer, err error) {
	began := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body := bytes.NewBuffer(buffer[:0])
	_, err = body.ReadFrom(resp.Body)
	return Answer{resp.StatusCode, resp.Header, body.Bytes(), time.Since(began)}, err
}
