package e2e

import (
	"strings"
	"testing"
	"time"
)

// Each worker has a token for its name or for its pool. It cannot take another one's name, its token can be replaced
// while it works, and once it is revoked its work is interrupted and it cannot come back.
func TestClusterWorkerIdentity(t *testing.T) {
	t.Parallel()
	token := func(name string) string { return "token " + name + strings.Repeat("-", 32) }
	field := func(name string) string { return strings.ReplaceAll(token(name), " ", "_") }
	r := &roles{deployment: newDeployment(t)}
	tokens := "AIRLOCK_WORKER_TOKENS=alpha " + field("a1") + "\nalpha " + field("a2") + "\nbeta " + field("b") +
		"\npool-* " + field("p")
	for range 2 {
		r.addAPI("AIRLOCK_WORKER_TOKEN=", tokens)
	}
	worker := func(name, token string) *service {
		return r.addWorker("AIRLOCK_NODE_NAME="+name, "AIRLOCK_WORKER_TOKEN="+field(token))
	}
	alpha := worker("alpha", "a1")
	r.work()
	one, two := r.apis[0], r.apis[1]

	for name, other := range map[string]string{"alpha": "b", "beta": "p", "gamma": "a1", "pool-": "a1"} {
		w := worker(name, other)
		w.logged("the token of this worker is for other names than " + name)
	}
	worker("delta", "unknown").logged("no api takes this worker")
	r.workers = r.workers[:1]
	if !one.works() || !two.works() {
		t.Error("the worker whose name others wanted is gone")
	}

	// The other token of the same name is as good.
	alpha.stop()
	alpha = worker("alpha", "a2")
	r.workers = []*service{alpha}
	r.work()

	session := one.liveSession()
	ended := make(chan answer, 1)
	go func() {
		ended <- one.do("POST", runs, `{"language":"bash","code":"echo begun; sleep 60"}`)
	}()
	eventually(t, waitTime, "the program runs", func() bool {
		return strings.Contains(string(one.do("GET", "/api/v1/runs", "").body), `"running"`)
	})
	pool := worker("pool-7", "p")
	pool.logged("an api has taken this worker")
	did := func(args ...string) string {
		t.Helper()
		made := r.who.run(t, r.env(), append([]string{"nodes"}, args...)...)
		if made.code != 0 {
			t.Fatalf("%v: %+v", args, made)
		}
		return made.stdout
	}
	began := time.Now()
	did("revoke", "alpha")
	got := <-ended
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the program was interrupted after %v", took)
	}
	if text := string(got.body); got.status != 503 && !strings.Contains(text, "interrupted") {
		t.Errorf("the interrupted program: %d %s", got.status, text)
	}
	if text := string(one.do("GET", "/api/v1/runs", "").body); !strings.Contains(text, "was revoked by an operator") {
		t.Errorf("the history does not say why: %s", text)
	}
	alpha.logged("alpha was revoked")
	if text := did(); !strings.Contains(text, "alpha") || !strings.Contains(text, "revoked") {
		t.Errorf("the list: %s", text)
	}
	for _, api := range r.apis {
		eventually(t, waitTime, "another worker runs programs", api.works)
	}
	if text := one.cell(session, "open('kept.txt').read()"); !strings.Contains(text, "'kept'") {
		t.Errorf("the session's file at another worker: %s", text)
	}
	wait(t, 3*time.Second) // in which it tries to come back
	if text := did(); strings.Count(text, "alpha") != 1 || !strings.Contains(text, "revoked") {
		t.Errorf("the list later: %s", text)
	}
	did("approve", "alpha")
	alpha.logged("an api has taken this worker")
	var entries struct {
		Entries []struct{ Action, Object, From string }
	}
	one.do("GET", "/api/v1/audit", "").decode(t, &entries)
	if len(entries.Entries) < 2 || entries.Entries[1].Action != "worker revoked" || entries.Entries[1].Object != "alpha" ||
		entries.Entries[1].From != "database" {
		t.Errorf("the audit log: %+v", entries)
	}
}

// With approve_workers a worker of a new name gets nothing until an operator lets it in.
func TestClusterWorkerApproval(t *testing.T) {
	t.Parallel()
	r := &roles{deployment: newDeployment(t)}
	api := r.addAPI("AIRLOCK_APPROVE_WORKERS=true")
	w := r.addWorker("AIRLOCK_NODE_NAME=fresh")
	w.logged("fresh waits for approval")
	if api.works() {
		t.Error("a worker that nobody has approved runs programs")
	}
	listed := r.who.run(t, r.env(), "nodes")
	if listed.code != 0 || !strings.Contains(listed.stdout, "fresh") || !strings.Contains(listed.stdout, "pending") {
		t.Errorf("%+v", listed)
	}
	if made := r.who.run(t, r.env(), "nodes", "approve", "fresh"); made.code != 0 {
		t.Fatalf("%+v", made)
	}
	r.work()
}
