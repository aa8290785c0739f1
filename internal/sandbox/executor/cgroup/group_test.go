package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Freeze writes to a group's files, and restores the values afterwards.
func TestFreezeGroup(t *testing.T) {
	for _, tt := range []struct {
		name           string
		version        int
		controller     string
		files          []string
		frozen, thawed []string
	}{
		{"version 2", 2, "", []string{"cgroup.freeze"}, []string{"1"}, []string{"0"}},
		{"version 1", 1, "cpu", []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}, []string{"1000", "1000000"},
			[]string{"150000", "100000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			g := &Group{tree: &Tree{Version: tt.version, bases: map[string]string{tt.controller: base}},
				folders: []string{filepath.Join(base, "g")}, quota: Limits{CPUs: 1.5}.quota()}
			if g.Freeze(true) {
				t.Error("it is frozen without the files for it")
			}
			if err := os.Mkdir(g.folders[0], 0o700); err != nil {
				t.Fatal(err)
			}
			check := func(want []string) {
				t.Helper()
				for i, name := range tt.files {
					if got, err := os.ReadFile(filepath.Join(g.folders[0], name)); err != nil || string(got) != want[i] {
						t.Errorf("%s is %q, %v; want %s", name, got, err, want[i])
					}
				}
			}
			for i, want := range [][]string{tt.frozen, tt.thawed} {
				for _, name := range tt.files {
					if err := os.WriteFile(filepath.Join(g.folders[0], name), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if !g.Freeze(i == 0) {
					t.Error("it failed")
				}
				check(want)
			}
		})
	}
	if (*Group)(nil).Freeze(true) {
		t.Error("there is nothing that could be frozen")
	}
	if fmt.Sprint(Limits{}.quota()) != "-1" {
		t.Error("no limit is a limit")
	}
}

// An unreadable number of processes counts as 0.
func TestProcesses(t *testing.T) {
	for content, want := range map[string]int64{"1\n": 1, "2\n": 2, "": 0} {
		f, err := os.Create(filepath.Join(t.TempDir(), "pids.current"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		if got := (&Group{processesFile: f}).Processes(); got != want {
			t.Errorf("%q: %d", content, got)
		}
	}
	if n := (*Group)(nil).Processes(); n != 0 {
		t.Errorf("without control groups: %d", n)
	}
}
