package jupyter

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// Each image has a kernel for Python under its name, or kernels for what it has instead. The
// usual kernels are those of the usual environment.
func TestKernelspecs(t *testing.T) {
	images := append(enginetest.SomeImages(), // the Python of old is too old for cells
		enginetest.NewImage("node", "bash", "5.2", "/bin/bash", "js", "22.1.0", "/usr/bin/node", "ts", "22.1.0", "/usr/bin/node"),
		enginetest.NewImage("bash", "bash", "5.2", "/bin/bash"), // which needs Python
		enginetest.NewImage("python3", "python", "3.14.0", "/usr/bin/python3"))
	own := map[string]string{"py313": "Python 3.13.1 (py313)", "ir-r": "R 4.4.1 (ir)",
		"node-javascript": "JavaScript 22.1.0 (node)", "node-typescript": "TypeScript 22.1.0 (node)"}
	usual := map[string]string{"python3": "Python 3 (ipykernel)", "javascript": "JavaScript (Node.js)",
		"typescript": "TypeScript (Node.js)", "bash": "Bash"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(own)
		maps.Copy(all, more)
		return all
	}
	for _, test := range []struct {
		name, usual, first string
		images             enginetest.Images
		want               map[string]string
	}{
		{"without images", "", "python3", nil, usual},
		{"with images", "", "python3", images, with(usual)},
		{"an image for all", "py313", "python3", images, with(map[string]string{"python3": usual["python3"], "bash": "Bash"})},
		{"an image for all that is gone", "gone", "ir-r", images[1:2], map[string]string{"ir-r": own["ir-r"]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.fake.images, r.fake.usual = test.images, test.usual
			var got struct {
				Default     string
				Kernelspecs map[string]specModel
			}
			r.ask("ann", "GET", "/api/kernelspecs", "", &got)
			names := map[string]string{}
			for name, k := range got.Kernelspecs {
				names[name] = k.Spec.DisplayName
				var one specModel
				if r.ask("ann", "GET", "/api/kernelspecs/"+name, "", &one); name != k.Name || !cmp.Equal(one, k) {
					t.Errorf("%s is %+v, by itself %+v", name, k, one)
				}
			}
			if diff := cmp.Diff(test.want, names); diff != "" || got.Default != test.first {
				t.Errorf("default %q, want %q; kernels (-want +got)\n%s", got.Default, test.first, diff)
			}
		})
	}
	r := newRig(t, Options{})
	r.fake.images = images
	var m struct{ Name string }
	for _, name := range []string{"py313", "ir-r", "python3"} {
		status := r.ask("ann", "POST", "/api/kernels", `{"name":"`+name+`"}`, &m)
		if status != http.StatusCreated || m.Name != name {
			t.Errorf("%s: %d %q", name, status, m.Name)
		}
	}
	// Its name outlives the service and the image.
	r.fake.images = nil
	r.fake.mu.Lock()
	var kernels []string
	for _, s := range r.fake.sessions {
		k := specOf(s.record)
		kernels = append(kernels, k.name+" "+k.language+" "+k.image)
	}
	r.fake.mu.Unlock()
	slices.Sort(kernels)
	if got := strings.Join(kernels, ", "); got != "ir-r r ir, py313 python py313, python3 python " {
		t.Errorf("kernels of before: %s", got)
	}
}
