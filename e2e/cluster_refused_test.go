package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/bucket/buckettest"
)

// What is set up wrongly is said at the start, without a secret, with what to do.
func TestClusterRefused(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.statement(d.postgres.URL("postgres"), `CREATE ROLE locked LOGIN PASSWORD 'the right one'`)
	newer := d.newDatabase()
	serveWith(t, d.who, dataWithoutPackages(t, d.who), []string{"AIRLOCK_DATABASE=" + newer}).stop()
	d.statement(newer, "INSERT INTO airlock_schema VALUES (999)")
	taken := d.newDatabase()
	first := serveWith(t, d.who, dataWithoutPackages(t, d.who), append(d.env(), "AIRLOCK_DATABASE="+taken))
	t.Cleanup(first.stop)
	forbidding := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(forbidding.Close)
	// From here on the server asks for passwords, as others do.
	d.statement(d.postgres.URL("postgres"), `DO $$ BEGIN EXECUTE format(
		'COPY (SELECT ''host all locked all scram-sha-256'' UNION ALL SELECT ''host all all all trust'') TO %L',
		current_setting('hba_file')); PERFORM pg_reload_conf(); END $$`)

	worker := []string{"serve", "--role", "worker", "--api", first.url}
	for name, test := range map[string]struct {
		env  []string
		args []string
		says []string
	}{
		"wrong password": {[]string{"AIRLOCK_DATABASE=" +
			strings.Replace(d.database, "postgres@", "locked:wrong-secret@", 1)}, nil,
			[]string{"password authentication failed", "locked"}},
		"no bucket": {[]string{"AIRLOCK_BLOBS=" + d.bucket.URL("nothing-there")}, nil,
			[]string{"nothing-there", "There is no such bucket"}},
		"bucket without rights": {[]string{"AIRLOCK_BLOBS=s3://closed/?region=us-east-1&endpoint=" + forbidding.URL}, nil,
			[]string{"closed", "s3:"}},
		"wrong key": {[]string{"AWS_SECRET_ACCESS_KEY=wrong-secret"}, nil, []string{"signature", "key"}},
		"newer database": {[]string{"AIRLOCK_DATABASE=" + newer}, nil,
			[]string{"newer than this program", "install the newer program again"}},
		"another deployment": {[]string{"AIRLOCK_DATABASE=" + taken, "AIRLOCK_BLOBS=" + d.newBucket()}, nil,
			[]string{buckettest.Name(d.blobs), "a database of its own"}},
		"worker far away": {nil, append(worker, "--listen", "0.0.0.0:0"),
			[]string{"beyond loopback", "AIRLOCK_WORKER_TOKEN"}},
		"worker without api": {nil, []string{"serve", "--role", "worker", "--listen", "127.0.0.1:0"}, []string{"--api"}},
		"short token": {[]string{"AIRLOCK_WORKER_TOKEN=short-secret"}, append(worker, "--listen", "127.0.0.1:0"),
			[]string{"32", "openssl"}},
		"worker's database": {nil, append(worker, "--listen", "127.0.0.1:0", "--blobs", d.blobs),
			[]string{"must not have database or bucket"}},
		"api beyond loopback": {nil, []string{"serve", "--role", "api", "--listen", "0.0.0.0:0"}, []string{"no keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, args := test.env, test.args
			if args == nil || name == "api beyond loopback" {
				env = append(d.env(), env...)
			}
			if args == nil {
				args = []string{"serve", "--listen", "127.0.0.1:0"}
			}
			got := d.who.run(t, env, append(args, "--data", dataWithoutPackages(t, d.who))...)
			for _, part := range test.says {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("it does not say %q", part)
				}
			}
			if t.Failed() || got.code == 0 || strings.Contains(got.stderr+got.stdout, "-secret") {
				t.Errorf("exit code %d, %s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
}
