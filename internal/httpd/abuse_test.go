package httpd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// TestAbuse tests the abuses that concern HTTP itself, by their numbers. Tests of the whole
// service are in e2e.
func TestAbuse(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"A7 body limits":              TestBodies,
		"A8 key before body":          TestRefusedBeforeBody,
		"A9 slow peers":               TestSlowPeers,
		"A9 slow readers":             TestSlowReader,
		"A9 many slow peers":          testManySlowPeers,
		"A10 smuggling":               TestSmuggling,
		"A10 what follows a refusal":  TestKeepAliveAfterRefusal,
		"A11 methods":                 testMethods,
		"A12 paths":                   TestPaths,
		"A13 request ids":             TestRequestID,
		"A14 idle connections":        TestConnections,
		"A14 many idle connections":   testManyIdle,
		"A14 one caller's share":      testShare,
		"A17 keys":                    TestKeys,
		"A18 key in the query":        testKeyInQuery,
		"A22 guessing is slow":        testGuessing,
		"A26 log":                     TestAudit,
		"A26 metrics":                 TestMetrics,
		"A26 panic":                   TestPanic,
		"A55 hosts":                   TestHosts,
		"A63 draining":                TestDraining,
		"A63 shutdown ends or cuts":   TestShutdown,
		"A17 no key, known networks":  TestNoKeyNeeded,
		"A17 the store does not work": TestKeysCannotBeChecked,
	} {
		t.Run(name, test)
	}
}

// testManySlowPeers checks that 500 clients that stop in the middle of a request at most
// double a good client's time, and are then cut.
func testManySlowPeers(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}, Timeouts: Timeouts{
		Header: 4 * time.Second, BodyIdle: 4 * time.Second}})
	good := func() time.Duration {
		var times []time.Duration
		for range 41 {
			begin := time.Now()
			if resp, body := request(t, "POST", address+"/api/v1/x", "", "some"); resp.StatusCode != 200 ||
				!strings.Contains(body, "body=4") {
				t.Fatalf("a good request: %d %s", resp.StatusCode, body)
			}
			times = append(times, time.Since(begin))
		}
		slices.Sort(times)
		return times[len(times)/10] // a busy machine stretches some of them
	}
	alone := good()
	var slow []net.Conn
	for i := range 500 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		text := "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
		if i%2 == 0 {
			text = "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\nhalf"
		}
		io.WriteString(conn, text)
		slow = append(slow, conn)
	}
	if among := good(); among > 2*alone+100*time.Millisecond {
		t.Errorf("a good request takes %v alone, and %v beside 500 slow ones", alone, among)
	}
	for i, conn := range slow {
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("slow peer %d is not cut: %v", i, err)
		}
	}
}

func testMethods(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}, Mounts: []Mount{{Prefix: "/api/v1", Handler: dialect()}}})
	for _, method := range []string{"TRACE", "CONNECT", "OPTIONS", "PROPFIND", "x", strings.Repeat("M", 200)} {
		answer := speak(t, address, method+" /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", time.Minute)
		if !strings.HasPrefix(answer, "HTTP/1.1 405 ") && !strings.HasPrefix(answer, "HTTP/1.1 400 ") &&
			!strings.HasPrefix(answer, "HTTP/1.1 404 ") {
			t.Errorf("%s: %.100q", method, answer)
		}
		if strings.Contains(answer, "TRACE /health") {
			t.Errorf("%s is echoed", method)
		}
	}
	// A method in a header has no effect.
	if _, body := request(t, "GET", address+"/metrics", "X-HTTP-Method-Override: DELETE", ""); !strings.Contains(
		body, "airlock_") {
		t.Errorf("an override changes the answer: %.100q", body)
	}
	whole, _ := request(t, "GET", address+"/health", "", "")
	if head, body := request(t, "HEAD", address+"/health", "", ""); head.StatusCode != whole.StatusCode || body != "" {
		t.Errorf("HEAD: %d %q", head.StatusCode, body)
	}
}

// testManyIdle opens many more connections than the limit, and leaves them open.
func testManyIdle(t *testing.T) {
	s, address := start(t, Options{Engine: &fakeEngine{}, MaxConns: 100})
	for i := range 2000 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(conn, "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if n := len(s.gate.open); n > 100 {
		t.Errorf("%d connections are open, 100 are allowed", n)
	}
}

// testShare checks that one caller cannot take all connections.
func testShare(t *testing.T) {
	hold, entered := make(chan struct{}), make(chan struct{}, 16)
	busy := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-hold })
	_, address := start(t, Options{MaxConns: 16, Mounts: []Mount{{Prefix: "/busy", Handler: busy}}})
	var held sync.WaitGroup
	for range 4 {
		held.Go(func() { request(t, "GET", address+"/busy", "X-API-Key: "+aliceKey, "") })
		<-entered
	}
	if resp, _ := request(t, "GET", address+"/busy", "X-API-Key: "+aliceKey, ""); resp.StatusCode != 429 ||
		resp.Header.Get("Retry-After") == "" {
		t.Errorf("a fifth request of one caller: %d", resp.StatusCode)
	}
	held.Go(func() { request(t, "GET", address+"/busy", "X-API-Key: "+adminKey, "") })
	select {
	case <-entered:
	case <-time.After(time.Minute):
		t.Error("another caller does not get in")
	}
	close(hold)
	held.Wait()
	if resp, _ := request(t, "GET", address+"/busy", "X-API-Key: "+aliceKey, ""); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

func testKeyInQuery(t *testing.T) {
	_, address := start(t, Options{})
	for _, query := range []string{"api_key=" + aliceKey, "X-API-Key=" + aliceKey, "authorization=Bearer+x",
		"access_token=x"} {
		if resp, body := request(t, "GET", address+"/api/v1/x?"+query, "X-API-Key: "+aliceKey, ""); resp.StatusCode != 401 ||
			strings.Contains(body, aliceKey) {
			t.Errorf("%s: %d %s", query, resp.StatusCode, body)
		}
	}
}

// testGuessing checks that an owner who tries many ids is slowed down, regardless of the
// number of keys.
func testGuessing(t *testing.T) {
	_, address := start(t, Options{Rate: 5, Mounts: []Mount{{Prefix: "/api/v1", Handler: http.NotFoundHandler(),
		Authenticate: twoKeysOfOne}}})
	refused := 0
	for i := range 30 {
		resp, _ := request(t, "GET", fmt.Sprint(address, "/api/v1/files/", i), fmt.Sprint("X-API-Key: key-", i%2), "")
		switch resp.StatusCode {
		case 429:
			refused++
		case 404:
		default:
			t.Fatalf("%d", resp.StatusCode)
		}
	}
	if refused < 15 {
		t.Errorf("of 30 guesses %d were refused", refused)
	}
}

func twoKeysOfOne(_ context.Context, token string) (engine.Caller, error) {
	return engine.Caller{Owner: "mallory", Key: token}, nil
}
