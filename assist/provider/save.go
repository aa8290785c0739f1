package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/airlock-run/airlock/assist/workspace"
)

// Save turns approved files of the quarantine into changes of a workspace, under dir. The
// workspace checks each against its hash. clash says what happens to existing files.
//
// A file may replace an input only if the input has not changed since it was sent to the
// model; otherwise Save returns an error with its name. Close the files after the commit.
func Save(
	ctx context.Context, q *Quarantine, approved []Artifact, dir string, clash workspace.Clash, inputs []Staged,
	current func(path string) (sha256 string, err error),
) (changes []workspace.Change, files io.Closer, err error) {
	var open closers
	defer func() {
		if err != nil {
			err = join(err, open.Close())
		}
	}()
	for _, a := range approved {
		to := path.Join(dir, a.Name)
		if clash == workspace.ClashReplace {
			if err := unchanged(to, inputs, current); err != nil {
				return nil, nil, err
			}
		}
		hash, err := workspace.ParseHash(a.SHA256)
		if err != nil {
			return nil, nil, err
		}
		f, err := q.Open(a.SHA256)
		if err != nil {
			return nil, nil, fmt.Errorf("%s is not held any more: %w", a.Name, err)
		}
		open = append(open, f)
		content, err := workspace.File(ctx, f, a.Size, hash)
		if err != nil {
			return nil, nil, err
		}
		changes = append(changes, workspace.Change{ID: a.SHA256[:12], Verb: workspace.Write, Path: to, Content: content,
			Exact: true, Clash: clash})
	}
	return changes, open, nil
}

// unchanged returns an error if an input has changed.
func unchanged(to string, inputs []Staged, current func(string) (string, error)) error {
	for _, in := range inputs {
		if path.Clean(in.Path) != to {
			continue
		}
		now, err := current(in.Path)
		if err != nil {
			return err
		}
		if now != in.SHA256 {
			return &Error{Kind: Invalid, Op: "save " + to, Message: "it has changed since it was sent to the model",
				Hint: "Save the result under another name and compare, or send the file again."}
		}
	}
	return nil
}

type closers []io.Closer

func (c closers) Close() (err error) {
	for _, closer := range c {
		err = errors.Join(err, closer.Close())
	}
	return err
}
