package reply

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type variant struct {
	ID     string      `json:"id"`
	Text   string      `json:"text"`
	Expect [][2]string `json:"expect"`
}

func variants(t testing.TB) []variant {
	t.Helper()
	b, err := os.ReadFile("testdata/fence_variants.json")
	if err != nil {
		t.Fatal(err)
	}
	var vs []variant
	if err := json.Unmarshal(b, &vs); err != nil {
		t.Fatal(err)
	}
	if len(vs) != 48 {
		t.Fatalf("%d variants, want 48", len(vs))
	}
	return vs
}

// writes returns the files that a run without a person would write.
func writes(r *Reply) [][2]string {
	got := [][2]string{}
	for _, it := range r.Files() {
		path := it.Path
		if it.Kind != KindFile {
			path = string(it.Kind) + " " + path
		}
		got = append(got, [2]string{path, string(it.Content)})
	}
	return got
}

func TestVariants(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.ID, func(t *testing.T) {
			if diff := cmp.Diff(v.Expect, writes(Parse([]byte(v.Text)))); diff != "" {
				t.Errorf("%s", diff)
			}
		})
	}
}
