package command

import "testing"

// A document with comments keeps every byte of the rest.
func TestSetMemberAmongComments(t *testing.T) {
	const own = `{
      "args": [
        "mcp"
      ],
      "command": "/bin/airlock"
    }`
	entry := map[string]any{"command": "/bin/airlock", "args": []string{"mcp"}}
	for name, c := range map[string]struct{ before, want string }{
		"nothing yet": {"{\n  // mine\n}", "{\n  // mine\n  \"servers\": {\n    \"airlock\": " + own + "\n  }\n}\n"},
		"others": {"// top\n{\n  \"a\": 1e400, // huge\n  \"servers\": {\n    \"b\": {}, // its\n  },\n}\n",
			"// top\n{\n  \"a\": 1e400, // huge\n  \"servers\": {\n    \"b\": {}, // its\n" +
				"    \"airlock\": " + own + "\n  },\n}\n"},
		"an older one": {"{\"servers\": {\"airlock\": {\"command\": \"old\"}, /* c */ \"c\": {}}}",
			"{\"servers\": {\"airlock\": " + own + ", /* c */ \"c\": {}}}\n"},
		"no object": {"{\n  \"servers\": [], // none\n}", ""},
		"a list":    {"[ // none\n]", ""},
	} {
		after, err := SetMember([]byte(c.before), []string{"servers", "airlock"}, entry)
		if string(after) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, after, c.want)
		}
		again, err := SetMember(after, []string{"servers", "airlock"}, entry)
		if c.want != "" && (err != nil || string(again) != c.want) {
			t.Errorf("%s: a second time: %v\n%s", name, err, again)
		}
	}
}
