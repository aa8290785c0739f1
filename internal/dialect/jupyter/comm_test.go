package jupyter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/live"
)

// Messages of comms go both ways in either framing, with their metadata and buffers.
func TestComms(t *testing.T) {
	for _, protocols := range [][]string{nil, {subprotocol}} {
		r := newRig(t, Options{})
		r.fake.comms = map[string]live.Comm{"c": {Target: "jupyter.widget"}}
		p := r.dial(r.kernel(), "", nil, protocols...)
		p.send(shell, "comm_info_request", "#", map[string]string{"target_name": "jupyter.widget"})
		if diff := cmp.Diff([]string{"# busy", `# shell comm_info_reply {"comms":{"c":{"target_name":"jupyter.widget"}},"status":"ok"}`, "# idle"},
			summary(p.until("#"))); diff != "" {
			t.Error(diff)
		}
		p.send(shell, commMessage, "m", map[string]string{"comm_id": "c"}, []byte("\x00ab"), nil, []byte("c"))
		got := p.until("m")
		if diff := cmp.Diff([]string{"m busy", `m stdout "for m"`, `m iopub comm_msg {"comm_id":"c"}`, "m idle"}, summary(got)); diff != "" {
			t.Error(diff)
		}
		if b := got[2].buffers; fmt.Sprintf("%q", b) != `["\x00ab" "" "c"]` || got[2].metadata != "{}" {
			t.Errorf("v1 %v: buffers %q, metadata %s", p.v1, b, got[2].metadata)
		}
		p.run("x", "comm hello")
		if got = p.until("x"); got[2].kind != commMessage || fmt.Sprintf("%q", got[2].buffers) != `["hello" ""]` || got[2].metadata != `{"version":"2"}` {
			t.Errorf("v1 %v: of a cell: %q", p.v1, summary(got))
		}
		p.run("y", "comm "+strings.Repeat("y", 1<<20))
		if got = p.until("y"); (got[2].kind == commMessage) != p.v1 || got[2].kind == "stream" && !strings.Contains(got[2].text, "[comm_msg of 20977") {
			t.Errorf("v1 %v: of 2 MiB: %s %.100s", p.v1, got[2].kind, got[2].text)
		}
	}
}

// The gateway client of jupyter_server sends binary frames as text, and would lose its connection if
// it received one.
func TestCommsThroughGateway(t *testing.T) {
	r := newRig(t, Options{})
	r.fake.comms = map[string]live.Comm{}
	p := r.dial(r.kernel(), "", http.Header{"User-Agent": {"Tornado/6.5"}})
	m := &message{channel: shell, id: "m", kind: commMessage, header: encode(map[string]string{"msg_id": "m", "msg_type": commMessage}),
		parent: none, content: json.RawMessage(`{"comm_id":"c"}`), buffers: [][]byte{{255, 0}}}
	_, frame := m.encode(false)
	if err := p.socket.Write(t.Context(), websocket.MessageText, frame); err != nil {
		t.Fatal(err)
	}
	got := summary(p.until("m"))
	if want := `m stderr "[comm_msg of `; len(got) != 4 || !strings.HasPrefix(got[2], want) || !strings.Contains(got[2], textOnly) {
		t.Errorf("%q", got)
	}
	p.send(shell, commMessage, "n", map[string]string{"comm_id": "c"})
	if got := summary(p.until("n")); len(got) != 4 || got[2] != `n iopub comm_msg {"comm_id":"c"}` {
		t.Errorf("without buffers: %q", got)
	}
}

// Frames whose offsets make no sense are no messages.
func TestHostileBuffers(t *testing.T) {
	m := &message{channel: shell, id: "m", kind: commMessage, header: encode(map[string]string{"msg_id": "m", "msg_type": commMessage}),
		parent: none, content: none, buffers: [][]byte{[]byte("abc"), {}}}
	for _, v1 := range []bool{false, true} {
		kind, frame := m.encode(v1)
		for at := range frame {
			for _, b := range []byte{0, 1, 255} {
				bad := bytes.Clone(frame)
				bad[at] = b
				if got, err := readFrame(kind, bad, v1); err == nil && got.size() > 2*len(frame) {
					t.Errorf("byte %d is %d: %d bytes", at, b, got.size())
				}
			}
			_, _ = readFrame(kind, frame[:at], v1)
		}
		if got, err := readFrame(kind, frame, v1); err != nil || fmt.Sprintf("%q", got.buffers) != `["abc" ""]` {
			t.Errorf("v1 %v: %v", v1, err)
		}
	}
}

// A message to a comm has no reply, not even when it is dropped.
func TestDroppedComms(t *testing.T) {
	r := newRig(t, Options{})
	r.fake.comms = map[string]live.Comm{}
	id := r.kernel()
	p := r.dial(id, "", nil)
	p.run("1", "wait")
	for {
		if h, err := p.hear(); err != nil || h.kind == "execute_input" {
			break
		}
	}
	p.send(shell, commMessage, "m", map[string]string{"comm_id": "c"})
	p.send(control, "kernel_info_request", "sync", none)
	p.until("sync")
	if status := r.ask("ann", "POST", "/api/kernels/"+id+"/restart", "", nil); status != http.StatusOK {
		t.Fatal(status)
	}
	for _, h := range p.until("m") {
		if h.parent == "m" && h.kind != "status" {
			t.Errorf("a %s", h.kind)
		}
	}
}
