package exchange_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

type answer string

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(iotest.HalfReader(strings.NewReader(string(a))))}, nil
}

func TestWithoutRepeats(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"a number again, later": {"data: {\"sequence_number\":1,\"d\":\"a\"}\n\ndata: {\"sequence_number\":2}\n\n" +
			"data: {\"sequence_number\":1,\"d\":\"a\"}\n\n",
			"data: {\"sequence_number\":1,\"d\":\"a\"}\n\ndata: {\"sequence_number\":2}\n\n"},
		"numbers begin again": {"data: {\"sequence_number\":1,\"d\":\"a\"}\n\ndata: {\"sequence_number\":1,\"d\":\"b\"}\n\n",
			"data: {\"sequence_number\":1,\"d\":\"a\"}\n\ndata: {\"sequence_number\":1,\"d\":\"b\"}\n\n"},
		"all numbers 0": {"data: {\"sequence_number\":0}\n\n" +
			strings.Repeat("data: {\"sequence_number\":0,\"d\":\"a\"}\n\n", 3),
			"data: {\"sequence_number\":0}\n\n" + strings.Repeat("data: {\"sequence_number\":0,\"d\":\"a\"}\n\n", 3)},
		"equal pieces": {"data: start\n\ndata: no\n\ndata: no\n\ndata: no\n\n",
			"data: start\n\ndata: no\n\ndata: no\n\ndata: no\n\n"},
		"pairs": {"event: e\r\ndata: start\r\n\r\nevent: e\r\ndata: start\r\n\r\n" + strings.Repeat("data: no\n\n", 4),
			"event: e\r\ndata: start\r\n\r\n" + strings.Repeat("data: no\n\n", 2)},
		"pairs that end": {"data: start\n\ndata: start\n\ndata: a\n\ndata: b\n\ndata: b\n\n",
			"data: start\n\ndata: a\n\ndata: b\n\ndata: b\n\n"},
		"comments": {": wait\n\n: wait\n\ndata: start\n\n: wait\n\n: wait\n\ndata: no\n\ndata: no\n\n",
			": wait\n\n: wait\n\ndata: start\n\n: wait\n\n: wait\n\ndata: no\n\ndata: no\n\n"},
		"cut off": {"data: start\n\ndata: sta", "data: start\n\ndata: sta"},
	} {
		client := exchange.WithoutRepeats(&http.Client{Transport: answer(c.sent)})
		resp, err := client.Get("http://localhost/")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if diff := cmp.Diff(c.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
