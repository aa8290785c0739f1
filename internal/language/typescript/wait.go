package typescript

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
)

// wait is the process that is started before there is a program for it: it compiles a
// sample, so that all that takes is in memory, then the program that it is told.
func wait() int {
	prewarm()
	order, stderr, err := receive(language.CompilerOrders)
	if err != nil {
		return 1 // who started it has ended, or has no use for it
	}
	if err := os.MkdirAll(filepath.Dir(order.Result), 0o755); err != nil {
		return 1
	}
	code := Main([]string{order.Source, order.Result}, stderr)
	if _, err := unix.Write(language.CompilerVerdict, []byte{byte(code)}); err != nil {
		return 1
	}
	return code
}

// rehearsal is a program with a bit of everything.
const rehearsal = `import fs from "fs"
interface A<T> { x: T }
enum E { One, Two }
class B implements A<number> { constructor(public x: number, private readonly y?: string) {} }
async function f<T>(a: A<T>, ...rest: T[]): Promise<T> { return await rest[0] ?? a.x }
const t = (n: number) => ` + "`${n}`" + `, { x, ...others } = new B(1) as A<number>
console.log(fs.existsSync("/"), E.One, t(x), others, await f({ x: 1 }, 2), import.meta.url)
`

// prewarm compiles the rehearsal, and keeps nothing of it.
func prewarm() {
	o := options("/workspace/main.ts", "/tmp/main.mjs")
	o.EntryPoints, o.Write = nil, false
	o.Stdin = &api.StdinOptions{ResolveDir: "/", Sourcefile: "main.ts", Loader: api.LoaderTS, Contents: rehearsal}
	api.Build(o)
}

// receive waits for the one message that comes.
func receive(socket int) (order language.CompilerOrder, stderr *os.File, err error) {
	body, rights := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4))
	n, length, _, _, err := unix.Recvmsg(socket, body, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return order, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:length])
	if err != nil {
		return order, nil, err
	}
	if len(messages) != 1 {
		return order, nil, unix.EBADMSG
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return order, nil, err
	}
	unix.Close(socket)
	return order, os.NewFile(uintptr(fds[0]), "stderr"), json.Unmarshal(body[:n], &order)
}
