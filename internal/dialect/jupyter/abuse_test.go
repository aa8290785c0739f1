package jupyter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
)

// Data of another owner does not exist, for every request.
func TestOthers(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	var made struct{ ID string }
	r.ask("ann", "POST", "/api/sessions", `{"path":"x","kernel":{"id":"`+id+`"}}`, &made)
	r.ask("ann", "PUT", "/api/contents/"+id+"/a", `{"type":"file","format":"text","content":"secret"}`, nil)
	kernel, session, file := "/api/kernels/"+id, "/api/sessions/"+made.ID, "/api/contents/"+id+"/a"
	for _, c := range [][3]string{
		{"GET", kernel}, {"DELETE", kernel}, {"POST", kernel + "/interrupt"}, {"POST", kernel + "/restart"}, {"GET", kernel + "/channels"},
		{"GET", session}, {"PATCH", session, `{"path":"y"}`}, {"DELETE", session}, {"POST", "/api/sessions", `{"path":"z","kernel":{"id":"` + id + `"}}`},
		{"GET", file}, {"PUT", file, `{"type":"file","format":"text","content":"x"}`}, {"PATCH", file, `{"path":"` + id + `/b"}`}, {"DELETE", file},
		{"POST", "/api/contents/" + id, `{"type":"file"}`}, {"GET", "/api/contents/" + id},
	} {
		var body errorBody
		if status := r.ask("bob", c[0], c[1], c[2], &body); status != http.StatusNotFound {
			t.Errorf("%s %s: %d %v", c[0], c[1], status, body)
		}
	}
	for _, path := range []string{"/api/kernels", "/api/sessions"} {
		var list []any
		if r.ask("bob", "GET", path, "", &list); len(list) != 0 {
			t.Errorf("%s: %v", path, list)
		}
	}
	if got := r.ask("ann", "GET", file, "", nil); got != 200 || r.fake.sessions == nil {
		t.Errorf("the owner's: %d", got)
	}
	header := http.Header{"Owner": {"bob"}}
	if _, resp, err := websocket.Dial(t.Context(), r.url+kernel+"/channels", &websocket.DialOptions{HTTPHeader: header}); err == nil || resp.StatusCode != 404 {
		t.Errorf("another's channels: %v, %v", resp, err)
	}
	page := http.Header{"Origin": {"https://evil.example"}}
	if _, resp, err := websocket.Dial(t.Context(), r.url+kernel+"/channels", &websocket.DialOptions{HTTPHeader: page}); err == nil || resp.StatusCode != 403 {
		t.Errorf("a foreign page without a key: %v, %v", resp, err)
	}
	r.dial(id, "?token=x", page)
}

// A kernel for which there is no room, also after the wait, is 429 and says when to try again. The
// client is not told that it may not.
func TestNoRoom(t *testing.T) {
	r := newRig(t, Options{})
	r.fake.full = map[engine.Owner]bool{"ann": true}
	for path, body := range map[string]string{"/api/kernels": "", "/api/sessions": `{"path":"x"}`} {
		var said errorBody
		status, header := r.askHeader("ann", "POST", path, body, &said)
		if status != 429 || header.Get("Retry-After") != "5" || said.Message == "" {
			t.Errorf("%s: %d %v %v", path, status, header, said)
		}
	}
	if status := r.ask("bob", "POST", "/api/kernels", "", nil); status != 201 {
		t.Errorf("another owner: %d", status)
	}
}

// Frames that are not messages are ignored, and the connection continues.
func TestMalformed(t *testing.T) {
	for _, protocol := range []string{"", subprotocol} {
		r := newRig(t, Options{})
		p := r.dial(r.kernel(), "", nil, protocol)
		header := `{"msg_id":"a","msg_type":"execute_request"}`
		for _, frame := range []string{
			"", "{", "null", "[]", `"x"`, `{"header":null}`, `{"header":{}}`, `{"header":[],"content":{}}`, `{"header":` + header + `,"content":null,"channel":"nowhere"}`,
			`{"header":{"msg_type":"x","pad":"` + strings.Repeat("x", longestHeader) + `"}}`,
			strings.Repeat("[", 1<<20), "\xff\xff\xff\xff", "\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\x00\x00\x02\x00\x00\x00\x0c\x00\x00\x00\x01",
			strings.Repeat("\xff", 100),
		} {
			for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
				if err := p.socket.Write(t.Context(), kind, []byte(frame)); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.run("1", "print on")
		if got := strings.Join(summary(p.until("1")), "\n"); !strings.Contains(got, `stdout "on\n"`) {
			t.Error(got)
		}
		if err := p.socket.Write(t.Context(), websocket.MessageBinary, make([]byte, maxIncoming+1)); err == nil {
			if _, err := p.hear(); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
				t.Errorf("a frame of more than %d bytes: %v", maxIncoming, err)
			}
		}
	}
}

