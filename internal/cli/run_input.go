package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/regular"
)

// input is a file for a program.
type input struct {
	name string // on this machine
	path string // in the program's folder
	size int64
}

// maxInputs is the largest number of files that a program may have.
const maxInputs = 10_000

// findInputs finds the inputs, and checks that their names do not collide. A folder
// means all files in it, under its own name.
func findInputs(names []string) (inputs []input, err error) {
	seen := map[string]string{}
	add := func(name, path string, size int64) error {
		if other, twice := seen[path]; twice {
			return command.Fail(command.ExitUsage, "rename one of them", "%s and %s would both be %s for the program", other,
				name, path)
		}
		if seen[path] = name; len(seen) > maxInputs {
			return command.Fail(command.ExitUsage, "pack them into an archive", "more than %d files are too many for a program",
				maxInputs)
		}
		inputs = append(inputs, input{name, path, size})
		return nil
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, command.Unreadable(name, err)
		}
		absolute, err := filepath.Abs(name)
		if err != nil {
			return nil, command.Unreadable(name, err)
		}
		switch base := filepath.Base(absolute); {
		case info.Mode().IsRegular():
			err = add(name, base, info.Size())
		case !info.IsDir():
			err = command.Fail(command.ExitUsage, "give files and folders with -f", "%s is neither a file nor a folder", name)
		default:
			err = walkInputs(name, base, add)
		}
		if err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// walkInputs adds the files of a folder, but links and .git.
func walkInputs(root, base string, add func(name, path string, size int64) error) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return command.Unreadable(name, err)
		}
		if entry.IsDir() && entry.Name() == ".git" && name != root {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return command.Unreadable(name, err)
		}
		return add(name, path.Join(base, filepath.ToSlash(below)), info.Size())
	})
}

// sending returns a function that shows the progress of large inputs.
func (a *app) sending(quiet bool) func(in input, done int64) {
	if quiet || a.JSON {
		return func(input, int64) {}
	}
	shown := a.Transfers(nil)
	return func(in input, done int64) {
		switch {
		case in.size < command.LargeTransfer:
		case done >= in.size:
			shown.ClearBar()
		default:
			shown.Show("sending", in.name, done, in.size)
		}
	}
}

// upload uploads the inputs.
func (c *connection) upload(
	ctx context.Context, inputs []input, tell func(in input, done int64),
) (refs []client.FileRef, err error) {
	err = eachInput(inputs, func(in input, f *os.File) error {
		stored, err := c.client.Upload(ctx, path.Base(in.path), &progressReader{
			from: f, tell: func(done int64) { tell(in, done) }}, 0)
		if err != nil {
			return err
		}
		tell(in, in.size)
		refs = append(refs, client.FileRef{ID: stored.ID, Path: in.path})
		return nil
	})
	return refs, err
}

// eachInput opens the inputs one by one, until send fails.
func eachInput(inputs []input, send func(input, *os.File) error) error {
	for _, in := range inputs {
		f, err := regular.Open(in.name)
		if err != nil {
			err = command.Unreadable(in.name, err)
		} else {
			err = send(in, f)
			f.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", command.PrintableName(in.name), err)
		}
	}
	return nil
}

// progressReader reports after each MiB how much was read.
type progressReader struct {
	from       io.Reader
	tell       func(done int64)
	done, told int64
}

func (r *progressReader) Read(p []byte) (int, error) {
	const step = 1 << 20
	n, err := r.from.Read(p)
	if r.done += int64(n); r.done-r.told >= step {
		r.told = r.done
		r.tell(r.done)
	}
	return n, err
}
