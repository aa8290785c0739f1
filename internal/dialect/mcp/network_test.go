package mcp

import (
	"strings"
	"testing"
)

// A caller and its host are told of the network before a program runs.
func TestNetworkIsSaid(t *testing.T) {
	for rules, want := range map[string]string{
		"":                           "There is no network.",
		"packages,api.example.com":   "and nothing else: packages, api.example.com.",
		"https://api.example.com/v1": "and nothing else: https://api.example.com/v1.",
	} {
		r := newRig(t, func(o *Options) { o.Local.Network = rules })
		c := r.local(nil)
		if got := textOf(call1(t, c, "describe_environment", nil)); !strings.Contains(got, want) {
			t.Errorf("%q: %s", rules, got)
		}
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if open := *tool.Annotations.OpenWorldHint; open != (rules != "" && tool.Name == "run_code") {
				t.Errorf("%q: the world of %s is open: %v", rules, tool.Name, open)
			}
		}
		if private := list.CacheScope == "private"; private != (rules != "") {
			t.Errorf("%q: the list is %s", rules, list.CacheScope)
		}
	}
}
