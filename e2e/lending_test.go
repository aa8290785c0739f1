package e2e

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
)

// A large file is lent to programs where root started the service, and copied elsewhere. Both read it
// and write to it, and the stored one is the next program's as it was.
func TestLargeInputs(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		json := []string{"Content-Type", "application/json"}
		var made struct{ Files []struct{ ID string } }
		s.do("POST", "/api/v1/runs", `{"language":"bash","code":"head -c 9000000 /dev/urandom > big"}`,
			json...).decode(t, &made)
		if len(made.Files) != 1 {
			t.Fatalf("the run left %+v", made)
		}
		content := "/api/v1/files/" + made.Files[0].ID + "/content"
		sum := sha256.Sum256(s.do("GET", content, "").body)
		lent := 0
		if who.credential == nil {
			lent = 1
		}
		for _, program := range []string{
			// For so much a process that waits for a command is not given up.
			`"language":"bash","code":"sha256sum < big; echo ` + fmt.Sprint(lent) + `; printf x >> big"`,
			`"language":"python","code":"import hashlib\nprint(hashlib.sha256(open('big', 'rb').read()).hexdigest(), ' -')\n` +
				`print(int(any(l.split()[1:3] == ['/workspace', 'overlay'] for l in open('/proc/mounts'))))\n` +
				`open('big', 'r+b').write(b'changed')"`,
		} {
			for range 3 {
				var run struct {
					Stdout, Stderr string
					Files          []struct{ Path string }
				}
				s.do("POST", "/api/v1/runs", fmt.Sprintf(`{%s,"files":[{"id":%q,"path":"big"}]}`, program, made.Files[0].ID),
					json...).decode(t, &run)
				if run.Stdout != fmt.Sprintf("%x  -\n%d\n", sum, lent) || len(run.Files) != 1 || run.Files[0].Path != "big" {
					t.Errorf("%s: %+v", program, run)
				}
			}
		}
		if got := sha256.Sum256(s.do("GET", content, "").body); got != sum {
			t.Error("the stored file is another")
		}
		file := filepath.Join(folder(t, who.credential), "backup")
		if got := who.run(t, nil, "backup", "--data", s.data, file); got.code != 0 {
			t.Errorf("backup: exit code %d, %s", got.code, got.stderr)
		}
	})
}
