package live

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// Files of the session's root and of its volumes are changed by short commands in the sandbox, which has them mounted,
// by the rights of its user and within its limits.

// A file is written under another name, and named when all of it is there: what is killed sees the end of its input
// first, like a part that is the whole. A file that is replaced keeps its mode.
const (
	partProgram = `set -e
mkdir -p -- "$(dirname -- "$1")"
cat >"$2"`
	nameProgram = `set -e
chmod 644 -- "$2"
[ ! -f "$1" ] || chmod --reference="$1" -- "$2"
mv -fT -- "$2" "$1"`
)

func (v *view) writeFile(ctx context.Context, p location, content io.Reader) (engine.Entry, error) {
	if p.files != nil {
		return p.files.Write(ctx, p.path, content)
	}
	part := path.Join(path.Dir(p.path), ".airlock-"+rand.Text())
	err := v.slowCommand(ctx, io.Discard, 0, content, "/bin/sh", "-c", partProgram, "sh", p.path, part)
	if err == nil {
		err = v.command(ctx, io.Discard, 0, nil, "/bin/sh", "-c", nameProgram, "sh", p.path, part)
	}
	if err != nil { // the program may have been killed
		_ = v.command(context.WithoutCancel(ctx), io.Discard, 0, nil, "/bin/rm", "-f", "--", part)
	}
	return v.changed(ctx, p, err)
}

func (v *view) makeFolder(ctx context.Context, p location) (engine.Entry, error) {
	if p.files != nil {
		return p.files.MakeFolder(ctx, p.path)
	}
	return v.changed(ctx, p, v.command(ctx, io.Discard, 0, nil, "/bin/mkdir", "-p", "--", p.path))
}

func (v *view) remove(ctx context.Context, p location, recursive bool) error {
	if p.files != nil {
		return p.files.Remove(ctx, p.path, recursive)
	}
	if _, err := v.stat(ctx, p); err != nil {
		return err
	}
	flag := "-d"
	if recursive {
		flag = "-rf"
	}
	return unchanged(p, v.command(ctx, io.Discard, 0, nil, "/bin/rm", flag, "--", p.path))
}

// movable returns an error for a file that could be copied, but not removed: mv would leave a copy.
func (v *view) movable(ctx context.Context, p location) error {
	if p.files != nil {
		return nil
	}
	const program = `[ -w "$1" ] || { echo "Read-only file system" >&2; exit 1; }`
	return unchanged(p, v.command(ctx, io.Discard, 0, nil, "/bin/sh", "-c", program, "sh", path.Dir(p.path)))
}

// changed describes a file after its change.
func (v *view) changed(ctx context.Context, p location, err error) (engine.Entry, error) {
	if err != nil {
		return engine.Entry{}, unchanged(p, err)
	}
	return v.stat(ctx, p)
}

// unchanged returns the error for what a command says of a file that it could not change.
func unchanged(p location, err error) error {
	says := func(texts ...string) bool {
		return err != nil && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
	}
	switch {
	case says("No space left on device", "Disk quota exceeded"):
		return &engine.Error{Op: "write", Kind: engine.ErrTooLarge, Err: errors.New("there is no room for it")}
	case says("Permission denied", "Operation not permitted", "Read-only file system", "Device or resource busy",
		"nonexistent"): // a folder of /proc:
		return readOnly(p)
	}
	return err
}
