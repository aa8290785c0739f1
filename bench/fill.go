package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite

	"github.com/airlock-run/airlock/bench/lab"
)

// database is a database that is filled from outside while no service has it open: a
// million runs through the front door would take an hour.
type database struct {
	name, data string
	env        []string
	driver     string
	source     string
	words      dialect
	have       int
	base       int64 // when the first run began, in microseconds
}

// dialect is what two databases call differently.
type dialect struct {
	series string // numbers from %d to %d, as n with the column i
	number string // i as hexadecimal digits, so many
	bytes  string // bytes of hexadecimal digits
	text   string // the words of a run
}

// apart is the time between two runs, in microseconds: all are younger than a day, after
// which they would expire.
const apart = 40_000

func (b *bench) inSQLite() *database {
	data := b.data()
	return &database{
		name: "SQLite", data: data, driver: "sqlite", base: base(b.full(1_000_000, 100_000)),
		source: "file:" + filepath.Join(data, "index.db") + "?_pragma=synchronous(OFF)&_pragma=cache_size(-200000)",
		words: dialect{
			series: "(WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) AS n",
			number: "printf('%%0%dx', %s)", bytes: "unhex(%s)",
			text: `INSERT INTO run_text (rowid, owner, about, code, output, files)
				SELECT doc, '6c6f63616c', 'python ok native', CAST(json_extract(l.source, '$.code') AS TEXT),
				CAST(l.stdout AS TEXT), 'report' || n.i || '.csv' FROM %s JOIN runs r ON r.id = %s JOIN run_logs l ON l.run = r.id`,
		},
	}
}

func (b *bench) inPostgres() *database {
	return &database{
		name: "PostgreSQL", data: b.data(), driver: "pgx", base: base(b.full(1_000_000, 100_000)), source: b.database,
		env: []string{"AIRLOCK_DATABASE=" + b.database},
		words: dialect{
			series: "generate_series(CAST(%d AS BIGINT), CAST(%d AS BIGINT)) AS n(i)",
			number: "lpad(to_hex(%[2]s), %[1]d, '0')", bytes: "decode(%s, 'hex')",
			text: `INSERT INTO run_text (rowid, words) SELECT doc, array_to_tsvector(array_remove(regexp_split_to_array(lower(
				'python ok native report' || n.i || ' csv ' || (l.source::json->>'code') || convert_from(l.stdout, 'UTF8')),
				'[^a-z0-9]+'), '')) FROM %s JOIN runs r ON r.id = %s JOIN run_logs l ON l.run = r.id`,
		},
	}
}

func base(rows int) int64 { return time.Now().Add(-time.Minute).UnixMicro() - int64(rows)*apart }

// id is the id of number i.
func (f *database) id() string {
	number := func(digits int, of string) string { return fmt.Sprintf(f.words.number, digits, of) }
	return fmt.Sprintf(f.words.bytes, number(8, fmt.Sprintf("(n.i * %d) & 4294967295", scatter))+
		" || '000040008000' || "+number(12, "n.i"))
}

func (f *database) digest(of string) string {
	return fmt.Sprintf(f.words.bytes, fmt.Sprintf(f.words.number, 64, of))
}

// fill adds runs that have ended, with their code and output, and files, until there
// are so many of both.
func (f *database) fill(ctx context.Context, rows int) {
	from := fmt.Sprintf(f.words.series, f.have+1, rows)
	made := fmt.Sprintf("%d + n.i * %d", f.base, apart)
	region := "(CASE n.i % 8"
	for i, name := range regions {
		region += fmt.Sprintf(" WHEN %d THEN '%s'", i, name)
	}
	region += " END)"
	code := `import pandas as pd\ntable = pd.read_csv(''sales%d.csv'')\nprint(table.groupby(''region'').total.sum())`
	code = strings.ReplaceAll(code, "%d", "' || (n.i % 1000) || '")
	bytes := map[string]string{"sqlite": "CAST(%s AS BLOB)", "pgx": "convert_to(%s, 'UTF8')"}[f.driver]
	output := fmt.Sprintf(bytes, "'region ' || "+region+" || ' total' || n.i || ' of batch' || (n.i % 1000) || ' with ' "+
		"|| ((n.i * 7919) % 100003) || ' rows'")
	steps := []string{
		`INSERT INTO runs (id, owner, origin, language, status, exit_code, duration_us, created_us, started_us, finished_us, doc)
			SELECT ` + f.id() + `, 'local', 'native', 'python', 'ok', 0, 1500, ` + made + `, ` + made + `, ` + made + ` + 1500, ` +
			f.doc(made) + ` FROM ` + from,
		`INSERT INTO run_logs (run, stdout, stderr, chunks, owner, source) SELECT ` + f.id() + `, ` + output + `, ` +
			fmt.Sprintf(bytes, "''") + `, ` + fmt.Sprintf(bytes, "''") + `, 'local', '{"language":"python","code":"` + code + `"}' FROM ` + from,
		`INSERT INTO files (id, owner, origin, name, path, size, mime, sha256, created_us, expires_us, ttl_us)
			SELECT ` + f.id() + `, 'local', 'native', 'report' || n.i || '.csv', 'report' || n.i || '.csv', 1000, 'text/csv', ` +
			f.digest("n.i") + `, ` + made + `, ` + made + ` + 86400000000, 86400000000 FROM ` + from,
	}
	steps = append(steps, fmt.Sprintf(f.words.text, from, f.id()))
	if f.driver == "pgx" { // row by row the account of the one owner would be changed a million times at once
		steps = append([]string{"ALTER TABLE files DISABLE TRIGGER files_account"}, steps...)
		steps = append(steps, "ALTER TABLE files ENABLE TRIGGER files_account", "DELETE FROM usage",
			"INSERT INTO usage (owner, files, bytes) SELECT owner, count(*), sum(size) FROM files GROUP BY owner", "ANALYZE")
	}
	f.have = rows
	db := lab.Must(sql.Open(f.driver, f.source))
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, step := range steps {
		if _, err := db.ExecContext(ctx, step); err != nil {
			lab.Fail("%s: %w in %.120s", f.name, err, step)
		}
	}
}

// doc is the number of a run in the index of words: when it was made, see decision 0133.
func (f *database) doc(made string) string { return "(" + made + ") * 1024" }

// size is that of the database's files, in MB.
func (f *database) size() float64 {
	var total int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(filepath.Join(f.data, "index.db"+suffix)); err == nil {
			total += info.Size()
		}
	}
	return float64(total) / lab.Megabyte
}
