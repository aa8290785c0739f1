package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// installTime is for the packages of the client, which come over the network
// once and stay in .cache.
const installTime = 8 * time.Minute

// libreChatClient installs the real client and returns its folder.
func libreChatClient(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "this needs %s: scripts/test-deps installs it", tool)
		}
	}
	folder, err := filepath.Abs("../.cache/librechat")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "librechat/install", folder).CombinedOutput(); err != nil {
		skip(t, "the client of LibreChat cannot be installed: %v: %s", err, out)
	}
	return folder
}

// The tools that LibreChat gives to its models, against the real binary: with a
// key, and with nothing.
func TestLibreChatClient(t *testing.T) {
	t.Parallel()
	client := libreChatClient(t)
	for _, key := range []string{"", "a key that LibreChat shows to us"} {
		name := "without a key"
		var env []string
		if key != "" {
			key = strings.ReplaceAll(key, " ", "-")
			name, env = "with a key", []string{"LIBRECHAT_CODE_API_KEY=" + key}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := person{name: "user"}
			if os.Geteuid() == 0 {
				who = root(t)
			}
			s := serveWith(t, who, dataWithoutPackages(t, who), env)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "librechat/client.mjs")
			cmd.Env = append(os.Environ(), "CLIENT_FOLDER="+client, "CODE_URL="+s.url+"/librechat/v1", "CODE_KEY="+key)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatal(err)
			}
			if key != "" {
				if got := s.do("POST", "/librechat/v1/exec", `{"lang":"py","code":"1"}`); got.status != 401 {
					t.Errorf("without the key: %d %s", got.status, got.body)
				}
				if got := s.do("POST", "/librechat/exec", `{"lang":"py","code":"print(7)","apiKey":"`+key+
					`"}`); got.status != 200 || !strings.Contains(string(got.body), `"stdout":"7\n"`) {
					t.Errorf("with the key in the body: %d %s", got.status, got.body)
				}
			}
		})
	}
}

// post sends a form with one file, in the way of LibreChat: the name is raw
// UTF-8 with its folders, the length is not announced.
func (s *service) post(path, name string, content io.Reader) answer {
	s.t.Helper()
	reading, writing := io.Pipe()
	form := multipart.NewWriter(writing)
	go func() {
		part, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {
			`form-data; name="file"; filename="` + name + `"`}})
		if err == nil {
			_, err = io.Copy(part, content)
		}
		if err == nil {
			err = form.Close()
		}
		writing.CloseWithError(err)
	}()
	req := s.request("POST", path, "", "Content-Type", form.FormDataContentType())
	req.Body, req.ContentLength = reading, -1
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{status: got.StatusCode, body: body}
}

// A paused program outlives neither its token nor the service, and what LibreChat
// had before a restart is there after it.
func TestLibreChatRestart(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithoutPackages(t, who)
	s := serve(t, who, data)
	up := s.post("/librechat/upload", "größe/ü.csv", bytes.NewReader([]byte("a\n1\n")))
	var uploaded struct {
		Session string `json:"storage_session_id"`
		Files   []struct {
			ID string `json:"fileId"`
		} `json:"files"`
	}
	if err := json.Unmarshal(up.body, &uploaded); err != nil || up.status != http.StatusOK || len(uploaded.Files) != 1 {
		t.Fatalf("%d %s", up.status, up.body)
	}
	paused := s.do("POST", "/librechat/exec/programmatic", `{"code":"await f()","tools":[{"name":"f"}]}`)
	var round struct {
		Token string `json:"continuation_token"`
	}
	if err := json.Unmarshal(paused.body, &round); err != nil || round.Token == "" {
		t.Fatalf("%d %s", paused.status, paused.body)
	}
	s.signal(syscall.SIGKILL)
	s.wait()

	s = serve(t, who, data)
	again := s.do("POST", "/librechat/exec/programmatic", `{"continuation_token":"`+round.Token+
		`","tool_results":[{"call_id":"call_001","result":1}]}`)
	if again.status != 404 {
		t.Errorf("a token of an earlier service: %d %s", again.status, again.body)
	}
	ref := `{"id":"` + uploaded.Files[0].ID + `","storage_session_id":"` + uploaded.Session +
		`","name":"größe/ü.csv","kind":"user"}`
	got := s.do("POST", "/librechat/exec", `{"lang":"bash","code":"cat */*.csv","files":[`+ref+`]}`)
	if !strings.Contains(string(got.body), `"stdout":"a\n1\n"`) {
		t.Errorf("a file of an earlier service: %d %s", got.status, got.body)
	}
}
