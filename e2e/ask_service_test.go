package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/providertest"
)

// The local provider runs its code in the service that holds the data
// directory, and leaves nothing there; the service serves the conversation to
// callers on this machine.
func TestAskThroughService(t *testing.T) {
	who, access := asks(), accesses()[provider.Local](t)
	data := dataFolder(t, who)
	s := serve(t, who, data)
	access.server.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "open('made.txt', 'w').write(open('in.csv').read().upper())\nprint('done')"}}, Text: "Made."})
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
	if gone := s.do("DELETE", "/api/v1/conversations/"+report.Conversation, ""); gone.status != 204 {
		t.Errorf("%d %s", gone.status, gone.body)
	}
}
