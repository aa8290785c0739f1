// Package guest holds the code that runs inside a sandbox of any backend: the drivers
// of Python programs and of live interpreters, the zygote, and pip. It also has the Go
// side of their protocols: an executor and a zygote first exchange Hello and Ready, a
// Program is sent to a waiting sandbox, and a Channel carries a program's calls.
package guest

import (
	"embed"
	"io/fs"

	"github.com/airlock-run/airlock/internal/language"
)

// Folder is the folder, in a sandbox, of the files that Files returns.
const Folder = language.Support

// StoreArgument has a zygote wait for one program, to be stored meanwhile.
const StoreArgument = "store"

// Rehearse has a copy of what was stored so touch the memory that its program will need. It answers with a Ready.
const Rehearse = "rehearse"

// Paths of files that commands refer to.
const (
	DriverPath   = Folder + "/program.py"
	ZygotePath   = Folder + "/zygote.py"
	LivePath     = Folder + "/live.py"
	LiveNodePath = Folder + "/live.cjs"
	LiveRPath    = Folder + "/live.R"
)

//go:embed program.py live.py live.cjs live.R shown.py frames.py zygote.py server.py buffer.py warmup.py prewarm.py
var files embed.FS

// Files returns the files of Folder.
func Files() fs.FS { return ablated(files) }

//go:embed pip.py
var pip []byte

// Pip returns a program that is both a command and the module of `python -m pip`.
func Pip() []byte { return pip }
