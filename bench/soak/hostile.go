package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// program is a hostile one. A line of output that begins with HOST- says that
// it has got out.
type program struct{ name, language, code string }

// hostile is a small choice out of what programs do to their sandbox; the
// sandbox's own suite has many more.
var hostile = []program{
	{"spin", "python", "while True: pass"},
	{"sleep", "bash", "sleep 100"},
	{"ignore signals", "bash", "trap '' TERM INT HUP; while :; do sleep 1; done"},
	{"fork bomb", "bash", ":(){ :|:& };:; wait"},
	{"fork and leave", "python", "import os, time\nfor i in range(30):\n  try:\n" +
		"    if os.fork() == 0: os.setsid(); time.sleep(100)\n  except OSError: break"},
	{"double fork", "bash", "for i in 1 2 3 4; do (setsid sleep 100 >/dev/null 2>&1 &) ; done; exit 0"},
	{"memory", "python", "x = []\nwhile True: x.append(bytearray(10 << 20))"},
	{"memory of many", "python",
		"import os\nfor i in range(8):\n  if os.fork() == 0:\n    x = bytearray(64 << 20)\n    while True: pass\nos.wait()"},
	{"shared memory", "bash", "dd if=/dev/zero of=/dev/shm/x bs=1M count=500 2>/dev/null; dd if=/dev/zero of=/tmp/x " +
		"bs=1M count=500 2>/dev/null; dd if=/dev/zero of=x bs=1M count=900 2>/dev/null; true"},
	{"flood", "python", "import sys\nwhile True: sys.stdout.write('x' * 65536)"},
	{"flood both", "bash", "yes & yes >&2"},
	{"bytes", "python", "import os\nos.write(1, bytes(range(256)) * 1000)"},
	{"inodes", "python", "i = 0\nwhile True:\n  open(f'f{i}', 'w'); i += 1"},
	{"deep", "python", "import os\nfor i in range(3000):\n  os.mkdir('d'); os.chdir('d')"},
	{"locked", "bash", "mkdir -p a/b/c; echo x > a/b/c/d; chmod 000 a/b/c a/b a"},
	{"links", "bash", "ln -s /etc/passwd p; ln -s / r; ln -s self self; mkfifo f; echo x > o; ln o h"},
	{"sparse", "bash", "truncate -s 400M s; truncate -s 60M t"},
	{"names", "python",
		"import os\nfor n in (b'\\xff', b'a\\nb', b'-rf', b'\\xe2\\x80\\xae', b' ', b'a' * 255): open(n, 'w').write('x')"},
	{"files open", "python", "import os\nl = []\nwhile True: l.append(os.open('/dev/null', 0))"},
	{"sockets", "python", "import socket\nl = []\nwhile True: l += socket.socketpair()"},
	{"threads", "python", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(100,)).start()"},
	{"crash", "python", "import ctypes; ctypes.string_at(0)"},
	{"kill all", "bash", "kill -9 -1; kill -9 1; kill -9 $PPID"},
	{"stop", "bash", "kill -STOP $$"},
	{"abort", "python", "import os; os.abort()"},
	{"exit in exit", "python", "import atexit, time\natexit.register(time.sleep, 100)"},
	{"network", "python", "import socket\nfor host, port in (('192.0.2.1', 80), ('169.254.169.254', 80), ('127.0.0.1', " +
		"8000)):\n  try:\n    socket.create_connection((host, port), 0.1); print('HOST-network')\n  except OSError: pass"},
	{"host files", "python",
		"import os\nfor p in ('/etc/shadow', '/root', '/proc/1/environ', " +
			"'/proc/kcore', '/var/lib/airlock', '/sys/fs/cgroup'):\n  try:\n    " +
			"print('HOST-' + p" +
			" if (os.listdir(p) if os.path.isdir(p) else open(p, 'rb').read(1)) else '')\n  except OSError: pass"},
	{"mount", "bash", "mount -t tmpfs t /tmp 2>/dev/null && echo HOST-mount; unshare -U true 2>/dev/null && echo " +
		"HOST-userns; chroot / true 2>/dev/null && echo HOST-chroot; true"},
	{"descriptors", "python", "import os\nfor n in os.listdir('/proc/self/fd'):\n  try:\n" +
		"    t = os.readlink('/proc/self/fd/' + n)\n    if int(n) > 2 and 'proc' not in t: print('HOST-fd', n, t)\n" +
		"  except OSError: pass"},
	{"interpreter", "python", "import builtins, sys, os\nbuiltins.print = None; sys.modules.clear(); os._exit(7)"},
	{"sudden end", "python", "import os; os.kill(os.getpid(), 9)"},
}

