// Package typescript turns a TypeScript program into one that Node runs. It
// reads what strangers wrote, so it runs inside their sandbox: as a process of
// its own, of the same program that also is the service.
package typescript

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/airlock-run/airlock/internal/language"
)

// EntryLink is the name, beside the result, of a link to the source; with it a
// program learns where it came from.
const EntryLink = "entry"

// Main is the compiler's process: its arguments are the source and the result.
// Errors go to stderr, each with file and line, and make the exit code 1.
// With language.CompilerWaits alone it waits until it is told both; with --cell it
// compiles a cell of a live interpreter from stdin to stdout.
func Main(args []string, stderr io.Writer) int {
	if len(args) == 1 && args[0] == language.CompilerWaits {
		return wait()
	}
	if len(args) == 1 && args[0] == cellName {
		if err := compileCell(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(stderr, "airlock compile typescript:", err)
			return 1
		}
		return 0
	}
	if len(args) != 2 {
		fmt.Fprintln(stderr, "airlock compile typescript: needs a source and a result")
		return 2
	}
	source, result := args[0], args[1]
	if err := os.Symlink(source, filepath.Join(filepath.Dir(result), EntryLink)); err != nil && !os.IsExist(err) {
		fmt.Fprintln(stderr, "airlock compile typescript:", err)
		return 1
	}
	built := api.Build(options(source, result))
	for _, message := range api.FormatMessages(built.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage}) {
		fmt.Fprint(stderr, message)
	}
	if len(built.Errors) > 0 {
		return 1
	}
	return 0
}

// options make one file of the program and of the files of its own that it
// imports. It stays a module of the new kind, for `await` at the top; what it
// asks about itself is answered as if it had not been moved.
func options(source, result string) api.BuildOptions {
	folder := filepath.Dir(source)
	return api.BuildOptions{
		EntryPoints:       []string{source},
		Outfile:           result,
		AbsWorkingDir:     folder,
		Write:             true,
		Bundle:            true,
		Platform:          api.PlatformNode,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		LegalComments:     api.LegalCommentsNone,
		Sourcemap:         api.SourceMapInline,
		NodePaths:         []string{"/usr/lib/nodejs", "/usr/share/nodejs"},
		MainFields:        []string{"module", "main"},
		ResolveExtensions: []string{".ts", ".tsx", ".mts", ".cts", ".mjs", ".js", ".cjs", ".jsx", ".json"},
		Loader:            map[string]api.Loader{".node": api.LoaderCopy},
		Define: map[string]string{
			"import.meta.url":      literal((&url.URL{Scheme: "file", Path: source}).String()),
			"import.meta.filename": literal(source),
			"import.meta.dirname":  literal(folder),
		},
		LogLevel: api.LogLevelSilent,
	}
}
