package e2e

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRootSharesState: what root does in the terminal the service of the user
// airlock knows, and the other way round, as far as root need not trust it.
func TestRootSharesState(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "this is about root")
	}
	who := root(t)
	data, home := dataFolder(t, who), t.TempDir()
	open, closed := folder(t, who.service), folder(t, &syscall.Credential{Uid: 12345, Gid: 12345})
	if err := os.Chmod(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	s := serve(t, who, data, "--workspace", open, "--workspace", closed, "--warm=false")
	reply := filepath.Join(home, "reply.md") // which the service's user cannot read
	if err := os.WriteFile(reply, []byte("```py:sub/a.py\nprint(1)\n```\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (out, said string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append(args, "--data", data)...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "AIRLOCK_CONFIG=none"}
		cmd.Dir = home
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%q: %v\n%s%s", args, err, stdout.Bytes(), stderr.Bytes())
		}
		return stdout.String(), stderr.String()
	}
	proposed := func(project string) string {
		t.Helper()
		out, _ := run("apply", "--propose", "--json", "--project", project, reply)
		var report struct{ Proposal struct{ ID string } }
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return report.Proposal.ID
	}
	owned := func(dir string, uid uint32) {
		t.Helper()
		for _, name := range []string{"sub", "sub/a.py"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
			} else if got := info.Sys().(*syscall.Stat_t).Uid; got != uid {
				t.Errorf("%s belongs to %d, want %d", name, got, uid)
			}
		}
	}

	run("workspace", "link", "OPEN", open)
	if _, said := run("workspace", "link", "CLOSED", closed); !strings.Contains(said, "may not write") {
		t.Errorf("it is not said what the page cannot do: %q", said)
	}
	if got := string(s.do("GET", "/api/v1/projects", "").body); !strings.Contains(got, `"OPEN"`) ||
		!strings.Contains(got, `"CLOSED"`) {
		t.Errorf("the service knows %s", got)
	}
	if got, _ := run("workspace", "list", "--json"); strings.Count(got, `"OPEN"`) != 1 ||
		strings.Count(got, `"CLOSED"`) != 1 {
		t.Errorf("root's list is %s", got)
	}

	id := proposed("OPEN")
	if got := s.do("GET", "/api/v1/proposals/"+id, ""); got.status != 200 {
		t.Errorf("the proposal in the service: %d %s", got.status, got.body)
	}
	run("apply", "--approve", id)
	owned(open, who.service.Uid)

	// A transaction of the service is undone in the terminal.
	body, _ := json.Marshal(map[string]any{"text": "```py:b.py\nprint(2)\n```\n", "project": "OPEN",
		"conversation": map[string]any{"capsule": map[string]any{"phase": "E"}}})
	var p struct{ ID, Token string }
	if err := json.Unmarshal(s.do("POST", "/api/v1/replies", string(body)).body, &p); err != nil || p.ID == "" {
		t.Fatalf("%v %+v", err, p)
	}
	var done struct {
		Result struct{ Undo string }
		Undo   string
	}
	answer := s.do("POST", "/api/v1/proposals/"+p.ID+"/approve", `{"token": "`+p.Token+`"}`)
	if err := json.Unmarshal(answer.body, &done); err != nil || answer.status != 200 {
		t.Fatalf("%v %s", err, answer.body)
	}
	run("undo", "--yes", "--root", open, p.ID)
	if _, err := os.Stat(filepath.Join(open, "b.py")); err == nil {
		t.Error("b.py is still there")
	}

	// Where the service may not write root does it, for the folder's owner, and
	// keeps what it did where nobody else can write.
	id = proposed("CLOSED")
	if got := string(s.do("GET", "/ui/review", "").body); !strings.Contains(got, "CLOSED") {
		t.Error("the page does not show the proposal")
	}
	run("apply", "--approve", id)
	owned(closed, 12345)
	if info, err := os.Stat(filepath.Join(home, ".local/share/airlock/state.db")); err != nil ||
		info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("root's own state: %v", err)
	}
	run("workspace", "unlink", "CLOSED")
	if got := string(s.do("GET", "/api/v1/projects", "").body); strings.Contains(got, `"CLOSED"`) {
		t.Errorf("after unlinking the service knows %s", got)
	}
}

// TestRootReadsCounts: root gets the counts of the directory that it names, and hears where its own are.
func TestRootReadsCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "this is about root")
	}
	who := root(t)
	home := t.TempDir()
	stats := func(data string) (out, said string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, "provider", "stats")
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "AIRLOCK_CONFIG=none", "AIRLOCK_DATA=" + data}
		cmd.Dir = home
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
		}
		return stdout.String(), stderr.String()
	}
	count := func(data, model string) {
		t.Helper()
		db, err := sql.Open("sqlite", filepath.Join(data, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(`INSERT INTO provider_counts (provider, model, counts) VALUES ('openai', ?1,
			json_object('provider', 'openai', 'model', ?1, 'turns', 7))`, model); err != nil {
			t.Fatal(err)
		}
	}
	own, service := filepath.Join(home, ".local/share/airlock"), dataWithoutPackages(t, who)
	stats(own) // makes the database
	stats(service)
	count(own, "roots-model")
	count(service, "services-model")
	out, said := stats(service)
	if !strings.Contains(out, "services-model") || strings.Contains(out, "roots-model") || !strings.Contains(said, own) {
		t.Errorf("of %s: %q, said %q", service, out, said)
	}
	if out, said = stats(own); !strings.Contains(out, "roots-model") || strings.Contains(said, "note") {
		t.Errorf("of %s: %q, said %q", own, out, said)
	}
}

// TestRestoreIntoRootsFolder: the folder belongs to root, and the data is the service's.
func TestRestoreIntoRootsFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "this is about root")
	}
	who := root(t)
	data := dataWithoutPackages(t, who)
	if got := who.run(t, nil, "keys", "create", "--data", data); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	file := filepath.Join(folder(t, nil), "backup")
	if got := who.run(t, nil, "backup", "--data", data, file); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	empty := folder(t, nil)
	if err := os.Chmod(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	got := who.run(t, nil, "restore", "--data", empty, file)
	if got.code == 0 || !strings.Contains(got.stderr, "airlock setup --data "+empty) {
		t.Errorf("restore: exit code %d, %s", got.code, got.stderr)
	}
	if err := os.WriteFile(filepath.Join(empty, "state.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got = who.run(t, nil, "backup", "--data", empty, file+"2")
	if got.code == 0 || !strings.Contains(got.stderr, "airlock setup --data "+empty) {
		t.Errorf("backup: exit code %d, %s", got.code, got.stderr)
	}
}
