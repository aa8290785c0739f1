package httpd

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestStrictHeaders sends requests byte for byte, in one piece and in many, and checks the
// returned statuses.
func TestStrictHeaders(t *testing.T) {
	_, address := start(t, Options{Mounts: []Mount{{Prefix: "/api/v1", Public: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		})}}})
	const get, post = "GET /api/v1/x HTTP/1.1\r\nHost: localhost\r\n", "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct {
		name, sent string
		want       []int
	}{
		{"plain", get + "\r\n", []int{200}},
		{"three in a row", get + "\r\n" + get + "X: a\r\n\r\n" + get + "\r\n", []int{200, 200, 200}},
		{"a body", post + "Content-Length: 6\r\n\r\na\n b\n\t" + get + "\r\n", []int{200, 200}},
		{"chunks", post + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\na\n \r\nA\r\n0123456\n89\r\n0\r\n\r\n" + get + "\r\n",
			[]int{200}},
		{"a long line", get + "X: " + strings.Repeat("a", 3000) + "\r\n\r\n" + get + "\r\n", []int{200, 200}},
		{"bare LF after a field", get + "X: a\nY: b\r\n\r\n", []int{400}},
		{"bare LF after the request line", "GET /api/v1/x HTTP/1.1\nHost: localhost\r\n\r\n", []int{400}},
		{"bare LF at the end", get + "\n", []int{400}},
		{"all bare", strings.ReplaceAll(get+"\r\n", "\r", ""), []int{400}},
		{"folded by a space", get + "X: a\r\n b\r\n\r\n", []int{400}},
		{"folded by a tab", get + "X: a\r\n\tContent-Length: 3\r\n\r\n", []int{400}},
		{"folded at once", "GET /api/v1/x HTTP/1.1\r\n Host: localhost\r\n\r\n", []int{400}},
		{"the second is folded", get + "\r\n" + get + "X: a\r\n b\r\n\r\n", []int{200, 400}},
		{"folded after a body", post + "Content-Length: 2\r\n\r\nab" + get + "X: a\r\n b\r\n\r\n", []int{200, 400}},
		{"a long Content-Length", post + "Content-Length:" + strings.Repeat(" ", 300) + "2\r\n\r\nab", []int{400}},
		{"an upgrade that is refused", get + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + get + "X: a\r\n b\r\n\r\n",
			[]int{200}},
		{"an upgrade to nothing", get + "Upgrade:\r\n\r\n" + get + "X: a\r\n b\r\n\r\n", []int{200}},
		{"an upgrade of what is no mount's", "GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\n\r\n" + get +
			"\r\n", []int{200}},
		{"chunks for what is no mount's",
			"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get + "\r\n",
			[]int{200}},
		{"no Content-Length", post + "Content-Length: x\r\n\r\n", []int{400}},
	} {
		for _, pieces := range []bool{false, true} {
			if got := statuses(t, address, c.sent, pieces, len(c.want)); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s, in pieces %v: %v, want %v", c.name, pieces, got, c.want)
			}
		}
	}
}

// A connection with another protocol is no longer checked: its bytes may have any form.
func TestUpgradedConnection(t *testing.T) {
	_, address := start(t, Options{Mounts: []Mount{{Prefix: "/api/v1", Public: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, both, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			both.Flush()
			_, _ = io.Copy(conn, both)
		})}}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	const odd = "a\nb\n c\r\n d\x00\x01\n\n"
	fmt.Fprint(conn, "GET /api/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from := bufio.NewReader(conn)
	resp, err := http.ReadResponse(from, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	for range 3 {
		got := make([]byte, len(odd))
		fmt.Fprint(conn, odd)
		if _, err := io.ReadFull(from, got); err != nil || string(got) != odd {
			t.Fatalf("%q came back: %v", got, err)
		}
	}
}

// statuses sends text on a new connection and reads as many answers, fewer if the
// connection ends.
func statuses(t *testing.T, address, text string, pieces bool, answers int) (got []int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		for text != "" {
			n := len(text)
			if pieces {
				n = min(n, 1+rand.IntN(7))
			}
			if _, err := io.WriteString(conn, text[:n]); err != nil {
				return // the server has answered and closed
			}
			text = text[n:]
		}
	}()
	from := bufio.NewReader(conn)
	for range answers {
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Logf("no answer: %v", err)
			return got
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		got = append(got, resp.StatusCode)
		if !resp.Close {
			continue
		}
		if _, err := from.Peek(1); err == nil {
			got = append(got, 0) // an answer too many
		}
	}
	return got
}

func FuzzFraming(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 3)
	f.Add("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\n\r\n", 1)
	f.Fuzz(func(t *testing.T, text string, step int) {
		var whole, parts framing
		valid := whole.follow([]byte(text))
		done := 0
		for rest := text; rest != "" && !parts.broken; {
			n := min(max(step, 1), len(rest))
			done += parts.follow([]byte(rest[:n]))
			rest = rest[n:]
		}
		if done != valid || whole.broken != parts.broken || whole.broken == (valid == len(text)) && text != "" {
			t.Errorf("%q: %d bytes at once (broken %v), %d in pieces (broken %v)", text, valid, whole.broken, done, parts.broken)
		}
	})
}
