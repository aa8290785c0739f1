package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to make a database newer than the program
)

// What a service keeps is in a backup that is made while it runs, and in the service
// that is started on a restored copy: files, runs and keys.
func TestBackupAndRestore(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		key := strings.TrimSpace(who.run(t, nil, "keys", "create", "--data", s.data).stdout)
		withKey := []string{"Content-Type", "application/json", "X-API-Key", key}
		var made struct {
			ID    string
			Files []struct{ ID string }
		}
		s.do("POST", "/api/v1/runs", `{"language":"bash","code":"echo kept > kept.txt; echo done"}`, withKey...).decode(t, &made)
		if len(made.Files) != 1 {
			t.Fatalf("the run left %+v", made)
		}

		file := filepath.Join(folder(t, who.credential), "backup")
		if got := who.run(t, nil, "backup", "--data", s.data, file); got.code != 0 {
			t.Fatalf("backup: exit code %d, %s", got.code, got.stderr)
		}
		if got := who.run(t, nil, "backup", "--data", s.data, file); got.code != 4 {
			t.Errorf("a backup over another: exit code %d, %s", got.code, got.stderr)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup is %v, %v", info, err)
		}
		if got := who.run(t, nil, "restore", "--data", s.data, file); got.code != 4 {
			t.Errorf("restore into a service that runs: exit code %d, %s", got.code, got.stderr)
		}
		s.stop()

		data := dataWithoutPackages(t, who)
		got := who.run(t, nil, "restore", "--json", "--data", data, file)
		if got.code != 0 || !json.Valid([]byte(got.stdout)) {
			t.Fatalf("restore: exit code %d, %s%s", got.code, got.stdout, got.stderr)
		}
		if got := who.run(t, nil, "restore", "--data", data, file); got.code != 4 {
			t.Errorf("restore over data: exit code %d, %s", got.code, got.stderr)
		}
		again := serve(t, who, data)
		if got := again.do("GET", "/api/v1/files/"+made.Files[0].ID+"/content", "",
			withKey...); string(got.body) != "kept\n" {
			t.Errorf("the file is %d %q", got.status, got.body)
		}
		if got := again.do("GET", "/api/v1/runs/"+made.ID, "", withKey...); got.status != 200 || !strings.Contains(string(got.body), `"done\n"`) {
			t.Errorf("the run is %d %q", got.status, got.body)
		}
	})
}

// A file that is no backup, or the first half of one, changes nothing.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	whole, err := os.ReadFile(storedBackup)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"text": []byte("no backup"), "empty": nil, "half": whole[:len(whole)/2]} {
		file := filepath.Join(t.TempDir(), "backup")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		data := dataWithoutPackages(t, who)
		if got := who.run(t, nil, "restore", "--data", data, file); got.code != 1 ||
			!strings.Contains(got.stderr, "not a backup, or only a part") {
			t.Errorf("%s: exit code %d, %s", name, got.code, got.stderr)
		}
		if left, err := os.ReadDir(data); err != nil || len(left) != 0 {
			t.Errorf("%s: it left %v, %v", name, left, err)
		}
	}
}

// storedBackup is of a data directory that an earlier version made, with one key and
// one run that left a file.
const (
	storedBackup = "testdata/data-e074258.tar.zst"
	storedKey    = "ak_mj883ib7k68p_W2wsY3n5ZmifoT89Gc6NDTJsx63i3P3jEqfb2kguogs" // of nobody's
)

// A data directory of an earlier version opens with this one, and what is in it can be
// used. One of a newer version is refused and left as it is.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	stored, err := filepath.Abs(storedBackup)
	if err != nil {
		t.Fatal(err)
	}
	data := dataWithoutPackages(t, who)
	if got := who.run(t, nil, "restore", "--data", data, stored); got.code != 0 {
		t.Fatalf("restore: exit code %d, %s", got.code, got.stderr)
	}
	s := serve(t, who, data)
	withKey := []string{"Content-Type", "application/json", "X-API-Key", storedKey}
	if got := s.do("GET", "/api/v1/runs", "", withKey...); got.status != 200 { // what was in it expires with time
		t.Errorf("the runs are %d %q", got.status, got.body)
	}
	if got := s.do("POST", "/api/v1/runs", `{"language":"bash","code":"echo new"}`, withKey...); got.status != 200 {
		t.Errorf("a new run is %d %q", got.status, got.body)
	}
	s.stop()

	db, err := sql.Open("sqlite", filepath.Join(data, "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version+1)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	give(t, data, who.service)
	if got := who.run(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0"); got.code == 0 ||
		!strings.Contains(got.stderr, "install the newer program again") {
		t.Errorf("a newer data directory: exit code %d, %s", got.code, got.stderr)
	}
}

// What root's command does as the service's user is done where the environment says.
func TestKeysOfTheDatabase(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	got := who.run(t, []string{"AIRLOCK_DATABASE=postgres://u:p@127.0.0.1:1/x"}, "keys", "list",
		"--data", dataWithoutPackages(t, who))
	if got.code == 0 || !strings.Contains(got.stderr, "open the database at 127.0.0.1") {
		t.Errorf("keys in a database that is not there: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
}