// hostileClient misuses the protocol in one of many ways, and then asks for
// something that must work.
func hostileClient(ctx context.Context, l *load, who tenant) error {
	misuse := []func(context.Context, *load, tenant) error{hangUp, halfUpload, badRequests, wrongKeys, slowHeader, foreign,
		nobodyReads}
	if err := misuse[rand.IntN(len(misuse))](ctx, l, who); err != nil {
		return err
	}
	run, err := l.execute(ctx, who, request("print('still here')"))
	return expectOutput(run, err, "still here\n")
}

func (l *load) raw(text string) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.service.URL, "http://"))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, text) // it may hang up in the middle, which is its right
	return conn, nil
}

func post(who tenant, path, kind string, length int) string {
	return fmt.Sprintf(
		"POST /api/v1%s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path,
		who.key, kind, length)
}

// hangUp leaves in the middle of its run.
func hangUp(_ context.Context, l *load, who tenant) error {
	body := `{"language":"bash","code":"sleep 100"}`
	conn, err := l.raw(post(who, "/runs", "application/json", len(body)) + body)
	if err != nil {
		return err
	}
	moment := time.NewTimer(time.Duration(rand.IntN(50)) * time.Millisecond)
	<-moment.C
	return conn.Close()
}

func halfUpload(_ context.Context, l *load, who tenant) error {
	conn, err := l.raw(post(who, "/files?name=half", "application/octet-stream", 10<<20) +
		strings.Repeat("x", rand.IntN(1<<20)))
	if err != nil {
		return err
	}
	return conn.Close()
}

func badRequests(_ context.Context, l *load, who tenant) error {
	for _, body := range []string{"", "null", `{"language":"python"`, strings.Repeat("[", 50_000),
		`{"language":"python","code":"\ud800"}`, `{"language":"cobol","code":""}`, "\x00\xff"} {
		conn, err := l.raw(post(who, "/runs", "application/json", len(body)) + body)
		if err != nil {
			return err
		}
		answer := make([]byte, len("HTTP/1.1 400"))
		_, err = io.ReadFull(conn, answer)
		conn.Close()
		if err == nil && string(answer) != "HTTP/1.1 400" && string(answer) != "HTTP/1.1 429" {
			return fmt.Errorf("%.30q was answered with %q", body, answer)
		}
	}
	return nil
}

func wrongKeys(ctx context.Context, l *load, _ tenant) error {
	for _, key := range []string{"", "ak_aaaaaaaaaaaa_" + strings.Repeat("A", 43), "x"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.service.URL+"/api/v1/files", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("X-API-Key", key)
		resp, err := l.service.http.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("the key %q was answered with %d", key, resp.StatusCode)
		}
	}
	return nil
}

func slowHeader(_ context.Context, l *load, _ tenant) error {
	conn, err := l.raw("GET /health HTTP/1.1\r\nHost: loc")
	if err != nil {
		return err
	}
	return conn.Close()
}

// foreign asks for what belongs to another.
func foreign(ctx context.Context, l *load, who tenant) error {
	theirs, err := l.tenants[0].Upload(ctx, "theirs", strings.NewReader("HOST-secret"), 0)
	if err != nil {
		return err
	}
	_, err = who.GetFile(ctx, theirs.ID)
	gone := who.DeleteFile(ctx, theirs.ID)
	if err == nil || gone == nil {
		return errors.New("a foreign file can be read or deleted")
	}
	return l.tenants[0].DeleteFile(ctx, theirs.ID)
}

// nobodyReads asks for a stream and takes nothing of it.
func nobodyReads(_ context.Context, l *load, who tenant) error {
	body := `{"language":"python","code":"print('x' * (8 << 20))","timeout_ms":500}`
	conn, err := l.raw(strings.Replace(post(who, "/runs", "application/json", len(body)), "\r\n\r\n",
		"\r\nAccept: text/event-stream\r\n\r\n", 1) + body)
	if err != nil {
		return err
	}
	moment := time.NewTimer(100 * time.Millisecond)
	<-moment.C
	return conn.Close()
}
