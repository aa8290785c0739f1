package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without a free byte a service with projects takes no new work and says why,
// and reverts what was done, also after it was killed.
func TestFullDiskOfProjects(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	who := root(t)
	disk, work := smallDisk(t, who, "size=24m"), folder(t, who.service)
	start := func() *service { return serve(t, who, disk, "--workspace", work) }
	s := start()
	call := func(method, path string, body any, status int) (answer map[string]any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		got := s.do(method, "/api/v1"+path, string(text), "Content-Type", "application/json")
		if got.status != status {
			t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
		}
		if len(got.body) > 0 {
			got.decode(t, &answer)
		}
		return answer
	}
	approve := func(proposal map[string]any) {
		t.Helper()
		call("POST", fmt.Sprintf("/proposals/%s/approve", proposal["id"]), map[string]any{"token": proposal["token"]}, 200)
	}
	reply := func(name, project string) map[string]any {
		return map[string]any{
			"text": "```go:" + name + "\npackage a\n```\n", "project": project,
			"conversation": map[string]any{"capsule": map[string]any{"phase": "E"}},
		}
	}
	ids := map[string]any{}
	for _, project := range []string{"P1", "P2"} {
		at := filepath.Join(work, project)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		give(t, at, who.service)
		call("PUT", "/projects/"+project, map[string]any{"folder": at}, 200)
		proposal := call("POST", "/replies", reply("a.go", project), 201)
		approve(proposal)
		ids[project] = proposal["id"]
	}
	fillDisk(t, disk)
	refused := call("POST", "/replies", reply("new.go", "P1"), 507)
	if text := fmt.Sprint(refused); !strings.Contains(text, "full") || !strings.Contains(text, "Delete") {
		t.Errorf("a reply on a full disk: %s", text)
	}
	for i, project := range []string{"P1", "P2"} {
		if i > 0 {
			s.kill()
			s = start()
		}
		approve(call("POST", fmt.Sprintf("/proposals/%s/undo", ids[project]), map[string]any{}, 201))
		if _, err := os.Stat(filepath.Join(work, project, "a.go")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: what was undone is there: %v", project, err)
		}
		fillDisk(t, disk) // what that freed is taken again
		call("DELETE", "/projects/"+project, nil, 204)
		fillDisk(t, disk)
	}
	if list := fmt.Sprint(call("GET", "/projects", nil, 200)); strings.Contains(list, "P1") ||
		strings.Contains(list, "P2") {
		t.Errorf("the projects: %s", list)
	}
	fillers, _ := filepath.Glob(filepath.Join(disk, "filler*"))
	for _, name := range fillers {
		os.Remove(name)
	}
	call("PUT", "/projects/P1", map[string]any{"folder": filepath.Join(work, "P1")}, 200)
	approve(call("POST", "/replies", reply("new.go", "P1"), 201))
}
