package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A client that was given no more than host and port finds the routes of its
// protocol, and only healthy answers where they are.
func TestBareRoot(t *testing.T) {
	t.Parallel()
	s := libreChatService(t)
	const program = `open('in.txt').read(); open('out.txt', 'w').write('left')`

	// Onyx.
	var x execution
	got := s.do("POST", "/v1/files",
		"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.txt\"\r\n\r\nin\r\n--B--\r\n",
		"Content-Type", "multipart/form-data; boundary=B")
	var file struct {
		ID string `json:"file_id"`
	}
	got.decode(t, &file)
	s.do("POST", "/v1/execute", fmt.Sprintf(`{"code":%q,"timeout_ms":20000,"files":[{"path":"in.txt","file_id":%q}]}`,
		program, file.ID)).decode(t, &x)
	if x.ExitCode == nil || *x.ExitCode != 0 || len(x.Files) != 1 {
		t.Fatalf("%+v", x)
	}
	if got := s.do("GET", "/v1/files/"+x.Files[0].FileID, ""); got.status != 200 || string(got.body) != "left" {
		t.Errorf("download: %d %s", got.status, got.body)
	}
	if got := s.do("POST", "/v1/execute/stream", `{"code":"1+1"}`); got.status != 200 ||
		!strings.Contains(string(got.body), "event: result") {
		t.Errorf("stream: %d %s", got.status, got.body)
	}
	var held struct {
		ID string `json:"session_id"`
	}
	s.do("POST", "/v1/sessions", `{}`).decode(t, &held)
	if got := s.do("POST", "/v1/sessions/"+held.ID+"/bash", `{"cmd":"echo hi"}`); got.status != 200 ||
		!strings.Contains(string(got.body), `"stdout":"hi\n"`) {
		t.Errorf("bash: %d %s", got.status, got.body)
	}
	if got := s.do("DELETE", "/v1/files/"+file.ID, ""); got.status != 204 {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/health", "", "User-Agent", "python-requests/2.32.5"); !strings.Contains(
		string(got.body), `"version":"0.4.`) {
		t.Errorf("Onyx would miss the shell: %s", got.body)
	}
	if got := s.do("GET", "/health", ""); !strings.Contains(string(got.body), `"isolation"`) {
		t.Errorf("our own health: %s", got.body)
	}

	// LibreChat, with the base that its documents have and without.
	for _, base := range []string{"", "/v1"} {
		var up struct {
			Session string `json:"storage_session_id"`
			Files   []struct {
				ID string `json:"fileId"`
			} `json:"files"`
		}
		s.post(base+"/upload", "in.txt", strings.NewReader("in")).decode(t, &up)
		ref := fmt.Sprintf(`{"id":%q,"storage_session_id":%q,"name":"in.txt"}`, up.Files[0].ID, up.Session)
		var r codeReply
		s.do("POST", base+"/exec", fmt.Sprintf(`{"lang":"py","code":%q,"files":[%s]}`, program, ref)).decode(t, &r)
		if len(r.Files) != 2 {
			t.Fatalf("%s: %+v", base, r)
		}
		for _, f := range r.Files {
			if got := s.do("GET", base+"/download/"+f.Session+"/"+f.ID, ""); got.status != 200 {
				t.Errorf("%s/download: %d %s", base, got.status, got.body)
			}
		}
		if got := s.do("GET", base+"/sessions/"+up.Session+"/objects/"+up.Files[0].ID, ""); got.status != 200 ||
			!strings.Contains(string(got.body), "originalFilename") {
			t.Errorf("%s object: %d %s", base, got.status, got.body)
		}
		for _, query := range []string{"", "?detail=summary"} {
			if got := s.do("GET", base+"/files/"+up.Session+query, ""); got.status != 200 ||
				!strings.HasPrefix(string(got.body), "[") {
				t.Errorf("%s list %s: %d %s", base, query, got.status, got.body)
			}
		}
		if got := s.do("DELETE", base+"/files/"+up.Session+"/"+up.Files[0].ID, ""); got.status != 200 {
			t.Errorf("%s delete: %d %s", base, got.status, got.body)
		}
	}
	if got := s.do("GET", "/nothing", ""); got.status != 404 {
		t.Errorf("an address of nobody: %d %s", got.status, got.body)
	}
}
