package linux

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// proxyHost replaces the service: it accepts connections of the program's proxy.
type proxyHost struct {
	sandboxtest.Host
	mu       sync.Mutex
	stdout   bytes.Buffer
	listener net.Listener
}

func (h *proxyHost) Output(_ engine.Stream, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stdout.Write(data)
}

func (h *proxyHost) Listener(file *os.File) {
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return
	}
	h.mu.Lock()
	h.listener = l
	h.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "from outside")
			c.Close()
		}
	}()
}

const useProxy = `import os
socket = __import__("socket")
def get(address):
    try: return socket.create_connection(address, 3).recv(99)
    except OSError as e: return type(e).__name__
print(*(os.readlink("/proc/self/ns/" + kind) for kind in ("net", "ipc")))
print(os.environ.get("https_proxy"), get(("127.0.0.1", 3128)), get(("192.0.2.2", 80)), get(("127.0.0.1", 80)))
print(open("/proc/net/dev").read().count(":"))
`

// A program with a grant reaches its proxy, warm and cold, and no other address. Its
// namespace is not reused.
func TestProxy(t *testing.T) {
	s := startBare(t, true)
	for name, code := range map[string]string{"warm": useProxy, "cold": useProxy, "idle": whichNamespaces} {
		spec := sandboxtest.Python(code)
		spec.Network = &engine.ProxySettings{}
		if name == "cold" {
			spec.Env = map[string]string{"PYTHONDONTWRITEBYTECODE": "1"} // read at start
		}
		h := &proxyHost{}
		outcome, err := s.Run(t.Context(), spec, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outcome.Outputs {
			o.File.Close()
		}
		if h.listener == nil {
			t.Fatalf("%s: no socket came out", name)
		}
		h.listener.Close()
		lines := strings.Split(h.stdout.String(), "\n")
		want := "http://127.0.0.1:3128 b'from outside' OSError ConnectionRefusedError"
		if name != "idle" && (len(lines) < 3 || lines[1] != want || lines[2] != "1") {
			t.Errorf("%s: %q, not %q and one device", name, lines, want)
		}
		for range 2 * executor.MostWaiting {
			if again := sandboxtest.Run(t, s, sandboxtest.Python(whichNamespaces)); strings.HasPrefix(again.Stdout,
				lines[0]+"\n") {
				t.Errorf("%s: its namespace served again", name)
			}
		}
	}
	without := sandboxtest.Run(t, s, sandboxtest.Python(useProxy))
	if !strings.Contains(without.Stdout, "None ConnectionRefusedError OSError ConnectionRefusedError") {
		t.Errorf("without a grant: %q", without.Stdout)
	}
}
