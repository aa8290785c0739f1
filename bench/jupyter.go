package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/bench/lab"
)

// startJupyter starts a jupyter_server whose kernels are ipykernels, with packages of the same versions as Airlock's.
func (b *bench) startJupyter(ctx context.Context) (s *lab.Service, err error) {
	err = lab.Try(func() {
		installed(b.jupyter)
		address, home := lab.Must(lab.FreeAddress()), lab.Must(os.MkdirTemp(b.scratch, "jupyter-"))
		host, port, _ := net.SplitHostPort(address)
		s = b.await(ctx, lab.Must(lab.Start(address, []string{"HOME=" + home, "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"},
			b.jupyter, "-m", "jupyter_server", "--allow-root", "--no-browser", "--ServerApp.root_dir="+home,
			"--ip="+host, "--port="+port, "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True")))
	})
	return s, err
}

// kernel is a kernel of Jupyter's, over the socket that JupyterLab uses.
type kernel struct {
	socket *websocket.Conn
	cells  int
}

// startKernel starts one at a server. Jupyter's frames are small and sent one by
// one: an acknowledgement that the client delays would delay each answer by 40 ms, which is not what is compared.
func startKernel(ctx context.Context, url string) *kernel {
	quick := &http.Client{Transport: &http.Transport{DialContext: dialQuick}}
	kernels := url + "/api/kernels"
	c, m := &caller{url: kernels, client: quick}, made{}
	c.decode(ctx, "POST", "", `{"name":"python3"}`, &m)
	address := "ws" + strings.TrimPrefix(kernels, "http") + "/" + m.ID + "/channels"
	options := &websocket.DialOptions{HTTPClient: quick}
	socket, _, err := websocket.Dial(ctx, address, options) //nolint:bodyclose // the socket's
	lab.Check(err)
	socket.SetReadLimit(64 << 20)
	return &kernel{socket: socket}
}

// run runs a cell, from its request to the kernel's being idle, and wants a message of some type among the answers.
func (k *kernel) run(ctx context.Context, code, wanted string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	k.cells++
	id := fmt.Sprint("cell-", k.cells)
	request, err := json.Marshal(map[string]any{
		"channel": "shell", "parent_header": struct{}{}, "metadata": struct{}{}, "buffers": []string{},
		"header": map[string]string{"msg_id": id, "msg_type": "execute_request", "session": "bench", "username": "",
			"version": "5.3"},
		"content": map[string]any{"code": code, "silent": false, "store_history": true, "allow_stdin": false,
			"stop_on_error": true},
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := k.socket.Write(ctx, websocket.MessageText, request); err != nil {
		return 0, err
	}
	var seen []string // the reply comes on another channel than the rest
	for replied, idle := false, false; !replied || !idle; {
		_, text, err := k.socket.Read(ctx)
		if err != nil {
			return 0, err
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
			return 0, err
		}
		if m.Parent.Msg_id != id {
			continue
		}
		seen = append(seen, m.Header.Msg_type)
		idle = idle || m.Content.ExecutionState == "idle"
		if m.Header.Msg_type == "execute_reply" {
			if replied = true; m.Content.Status != "ok" {
				return 0, fmt.Errorf("the kernel's answer is %.400s", text)
			}
		}
	}
	if wanted != "" && !slices.Contains(seen, wanted) {
		return 0, fmt.Errorf("there is no %s among the kernel's answers: %v", wanted, seen)
	}
	return time.Since(began), nil
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

// kernelCells runs the same cell of a kernel at a server again and again.
func kernelCells(name, url, prepare, code, wanted string) lab.Contestant {
	return lab.Contestant{Name: name, Open: func(ctx context.Context) (lab.Call, func()) {
		k := startKernel(ctx, url)
		lab.Must(k.run(ctx, prepare, ""))
		return func(ctx context.Context) (time.Duration, error) { return k.run(ctx, code, wanted) }, k.close
	}}
}
