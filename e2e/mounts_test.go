package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs read and write folders of the machine as the settings say. A folder that vanishes is empty, and one in its
// place is not seen before the service starts again; one that is moved stays the same.
func TestMounts(t *testing.T) {
	t.Parallel()
	forEachPerson(t, func(t *testing.T, who person) {
		own := who.credential
		srv := folder(t, own)
		for _, name := range []string{"in", "out"} {
			if err := errors.Join(os.Mkdir(filepath.Join(srv, name), 0o755),
				os.WriteFile(filepath.Join(srv, name, "a"), []byte("old"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(srv, 0o755); err != nil {
			t.Fatal(err)
		}
		give(t, srv, own)
		data := dataFolder(t, who)
		settings := []string{"--mounts", "in=" + srv + "/in", "--mounts", "out=" + srv + "/out:rw", "--mounts", "gone=" +
			srv + "/gone", "--mount-access", "in", "--mount-access", "out", "--mount-access", "gone"}
		s := serve(t, who, data, settings...)
		run := func(mounts, code string) string {
			t.Helper()
			got := s.do("POST", "/api/v1/runs", `{"language":"bash","mounts":[`+mounts+`],"code":"`+code+`"}`)
			var ran struct {
				Stdout, Stderr string
				Error          struct{ Message, Hint string }
			}
			got.decode(t, &ran)
			return ran.Stdout + ran.Stderr + ran.Error.Hint
		}
		const goneHint = "mounts or creates it there, then restarts the service"
		const write = `cat /mnt/in/a /mnt/out/a; echo new > /mnt/out/b && echo wrote; ln -s a /mnt/out/link 2>/dev/null || echo no link`
		if got := run(`"in","out"`, write); got != "oldoldwrote\nno link\n" {
			t.Errorf("a run: %q", got)
		}
		if got := run(`"out:ro"`, "cat /mnt/out/b; echo x > /mnt/out/b"); !strings.HasPrefix(got, "new\n") ||
			!strings.Contains(got, "Read-only file system") {
			t.Errorf("read-only: %q", got)
		}
		if got := run(`"gone"`, "true"); !strings.Contains(got, goneHint) {
			t.Errorf("a folder that was never there: %q", got)
		}
		if got, err := os.ReadFile(srv + "/out/b"); string(got) != "new\n" {
			t.Errorf("outside: %q, %v", got, err)
		}

		l := s.live(`{"kind":"live","language":"bash","mounts":["in","out"]}`)
		see := func(want string) {
			t.Helper()
			const look = `cat /mnt/in/a; echo more >> /mnt/out/b || echo refused`
			l.expect(look+" 2>&1", want)
			if got := run(`"in","out"`, look+" 2>&1"); got != want {
				t.Errorf("a run beside the session: %q, want %q", got, want)
			}
		}
		see("old")
		// Another folder comes in the place of each, as by a deployment.
		for _, name := range []string{"in", "out"} {
			at := filepath.Join(srv, name)
			if err := errors.Join(os.Rename(at, at+".old"), os.Mkdir(at, 0o755),
				os.WriteFile(at+"/a", []byte("next"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		give(t, srv, own)
		see("old")
		if got, err := os.ReadFile(srv + "/out.old/b"); string(got) != "new\nmore\nmore\nmore\nmore\n" {
			t.Errorf("in the folder that was moved: %q, %v", got, err)
		}
		if err := errors.Join(os.RemoveAll(srv+"/in.old"), os.RemoveAll(srv+"/out.old")); err != nil {
			t.Fatal(err)
		}
		l.expect(`ls /mnt/in /mnt/out; cat /mnt/in/a 2>/dev/null || echo nothing; echo x 2>/dev/null > /mnt/out/b || echo refused`,
			"/mnt/in:\n\n/mnt/out:\nnothing\nrefused\n")
		if got := run(`"in"`, "true"); !strings.Contains(got, goneHint) {
			t.Errorf("a run in a folder that was removed: %q", got)
		}
		if _, err := os.Stat(srv + "/out/b"); err == nil {
			t.Error("a program wrote to a folder that the service does not know")
		}
		s.stop()
		s = serve(t, who, data, settings...)
		l.service = s
		see("next")

		made := who.run(t, nil, "keys", "create", "--data", data, "--mounts", "out:ro")
		if made.code != 0 {
			t.Fatalf("keys create: %+v", made)
		}
		const look = `print(open('/mnt/out/a').read()); open('/mnt/out/c', 'w')`
		for path, body := range map[string]string{
			"/onyx/v1/execute": `{"code":"` + look + `","timeout_ms":9000}`,
			"/api/v1/runs":     `{"language":"python","code":"` + look + `"}`,
		} {
			got := s.do("POST", path, body, "Authorization", "Bearer "+strings.TrimSpace(made.stdout))
			if !strings.Contains(string(got.body), `next\n`) || !strings.Contains(string(got.body), "Read-only file system") {
				t.Errorf("%s with the mounts of a key: %s", path, got.body)
			}
		}

		doctor := who.run(t, []string{"AIRLOCK_MOUNTS=in=" + srv + "/in,out=" + srv + "/out:rw,gone=" + srv + "/gone"},
			"doctor", "--json", "--data", data)
		for _, want := range []string{`in","ok":true`, `out","writable":true,"ok":true`, `gone","ok":false`} {
			if !strings.Contains(strings.Join(strings.Fields(doctor.stdout), ""), want) {
				t.Errorf("doctor says nothing of %q:\n%s", want, doctor.stdout)
			}
		}
	})
}

// A person at a terminal is asked before a program writes to a folder of theirs.
func TestMountToWrite(t *testing.T) {
	t.Parallel()
	forEachPerson(t, func(t *testing.T, who person) {
		data, at := dataWithoutPackages(t, who), folder(t, who.credential)
		run := []string{"run", "--data", data, "--mount-rw", at, "-l", "bash", "-c",
			"cd /mnt/airlock-e2e* && echo x >> a && echo wrote"}
		for answer, want := range map[string]int{"n\n": 125, "\n": 125, "y\n": 0} {
			term := onTerminal(t, who.command(t, nil, run...))
			term.until("May the program change and delete all that is in " + at)
			term.press(answer)
			if code, screen := term.end(); code != want || strings.Contains(screen, "wrote") != (want == 0) {
				t.Errorf("answer %q: exit code %d\n%s", answer, code, screen)
			}
		}
		if got := who.run(t, nil, run...); got.code != 125 || !strings.Contains(got.stderr, "you did not agree") {
			t.Errorf("without a terminal: %+v", got)
		}
		if got := who.run(t, nil, append(run, "--yes")...); got.code != 0 || got.stdout != "wrote\n" {
			t.Errorf("with --yes: %+v", got)
		}
		if got, err := os.ReadFile(at + "/a"); string(got) != "x\nx\n" {
			t.Errorf("the folder has %q, %v", got, err)
		}
		home := folder(t, who.credential)
		for at, want := range map[string]string{filepath.Dir(home): home, home: home, data: data} {
			got := who.run(t, []string{"HOME=" + home}, "run", "--yes", "--data", data, "--mount-rw", at, "-c", "1")
			if got.code != 125 || !strings.Contains(got.stderr, "has "+want+" in it") {
				t.Errorf("%s: %+v", at, got)
			}
		}
	})
}
