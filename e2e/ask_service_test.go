package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// The local provider runs its code in the service that holds the data
// directory, and leaves nothing there; the service serves the conversation to
// callers on this machine.
func TestAskThroughService(t *testing.T) {
	t.Parallel()
	who, access := asks(), accesses()[provider.Local](t)
	data := dataWithoutPackages(t, who)
	s := serve(t, who, data)
	access.server.Rescript(providertest.Turn{Steps: []providertest.Step{
		{Code: "open('made.txt', 'w').write(open('in.csv').read().upper())\nprint('done')"}}, Text: "Made."})
	out := folder(t, who.credential)
	env := append(askEnv(t, who, access), "AIRLOCK_DATA="+data)
	got := who.run(t, env, "ask", "--json", "--yes", "-f", inputFile(t, who), "-o", out, "Make it upper case")
	var report struct {
		Conversation string
		Outputs      []struct{ Name, State, SHA256 string }
		Cleaned      struct{ Deleted int }
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	if len(report.Outputs) != 1 || report.Outputs[0].State != "saved" || report.Cleaned.Deleted == 0 {
		t.Errorf("%+v", report)
	}
	if files := s.do("GET", "/api/v1/files", ""); strings.Contains(string(files.body), "in.csv") {
		t.Errorf("left in the service: %s", files.body)
	}
	if runs := s.do("GET", "/api/v1/runs", ""); !strings.Contains(string(runs.body), `"status":"ok"`) {
		t.Errorf("it did not run there: %s", runs.body)
	}
	list := s.do("GET", "/api/v1/conversations", "")
	if list.status != 200 || !strings.Contains(string(list.body), report.Conversation) {
		t.Errorf("%d %s", list.status, list.body)
	}
	one := s.do("GET", "/api/v1/conversations/"+report.Conversation, "")
	if one.status != 200 || !strings.Contains(string(one.body), `"outcome":"OK"`) {
		t.Errorf("%d %s", one.status, one.body)
	}
	content := s.do("GET", "/api/v1/conversations/"+report.Conversation+"/outputs/"+report.Outputs[0].SHA256, "")
	if content.status != 200 || string(content.body) != "A,B\n1,2\n" {
		t.Errorf("%d %q", content.status, content.body)
	}
	metrics := string(s.do("GET", "/metrics", "").body)
	for _, line := range []string{
		fmt.Sprintf(`airlock_provider_turns_total{model=%q,provider="local"} 1`, providertest.LocalModel),
		fmt.Sprintf(`airlock_provider_turn_errors_total{model=%q,provider="local"} 0`, providertest.LocalModel),
		fmt.Sprintf(`airlock_provider_downloads_total{model=%q,provider="local"} 1`, providertest.LocalModel),
		fmt.Sprintf(`airlock_provider_files_total{evidence="listing",model=%q,provider="local"} 1`, providertest.LocalModel),
		`airlock_provider_uploads_total{model="",provider="local"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics does not have %s:\n%s", line, metrics)
		}
	}
	if gone := s.do("DELETE", "/api/v1/conversations/"+report.Conversation, ""); gone.status != 204 {
		t.Errorf("%d %s", gone.status, gone.body)
	}
}

// With --keep the files of the local provider stay in the service, those that
// code made too, and the conversation goes on with them. Where the sandbox ends with the
// command nothing can be kept, which is said.
func TestAskKeepsLocally(t *testing.T) {
	t.Parallel()
	who, access := asks(), accesses()[provider.Local](t)
	data := dataWithoutPackages(t, who)
	env := append(askEnv(t, who, access), "AIRLOCK_DATA="+data)
	writes := providertest.Turn{Steps: []providertest.Step{{
		Code: "open('made.txt', 'w').write(open('in.csv').read().upper())"}}, Text: "Made."}
	reads := providertest.Turn{Steps: []providertest.Step{{Code: "print(open('made.txt').read())"}}, Text: "Read."}

	access.server.Rescript(writes)
	if got := who.run(t, env, "ask", "--yes", "--keep", "-f", inputFile(t, who), "Make it upper case"); got.code != 0 ||
		!strings.Contains(got.stderr, "--keep keeps nothing here") {
		t.Errorf("%+v", got)
	}

	s := serve(t, who, data)
	access.server.Rescript(writes)
	got := who.run(t, env, "ask", "--json", "--yes", "--keep", "-f", inputFile(t, who), "Make it upper case")
	var report struct {
		Conversation string
		Cleaned      struct{ Deleted, Kept int }
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != 0 || report.Cleaned.Kept == 0 ||
		report.Cleaned.Deleted != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	access.server.Rescript(reads)
	got = who.run(t, env, "ask", "--resume", report.Conversation, "Read it")
	if got.code != 0 || !strings.Contains(got.stderr, "A,B") {
		t.Errorf("%+v", got)
	}
	gc := who.run(t, env, "provider", "gc", "--provider", "local")
	if gc.code != 0 || !strings.Contains(gc.stdout, "kept") {
		t.Errorf("%+v", gc)
	}
	if files := s.do("GET", "/api/v1/files", ""); !strings.Contains(string(files.body), "in.csv") ||
		!strings.Contains(string(files.body), "made.txt") {
		t.Errorf("files are gone: %s", files.body)
	}
}
