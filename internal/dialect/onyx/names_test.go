package onyx

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// odd are names that people give to files, or programs to theirs.
var odd = []string{
	"می\u200cخواهم.csv", "क\u094d\u200dष.txt", "👨\u200d👩\u200d👧.png", "\u200eIMG-20240101-WA0001.jpg", "a\u200bb.txt",
	"so\u00adft.txt", "\ufeffbom.csv",
	"a\u2028b\u2029.txt", "\u0085\u009b.txt", "a\u202egnp.exe", "\u2066a\u2069.txt", "e\u0301.txt", "\u00e9.txt",
	`a\b.txt`, "a\u2060.txt", "\U000e0001.txt",
}

// Onyx stages every file of a chat for each call: no name may fail the call, and
// a program finds each file under the name that it was given.
func TestOddNames(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	type ref struct {
		Path string `json:"path"`
		ID   string `json:"file_id"`
	}
	var refs []ref
	var code strings.Builder
	for i, name := range odd {
		var up struct {
			ID   string `json:"file_id"`
			Name string `json:"filename"`
		}
		w := r.upload(name, strings.NewReader(fmt.Sprint(i)))
		contains(t, w, 201)
		if err := json.Unmarshal(w.Body.Bytes(), &up); err != nil || up.Name != name {
			t.Errorf("%q is stored as %q, %v", name, up.Name, err)
		}
		w = r.send("GET", "/v1/files/"+up.ID, "")
		contains(t, w, 200, fmt.Sprint(i))
		if _, params, err := mime.ParseMediaType(w.Header().Get("Content-Disposition")); err != nil ||
			params["filename"] != name {
			t.Errorf("%q is downloaded as %q, %v", name, params["filename"], err)
		}
		refs = append(refs, ref{name, up.ID})
		fmt.Fprintf(&code, "cat %s\nwrite out/%s %d\n", name, name, i)
	}
	long := strings.Repeat("日", 100) + ".csv" // in Onyx's bounds, which count characters, and over the file system's
	refs = append(refs, ref{long, refs[0].ID})
	body, err := json.Marshal(map[string]any{"code": code.String(), "files": refs})
	if err != nil {
		t.Fatal(err)
	}
	w := r.send("POST", "/v1/execute", string(body))
	var out struct {
		Stdout, Stderr string
		Code           *int `json:"exit_code"`
		Files          []ref
	}
	contains(t, w, 200)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Code == nil || *out.Code != 0 ||
		out.Stdout != "0123456789101112131415" {
		t.Fatalf("%v: %s", err, w.Body)
	}
	left := map[string]string{}
	for _, f := range out.Files {
		left[f.Path] = r.send("GET", "/v1/files/"+f.ID, "").Body.String()
	}
	for i, name := range odd {
		if got := left["out/"+name]; got != fmt.Sprint(i) {
			t.Errorf("out/%q has %q", name, got)
		}
	}
}
