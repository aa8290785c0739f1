package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/e2e/indextest"
)

// The rules of a sandbox's network put headers into its requests, in every language and in a fork: its programs see
// none of the values.
func TestE2BNetworkRules(t *testing.T) {
	needPackages(t)
	const token = "hunter2-hunter2"
	p, who := indextest.Elsewhere(t, skip), root(t)
	data := dataWithPackages(t, who)
	s := inspecting(t, who, p, data, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "came:", r.Header.Get("X-Test-Token") == token)
	}, nil, secretName)
	a := sandboxAPI{s, "e2b_00"}
	network := `{"allowOut":["` + secretName + `"],"rules":{"` + secretName + `":[{"transform":{"headers":{"X-Test-Token":"`
	got := a.call("POST", "/v2/sandboxes", `{"templateID":"base","network":`+network+token+`"}}}]}}}`)
	var made e2bSandbox
	if err := json.Unmarshal(got.body, &made); got.status != http.StatusCreated || err != nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	check := func(on e2bSandbox) {
		t.Helper()
		for _, body := range []string{
			`{"language":"bash","code":"curl -sS https://` + secretName + `/; env"}`,
			`{"language":"python","code":"!curl -sS https://` + secretName + `/; env"}`,
		} {
			told := a.on(on.ID, on.Token, 49999, "POST", "/execute", body)
			if !strings.Contains(string(told.body), "came: true") || strings.Contains(string(told.body), token) {
				t.Errorf("%s: %d %s", body, told.status, told.body)
			}
		}
	}
	check(made)
	forked := a.call("POST", "/sandboxes/"+made.ID+"/fork", `{}`)
	var forks []struct{ Sandbox e2bSandbox }
	if err := json.Unmarshal(forked.body, &forks); err != nil || len(forks) != 1 {
		t.Fatalf("%d %s", forked.status, forked.body)
	}
	check(forks[0].Sandbox)
	if info := a.call("GET", "/sandboxes/"+made.ID, ""); strings.Contains(string(info.body), token) {
		t.Errorf("%s", info.body)
	}
	refused := a.call("POST", "/v2/sandboxes", `{"templateID":"base","network":`+network+`${e2b.secrets.k}"}}}]}}}`)
	if refused.status != http.StatusBadRequest || !strings.Contains(string(refused.body), "give the value itself") {
		t.Errorf("%d %s", refused.status, refused.body)
	}
}
