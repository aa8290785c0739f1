package e2e

import (
	"strings"
	"testing"
)

// The database dies, and its synchronous standby takes its place: services that know the
// addresses of both go on, with all that was acknowledged.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := &roles{deployment: newDeployment(t)}
	standby, err := r.postgres.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	if err := r.postgres.Synchronous(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.database = r.postgres.URLWith(standby, r.database)
	r.addAPI()
	r.addAPI()
	r.addWorker()
	r.work()
	one, two := r.apis[0], r.apis[1]
	session := r.live(one)
	load := r.load()
	load.more(5)

	if err := r.postgres.Crash(); err != nil {
		t.Fatal(err)
	}
	one.refuses()
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	load.more(5)
	if got := two.again(session, readKept); !strings.Contains(got, "kept") {
		t.Errorf("the session: %s", got)
	}
	load.check(two)
}
