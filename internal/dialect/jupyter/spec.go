package jupyter

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// spec is a kind of kernel.
type spec struct {
	name     string // that clients use
	display  string
	language string // of live sessions
	image    string // its name; empty: that of the caller's programs, if they have one
	info     json.RawMessage
}

// usualSpecs are the kinds of kernels without a named image; the first is the default. AutoGen
// requires a key python3; ir is what R's own kernel is called.
var usualSpecs = []*spec{
	{"python3", "Python 3 (ipykernel)", "python", "", json.RawMessage(
		`{"name":"python","version":"3","mimetype":"text/x-python",` +
			`"codemirror_mode":{"name":"ipython","version":3},"pygments_lexer":"ipython3","nbconvert_exporter":"python","file_extension":".py"}`)},
	{"javascript", "JavaScript (Node.js)", "javascript", "", json.RawMessage(
		`{"name":"javascript","version":"","mimetype":"application/javascript",` +
			`"codemirror_mode":"javascript","pygments_lexer":"javascript","file_extension":".js"}`)},
	{"typescript", "TypeScript (Node.js)", "typescript", "", json.RawMessage(
		`{"name":"typescript","version":"","mimetype":"text/typescript",` +
			`"codemirror_mode":{"name":"javascript","typescript":true},"pygments_lexer":"typescript","file_extension":".ts"}`)},
	{"bash", "Bash", "bash", "", json.RawMessage(`{"name":"bash","version":"","mimetype":"text/x-sh",` +
		`"codemirror_mode":"shell","pygments_lexer":"bash","file_extension":".sh"}`)},
	{"ir", "R", "r", "", json.RawMessage(`{"name":"R","version":"","mimetype":"text/x-r-source",` +
		`"codemirror_mode":"r","pygments_lexer":"r","file_extension":".r"}`)},
}

// specs returns the kinds of kernels that a caller can start: those of its usual environment,
// and those of its images.
func (s *Server) specs(caller engine.Caller) ([]*spec, error) {
	images, err := s.Engine.ImagesOf(caller)
	if err != nil {
		return nil, err
	}
	var has []string
	if usual := s.Engine.DefaultImage(caller, engine.OriginJupyter); usual == engine.HostImage {
		has = s.Languages
	} else if at := slices.IndexFunc(images, func(i engine.Image) bool { return i.Name == usual }); at >= 0 {
		has = live.Languages(&images[at])
	}
	specs := slices.DeleteFunc(slices.Clone(usualSpecs), func(k *spec) bool { return !slices.Contains(has, k.language) })
	for i := range images {
		specs = append(specs, specsOf(&images[i])...)
	}
	return specs, nil
}

// specsOf returns the kinds of kernels of an image. Python has the image's name, other
// languages are NAME-LANGUAGE. Cells of Python can run a shell, so that Bash, which needs Python, has
// no kernel of its own.
func specsOf(image *engine.Image) (specs []*spec) {
	has := live.Languages(image)
	for _, usual := range usualSpecs {
		if !slices.Contains(has, usual.language) || usual.language == "bash" {
			continue
		}
		k := *usual
		k.image, k.name = image.Name, image.Name+"-"+k.language
		if k.language == "python" {
			k.name = image.Name
		}
		k.display = versioned(image, k.language) + " (" + image.Name + ")"
		specs = append(specs, &k)
	}
	return specs
}

// versioned returns the name and version of an image's language: "Python 3.13.1".
func versioned(image *engine.Image, name string) string {
	lang, _ := language.Find(name)
	has, _ := image.Language(lang.Name)
	return strings.TrimSpace(lang.Title + " " + has.Version)
}

// specOf returns the kind of an existing kernel. Its image need not be there any more.
func specOf(record engine.Session) *spec {
	k := *usualSpecs[0]
	for _, usual := range usualSpecs {
		if usual.language == live.Language(record) {
			k = *usual
		}
	}
	if record.Scope != "" && record.Scope != k.name { // the name of its kind
		k.name, k.image = record.Scope, live.Image(record)
		k.display += " (" + k.image + ")"
	}
	return &k
}

// findSpec finds a kind of kernel by its name; "" is the default. It returns nil for an
// unknown name.
func findSpec(specs []*spec, name string) *spec {
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
	language := k.language
	if language == "r" { // as R's own kernel says it
		language = "R"
	}
	return specModel{k.name, specBody{[]string{}, map[string]string{}, k.display, language, "message", map[string]any{}},
		map[string]string{}}
}

func (s *Server) listSpecs(w http.ResponseWriter, r *http.Request) error {
	specs, err := s.specs(s.Caller(r))
	if err != nil {
		return err
	}
	all, first := map[string]specModel{}, usualSpecs[0].name
	for i, k := range slices.Backward(specs) { // an image called like a usual kind does not replace it
		if all[k.name] = k.model(); i == 0 {
			first = k.name
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"default": first, "kernelspecs": all})
}

func (s *Server) getSpec(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	specs, err := s.specs(s.Caller(r))
	if err != nil {
		return err
	}
	if k := findSpec(specs, name); k != nil && k.name == name {
		return writeJSON(w, http.StatusOK, k.model())
	}
	return wire.Refuse(http.StatusNotFound, "Kernel spec %.60s not found", name)
}