// A client that accepts only small frames gets every character in small frames. A client
// that accepts large frames gets the messages unchanged.
func TestSmallFrames(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	noise := image.NewRGBA(image.Rect(0, 0, 550, 550))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = byte(random.Uint32())
	}
	noise.Set(0, 0, color.White)
	var picture bytes.Buffer
	_ = png.Encode(&picture, noise)
	display := encode(map[string]string{"image/png": base64.StdEncoding.EncodeToString(picture.Bytes()), "text/plain": "<Figure>", "text/html": strings.Repeat("<p>", 400_000)})
	code := "big 900000\ndisplay " + string(display)
	small := r.dial(id, "", nil)
	large := r.dial(id, "", nil, subprotocol)
	small.run("1", code)
	text, notes := 0, ""
	for _, h := range small.until("1") {
		if h.bytes > smallFrame {
			t.Errorf("a %s of %d bytes", h.kind, h.bytes)
		}
		switch content := h.content; {
		case h.kind == "stream" && content["name"] == "stdout":
			text += len(content["text"].(string))
		case h.kind == "stream":
			notes += content["text"].(string)
		case h.kind == "display_data":
			data := content["data"].(map[string]any)
			raw, err := base64.StdEncoding.DecodeString(data["image/png"].(string))
			if err != nil || data["text/plain"] != "<Figure>" || data["text/html"] != nil {
				t.Errorf("%v %v", err, data["text/plain"])
			}
			if shrunk, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || shrunk.Width >= 550 || shrunk.Width < 200 {
				t.Errorf("%v %v", shrunk, err)
			}
		}
	}
	if text != 900000 || !strings.Contains(notes, "the whole one is the file picture-1-1.png") || !strings.Contains(notes, "text/html of 1200002 bytes left out") {
		t.Errorf("%d bytes of text, notes %q", text, notes)
	}
	var kept struct{ Size int }
	if status := r.ask("ann", "GET", "/api/contents/"+id+"/picture-1-1.png?content=0", "", &kept); status != 200 || kept.Size != picture.Len() {
		t.Errorf("the whole picture: %d, %d bytes", status, kept.Size)
	}
	for _, h := range large.until("1") {
		if h.kind == "display_data" && len(h.text) < len(display) {
			t.Errorf("%d bytes of %d", len(h.text), len(display))
		}
		if h.kind == "stream" && h.content["name"] == "stderr" {
			t.Errorf("%s", h.text)
		}
	}
}

// A client that does not read blocks no other client, and is closed when its queue is too
// long.
func TestDeafClient(t *testing.T) {
	r := newRig(t, Options{})
	r.unsent = 4 << 20
	id := r.kernel()
	p := r.dial(id, "", nil, subprotocol)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/kernels/%s/channels HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: %s\r\n\r\n", id, subprotocol)
	for connections := 0; connections < 2; {
		r.ask("ann", "GET", "/api/kernels/"+id, "", &struct{ Connections *int }{&connections})
	}
	size := 1 << 20
	for i := range 14 { // more than the kernel's buffers hold
		name := fmt.Sprint(i)
		p.run(name, fmt.Sprintf("display {\"text/plain\":%q}", strings.Repeat("x", size)))
		p.until(name)
	}
	behind := 0
	r.mu.Lock()
	for _, k := range r.kernels {
		k.mu.Lock()
		for _, c := range k.clients {
			c.mu.Lock()
			if c.behind {
				behind++
			}
			if c.bytes > r.unsent {
				t.Errorf("%d bytes wait for a client", c.bytes)
			}
			c.mu.Unlock()
		}
		k.mu.Unlock()
	}
	r.mu.Unlock()
	if behind != 1 {
		t.Errorf("%d clients are behind, want the deaf one", behind)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	deadline := time.Now().Add(waitTime)
	for connections := 2; connections > 1; { // it reads again, and gets the close frame
		if time.Now().After(deadline) {
			t.Fatal("the deaf client is there")
		}
		r.ask("ann", "GET", "/api/kernels/"+id, "", &struct{ Connections *int }{&connections})
	}
}

// A kernel rejects requests beyond its queue, with all messages that their client waits
// for.
func TestTooManyRequests(t *testing.T) {
	r := newRig(t, Options{})
	id := r.kernel()
	p := r.dial(id, "", nil, subprotocol)
	p.run("first", "wait")
	for i := range maxRequests + 10 {
		p.send(shell, "is_complete_request", fmt.Sprint(i), none)
	}
	if got := summary(p.until(fmt.Sprint(maxRequests + 9))); !strings.Contains(got[len(got)-2], `"ename":"TooManyRequests"`) {
		t.Errorf("%q", got[len(got)-3:])
	}
	r.ask("ann", "POST", "/api/kernels/"+id+"/interrupt", "", nil)
	p.until("first")
}

// Shutting down the service closes connections with 1001.
func TestClose(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial(r.kernel(), "", nil)
	p.run("1", "wait")
	for {
		if h, err := p.hear(); err != nil || h.kind == "execute_input" {
			break
		}
	}
	go r.Close()
	for {
		if _, err := p.hear(); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("%v", err)
			}
			return
		}
	}
}

// Any frame is parsed into a message or an error.
func FuzzFrame(f *testing.F) {
	m := &message{channel: shell, id: "a", kind: "x_request", header: []byte(`{"msg_id":"a","msg_type":"x_request"}`), parent: none, content: none}
	_, text := m.encode(false)
	for _, v1 := range []bool{false, true} {
		for _, m.buffers = range [][][]byte{nil, {[]byte("a"), {}}} {
			_, frame := m.encode(v1)
			f.Add(frame, true, v1)
			f.Add(frame, false, v1)
		}
	}
	f.Add(append([]byte("\x00\x00\x00\x01\x00\x00\x00\x08"), text...), true, false)
	f.Fuzz(func(t *testing.T, frame []byte, binary, v1 bool) {
		kind := websocket.MessageText
		if binary {
			kind = websocket.MessageBinary
		}
		r, err := readFrame(kind, frame, v1)
		if (err == nil) != (r != nil) || r != nil && (r.kind == "" || r.channel == "" || !json.Valid(r.header)) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
