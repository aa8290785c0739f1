package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Upgraded is a start on an index of an earlier version.
type Upgraded struct {
	Database string  `json:"database"`
	Count    int     `json:"count"` // of runs, and of files
	From     int     `json:"from"`  // version
	First    float64 `json:"first_ms"`
	Steps    string  `json:"steps"` // and how long each took, by the service's own account
}

// measureUpgrade starts the service on indexes of the first version and of the last one
// before this.
func (b *bench) measureUpgrade(ctx context.Context) error {
	stores := []func() (*filled, error){b.inSQLite}
	if b.options.database != "" {
		stores = append(stores, b.inPostgres)
	}
	for _, open := range stores {
		f, err := open()
		if err != nil {
			return err
		}
		scripts, err := f.migrations(b.options.examples)
		if err != nil {
			return err
		}
		for _, from := range slices.Compact([]int{1, len(scripts) - 1}) {
			if err := b.upgradeFrom(ctx, f, scripts[:from]); err != nil {
				return fmt.Errorf("%s, from version %d: %w", f.name, from, err)
			}
		}
	}
	return nil
}

// migrations are the scripts that made the tables of each version.
func (f *filled) migrations(root string) (scripts []string, err error) {
	folder := map[string]string{"sqlite": "migrations-sqlite", "pgx": "migrations-postgres"}[f.driver]
	names, err := filepath.Glob(filepath.Join(root, "internal", "index", folder, "*.sql"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, string(text))
	}
	return scripts, err
}

// finished is what the service says of each step.
var finished = regexp.MustCompile(`version=(\d+) of=\d+ took=(\S+)`)

func (b *bench) upgradeFrom(ctx context.Context, f *filled, scripts []string) error {
	version := len(scripts)
	mark := "PRAGMA application_id = 0x4169724c; PRAGMA user_version = %d; PRAGMA journal_mode = WAL"
	if f.driver == "pgx" {
		mark = "CREATE TABLE airlock_schema (version BIGINT NOT NULL); INSERT INTO airlock_schema VALUES (%d)"
	}
	steps := append(slices.Clone(scripts), fmt.Sprintf(mark, version))
	if err := f.empty(ctx); err != nil {
		return err
	}
	if err := f.do(ctx, steps); err != nil {
		return err
	}
	f.bare = f.driver == "sqlite" && version < 7
	if err := f.fill(ctx, b.largest()); err != nil {
		return err
	}
	if f.driver == "sqlite" {
		for _, name := range f.files() {
			if err := giveToService(name); err != nil {
				return err
			}
		}
	}
	var err error
	if b.warm, err = b.serve(f.data, f.env, append([]string{"--log-level", "info"}, unlimited...)...); err != nil {
		return err
	}
	defer func() {
		b.warm.stop()
		b.warm = nil
	}()
	took, err := b.firstAnswer(ctx)
	if err != nil {
		return err
	}
	u := Upgraded{Database: f.name, Count: b.largest(), From: version, First: millis(took)}
	for _, step := range finished.FindAllStringSubmatch(b.warm.log.String(), -1) {
		u.Steps += fmt.Sprintf("%s: %s, ", step[1], step[2])
	}
	u.Steps = strings.TrimSuffix(u.Steps, ", ")
	b.grown().Upgrades = append(b.grown().Upgrades, u)
	fmt.Fprintf(b.progress, "   %s, %d rows of version %d: first answer after %.1f s (%s)\n", f.name, u.Count, version,
		took.Seconds(), u.Steps)
	return nil
}

// files are those of a SQLite database that are there.
func (f *filled) files() []string {
	names, _ := filepath.Glob(filepath.Join(f.data, "index.db*")) // the pattern is good
	return names
}

// empty removes what was filled.
func (f *filled) empty(ctx context.Context) error {
	f.have = 0
	if f.driver == "pgx" {
		return f.do(ctx, []string{"DROP SCHEMA public CASCADE", "CREATE SCHEMA public"})
	}
	for _, name := range f.files() {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// upgradesText is a table.
func (g *Grown) upgradesText() string {
	t := table{head: []string{"an index of an earlier version", "rows of each", "first answer, s",
		"versions, and what each took"}}
	for _, u := range g.Upgrades {
		t.add(fmt.Sprintf("%s, %d", u.Database, u.From), fmt.Sprint(u.Count),
			fmt.Sprintf("%.1f", time.Duration(u.First*float64(time.Millisecond)).Seconds()), u.Steps)
	}
	if len(t.rows) == 0 {
		return ""
	}
	return "\n" + t.String()
}
