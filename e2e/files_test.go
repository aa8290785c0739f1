package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of `airlock files` are the caller's: what was uploaded and what runs have made, and nobody else's.
func TestFilesCommand(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := dataWithoutPackages(t, who)
		keys := map[string]string{}
		for _, owner := range []string{"ada", "ben"} {
			made := who.run(t, nil, "keys", "create", "--data", data, "--owner", owner)
			if made.code != 0 {
				t.Fatalf("keys create: %+v", made)
			}
			keys[owner] = strings.TrimSpace(made.stdout)
		}
		s := serve(t, who, data)
		mine := folder(t, who.credential)
		cli := func(owner string, code int, args ...string) (stdout, said string) {
			t.Helper()
			args = append(args, "--server", s.url)
			got := who.run(t, []string{"AIRLOCK_KEY=" + keys[owner]}, args...)
			if got.code != code {
				t.Fatalf("%s, %q: exit code %d, %s%s", owner, args, got.code, got.stdout, got.stderr)
			}
			return got.stdout, got.stdout + got.stderr
		}
		if _, said := cli("ada", 0, "files", "ls"); !strings.Contains(said, "You have no files") {
			t.Errorf("at first: %s", said)
		}
		input := filepath.Join(mine, "sales.csv")
		if err := os.WriteFile(input, []byte("a,b\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cli("ada", 0, "files", "put", input)
		_, said := cli("ada", 0, "run", "--json", "-l", "bash", "-c", "echo made > made.txt; echo more > more.txt")
		var run struct{ ID string }
		if err := json.Unmarshal([]byte(said), &run); err != nil {
			t.Fatal(err, said)
		}
		cli("ben", 0, "run", "-l", "bash", "-c", "echo secret > others.txt")

		text, _ := cli("ada", 0, "files", "ls")
		for _, want := range []string{"sales.csv", "upload", "made.txt", "more.txt", "run " + run.ID} {
			if !strings.Contains(text, want) {
				t.Errorf("the list lacks %q: %s", want, text)
			}
		}
		if strings.Contains(text, "others.txt") {
			t.Errorf("the list has another owner's file: %s", text)
		}
		if text, _ := cli("ada", 0, "files", "ls", "--limit", "1"); !strings.Contains(text, "There are more") {
			t.Errorf("a limit: %s", text)
		}
		text, _ = cli("ben", 0, "files", "ls", "--json")
		var list struct{ Files []struct{ ID, Path string } }
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Files) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		for _, args := range [][]string{{"get", list.Files[0].ID}, {"get", "others.txt"}, {"rm", list.Files[0].ID}} {
			if _, said := cli("ada", 1, append([]string{"files"}, args...)...); strings.Contains(said, "secret") {
				t.Errorf("%q of another owner: %s", args, said)
			}
		}

		cli("ada", 0, "files", "get", "-o", mine, "made.txt")
		if err := os.WriteFile(input, []byte("changed\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cli("ada", 3, "files", "get", "-o", mine, "sales.csv", "made.txt", "more.txt")
		if kept, err := os.ReadFile(input); string(kept) != "changed\n" {
			t.Errorf("a file that exists: %q, %v", kept, err)
		}
		cli("ada", 2, "files", "get")
		into := filepath.Join(mine, "all")
		cli("ada", 0, "files", "get", "-o", into, "--run", run.ID)
		for _, file := range []string{filepath.Join(mine, "made.txt"), filepath.Join(mine, "more.txt"),
			filepath.Join(into, "more.txt")} {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
		_, said = cli("ben", 1, "files", "rm", "others.txt", "a\x1bb")
		if !strings.Contains(said, "with the id others.txt\n") || !strings.Contains(said, `with the id a\x1bb`) ||
			!strings.Contains(said, "removed by id") {
			t.Errorf("by name: %s", said)
		}
		cli("ben", 0, "files", "rm", list.Files[0].ID)
		if _, said := cli("ben", 0, "files", "ls"); !strings.Contains(said, "You have no files") {
			t.Errorf("after it was removed: %s", said)
		}
	})
}
