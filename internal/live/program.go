package live

import (
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// cellOrder is a cell as a driver gets it. With argv it is a program.
type cellOrder struct {
	Do     string `json:"do"`
	Code   string `json:"code"`
	Silent bool   `json:"silent,omitempty"`

	Unrecorded bool `json:"unrecorded,omitempty"`
	Begun      bool `json:"begun,omitempty"` // it counts as running once it is given out

	Modules []string `json:"modules,omitempty"` // that Host offers

	Entry string            `json:"entry,omitempty"` // the file that Code is written to
	Argv  []string          `json:"argv,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Stdin string            `json:"stdin,omitempty"`
}

// programPrefix begins the name of a program's source. It lies where programs look for
// what they import, and is removed before the session's files are stored.
const programPrefix = "/workspace/airlock_"

// text is the order for a cell.
func (at *session) text(req *CellRequest) (*cellOrder, error) {
	if req.Program == nil {
		o := &cellOrder{Do: "run", Code: req.Code, Silent: req.Silent, Unrecorded: req.Unrecorded, Env: req.Env,
			Begun: at.settings.Language == "python"}
		if req.Host != nil {
			o.Modules = req.Host.Modules()
		}
		return o, nil
	}
	lang, ok := language.Find(req.Program.Language)
	if !ok {
		return nil, engine.Invalid("language", "%.40q is not known", req.Program.Language)
	}
	entry := programPrefix + strings.ToLower(lang.Entry)
	o := &cellOrder{
		Do: "program", Code: req.Code, Silent: req.Silent, Entry: entry, Stdin: req.Program.Stdin, Env: map[string]string{},
		Argv: lang.Command(language.Program{Entry: entry, Code: req.Code, Args: req.Program.Args,
			Memory: at.settings.Limits.Memory}),
	}
	for _, pair := range lang.Env {
		name, value, _ := strings.Cut(pair, "=")
		o.Env[name] = value
	}
	return o, nil
}
