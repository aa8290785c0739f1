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

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// hostile are programs that take, leave or break something. The sandbox's own suite has many more, and those that
// attack what is outside.
var hostile = []struct{ language, code string }{
	{"python", "while True: pass"},
	{"bash", "trap '' TERM INT HUP; while :; do sleep 1; done"},
	{"bash", ":(){ :|:& };:; wait"},
	{"python", "import os, time\nfor i in range(30):\n  if os.fork() == 0: os.setsid(); time.sleep(100)"},
	{"bash", "for i in 1 2 3 4; do (setsid sleep 100 >/dev/null 2>&1 &) ; done; exit 0"},
	{"python", "x = []\nwhile True: x.append(bytearray(10 << 20))"},
	{"python",
		"import os\nfor i in range(8):\n  if os.fork() == 0:\n    x = bytearray(64 << 20)\n    while True: pass\nos.wait()"},
	{"bash", "for f in /dev/shm/x /tmp/x x; do dd if=/dev/zero of=$f bs=1M count=500 2>/dev/null; done; true"},
	{"python", "import sys\nwhile True: sys.stdout.write('x' * 65536)"},
	{"bash", "yes & yes >&2"},
	{"python", "import os\nos.write(1, bytes(range(256)) * 1000)"},
	{"python", "i = 0\nwhile True:\n  open(f'f{i}', 'w'); i += 1"},
	{"python", "import os\nfor i in range(3000):\n  os.mkdir('d'); os.chdir('d')"},
	{"bash", "mkdir -p a/b/c; echo x > a/b/c/d; chmod 000 a/b/c a/b a"},
	{"bash", "ln -s /etc/passwd p; ln -s / r; ln -s self self; mkfifo f; echo x > o; ln o h"},
	{"bash", "truncate -s 400M s; truncate -s 60M t"},
	{"python",
		"import os\nfor n in (b'\\xff', b'a\\nb', b'-rf', b'\\xe2\\x80\\xae', b' ', b'a' * 255): open(n, 'w').write('x')"},
	{"python", "import os, socket\nl = []\nwhile True: l += [os.open('/dev/null', 0), *socket.socketpair()]"},
	{"python", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(100,)).start()"},
	{"python", "import ctypes; ctypes.string_at(0)"},
	{"bash", "kill -9 -1; kill -9 1; kill -9 $PPID"},
	{"bash", "kill -STOP $$"},
	{"python", "import atexit, time\natexit.register(time.sleep, 100)"},
	{"bash", "mount -t tmpfs t /tmp; unshare -Urmn mount -t tmpfs t /tmp; true"},
	{"python", "import builtins, sys, os\nbuiltins.print = None; sys.modules.clear(); os._exit(7)"},
}

// hostileProgram runs one of them. Whatever it does, it must have ended in time, in one of the ways that there are.
func hostileProgram(ctx context.Context, l *load, who tenant) error {
	p := hostile[rand.IntN(len(hostile))]
	limit := time.Duration(300+rand.IntN(500)) * time.Millisecond
	run, err := l.execute(ctx, who, client.RunRequest{Language: p.language, Code: p.code, Timeout: limit,
		Limits: &client.Limits{MemoryBytes: 128 << 20, Processes: 32}})
	if err == nil && (!run.Status.Final() || run.Status == client.StatusInterrupted) {
		err = fmt.Errorf("wanted an end, got %s", describe(run))
	}
	if err != nil {
		return fmt.Errorf("%.100q: %w", p.code, err)
	}
	return deleteFiles(ctx, who, run.Files[:min(len(run.Files), 20)])
}

// post returns a request that says how long it is, which may be more than its body.
func post(who tenant, path, header, body string, missing int) string {
	return fmt.Sprintf("POST /api/v1%s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
		path, who.key, len(body)+missing, header, body)
}

// hostileClient sends a request, hangs up soon, and then asks for something that must work.
func hostileClient(ctx context.Context, l *load, who tenant) error {
	const isJSON = "Content-Type: application/json"
	requests := []string{
		post(who, "/runs", isJSON, `{"language":"bash","code":"sleep 100"}`, 0),
		post(who, "/runs", isJSON+"\r\nAccept: text/event-stream",
			`{"language":"python","code":"print('x' * (8 << 20))","timeout_ms":500}`, 0),
		post(who, "/files?name=half", "Accept: */*", strings.Repeat("x", rand.IntN(1<<20)), 10<<20),
		post(who, "/runs", isJSON, strings.Repeat("[", 50_000), 0),
		post(who, "/runs", isJSON, `{"language":"cobol","code":"\ud800"}`, 0),
		post(tenant{key: "ak_aaaaaaaaaaaa_" + strings.Repeat("A", 43)}, "/runs", isJSON, "\x00\xff", 0),
		"GET /health HTTP/1.1\r\nHost: loc",
	}
	conn, err := net.Dial("tcp", l.service.Address)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, requests[rand.IntN(len(requests))]) // the service may hang up, which is its right
	lab.Pause(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
	conn.Close()
	run, err := l.execute(ctx, who, python("print('still here')"))
	return expectOutput(run, err, "still here\n", 0)
}

// hostilePreview looks at small files of which a careless preview makes much.
func hostilePreview(ctx context.Context, l *load, who tenant) error {
	bombs := map[string]string{
		"table.md":  strings.Repeat("a|", 2000) + "\n" + strings.Repeat("-|", 2000) + "\n" + strings.Repeat("a\n", 4000),
		"quotes.md": strings.Repeat(">\t", 64<<10),
		"links.md":  "[a]: /" + strings.Repeat("x", 60<<10) + "\n\n" + strings.Repeat("[a]\n\n", 10_000),
		"deep.json": strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
	}
	for name, content := range bombs {
		f, err := who.Upload(ctx, name, strings.NewReader(content), 0)
		if err == nil {
			_, err = l.service.do(ctx, http.MethodGet, "/ui/files/"+f.ID+"/preview", who.key, http.NoBody)
			err = errors.Join(err, who.DeleteFile(ctx, f.ID))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
