package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"
)

// startJupyter starts a jupyter_server whose kernels are ipykernels, with packages
// of the same versions as Airlock's.
func (b *bench) startJupyter(ctx context.Context) (*server, error) {
	if _, err := os.Stat(b.options.jupyter); err != nil {
		return nil, errors.New("it is not installed")
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address)
	home, err := os.MkdirTemp(b.scratch, "jupyter-")
	if err != nil {
		return nil, err
	}
	s, err := startServer(address, []string{"HOME=" + home, "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"},
		b.options.jupyter, "-m", "jupyter_server", "--allow-root", "--no-browser", "--ServerApp.root_dir="+home,
		"--ip="+host, "--port="+port, "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True")
	return s.awaited(ctx, err)
}

// kernel is an ipykernel behind a jupyter_server, over the socket that JupyterLab uses.
type kernel struct {
	socket *websocket.Conn
	cells  int
}

// startKernel starts one, and waits until it has run a cell.
func (s *server) startKernel(ctx context.Context) (*kernel, error) {
	// Jupyter's frames are small and sent one by one: an acknowledgement that the
	// kernel delays would delay each answer by 40 ms, which is not what we compare.
	dialer := &http.Client{Transport: &http.Transport{DialContext: dialQuick}}
	kernels := s.address + "/api/kernels"
	resp, err := dialer.Post("http://"+kernels, "application/json", strings.NewReader(`{"name":"python3"}`))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		return nil, fmt.Errorf("%s: %w", resp.Status, err)
	}
	channels := "ws://" + kernels + "/" + made.ID + "/channels"
	options := &websocket.DialOptions{HTTPClient: dialer}
	socket, _, err := websocket.Dial(ctx, channels, options) //nolint:bodyclose // the socket's
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(64 << 20)
	k := &kernel{socket: socket}
	return k, k.run(ctx, "1", "execute_result")
}

// run runs a cell, from its request to the kernel's being idle, and wants a message
// of some type among the answers.
func (k *kernel) run(ctx context.Context, code, wanted string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	k.cells++
	id := fmt.Sprint("cell-", k.cells)
	request, err := json.Marshal(map[string]any{
		"channel": "shell", "parent_header": struct{}{}, "metadata": struct{}{}, "buffers": []string{},
		"header": map[string]string{
			"msg_id": id, "msg_type": "execute_request", "session": "bench", "username": "", "version": "5.3",
		},
		"content": map[string]any{
			"code": code, "silent": false, "store_history": true, "allow_stdin": false, "stop_on_error": true,
		},
	})
	if err != nil {
		return err
	}
	if err := k.socket.Write(ctx, websocket.MessageText, request); err != nil {
		return err
	}
	var seen []string // the reply comes on another channel than the rest
	replied, idle := false, false
	for !replied || !idle {
		_, text, err := k.socket.Read(ctx)
		if err != nil {
			return err
		}
		var m struct {
			Header  struct{ Msg_type string } //nolint:revive // theirs
			Parent  struct{ Msg_id string }   `json:"parent_header"` //nolint:revive // theirs
			Content struct {
				Status         string
				ExecutionState string `json:"execution_state"`
			}
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		if m.Parent.Msg_id != id {
			continue
		}
		seen = append(seen, m.Header.Msg_type)
		idle = idle || m.Content.ExecutionState == "idle"
		if m.Header.Msg_type == "execute_reply" {
			replied = true
			if m.Content.Status != "ok" {
				return fmt.Errorf("the kernel's answer is %.400s", text)
			}
		}
	}
	if wanted != "" && !slices.Contains(seen, wanted) {
		return fmt.Errorf("there is no %s among the kernel's answers: %v", wanted, seen)
	}
	return nil
}

func (k *kernel) close() { _ = k.socket.CloseNow() }

func dialQuick(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return quickConn{conn.(*net.TCPConn)}, nil
}

// quickConn acknowledges at once.
type quickConn struct{ *net.TCPConn }

func (c quickConn) Read(p []byte) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	return c.TCPConn.Read(p)
}

// inKernel is a kernel as a contestant.
func (s *server) inKernel(wanted string) contestant {
	return contestant{name: nameKernel, open: func(ctx context.Context, w *workload) (*client, error) {
		k, err := s.startKernel(ctx)
		if err != nil {
			return nil, err
		}
		if err := k.run(ctx, w.prepare, ""); err != nil {
			k.close()
			return nil, err
		}
		return &client{attempt: func(ctx context.Context) error { return k.run(ctx, w.code, wanted) }, close: k.close}, nil
	}}
}
