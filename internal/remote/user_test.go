package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// asOther calls do, which makes a socket, as a user who is not this one. To the kernel a socket
// is of the user as whom the thread made it.
func asOther(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
			t.Fatal("sockets of another user need root")
		}
		t.Skip("sockets of another user need root")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65533 // 65534 is also what the kernel says if there is no number
	former, err := unix.SetfsuidRetUid(nobody)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.SetfsuidRetUid(former) }()
	do()
}

// othersListener accepts connections as another user.
type othersListener struct {
	net.Listener
	t *testing.T
}

func (l othersListener) Accept() (conn net.Conn, err error) {
	asOther(l.t, func() { conn, err = l.Listener.Accept() })
	return conn, err
}

func listenAsOther(t *testing.T) (l net.Listener) {
	t.Helper()
	asOther(t, func() {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	})
	return othersListener{l, t}
}

// ask sends a request from another user, and returns all that comes back.
func ask(t *testing.T, address, request string) string {
	t.Helper()
	var conn net.Conn
	asOther(t, func() {
		var err error
		if conn, err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
	})
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("no end of %q", answer)
	}
	return string(answer)
}

// Without a token no process of another user on this machine is a worker or an api.
func TestOtherUser(t *testing.T) {
	var began atomic.Int32
	t.Run("worker at an api", func(t *testing.T) {
		registry := NewLocal()
		links := mutual.NewLinks(nil, BeatHandler(registry, func() {}, nil, nil))
		defer links.Close()
		service := httptest.NewServer(links)
		defer service.Close()
		answer := ask(t, service.Listener.Addr().String(), "GET "+LinkPath+" HTTP/1.1\r\nHost: localhost\r\n"+
			"Connection: Upgrade\r\nUpgrade: airlock-link\r\n\r\n"+
			"POST /worker/v1/beat HTTP/1.1\r\nHost: w\r\nConnection: close\r\nContent-Length: 49\r\n\r\n"+
			`{"Name":"w","Address":"http://127.0.0.1:1/"}     `)
		if len(registry.Workers()) > 0 || !strings.HasPrefix(answer, "HTTP/1.1 403 ") ||
			!strings.Contains(answer, "must run as the same user") || !strings.Contains(answer, "AIRLOCK_WORKER_TOKEN") {
			t.Errorf("%d workers: %s", len(registry.Workers()), answer)
		}
	})
	t.Run("api at a worker", func(t *testing.T) {
		_, node := serve(t, counted(&began, nil, open), "")
		answer := ask(t, strings.TrimPrefix(node.Address, "http://"), "POST /worker/v1/ask HTTP/1.1\r\nHost: w\r\n"+
			"Connection: close\r\nContent-Length: 13\r\n\r\n"+`{"Held":true}`)
		if answer != "" {
			t.Errorf("a worker answers another user: %s", answer)
		}
	})
	t.Run("worker of another user", func(t *testing.T) {
		l := listenAsOther(t)
		w := NewWorker(WorkerConfig{Sandbox: counted(&began, nil, open), Slots: 1, Log: quiet})
		server, err := Server(l, w.Handler(), nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- Serve(server, l) }()
		defer func() { server.Close(); <-ended }()
		s := api(t, "", Node{Name: "w", Epoch: 1, Address: "http://" + l.Addr().String(), Slots: 1, Free: 1,
			Languages: []string{"python"}})
		s.config.QueueTime = time.Second
		if _, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{}); err == nil || began.Load() > 0 {
			t.Errorf("%v, %d programs began at a worker of another user", err, began.Load())
		}
	})
	t.Run("api of another user", func(t *testing.T) {
		links := mutual.NewLinks(nil, BeatHandler(NewLocal(), func() {}, nil, nil))
		defer links.Close()
		service := httptest.NewUnstartedServer(links)
		service.Listener.Close()
		service.Listener = listenAsOther(t)
		service.Start()
		defer service.Close()
		transport := mutual.Transport(nil, LinkPath)
		defer transport.CloseIdleConnections()
		b := &Beats{Worker: NewWorker(WorkerConfig{Log: quiet, Sandbox: sandboxtest.NewFake(nil)}), Node: Node{Name: "w"},
			APIs: []string{service.URL}, Client: &http.Client{Transport: transport}}
		if err := b.beat(t.Context()); !errors.Is(err, mutual.ErrUser) {
			t.Errorf("%v", err)
		}
	})
}

// A socket that no process has open, or not yet, is nobody's: the kernel lists it as root's.
func TestUserOfNoProcess(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		refused := func(conn net.Conn, state string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := mutual.CheckUser(ctx, conn); !errors.Is(err, mutual.ErrUser) {
				t.Errorf("%s, %s: %v", address, state, err)
			}
		}
		refused(conn, "not yet accepted")
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if err := mutual.CheckUser(t.Context(), accepted); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := mutual.CheckUser(t.Context(), conn); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		conn.Close()
		refused(accepted, "closed")
	}
}
