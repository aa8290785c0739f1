package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/bucket/buckettest"
	"github.com/airlock-run/airlock/internal/postgrestest"
)

// cluster is a database and a bucket of a test's own.
type cluster struct {
	*testing.T
	postgres *postgrestest.Server
	bucket   *buckettest.Server
	database string
	blobs    string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t}
	var err, other error
	c.postgres, err = postgrestest.Start(t.Context())
	if err == nil {
		t.Cleanup(func() { _ = c.postgres.Stop() })
	}
	if c.bucket, other = buckettest.Start(t.Context()); other == nil {
		t.Cleanup(func() { _ = c.bucket.Stop() })
	}
	if err = errors.Join(err, other); errors.Is(err, postgrestest.ErrMissing) || errors.Is(err, buckettest.ErrMissing) {
		skip(t, "%v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	c.database, c.blobs = c.newDatabase(), c.newBucket()
	return c
}

func (c *cluster) newDatabase() string {
	c.Helper()
	address, err := c.postgres.NewDatabase(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return address
}

func (c *cluster) newBucket() string {
	c.Helper()
	address, err := c.bucket.NewBucket(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return address
}

func (c *cluster) env() []string {
	return []string{"AIRLOCK_DATABASE=" + c.database, "AIRLOCK_BLOBS=" + c.blobs,
		"AWS_ACCESS_KEY_ID=" + buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY=" + buckettest.SecretKey}
}

func (c *cluster) statement(database, text string) {
	c.Helper()
	conn, err := pgx.Connect(c.Context(), database)
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close(c.Context())
	if _, err := conn.Exec(c.Context(), text); err != nil {
		c.Fatal(err)
	}
}

// overwrite changes an object of a bucket; an empty name is any file's.
func (c *cluster) overwrite(address, name, text string) {
	c.Helper()
	client, err := c.bucket.Client()
	if err != nil {
		c.Fatal(err)
	}
	bucket := buckettest.Name(address)
	if name == "" {
		for o := range client.ListObjectsIter(c.Context(), bucket, minio.ListObjectsOptions{Prefix: "sha256/"}) {
			if o.Size == int64(len(text)) {
				name = o.Key
			}
		}
	}
	if _, err := client.PutObject(c.Context(), bucket, name, strings.NewReader(text), int64(len(text)),
		minio.PutObjectOptions{}); err != nil {
		c.Fatal(err)
	}
}

const movedCount = 300

// fill starts a service, has it keep files and a run, and ends it.
func fill(t *testing.T, who person, data string) (key, run string) {
	t.Helper()
	s := serve(t, who, data, "--owner-rate", "100000")
	key = strings.TrimSpace(who.run(t, nil, "keys", "create", "--data", data).stdout)
	for i := range movedCount {
		if got := s.do("POST", fmt.Sprintf("/api/v1/files?name=%d.txt", i), fmt.Sprintf("file %04d\n", i),
			"Content-Type", "application/octet-stream", "X-API-Key", key); got.status != 201 {
			t.Fatalf("upload: %d %s", got.status, got.body)
		}
	}
	var made struct{ ID string }
	s.do("POST", "/api/v1/runs", `{"language":"bash","code":"echo kept > kept.txt; echo done"}`,
		"Content-Type", "application/json", "X-API-Key", key).decode(t, &made)
	if got := who.run(t, []string{"AIRLOCK_BLOBS=s3://x"}, "migrate", "--data", data); got.code != 4 ||
		!strings.Contains(got.stderr, "a service holds") {
		t.Errorf("beside a service: exit code %d, %s", got.code, got.stderr)
	}
	s.stop()
	return key, made.ID
}

// migration is what the command reports.
type migration struct {
	Files struct{ Sent, There, Lost int }
	Rows  struct {
		Rows   int
		Copied bool
	}
}

func (c *cluster) migrate(who person, data string) (m migration) {
	c.Helper()
	got := who.run(c.T, c.env(), "migrate", "--data", data, "--json")
	if got.code != 0 {
		c.Fatalf("migrate: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
	if err := json.Unmarshal([]byte(got.stdout), &m); err != nil {
		c.Fatal(err)
	}
	return m
}

// killMigration ends the command while it sends files.
func (c *cluster) killMigration(who person, data string) {
	c.Helper()
	cmd := who.command(c.T, c.env(), "migrate", "--data", data)
	cmd.SysProcAttr.Setpgid = true // root's half has a child
	said := &lines{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	eventually(c.T, waitTime, "the first files are sent", func() bool { return strings.Contains(said.String(), " of ") })
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		c.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(c.T, time.Minute, "nobody holds the data directory", func() bool {
		got := who.run(c.T, nil, "migrate", "--to-blobs", "bad", "--data", data)
		return !strings.Contains(got.stderr, "in use")
	})
}

// What one machine kept is in the database and the bucket of another one, also when
// the copy was killed on its way. A second copy sends nothing.
func TestMigrate(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		c := newCluster(t)
		data := dataWithoutPackages(t, who)
		key, run := fill(t, who, data)
		c.killMigration(who, data)

		const files = movedCount + 1
		first := c.migrate(who, data)
		if first.Files.Sent+first.Files.There != files || first.Files.There == 0 || first.Files.Lost != 0 ||
			!first.Rows.Copied {
			t.Errorf("the first one: %+v", first)
		}
		if again := c.migrate(who, data); again.Files.There != files || again.Files.Sent != 0 || again.Rows.Copied ||
			again.Rows.Rows != first.Rows.Rows {
			t.Errorf("the second one: %+v", again)
		}
		c.overwrite(c.blobs, "", "file 9999\n")
		if again := c.migrate(who, data); again.Files.There != files-1 || again.Files.Sent != 1 {
			t.Errorf("after damage in the bucket: %+v", again)
		}

		s := serveWith(t, who, dataWithoutPackages(t, who), c.env())
		var listed struct{ Files []struct{ ID, Name string } }
		s.do("GET", "/api/v1/files?limit=5", "", "X-API-Key", key).decode(t, &listed)
		for _, f := range listed.Files {
			if got := s.do("GET", "/api/v1/files/"+f.ID+"/content", "", "X-API-Key", key); got.status != 200 ||
				f.Name != "kept.txt" && !strings.HasPrefix(string(got.body), "file ") {
				t.Errorf("%s is %d %q", f.Name, got.status, got.body)
			}
		}
		if got := s.do("GET", "/api/v1/runs/"+run, "", "X-API-Key", key); len(listed.Files) != 5 || got.status != 200 ||
			!strings.Contains(string(got.body), `"done\n"`) {
			t.Errorf("%d files, the run is %d %s", len(listed.Files), got.status, got.body)
		}
	})
}

// A place that holds something else is refused and left as it is.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	c := newCluster(t)
	data := dataWithoutPackages(t, who)
	fill(t, who, data)
	whole := *c
	c.migrate(who, data)
	for name, test := range map[string]struct {
		spoil func(c *cluster)
		code  int
		says  string
	}{
		"a bucket of others": {func(c *cluster) {
			c.overwrite(c.blobs, "sha256/"+strings.Repeat("ab", 32), "x")
		}, 4, "holds 1 files that are not of"},
		"a bucket that is another's copy": {func(c *cluster) {
			c.overwrite(c.blobs, "sha256/"+strings.Repeat("ab", 32), "x")
			c.overwrite(c.blobs, "moved-from", "another")
		}, 4, "holds 1 files that are not of"},
		"no bucket": {func(c *cluster) { c.blobs = c.bucket.URL("nothing") }, 7, "There is no such bucket"},
		"a database with more": {func(c *cluster) {
			c.migrate(who, data)
			c.statement(c.database, "INSERT INTO keys (id, owner, admin, hash, created_us) VALUES ('x', 'x', 0, '"+
				strings.Repeat("x", 32)+"', 1)")
		}, 4, "the database holds other data"},
		"a database with others": {func(c *cluster) {
			c.migrate(who, data)
			c.statement(c.database, "UPDATE files SET name = 'other'")
		}, 4, "the database holds other data"},
		"a newer database": {func(c *cluster) {
			c.migrate(who, data)
			c.statement(c.database, "INSERT INTO airlock_schema VALUES (999)")
		}, 7, "install the newer program again"},
		"a database in use": {func(c *cluster) {
			serveWith(t, who, dataWithoutPackages(t, who), c.env())
		}, 4, "another service has this database open"},
		"nowhere": {func(c *cluster) { c.blobs, c.database = "", "" }, 2, "neither a database nor a bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			c := whole
			c.T = t
			c.database, c.blobs = c.newDatabase(), c.newBucket()
			test.spoil(&c)
			if got := who.run(t, c.env(), "migrate", "--data", data); got.code != test.code ||
				!strings.Contains(got.stderr, test.says) {
				t.Errorf("exit code %d, %s", got.code, got.stderr)
			}
		})
	}
}
