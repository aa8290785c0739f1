package cli

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/command"
)

// agent is a program that starts MCP servers.
type agent struct {
	title string
	file  string   // settings, below the home directory
	keys  []string // path of the object with the servers
	stdio bool     // entries have "type": "stdio"
	local bool     // entries have "type": "local", and the command with its arguments is one list

	// set sets the entry at a path in a document; nil: the settings are JSON, with or without comments.
	set func(document []byte, path []string, entry map[string]any) ([]byte, error)
}

// agents returns the known agents by name.
func agents() map[string]agent {
	desktop, code := ".config/Claude/claude_desktop_config.json", ".config/Code/User/mcp.json"
	if runtime.GOOS == "darwin" {
		desktop, code = "Library/Application Support/Claude/claude_desktop_config.json",
			"Library/Application Support/Code/User/mcp.json"
	}
	servers := []string{"mcpServers"}
	return map[string]agent{
		"claude":         {title: "Claude Code", file: ".claude.json", keys: servers, stdio: true},
		"claude-desktop": {title: "Claude Desktop", file: desktop, keys: servers},
		"cursor":         {title: "Cursor", file: ".cursor/mcp.json", keys: servers},
		"vscode":         {title: "VS Code", file: code, keys: []string{"servers"}, stdio: true},
		"windsurf":       {title: "Windsurf", file: ".codeium/windsurf/mcp_config.json", keys: servers},
		"gemini":         {title: "Gemini CLI", file: ".gemini/settings.json", keys: servers},
		"lmstudio":       {title: "LM Studio", file: ".lmstudio/mcp.json", keys: servers},
		"copilot":        {title: "Copilot CLI", file: ".copilot/mcp-config.json", keys: servers},
		"opencode":       {title: "opencode", file: ".config/opencode/opencode.json", keys: []string{"mcp"}, local: true},
		"codex":          {title: "Codex", file: ".codex/config.toml", keys: []string{"mcp_servers"}, set: setTable},
		"zed":            {title: "Zed", file: ".config/zed/settings.json", keys: []string{"context_servers"}},
		"goose": {title: "goose", file: ".config/goose/config.yaml", keys: []string{"extensions"},
			set: setExtension},
		"crush": {title: "Crush", file: ".config/crush/crushrc", set: setCrush},
	}
}

//go:embed SKILL.md
var skill string

func (a *app) mcpSkill() *cobra.Command {
	return &cobra.Command{
		Use:   "skill",
		Short: "Prints a skill file that tells an agent when to use which tool",
		Example: "  mkdir -p ~/.claude/skills/airlock && airlock mcp skill > ~/.claude/skills/airlock/SKILL.md\n" +
			"  mkdir -p ~/.agents/skills/airlock && airlock mcp skill > ~/.agents/skills/airlock/SKILL.md",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Streams.Out.Write([]byte(skill))
			return err
		},
	}
}

func (a *app) mcpInstall() *cobra.Command {
	var write bool
	var file string
	names := slices.Sorted(maps.Keys(agents()))
	cmd := &cobra.Command{
		Use:   "install CLIENT [-- FLAG...]",
		Short: "Prints what an agent's settings need to start this server; --write writes it",
		Long: "Prints what an agent's settings need to start this server, and with --write writes it: other\n" +
			"entries stay as they are, and the file as it was is kept beside it. Flags for airlock mcp come after --.\n\n" +
			"CLIENT is " + strings.Join(names, ", ") + ".",
		Example:   "  airlock mcp install cursor\n  airlock mcp install claude --write -- --files ~/data -o ~/out",
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Fail(command.ExitUsage, "`airlock mcp install claude --write` adds it for Claude Code. There are "+
					strings.Join(names, ", ")+"; others are told to run `airlock mcp`", "no client is named")
			}
			client, ok := agents()[args[0]]
			if !ok {
				return command.Fail(command.ExitUsage, "there are "+strings.Join(names, ", "), "no client is called %q", args[0])
			}
			return a.installMCP(client, file, write, args[1:])
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write it into the agent's settings")
	cmd.Flags().StringVar(&file, "file", "", "the agent's settings, where they are in another `FILE`")
	return cmd
}

// installMCP shows or writes the entry in the settings of an agent.
func (a *app) installMCP(client agent, file string, write bool, flags []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"mcp"}, flags...)
	if a.Config.Origin("data") != "default" {
		args = append(args, "--data", a.Config.Data)
	}
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return command.Fail(command.ExitUnavailable, "name the file with --file", "there is no home directory: %w", err)
		}
		file = filepath.Join(home, filepath.FromSlash(client.file))
		below, ok := strings.CutPrefix(client.file, ".config/")
		if folder, err := os.UserConfigDir(); ok && err == nil && runtime.GOOS == "linux" {
			file = filepath.Join(folder, below) // XDG_CONFIG_HOME may have moved it
		}
	}
	entry := map[string]any{"command": self, "args": args}
	switch {
	case client.stdio:
		entry["type"] = "stdio"
	case client.local:
		entry = map[string]any{"type": "local", "command": append([]string{self}, args...), "enabled": true}
	}
	path := slices.Concat(client.keys, []string{"airlock"})
	set := func(before []byte) ([]byte, error) {
		if client.set != nil {
			return client.set(before, path, entry)
		}
		return command.SetMember(before, path, entry)
	}
	if !write {
		text, err := set(nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Streams.Out, "For %s, in %s (--write puts it there):\n\n%s", client.title, file, text)
		return nil
	}
	backup, err := writeEntry(file, set)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Streams.Out, "%s knows airlock now: %s. Restart it.\n", client.title, file)
	if backup != "" {
		fmt.Fprintf(a.Streams.Out, "The settings as they were are in %s.\n", backup)
	}
	return nil
}

// writeEntry changes a file of settings, if the change makes a difference. It returns the name of the
// backup that it made.
func writeEntry(file string, change func(before []byte) ([]byte, error)) (backup string, err error) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // settings are often links
	}
	before, err := os.ReadFile(file)
	mode := fs.FileMode(0o600)
	switch info, statErr := os.Stat(file); {
	case err == nil && statErr == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return "", command.Unreadable(file, err)
	}
	after, err := change(before)
	if err != nil {
		return "", command.Fail(command.ExitConflict, "add the entry by hand: without --write it is printed", "%s: %w", file,
			err)
	}
	if bytes.Equal(before, after) {
		return "", nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", command.FolderError(filepath.Dir(file), err)
	}
	if before != nil {
		backup = file + time.Now().Format(".20060102-150405.bak")
		if err := writeNew(backup, before, mode); err != nil {
			return "", err
		}
	}
	if err := command.ReplaceFile(file, after, mode); err != nil {
		return "", command.Fail(command.ExitConflict, "", "%s cannot be written: %w", file, err)
	}
	return backup, nil
}

func writeNew(name string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return command.Fail(command.ExitConflict, "", "%s cannot be made: %w", name, err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
