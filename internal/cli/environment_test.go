package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// Rules say whose programs get which image, and doctor says which of them is missing.
func TestImageRules(t *testing.T) {
	store := enginetest.SomeImages() // their references are NAME:latest
	for _, test := range []struct {
		name    string
		config  config.Config
		want    engine.ImageRules
		missing string // what doctor says
	}{
		{name: "nothing"},
		{name: "for all", config: config.Config{Images: []string{"py313"}}, want: engine.ImageRules{Default: "py313"}},
		{name: "for protocols and keys",
			config: config.Config{Images: []string{"onyx=old", "jupyter=host", "key:abc=ir"}},
			want: engine.ImageRules{Keys: map[string]string{"abc": "ir"},
				Origins: map[engine.Origin]string{engine.OriginOnyx: "old", engine.OriginJupyter: "host"}}},
		{name: "missing", config: config.Config{Images: []string{"mcp=py39"}, WarmImages: []string{"py313", "py40"}},
			want: engine.ImageRules{Origins: map[engine.Origin]string{engine.OriginMCP: "py39"}},
			missing: "images missing py39, which images names: programs that get it by mcp=py39 are refused. " +
				"Cure: add it with `airlock images add py39 REFERENCE` " +
				"images missing py40, which warm_images names: it is not kept ready. " +
				"Cure: add it with `airlock images add py40 REFERENCE`"},
		{name: "Onyx's, by name", config: config.Config{Onyx: config.Onyx{Image: "old"}},
			want: engine.ImageRules{Origins: map[engine.Origin]string{engine.OriginOnyx: "old"}}},
		{name: "Onyx's, by reference", config: config.Config{Onyx: config.Onyx{Image: "old:latest"}},
			want: engine.ImageRules{Origins: map[engine.Origin]string{engine.OriginOnyx: "old"}}},
		{name: "a rule before Onyx's", config: config.Config{Images: []string{"onyx=host"},
			Onyx: config.Onyx{Image: "old"}},
			want: engine.ImageRules{Origins: map[engine.Origin]string{engine.OriginOnyx: "host"}}},
		{name: "Onyx's is missing", config: config.Config{Onyx: config.Onyx{Image: "onyx/sci:1"}},
			missing: "images missing onyx/sci:1, which onyx_image names: Onyx's programs run in the machine's own " +
				"environment, for which the set onyx has the packages of Onyx's image. Cure: add it with " +
				"`airlock images add NAME onyx/sci:1` and restart the service, or unset it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := imageRules(&test.config, store)
			if diff := cmp.Diff(test.want.Origins, got.Origins, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("origins (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(test.want.Keys, got.Keys, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if got.Default != test.want.Default {
				t.Errorf("default %q, want %q", got.Default, test.want.Default)
			}
			var out bytes.Buffer
			for _, m := range missingImages(&test.config, store) {
				m.WriteText(&command.Page{Writer: &out, Colour: false})
			}
			if got := strings.Join(strings.Fields(out.String()), " "); got != test.missing {
				t.Errorf("doctor says\n%q, want\n%q", got, test.missing)
			}
		})
	}
	c := config.Config{WarmImages: []string{"py313", "nosuch", "ir", "py313"}}
	if got := warmImages(&c, store); !slices.Equal(got, []string{"sha256-py313", "sha256-ir"}) {
		t.Errorf("warm are %q", got)
	}
}
