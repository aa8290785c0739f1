package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClusterFullWorker fills the disk of a worker under runs and cells that leave files: each either has its file in
// the bucket, or is an error that says so. Afterwards they work again.
func TestClusterFullWorker(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		skip(t, "it mounts a disk: run it as root")
	}
	r := &roles{deployment: newDeployment(t)}
	api := r.addAPI()
	disk := smallDiskIn(t, r.who, dataFolder(t, r.who), "size=48m")
	worker := startWorkerAs(t, r.who, func(cmd *exec.Cmd) {
		cmd.Args[slices.Index(cmd.Args, "--data")+1] = disk
	}, []string{"AIRLOCK_WORKER_TOKEN=" + workerToken, "AIRLOCK_MIN_FREE=64KiB", "AIRLOCK_BLOB_CACHE=32MiB"}, api.url)
	r.workers = append(r.workers, worker)
	r.work()
	id := r.live(api)
	code := func(name string) string {
		return fmt.Sprintf("import os\nwith open('%s','wb') as f: f.write(os.urandom(6<<20))\nprint('wrote')", name)
	}
	// stored reports whether a session has a file of six MiB.
	stored := func(session, name string) bool {
		t.Helper()
		got := api.do("GET", "/api/v1/sessions/"+session+"/files", "")
		return got.status == http.StatusOK && strings.Contains(string(got.body), `"`+name+`"`)
	}
	good, bad := 0, 0
	check := func(when string, n int) {
		t.Helper()
		cell := fmt.Sprintf("cell-%s-%d.bin", when, n)
		text := api.cell(id, code(cell))
		ok := strings.Contains(text, `"status":"ok"`)
		if ok != stored(id, cell) {
			t.Errorf("%s, a cell that is ok: %v, has its file: %v: %.600s", when, ok, !ok, text)
		}
		run := fmt.Sprintf("run-%s-%d.bin", when, n)
		answer := api.do("POST", runs, `{"language":"python","code":`+strconv.Quote(code(run))+`}`)
		has, done := strings.Contains(string(answer.body), `"path":"`+run+`","name"`), strings.Contains(string(answer.body),
			`"status":"ok"`)
		if has != done {
			t.Errorf("%s, a run: %d %s", when, answer.status, answer.body)
		}
		for _, well := range []bool{ok, has} {
			if well {
				good++
			} else {
				bad++
			}
		}
		if !ok && !strings.Contains(text, "stored") {
			t.Errorf("%s, the cell does not say why: %.600s", when, text)
		}
		if !has && !strings.Contains(string(answer.body), "stored") {
			t.Errorf("%s, the run does not say why: %d %s", when, answer.status, answer.body)
		}
	}
	check("before", 0)
	if bad > 0 {
		t.Error("files were not stored while there was room")
	}
	leave := func(free int64) {
		t.Helper()
		fillLeaving(t, disk, free)
	}
	leave(2 << 20) // more than min_free: it takes programs
	for n := range 3 {
		check("full", n)
	}
	t.Logf("on a full disk: %d stored, %d errors", good-2, bad)
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	was := bad
	check("after", 0)
	if bad > was {
		t.Error("files were not stored when there was room again")
	}
}

// fillLeaving writes a file that leaves some bytes of a disk free.
func fillLeaving(t *testing.T, disk string, free int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 256<<10)
	for {
		var fs unix.Statfs_t
		if err := unix.Statfs(disk, &fs); err != nil {
			t.Fatal(err)
		}
		if int64(fs.Bavail)*fs.Bsize <= free {
			return
		}
		if _, err := f.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
}
