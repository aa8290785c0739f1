package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mcpClients installs the official SDKs and returns their folder.
func mcpClients(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "this needs %s: scripts/test-deps installs it", tool)
		}
	}
	folder, err := filepath.Abs("../.cache/mcp")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "mcp/install", folder).CombinedOutput(); err != nil {
		skip(t, "the SDKs of MCP cannot be installed: %v: %s", err, out)
	}
	return folder
}

// What agents speak, through the official SDKs of Python and TypeScript: over
// HTTP, over standard input and output through the running service, and with an
// engine of the command's own.
func TestMCPClients(t *testing.T) {
	t.Parallel()
	folder := mcpClients(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data, alone := dataFolder(t, who), dataFolder(t, who)
	s := serve(t, who, data)
	ways := map[string][]string{
		"HTTP":              {s.url + "/mcp"},
		"stdio, running":    {"--", binary, "mcp", "--data", data},
		"stdio, of its own": {"--", binary, "mcp", "--data", alone},
	}
	for language, command := range map[string][]string{
		"Python":     {filepath.Join(folder, "python/bin/python"), "mcp/client.py"},
		"Python 1":   {filepath.Join(folder, "python-1/bin/python"), "mcp/client.py"},
		"TypeScript": {"node", "mcp/client.mjs"},
	} {
		for way, args := range ways {
			t.Run(language+" over "+way, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
				cmd.Env = append(os.Environ(), "AIRLOCK_SDK="+folder)
				var said lines
				cmd.Stderr = &said
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %s", err, said.String())
				}
				var got struct {
					Version                string
					Tools, Files, Worked   []string
					Second, Waiting, Ended string
					Wrong                  []any
				}
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if language == "Python" && got.Version != "2026-07-28" {
					t.Errorf("version 2 of the SDK speaks %q", got.Version)
				}
				if !slices.Contains(got.Tools, "run_code") || !slices.Equal(got.Files, []string{"text", "resource_link"}) {
					t.Errorf("tools %v, first answer %v", got.Tools, got.Files)
				}
				if !strings.HasPrefix(got.Second, "OK, exit 0") || !strings.HasSuffix(got.Second, "\n42\n") {
					t.Errorf("the second cell: %q", got.Second)
				}
				if !strings.HasPrefix(got.Waiting, "Still running after 1 s.") || !strings.HasSuffix(got.Ended, "up\ndone\n") {
					t.Errorf("the long one: %q, then %q", got.Waiting, got.Ended)
				}
				for i, want := range []string{"made.txt (11 B)", "from the agent", "there is no file \"made.txt\"",
					"bytes 0 to 14 of 14.\n\nfrom the agent"} {
					if len(got.Worked) != 4 || !strings.Contains(got.Worked[i], want) {
						t.Errorf("files: %q, want %q", got.Worked, want)
					}
				}
				if len(got.Wrong) != 2 || got.Wrong[0] != true || got.Wrong[1] != "code: a string is needed, got a number" {
					t.Errorf("the wrong one: %v", got.Wrong)
				}
			})
		}
	}
}
