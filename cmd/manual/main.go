// Command manual generates the man pages and the shell completions of airlock from its
// commands, in the given directory:
//
//	manual -date 2026-11-22T12:00:00Z -version v1.2.3 out/manual
//
// It writes man1/ with a page for each command, and bash/, zsh/ and fish/ with the
// completions under the names that those shells look for.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/airlock-run/airlock/internal/cli"
)

func main() {
	version := flag.String("version", "", "version that the pages name")
	date := flag.String("date", "", "date of the pages, RFC 3339; the same date makes the same pages")
	flag.Parse()
	if err := write(flag.Arg(0), *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(dir, version, date string) error {
	if dir == "" {
		return fmt.Errorf("no directory was given")
	}
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	for _, name := range []string{"man1", "bash", "zsh", "fish"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	header := &doc.GenManHeader{Section: "1", Source: "airlock " + version, Manual: "Airlock", Date: &at}
	if err := doc.GenManTree(root, header, filepath.Join(dir, "man1")); err != nil {
		return err
	}
	return completions(root, dir)
}

func bashCompletion(root *cobra.Command, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(cli.WriteBashCompletion(root, f, true), f.Close())
}

func completions(root *cobra.Command, dir string) error {
	for name, generate := range map[string]func(string) error{
		"bash/airlock":      func(f string) error { return bashCompletion(root, f) },
		"zsh/_airlock":      root.GenZshCompletionFile,
		"fish/airlock.fish": func(f string) error { return root.GenFishCompletionFile(f, true) },
	} {
		if err := generate(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
