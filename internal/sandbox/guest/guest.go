// Package guest is what runs inside a sandbox, whatever backend made the sandbox: the
// drivers of Python programs and of live interpreters, the zygote with what it needs,
// and pip. Beside each lies the Go that speaks to it: Hello and Ready are what an
// executor and a zygote say to each other first, a Program is what a waiting
// sandbox is handed, and a Channel carries a program's calls.
package guest

import (
	"embed"
	"io/fs"

	"github.com/airlock-run/airlock/internal/language"
)

// Folder is the folder, in a sandbox, of the files that Files returns.
const Folder = language.Support

// Paths of the files that commands name.
const (
	DriverPath   = Folder + "/program.py"
	ZygotePath   = Folder + "/zygote.py"
	LivePath     = Folder + "/live.py"
	LiveNodePath = Folder + "/live.cjs"
)

//go:embed program.py live.py live.cjs zygote.py server.py buffer.py warmup.py prewarm.py
var files embed.FS

// Files returns the files of Folder.
func Files() fs.FS { return files }

//go:embed pip.py
var pip []byte

// Pip returns a program that is a command, and the module of `python -m pip`.
func Pip() []byte { return pip }
