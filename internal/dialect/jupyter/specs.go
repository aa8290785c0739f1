package jupyter

import (
	"encoding/json"
	"net/http"

	"github.com/airlock-run/airlock/internal/wire"
)

// spec is a kind of kernel.
type spec struct {
	name     string // that clients use
	display  string
	language string // of live sessions
	info     json.RawMessage
}

// specs are the kinds of kernels; the first is the default. AutoGen wants a key
// python3 among them.
var specs = []*spec{
	{"python3", "Python 3 (ipykernel)", "python", json.RawMessage(
		`{"name":"python","version":"3","mimetype":"text/x-python",` +
			`"codemirror_mode":{"name":"ipython","version":3},"pygments_lexer":"ipython3","nbconvert_exporter":"python","file_extension":".py"}`)},
	{"javascript", "JavaScript (Node.js)", "javascript", json.RawMessage(
		`{"name":"javascript","version":"","mimetype":"application/javascript",` +
			`"codemirror_mode":"javascript","pygments_lexer":"javascript","file_extension":".js"}`)},
	{"bash", "Bash", "bash", json.RawMessage(`{"name":"bash","version":"","mimetype":"text/x-sh",` +
		`"codemirror_mode":"shell","pygments_lexer":"bash","file_extension":".sh"}`)},
}

// findSpec finds a kind of kernel by its name, the default for none; nil: there is
// none of that name.
func findSpec(name string) *spec {
	for _, k := range specs {
		if k.name == name || name == "" || name == "python" && k.language == name {
			return k
		}
	}
	return nil
}

type specModel struct {
	Name      string            `json:"name"`
	Spec      specBody          `json:"spec"`
	Resources map[string]string `json:"resources"`
}

type specBody struct {
	Argv          []string          `json:"argv"`
	Env           map[string]string `json:"env"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"`
	Metadata      map[string]any    `json:"metadata"`
}

func (k *spec) model() specModel {
	return specModel{k.name, specBody{[]string{}, map[string]string{}, k.display, k.language, "message", map[string]any{}},
		map[string]string{}}
}

func (s *Server) listSpecs(w http.ResponseWriter, _ *http.Request) error {
	all := map[string]specModel{}
	for _, k := range specs {
		all[k.name] = k.model()
	}
	return writeJSON(w, http.StatusOK, map[string]any{"default": specs[0].name, "kernelspecs": all})
}

func (s *Server) getSpec(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if k := findSpec(name); k != nil && k.name == name {
		return writeJSON(w, http.StatusOK, k.model())
	}
	return wire.Refuse(http.StatusNotFound, "Kernel spec %.60s not found", name)
}
