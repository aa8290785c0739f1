package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// What programs leave in a volume outlives a service that is killed while one writes, a backup and a restore. Only one
// session writes, and a program that takes more than its owner may keep is ended.
func TestVolumes(t *testing.T) {
	t.Parallel()
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who), "--owner-disk", "20MiB")
		cli := func(data string, code int, args ...string) string {
			t.Helper()
			got := who.run(t, nil, append(args, "--data", data)...)
			if got.code != code {
				t.Fatalf("%q: exit code %d, %s%s", args, got.code, got.stdout, got.stderr)
			}
			return got.stdout + got.stderr
		}
		cli(s.data, 0, "volumes", "create", "data")
		cli(s.data, 2, "volumes", "create", "../data")
		cli(s.data, 0, "run", "--volume", "data", "-l", "bash", "-c",
			"cd /volumes/data; echo kept > a; printf '#!/bin/sh\necho tool' > tool; chmod 755 tool; ln -s a link; mkfifo pipe")
		if got := cli(s.data, 0, "run", "--volume", "data:/mnt/it:ro", "-l", "bash", "-c",
			"cd /mnt/it; cat link; ./tool; touch new 2>/dev/null || echo refused"); got != "kept\ntool\nrefused\n" {
			t.Errorf("read again: %q", got)
		}

		writer := `{"language":"bash","wait":false,"volumes":[{"name":"data"}],"code":"echo b > /volumes/data/b; sleep 600"}`
		if got := s.do("POST", "/api/v1/runs", writer); got.status != 202 {
			t.Fatalf("a writer: %s", got.body)
		}
		for _, refused := range []answer{s.do("POST", "/api/v1/runs", writer), s.do("DELETE", "/api/v1/volumes/data", "")} {
			if refused.status != 409 || !strings.Contains(string(refused.body), "The volume data is in use") {
				t.Errorf("beside a writer: %s", refused.body)
			}
		}
		s.kill()
		s = serve(t, who, s.data, "--owner-disk", "20MiB")
		full := s.do("POST", "/api/v1/runs", `{"language":"bash","volumes":[{"name":"data"}],`+
			`"code":"cd /volumes/data; for i in $(seq 1000); do head -c 1000000 /dev/zero > fill$i; done; sleep 600"}`)
		if !strings.Contains(string(full.body), "The program was ended while it wrote to the volume data") {
			t.Errorf("over the quota: %s", full.body)
		}
		cli(s.data, 0, "run", "--volume", "data", "-l", "bash", "-c", "rm /volumes/data/fill*")

		file, data := filepath.Join(folder(t, who.credential), "backup"), dataWithoutPackages(t, who)
		if got := who.run(t, nil, "backup", "--data", s.data, file); got.code != 0 {
			t.Fatalf("backup: %s", got.stderr)
		}
		s.stop()
		if got := who.run(t, nil, "restore", "--data", data, file); got.code != 0 {
			t.Fatalf("restore: %s", got.stderr)
		}
		serve(t, who, data)
		if got := cli(data, 0, "run", "--volume", "data", "-l", "bash", "-c",
			"cd /volumes/data; rm -f b; ls; cat link; ./tool"); got != "a\nlink\ntool\nkept\ntool\n" {
			t.Errorf("after a restore: %q", got)
		}
		if list := cli(data, 0, "volumes", "list"); !strings.Contains(list, "data") {
			t.Errorf("the list is %q", list)
		}
		cli(data, 0, "volumes", "remove", "data")
	})
}
