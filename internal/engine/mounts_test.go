package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A caller may ask for the mounts that the settings give everybody or its key, and an admin for all.
// The names of others are not told.
func TestMounts(t *testing.T) {
	var got []string
	r := newRig(t, engine.Config{Mounts: engine.MountRules{Names: []string{"all", "mine", "other", "read"},
		All: []string{"all", "read:ro"}, Keys: map[string][]string{"k": {"mine"}, "w": {"read"}}}},
		func(_ context.Context, spec *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
			got = spec.Mounts
			return sandboxtest.Exit(0), nil
		})
	for _, test := range []struct {
		caller engine.Caller
		asked  []string
		fault  string
	}{
		{engine.Caller{Owner: "a"}, []string{"all"}, ""},
		{engine.Caller{Owner: "a", Key: "k"}, []string{"mine", "all"}, ""},
		{engine.Caller{Owner: "a", Admin: true}, []string{"other"}, ""},
		{engine.Caller{Owner: "a"}, nil, ""},
		{engine.Caller{Owner: "a", Mounts: "other:ro"}, []string{"other:ro", "all"}, ""},
		{engine.Caller{Owner: "a", Mounts: "other:ro"}, []string{}, ""},
		{engine.Caller{Owner: "a", Mounts: "other:ro"}, []string{"other"}, `"other" is not known; there are all, other:ro`},
		{engine.Caller{Owner: "a"}, []string{"all:ro", "read:ro"}, ""},
		{engine.Caller{Owner: "a", Key: "w"}, []string{"read"}, ""},
		{engine.Caller{Owner: "a", Admin: true}, []string{"read", "all:ro"}, ""},
		{engine.Caller{Owner: "a"}, []string{"read"}, `"read" is not known; there are all, read:ro`},
		{engine.Caller{Owner: "a"}, []string{"all:ro:ro"}, `"all:ro:ro" is not known`},
		{engine.Caller{Owner: "a"}, []string{"all:rw"}, `"all:rw" is not known`},
		{engine.Caller{Owner: "a"}, []string{"all:ro", "all"}, `names "all" twice`},
		{engine.Caller{Owner: "a"}, []string{"mine"}, `"mine" is not known; there are all`},
		{engine.Caller{Owner: "a", Key: "k"}, []string{"other"}, `"other" is not known; there are all, mine, read:ro`},
		{engine.Caller{Owner: "a"}, []string{"../etc"}, `"../etc" is not known`},
		{engine.Caller{Owner: "a"}, []string{"all", "all"}, `names "all" twice`},
		{engine.Caller{Owner: "a"}, make([]string, 17), "must be at most 16"},
	} {
		got = []string{"before"}
		req := python("1")
		req.Mounts = test.asked
		run, err := r.Run(t.Context(), test.caller, req)
		if test.fault != "" {
			if e := wantKind(t, err, engine.ErrInvalid, "mounts"); e != nil && !strings.Contains(e.Error(), test.fault) {
				t.Errorf("%q: %v, want %s", test.asked, err, test.fault)
			}
			continue
		}
		if err != nil || !slices.Equal(got, test.asked) {
			t.Errorf("%q: the sandbox got %q, %v", test.asked, got, err)
		}
		if again := run.Source.Request(test.caller); !slices.Equal(again.Mounts, test.asked) {
			t.Errorf("%q: a repeat asks for %q", test.asked, again.Mounts)
		}
	}
}

// A key's programs have its mounts, which exist, unless a request says otherwise: also when it is repeated.
func TestMountsOfKeys(t *testing.T) {
	var got []string
	r := newRig(t, engine.Config{Mounts: engine.MountRules{Names: []string{"in", "out"}}},
		func(_ context.Context, spec *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
			got = spec.Mounts
			return sandboxtest.Exit(0), nil
		})
	operator := engine.Caller{Owner: engine.Local, Admin: true}
	_, _, err := r.CreateKey(t.Context(), operator, engine.NewKey{Owner: "a", Mounts: []string{"none"}})
	wantKind(t, err, engine.ErrInvalid, "mounts")
	_, token, err := r.CreateKey(t.Context(), operator, engine.NewKey{Owner: "a", Mounts: []string{"in", "out:ro"}})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := r.Authenticate(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ asked, want []string }{
		{nil, []string{"in", "out:ro"}}, {[]string{}, []string{}}, {[]string{"in"}, []string{"in"}},
	} {
		req := python("1")
		req.Mounts = test.asked
		run, err := r.Run(t.Context(), caller, req)
		if err != nil || !slices.Equal(got, test.want) {
			t.Fatalf("%#v: the sandbox got %q, %v", test.asked, got, err)
		}
		stored, err := r.GetRun(t.Context(), caller, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(t.Context(), caller, stored.Source.Request(caller)); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%#v, repeated: the sandbox got %q, %v", test.asked, got, err)
		}
	}
}
