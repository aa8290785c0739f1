package e2e

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What was used is counted for every protocol, and told: as a table, as values for a spreadsheet, and by the API.
// A quota of the month refuses in each protocol's own form, with the words of what, until when, and what to do.
func TestUsageAndQuotaOfTheMonth(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who), "--owner-month", "runs=7")
	const asJSON = "application/json"
	for range 3 {
		got := s.do("POST", runs, `{"language":"python","code":"print(sum(range(3000000)))"}`, "Content-Type", asJSON)
		if got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	put := s.do("POST", "/api/v1/files?name=a.txt", "12345", "Content-Type", "application/octet-stream")
	session := s.live(`{"kind":"live","language":"python"}`)
	if got := session.ask("POST", "/cells", codeBody("1+1")); got.status >= 300 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	agent := newAgent(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"}, nil)
	if said, _ := agent.call("run_code", map[string]any{"language": "python", "code": "2"}); !strings.Contains(said, "2") {
		t.Fatal(said)
	}
	terminal := openWebUI{service: s, user: "u", chat: "c"}
	if text := terminal.run("echo three").text(); !strings.Contains(text, "three") {
		t.Fatal(text)
	}
	listed := who.run(t, nil, "usage", "--csv", "--data", s.data)
	records, err := csv.NewReader(strings.NewReader(listed.stdout)).ReadAll()
	if listed.code != 0 || err != nil || len(records) != 2 || records[1][1] != "local" || records[1][3] != "6" ||
		records[1][4] < "0.05" || records[1][5] < "100000" || records[1][6] != "5" || len(records[1][7]) < 4 {
		t.Fatalf("%+v %v", listed, err)
	}
	var used struct {
		Days []struct {
			Used map[string]int64 `json:"used"`
		} `json:"days"`
		Quotas []struct{ Used, Most map[string]int64 } `json:"quotas"`
	}
	s.do("GET", "/api/v1/usage", "").decode(t, &used)
	if len(used.Days) != 1 || used.Days[0].Used["runs"] != 6 || used.Days[0].Used["cpu_ms"] < 50 ||
		len(used.Quotas) != 1 || used.Quotas[0].Most["runs"] != 7 || used.Quotas[0].Used["runs"] != 6 {
		t.Errorf("%+v", used)
	}
	if got := s.do("POST", runs, `{"language":"python","code":"1"}`, "Content-Type", asJSON); got.status != 200 {
		t.Errorf("the last program: %d %s", got.status, got.body)
	}

	said, _ := agent.call("run_code", map[string]any{"language": "python", "code": "3"})
	for name, got := range map[string]struct {
		answer
		want int
	}{
		"native":    {s.do("POST", runs, `{"language":"python","code":"1"}`, "Content-Type", asJSON), 429},
		"upload":    {s.do("POST", "/api/v1/files?name=b", "1", "Content-Type", "application/octet-stream"), 429},
		"cell":      {session.ask("POST", "/cells", codeBody("1")), 429},
		"process":   {session.ask("POST", "/processes", `{"argv":["true"]}`), 429},
		"onyx":      {s.do("POST", "/onyx/v1/execute", `{"code":"1","timeout_ms":2000}`), 503},
		"librechat": {s.do("POST", "/librechat/exec", `{"lang":"py","code":"1"}`), 400},
		"dify": {s.do("POST", "/dify/v1/sandbox/run", `{"language":"python3","code":"1"}`, "X-Api-Key", "dify-sandbox"),
			200},
		"e2b":     {s.do("POST", "/e2b/sandboxes", `{"templateID":"base"}`), 429},
		"jupyter": {s.do("POST", "/jupyter/api/kernels", `{}`), 429},
		"mcp":     {answer{200, nil, []byte(said)}, 200},
		"terminal": {s.do("POST", "/terminal/execute?wait=30", `{"command":"id"}`,
			append(terminal.header(), "Content-Type", asJSON)...), 429},
	} {
		text := string(got.body)
		if got.status != got.want || !strings.Contains(text, "7 programs this month") ||
			!strings.Contains(text, "nothing new is begun until ") || !strings.Contains(text, "ask the operator") {
			t.Errorf("%s: %d %s", name, got.status, text)
		}
	}
	if got := s.do("GET", "/api/v1/files/"+find(object(t, put), "id")+"/content", ""); string(got.body) != "12345" {
		t.Errorf("what is stored is not read any more: %d %s", got.status, got.body)
	}
}
