package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// judgeStandIn answers as go-judge's documentation says that it does, and
// keeps what it was sent.
type judgeStandIn struct {
	uploaded []byte
	run      judgeRun
	deleted  []string
}

func (j *judgeStandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /file":
		file, _, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		defer file.Close()
		j.uploaded, _ = io.ReadAll(file)
		_, _ = io.WriteString(w, `"IN"`)
	case "POST /run":
		var body struct{ Cmd []judgeRun }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Cmd) != 1 {
			http.Error(w, "bad command", http.StatusBadRequest)
			return
		}
		j.run = body.Cmd[0]
		_, _ = io.WriteString(
			w, `[{"status":"Accepted","exitStatus":0,"time":1,"memory":1,"runTime":1,"files":{"stderr":"","stdout":"done\n"},"fileIds":{"plot.png":"OUT"}}]`)
	default:
		j.deleted = append(j.deleted, r.Method+" "+r.URL.Path)
	}
}

func TestGoJudge(t *testing.T) {
	judge := &judgeStandIn{}
	remote := httptest.NewServer(judge)
	defer remote.Close()
	w := &workload{code: "print('done')", input: "sales.csv", data: []byte("a,b\n"), output: "plot.png", stdout: "done",
		packages: true}
	c, err := goJudge(&server{address: strings.TrimPrefix(remote.URL, "http://")}, "/usr/bin/python3").open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.time(t.Context()); err != nil {
		t.Fatal(err)
	}
	if string(judge.uploaded) != "a,b\n" {
		t.Errorf("uploaded %q", judge.uploaded)
	}
	if diff := cmp.Diff([]string{"/usr/bin/python3", programName}, judge.run.Args); diff != "" {
		t.Errorf("arguments (-want +got)\n%s", diff)
	}
	want := map[string]judgeFile{programName: {Content: &w.code}, "sales.csv": {FileID: "IN"}}
	if diff := cmp.Diff(want, judge.run.CopyIn); diff != "" {
		t.Errorf("files copied in (-want +got)\n%s", diff)
	}
	// What is kept is put away, or its store would fill while we measure.
	if diff := cmp.Diff([]string{"DELETE /file/OUT"}, judge.deleted); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
