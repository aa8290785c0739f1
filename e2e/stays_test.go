package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ends are the ways in which a service ends before it is started again.
var ends = map[string]func(*service){"stopped": (*service).stop, "killed": (*service).kill}

// Files of every kind of session are there after the service was stopped or killed.
func TestFilesStay(t *testing.T) {
	t.Parallel()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachPerson(t, func(t *testing.T, who person) {
				data := dataWithPackages(t, who)
				s := serve(t, who, data)
				live := s.live(`{"kind":"live"}`)
				if c := live.cell("open('cell.txt', 'w').write('c'); x = 1"); c.Status != "ok" {
					t.Fatalf("%+v", c)
				}
				var held, onyx struct {
					ID      string `json:"id"`
					Session string `json:"session_id"`
				}
				s.do("POST", "/api/v1/sessions", `{"kind":"held"}`).decode(t, &held)
				s.do("POST", "/api/v1/runs", `{"language":"bash","code":"echo h > held.txt","session":"`+held.ID+`"}`)
				s.onyx("POST", "/v1/sessions", http.StatusCreated, map[string]any{}, &onyx)
				s.onyx("POST", "/v1/sessions/"+onyx.Session+"/bash", 200, map[string]any{"cmd": "echo o > onyx.txt"}, nil)
				var container struct {
					ID string `json:"id"`
				}
				s.do("POST", "/openai/v1/containers", `{"name":"c"}`).decode(t, &container)
				s.do("POST", "/terminal/execute?wait=5", `{"command":"echo t > terminal.txt"}`)
				var kernel struct {
					ID string `json:"id"`
				}
				s.do("POST", "/jupyter/api/kernels", `{"name":"python3"}`).decode(t, &kernel)
				made := s.do("POST", live.path+"/snapshots", `{"name":"v1"}`)
				end(s)

				s = serve(t, who, data)
				live.service = s
				if c := live.cell("print(open('cell.txt').read(), 'x' in globals())"); c.text() != "c False\n" || !c.Restarted ||
					!strings.Contains(c.Message, "service was restarted") {
					t.Errorf("live: %q, restarted %v: %q", c.text(), c.Restarted, c.Message)
				}
				for name, got := range map[string]answer{
					"held": s.do("POST", "/api/v1/runs",
						`{"language":"bash","code":"cat held.txt && echo there","session":"`+held.ID+`"}`),
					"onyx": s.onyx("POST", "/v1/sessions/"+onyx.Session+"/bash", 200,
						map[string]any{"cmd": "cat onyx.txt && echo there"}, nil),
					"openai":   s.do("GET", "/openai/v1/containers/"+container.ID, ""),
					"terminal": s.do("POST", "/terminal/execute?wait=5", `{"command":"cat terminal.txt && echo there"}`),
					"jupyter":  s.do("GET", "/jupyter/api/kernels/"+kernel.ID, ""),
					"snapshot": s.do("GET", "/api/v1/snapshots/v1", ""),
				} {
					want := map[string]string{"openai": `"running"`, "jupyter": kernel.ID, "snapshot": `"files":1`}[name]
					if want == "" {
						want = "there"
					}
					if got.status != http.StatusOK || !strings.Contains(strings.ReplaceAll(string(got.body), `": `, `":`), want) {
						t.Errorf("%s: %d %s", name, got.status, got.body)
					}
				}
				copied := s.live(`{"snapshot":"v1"}`)
				if c := copied.cell("open('cell.txt').read()"); c.text() != "'c'\n" {
					t.Errorf("of a snapshot that was made before (%d): %q", made.status, c.text())
				}
			})
		})
	}
}

// E2B's SDK pauses, resumes, makes snapshots and forks, and finds its sandboxes after a restart.
func TestE2BStays(t *testing.T) {
	t.Parallel()
	folder := e2bClients(t)
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := person{name: "user"}
			if os.Geteuid() == 0 {
				who = root(t)
			}
			data, state := dataWithPackages(t, who), filepath.Join(t.TempDir(), "state")
			key := e2bKey(t, who, data, "ann")
			s := serve(t, who, data)
			drive := func(phase string) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, filepath.Join(folder, "python/bin/python"), "e2b/stays.py", phase, state)
				cmd.Env = append(os.Environ(), "E2B_API_KEY="+key, "E2B_API_URL="+s.url+"/e2b", "E2B_SANDBOX_URL="+s.url+"/e2b")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", phase, err, out)
				}
			}
			drive("make")
			end(s)
			s = serve(t, who, data)
			drive("look")
		})
	}
}
