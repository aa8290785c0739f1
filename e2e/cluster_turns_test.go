package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// back starts an api again at its address, as its workers and peers know it.
func (r *roles) back(s *service) {
	r.Helper()
	env := append(r.env(), "AIRLOCK_WORKER_TOKEN="+workerToken)
	again := serveWith(r.T, r.who, s.data, env, "--role", "api", "--listen", strings.TrimPrefix(s.url, "http://"))
	r.apis[slices.Index(r.apis, s)] = again
	eventually(r.T, waitTime, "an api knows the workers", again.works)
}

// Apis end and come back in turn. Each time the other one leads the live sessions, and lists every file that
// was acknowledged: none goes on in a workspace that a worker has had since an earlier turn.
func TestClusterTurns(t *testing.T) {
	t.Parallel()
	needPackages(t)
	for name, end := range map[string]func(*service){"TERM": (*service).stop, "KILL": (*service).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoles(t, 2, 2)
			const sessions, turns = 5, 4
			var ids []string
			for range sessions {
				ids = append(ids, r.live(r.apis[0]))
			}
			for turn := range turns {
				at := r.apis[turn%2]
				write := fmt.Sprintf("open('f%d','w').write('%d'); import os; print(sorted(os.listdir()))", turn, turn)
				want := []string{}
				for earlier := range turn + 1 {
					want = append(want, fmt.Sprintf("'f%d'", earlier))
				}
				for _, id := range ids {
					if got := at.again(id, write); !strings.Contains(got, strings.Join(append(want, "'kept.txt'"), ", ")) {
						t.Errorf("turn %d: %s", turn, got)
					}
				}
				end(at)
				for n, id := range ids {
					body := fmt.Sprintf(`{"code":"import os; print(%d, sorted(os.listdir()))"}`, n)
					got := r.apis[(turn+1)%2].do("POST", "/api/v1/sessions/"+id+"/cells", body)
					if got.status == http.StatusOK && !strings.Contains(string(got.body), strings.Join(want, ", ")) {
						t.Errorf("after turn %d: %s", turn, got.body)
					}
				}
				r.back(at)
			}
		})
	}
}
