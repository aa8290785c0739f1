package index

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// Examine returns the state of a database as a service would find it. It changes nothing.
func Examine(ctx context.Context, database string) []engine.Layer {
	settings, err := pgx.ParseConfig(database)
	if err != nil {
		return []engine.Layer{missing("database", "the address of the database: "+err.Error(), "put AIRLOCK_DATABASE right")}
	}
	s := &shared{pool: stdlib.OpenDB(*settings)}
	defer s.pool.Close()
	var found []engine.Layer
	err = s.on(ctx, func(c *conn) error {
		var version, encoding string
		if err := c.row(ctx, []any{&version, &encoding}, "SELECT current_setting('server_version'), "+
			"current_setting('server_encoding')"); err != nil {
			return err
		}
		found = append(found, connection(settings, version))
		if encoding != "UTF8" {
			found = append(found, missing("encoding", "the database holds "+encoding, "CREATE DATABASE ... ENCODING 'UTF8'"))
		}
		for _, look := range []func(context.Context, *conn) (engine.Layer, error){
			tables, clocks, commits, standbys, peers,
		} {
			layer, err := look(ctx, c)
			if err != nil {
				layer = missing("database", err.Error(), "")
			}
			found = append(found, layer)
		}
		return nil
	})
	if err != nil {
		return []engine.Layer{missing("database", fmt.Sprintf("at %s: %v", settings.Host, err),
			"psql with the same URL tells more")}
	}
	return found
}

func enforced(name, detail string) engine.Layer {
	return engine.Layer{Name: name, State: engine.LayerEnforced, Detail: detail}
}

func weaker(name, detail, cure string) engine.Layer {
	return engine.Layer{Name: name, State: engine.LayerWeaker, Detail: detail, Cure: cure}
}

func missing(name, detail, cure string) engine.Layer {
	return engine.Layer{Name: name, State: engine.LayerMissing, Detail: detail, Cure: cure}
}

// connection reports whether a third party can read the connection, or impersonate the server.
func connection(settings *pgx.ConnConfig, version string) engine.Layer {
	detail := "PostgreSQL " + version + " at " + settings.Host
	ip := net.ParseIP(settings.Host)
	switch tls := settings.TLSConfig; {
	case strings.HasPrefix(settings.Host, "/"), settings.Host == "localhost", ip != nil && ip.IsLoopback():
		return enforced("database", detail)
	case tls == nil:
		return weaker("database", detail+", without TLS", "sslmode=verify-full in its address")
	case tls.InsecureSkipVerify && tls.VerifyPeerCertificate == nil:
		return weaker("database", detail+", with TLS but whoever answers is believed", "sslmode=verify-full in its address")
	}
	return enforced("database", detail+", with TLS")
}

// tables tries to make one.
func tables(ctx context.Context, c *conn) (engine.Layer, error) {
	const name = "tables"
	var standby, known bool
	var version int
	if err := c.row(ctx, []any{&standby, &known}, "SELECT pg_is_in_recovery(), "+
		"to_regclass('airlock_schema') IS NOT NULL"); err != nil {
		return engine.Layer{}, err
	}
	if standby {
		return missing(name, "this server is a standby, which takes no writes",
			"name the primary, or both with target_session_attrs=read-write"), nil
	}
	steps, err := sqlite.ReadSteps(releasedPostgres, "migrations-postgres")
	if err != nil {
		return engine.Layer{}, err
	}
	if known {
		if err := c.row(ctx, []any{&version}, "SELECT coalesce(max(version), 0) FROM airlock_schema"); err != nil {
			return engine.Layer{}, err
		}
	}
	if version > len(steps) {
		return missing(name, fmt.Sprintf("a newer version of Airlock has made them: %d, and this one knows %d", version,
			len(steps)), "install that version"), nil
	}
	tried := errors.New("the table is not to stay")
	err = c.within(ctx, "BEGIN", func() error {
		if _, err := c.exec(ctx, "CREATE TABLE airlock_doctor (n BIGINT)"); err != nil {
			return err
		}
		return tried
	})
	if !errors.Is(err, tried) {
		return missing(name, "none can be made: "+err.Error(), "GRANT CREATE ON SCHEMA public TO the role of Airlock"), nil
	}
	if version == 0 {
		return enforced(name, "none yet: the service makes them"), nil
	}
	return enforced(name, fmt.Sprintf("version %d of %d; more can be made", version, len(steps))), nil
}

