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

// needsTestServer are the scenarios that call tools, prompts and resources of the
// suite's own test server. The others hold for every server.
var needsTestServer = []string{
	"completion-complete", "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "json-schema-2020-12",
	"prompts-get-embedded-resource", "prompts-get-simple", "prompts-get-with-args", "prompts-get-with-image",
	"resources-read-binary", "resources-read-text", "resources-subscribe", "resources-templates-read",
	"resources-unsubscribe",
	"tools-call-audio", "tools-call-elicitation", "tools-call-embedded-resource", "tools-call-error", "tools-call-image",
	"tools-call-mixed-content", "tools-call-sampling", "tools-call-simple-text", "tools-call-with-logging",
	"tools-call-with-progress",
	"input-required-result-basic-elicitation", "input-required-result-basic-list-roots",
	"input-required-result-basic-sampling",
	"input-required-result-capability-check", "input-required-result-multi-round",
	"input-required-result-multiple-input-requests",
	"input-required-result-non-tool-request", "input-required-result-request-state", "input-required-result-result-type",
	"input-required-result-tampered-state",
}

// The conformance suite of the protocol reports no failure, in each version
// that it knows. Checks that need a tool of its test server say that they are not
// testable.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	folder := mcpClients(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	s := serve(t, who, dataWithoutPackages(t, who))
	for version, least := range map[string]int{"2025-06-18": 14, "2025-11-25": 19, "2026-07-28": 68} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			out := t.TempDir()
			suite := filepath.Join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
			said, err := exec.CommandContext(ctx, filepath.Join(folder, "node"), suite, "server", "--url", s.url+"/mcp",
				"--suite", "all", "--spec-version", version, "-o", out).CombinedOutput()
			results, _ := filepath.Glob(filepath.Join(out, "*", "checks.json"))
			if len(results) == 0 {
				t.Fatalf("the suite has no results: %v: %s", err, said)
			}
			passed := 0
			for _, name := range results {
				scenario := strings.TrimPrefix(filepath.Base(filepath.Dir(name)), "server-")
				apart := slices.ContainsFunc(needsTestServer,
					func(needs string) bool { return strings.HasPrefix(scenario, needs+"-20") })
				for _, c := range readChecks(t, name) {
					switch {
					case c.Status == "SUCCESS" && !apart:
						passed++
					case c.Status == "FAILURE" && !apart && !c.Details.Untestable:
						t.Errorf("%s: %s: %s", scenario, c.ID, c.ErrorMessage)
					}
				}
			}
			if passed < least {
				t.Errorf("%d checks passed, fewer than %d: the suite tests less than it did", passed, least)
			}
			t.Logf("%d checks passed", passed)
		})
	}
}

type check struct {
	ID, Status, ErrorMessage string
	Details                  struct{ Untestable bool }
}

func readChecks(t *testing.T, name string) (checks []check) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &checks)
	}
	if err != nil {
		t.Fatal(err)
	}
	return checks
}
