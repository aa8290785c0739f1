package index

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/postgrestest"
)

// says checks that a layer is in a state, with a word in it.
func says(t *testing.T, found []engine.Layer, name string, state engine.LayerState, word string) {
	t.Helper()
	for _, l := range found {
		if l.Name == name && l.State == state && strings.Contains(l.Detail, word) {
			return
		}
	}
	t.Errorf("%s is not %s with %q: %+v", name, state, word, found)
}

func run(t *testing.T, address string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for _, text := range statements {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExamine(t *testing.T) {
	address := newPostgres(t)
	found := Examine(t.Context(), address)
	says(t, found, "database", engine.LayerEnforced, "PostgreSQL")
	says(t, found, "tables", engine.LayerEnforced, "none yet")
	says(t, found, "clock", engine.LayerEnforced, "ahead")
	says(t, found, "commits", engine.LayerWeaker, "fsync is off")
	says(t, found, "standby", engine.LayerEnforced, "none")
	says(t, found, "nodes", engine.LayerEnforced, "none")

	openPostgres(t, address)
	run(t, address, `INSERT INTO nodes (epoch, name, role, address, version, slots, memory, languages, packages,
		since_us, beat_us)
		VALUES (1, 'one', 'api', '', 'v1', 1, 1, '', '', 0, 0)`)
	found = Examine(t.Context(), address)
	says(t, found, "tables", engine.LayerEnforced, "more can be made")
	says(t, found, "nodes", engine.LayerEnforced, "one (api, v1)")
	run(t, address, `INSERT INTO nodes (epoch, name, role, address, version, slots, memory, languages, packages,
		since_us, beat_us)
		VALUES (2, 'two', 'worker', '', 'v2', 1, 1, '', '', 0, 0)`, "INSERT INTO airlock_schema VALUES (999)")
	found = Examine(t.Context(), address)
	says(t, found, "nodes", engine.LayerWeaker, "one (api, v1), two (worker, v2)")
	says(t, found, "tables", engine.LayerMissing, "newer version")

	weak := newPostgres(t)
	run(t, weak, "DROP ROLE IF EXISTS weak", "CREATE ROLE weak LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	says(t, Examine(t.Context(), strings.Replace(weak, "postgres@", "weak@", 1)), "tables", engine.LayerMissing,
		"permission denied")
	says(t, Examine(t.Context(), "postgres://u:secret@127.0.0.1:1/x"), "database", engine.LayerMissing, "127.0.0.1")
	says(t, Examine(t.Context(), "postgres://%zz"), "database", engine.LayerMissing, "address")
}

// A standby that is asynchronous loses what was answered last, and cannot be written to.
func TestExamineStandby(t *testing.T) {
	newPostgres(t) // or skip
	primary, err := postgrestest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Stop() })
	set := func(setting string) {
		run(t, primary.URL("postgres"), "ALTER SYSTEM SET "+setting, "SELECT pg_reload_conf()")
	}
	until := func(state engine.LayerState, word string) {
		t.Helper()
		var found []engine.Layer
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
			found = Examine(t.Context(), primary.URL("postgres"))
			if last := found[len(found)-2]; last.State == state && strings.Contains(last.Detail, word) {
				return
			}
			<-time.After(50 * time.Millisecond) // settings are read again soon
		}
		says(t, found, "standby", state, word)
	}
	openPostgres(t, primary.URL("postgres"))
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	until(engine.LayerWeaker, "asynchronous")
	says(t, Examine(t.Context(), standby.URL("postgres")), "tables", engine.LayerMissing, "is a standby")
	set("synchronous_standby_names = '*'")
	until(engine.LayerEnforced, "synchronous: *")
	set("synchronous_commit = local")
	until(engine.LayerWeaker, "nobody waits")
	set("synchronous_commit = on")
	if err := standby.Pause(); err != nil {
		t.Fatal(err)
	}
	until(engine.LayerWeaker, "none is connected")
}