// maxSkew is how far clocks may be apart before it is worth a word.
const maxSkew = time.Minute

func clocks(ctx context.Context, c *conn) (engine.Layer, error) {
	var us int64
	asked := time.Now()
	err := c.row(ctx, []any{&us}, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)")
	took := time.Since(asked)
	ahead := time.UnixMicro(us).Sub(asked.Add(took / 2))
	detail := fmt.Sprintf("the database's is %v ahead of this machine's, as measured in %v", ahead.Round(time.Millisecond),
		took.Round(100*time.Microsecond))
	if ahead.Abs() > maxSkew {
		return weaker("clock", detail+"; things expire by the database's", "keep both with a time server"), err
	}
	return enforced("clock", detail), err
}

// commits reports whether acknowledged writes are on a disk.
func commits(ctx context.Context, c *conn) (engine.Layer, error) {
	const name = "commits"
	var fsync, commit string
	err := c.row(ctx, []any{&fsync, &commit}, "SELECT current_setting('fsync'), current_setting('synchronous_commit')")
	switch {
	case err != nil:
		return engine.Layer{}, err
	case fsync == "off":
		return weaker(name, "fsync is off: a crash of the database's machine loses what was answered", "fsync = on"), nil
	case commit == "off":
		return weaker(name, "synchronous_commit is off: a crash loses what was answered last", "synchronous_commit = on"), nil
	}
	return enforced(name, "what is answered is on the database's disk"), nil
}

// standbys reports whether acknowledged writes survive a failover.
func standbys(ctx context.Context, c *conn) (engine.Layer, error) {
	const name = "standby"
	var commit, names string
	var connected int
	err := c.row(ctx, []any{&commit, &names, &connected}, `SELECT current_setting('synchronous_commit'),
		current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`)
	switch {
	case err != nil:
		return engine.Layer{}, err
	case names != "" && connected == 0:
		return weaker(name, "writes wait for a synchronous one ("+names+"), and none is connected",
			"start it, or empty synchronous_standby_names"), nil
	case names != "" && (commit == "off" || commit == "local"):
		return weaker(name, "synchronous_commit is "+commit+": nobody waits for it", "synchronous_commit = on"), nil
	case names != "":
		return enforced(name, fmt.Sprintf("%d connected, synchronous: %s", connected, names)), nil
	case connected > 0:
		return weaker(name, fmt.Sprintf("%d connected, asynchronous: a failover can lose what was answered last", connected),
			"synchronous_standby_names = '*'"), nil
	}
	return enforced(name, "none is connected here; a database service may copy its disks by itself"), nil
}

// peers lists the nodes that use the database.
func peers(ctx context.Context, c *conn) (engine.Layer, error) {
	const name = "nodes"
	var known bool
	if err := c.row(ctx, []any{&known}, "SELECT to_regclass('nodes') IS NOT NULL"); err != nil {
		return engine.Layer{}, err
	}
	if !known {
		return enforced(name, "none"), nil
	}
	var versions []string
	alive, err := rows(ctx, c, func(row scanner) (text string, err error) {
		var node, role, version string
		var draining bool
		err = row.Scan(&node, &role, &version, &draining)
		if text = node + " (" + role + ", " + version + ")"; draining {
			text += " draining"
		}
		if !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
		return text, err
	}, "SELECT name, role, version, draining + drain > 0 FROM nodes WHERE dead = 0 ORDER BY name")
	switch {
	case err != nil:
		return engine.Layer{}, err
	case len(alive) == 0:
		return enforced(name, "none"), nil
	case len(versions) > 1:
		return weaker(name, strings.Join(alive, ", "), "they have several versions: bring all to the newest one"), nil
	}
	return enforced(name, strings.Join(alive, ", ")), nil
}
