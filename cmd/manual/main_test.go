package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/cli"
)

// TestManual finds a page for each command that help shows, with its flags, and
// completions that their shells can read.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "v1.2.3", "2026-11-22T12:00:00Z"); err != nil {
		t.Fatal(err)
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		name := filepath.Join(dir, "man1", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		page, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{"Nov 2026", "v1.2.3", cmd.Short} {
			if !strings.Contains(string(page), want) {
				t.Errorf("%s does not say %q", filepath.Base(name), want)
			}
		}
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				check(c)
			}
		}
	}
	check(cli.Command())
	for _, shell := range []string{"bash", "zsh", "fish"} {
		names, err := filepath.Glob(filepath.Join(dir, shell, "*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("completions of %s: %v, %v", shell, names, err)
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: its completions are written, not read", shell)
			continue
		}
		if out, err := exec.Command(shell, "-n", names[0]).CombinedOutput(); err != nil {
			t.Errorf("%s cannot read its completions: %v\n%s", shell, err, out)
		}
	}
}
