package openai

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func (r *rig) part(owner, upload, text string) (int, string) {
	return r.ask(owner, "POST", "/uploads/"+upload+"/parts",
		"--b\r\nContent-Disposition: form-data; name=\"data\"; filename=\"x\"\r\n\r\n"+text+"\r\n--b--\r\n",
		"Content-Type", "multipart/form-data; boundary=b")
}

// made asks for something that has an id.
func made(t *testing.T, status int, text string) (id string) {
	t.Helper()
	var body struct{ ID string }
	if err := json.Unmarshal([]byte(text), &body); err != nil || status != 200 || body.ID == "" {
		t.Fatalf("%d %s", status, text)
	}
	return body.ID
}

func TestUploads(t *testing.T) {
	r := newRig(t, Options{MaxUpload: 100})
	begin := func(size int) string {
		t.Helper()
		status, text := r.ask("ann", "POST", "/uploads",
			fmt.Sprintf(`{"filename":"a.txt","bytes":%d,"purpose":"user_data","mime_type":"text/plain"}`, size))
		return made(t, status, text)
	}
	part := func(upload, text string) string {
		t.Helper()
		status, answer := r.part("ann", upload, text)
		return made(t, status, answer)
	}
	id, other := begin(10), begin(3)
	world, foreign, hello := part(id, "world"), part(other, "abc"), part(id, "hello")
	complete := func(owner, id, body string) (int, string) {
		return r.ask(owner, "POST", "/uploads/"+id+"/complete", body)
	}
	ids := func(parts ...string) string { return `{"part_ids":["` + strings.Join(parts, `","`) + `"]` }
	sum := fmt.Sprintf("%x", md5.Sum([]byte("helloworld")))
	for body, want := range map[string]string{
		ids(hello) + `}`:                              "have 5 bytes",
		ids(hello, world, foreign) + `}`:              "no part",
		ids(hello, "part_x") + `}`:                    "no part",
		ids(hello, "part_"+id[len("upload_"):]) + `}`: "no part",
		ids(world, hello) + `,"md5":"` + sum + `"}`:   "MD5",
	} {
		if status, text := complete("ann", id, body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for _, path := range []string{"/parts", "/complete", "/cancel"} {
		if status, text := r.ask("bob", "POST", "/uploads/"+id+path, `{"part_ids":[]}`); status != 404 {
			t.Errorf("bob's %s: %d %s", path, status, text)
		}
	}
	status, text := complete("ann", id, ids(hello, world)+`,"md5":"`+sum+`"}`)
	var done struct {
		Status string
		File   struct {
			ID, Filename string
			Bytes        int
		}
	}
	if err := json.Unmarshal([]byte(text), &done); err != nil || status != 200 || done.Status != "completed" ||
		done.File.Filename != "a.txt" || done.File.Bytes != 10 {
		t.Fatalf("%d %s", status, text)
	}
	if _, text := r.ask("ann", "GET", "/files/"+done.File.ID+"/content", ""); text != "helloworld" {
		t.Errorf("%q", text)
	}
	if status, text := r.ask("ann", "POST", "/uploads/"+other+"/cancel", ""); status != 200 ||
		!strings.Contains(text, `"status":"cancelled"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, id := range []string{id, other} {
		if status, _ := complete("ann", id, ids(hello)+`}`); status != 404 {
			t.Errorf("one that is over: %d", status)
		}
	}
	if len(r.files) != 1 {
		t.Errorf("%d files are left, where there is one", len(r.files))
	}
}

func TestBadUploads(t *testing.T) {
	r := newRig(t, Options{MaxUpload: 100})
	for body, want := range map[string]string{
		`{"bytes":1,"purpose":"user_data"}`:                                        "filename",
		`{"filename":"a","bytes":0,"purpose":"user_data"}`:                         "bytes",
		`{"filename":"a","bytes":101,"purpose":"user_data"}`:                       "bytes",
		`{"filename":"a","bytes":1,"purpose":"fine-tune"}`:                         "purpose",
		`{"filename":"a","bytes":1}`:                                               "purpose",
		`{"filename":"a","bytes":1,"purpose":"user_data","expires_after":{"a":1}}`: "expires_after",
		`{"filename":"a","bytes":"1","purpose":"user_data"}`:                       "bytes",
	} {
		if status, text := r.ask("ann", "POST", "/uploads", body); status != 400 || !strings.Contains(text, `"param":"`+want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for _, id := range []string{"upload_x", "none"} {
		if status, _ := r.part("ann", id, "x"); status != 404 {
			t.Errorf("%s: %d", id, status)
		}
	}
	if _, text := r.ask("ann", "GET", "/files", ""); !strings.Contains(text, `"data":[]`) {
		t.Errorf("what is refused leaves %s", text)
	}
}
