package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A caller with images is told of them, and names one for a new session.
func TestImages(t *testing.T) {
	e := enginetest.Start(t, engine.Config{Images: engine.ImageRules{Store: enginetest.SomeImages(), Default: "py313"}},
		sandboxtest.NewFake(nil))
	for own, want := range map[string][]string{
		"":         {"ir", "old", "py313", "host"},
		"old,host": {"old", "host"},
		"none":     nil,
	} {
		r := newRig(t, func(o *Options) { o.Engine, o.Local.Images = e, own })
		c := r.local(nil)
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			raw, _ := json.Marshal(tool.InputSchema)
			var schema struct{ Properties map[string]property }
			if err := json.Unmarshal(raw, &schema); err != nil {
				t.Fatal(err)
			}
			got, there := schema.Properties["image"]
			if tool.Name != "run_code" && there || tool.Name == "run_code" && strings.Join(got.Enum, " ") != strings.Join(want, " ") {
				t.Errorf("%q: %s has %q, want %q", own, tool.Name, got.Enum, want)
			}
		}
		if private := list.CacheScope == "private"; private != (want != nil) {
			t.Errorf("%q: the list is %s", own, list.CacheScope)
		}
	}
	r := newRig(t, func(o *Options) { o.Engine, o.Live.(*fakeLive).engine = e, e })
	c := r.local(nil)
	if got := textOf(call1(t, c, "describe_environment", nil)); !strings.Contains(got, `Images, for the argument image of run_code, with languages and packages of their own:
  ir: Bash 5.2 and R 4.4.1
  old: Python 3.9.2
  py313: Python 3.13.1 and Bash 5.2
  host: the languages and packages above
Without it a new session has py313.
`) {
		t.Error(got)
	}
	in := func(args ...string) map[string]any {
		values := map[string]any{"code": "print x"}
		for i := 0; i < len(args); i += 2 {
			values[args[i]] = args[i+1]
		}
		return values
	}
	session := sessionOf(t, call1(t, c, "run_code", in("image", "ir", "language", "r")))
	usual := sessionOf(t, call1(t, c, "run_code", in()))
	shell := sessionOf( // without Python, Bash runs beside R
		t, call1(t, c, "run_code", in("image", "ir", "language", "bash")))
	for _, test := range []struct {
		args map[string]any
		want string // what is refused; empty: nothing
	}{
		{in("session", session, "language", "r"), ""},
		{in("session", session, "image", "ir", "language", "r"), ""},
		{in("session", session, "image", "host"), "image is for a new session: that one has ir"},
		{in("image", "old"), "no live python"}, // its Python is too old for cells
		{in("session", usual, "image", "py313"), ""},
		{in("session", shell, "image", "py313", "language", "bash"), "image is for a new session: that one has ir"},
		{in("image", "ir"), "The image ir has Bash 5.2 and R 4.4.1: name one of these languages, or another image."},
		{in("image", "nosuch"), `image "nosuch" is not known; there are host, ir (`},
		{in("image", "host"), ""},
		{in("image", "ir", "language", "r"), ""}, // it is not installed on the host
	} {
		got := call1(t, c, "run_code", test.args)
		if text := textOf(got); got.IsError != (test.want != "") || !strings.Contains(text, test.want) {
			t.Errorf("%v: %s, want %q", test.args, text, test.want)
		}
	}
}
