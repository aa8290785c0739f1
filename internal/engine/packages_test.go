package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A request's own set precedes its key's, which precedes its protocol's. The
// sandbox's default comes last.
func TestChoosePackages(t *testing.T) {
	sets := PackageSets{
		Installed: []string{"current", "onyx"},
		Origins:   map[Origin]string{OriginOnyx: "onyx", OriginLibreChat: "librechat"},
		Keys:      map[string]string{"k1": "onyx", "k2": "librechat", "k3": "current"},
	}
	for _, test := range []struct {
		name, asked, key string
		made             string // set of the key
		origin           Origin
		sets             PackageSets
		want, fault      string
	}{
		{name: "native", origin: OriginNative, sets: sets, want: ""},
		{name: "onyx", origin: OriginOnyx, sets: sets, want: "onyx"},
		{name: "librechat's set is not installed", origin: OriginLibreChat, sets: sets, want: ""},
		{name: "by key", key: "k1", origin: OriginNative, sets: sets, want: "onyx"},
		{name: "key before protocol", key: "k3", origin: OriginOnyx, sets: sets, want: ""},
		{name: "key's set is not installed", key: "k2", origin: OriginOnyx, sets: sets, want: "onyx"},
		{name: "as the key was made", key: "k4", made: "onyx", origin: OriginNative, sets: sets, want: "onyx"},
		{name: "setting before key", key: "k3", made: "onyx", origin: OriginOnyx, sets: sets, want: ""},
		{name: "request before key", asked: "current", key: "k1", origin: OriginOnyx, sets: sets, want: ""},
		{name: "by request", asked: "onyx", origin: OriginNative, sets: sets, want: "onyx"},
		{name: "not installed", asked: "librechat", sets: sets,
			fault: `"librechat" is not installed on this server; there are current, onyx`},
		{name: "unknown", asked: "nosuch", sets: sets,
			fault: `"nosuch" is not known; there are current, onyx, librechat, own`},
		{name: "nothing installed", origin: OriginOnyx, want: ""},
		{name: "nothing installed, asked", asked: "onyx", fault: "no set is there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Service{cfg: Config{Packages: test.sets}}
			req := &RunRequest{Packages: test.asked, Profile: Profile{Origin: test.origin}}
			err := s.choosePackages(Caller{Key: test.key, Packages: test.made}, req)
			switch {
			case test.fault != "":
				if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("got %v, want %q", err, test.fault)
				}
			case err != nil || req.Packages != test.want:
				t.Errorf("got %q, %v, want %q", req.Packages, err, test.want)
			}
		})
	}
	want := []PackageSet{
		{Name: "current", Default: true, Origins: []Origin{OriginNative, OriginLibreChat}},
		{Name: "onyx", Origins: []Origin{OriginOnyx}},
		{Name: "librechat", Origins: []Origin{OriginLibreChat}, Instead: "current"},
	}
	if diff := cmp.Diff(want, sets.Describe()); diff != "" {
		t.Errorf("described (-want +got)\n%s", diff)
	}
}
