package setup

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed merge.py
var mergeScript string

const ownCure = "correct the file, then run setup again with --python-requirements"

// userCure is what to do about requirements that do not go with a set.
func userCure(file string) string {
	return "correct the file and run setup again; or install a set of its own, with the packages of that file and what " +
		"they need: airlock setup --packages own --python-requirements " + file
}

// installUser makes the set that has the user's own packages besides the main
// ones. The lock binds pip: what is in it keeps its version, so that a user's
// wish never changes a main package.
func (in *installer) installUser(ctx context.Context, p plan, work string) error {
	if p.user == nil || in.hasSet(p.set) {
		return nil
	}
	in.progress.Update(0, 0, "packages of "+p.source)
	if p.main == "" {
		return in.installOwn(ctx, p, work)
	}
	constraints, extra, packages := filepath.Join(work, "constraints.txt"), filepath.Join(work, "extra"),
		filepath.Join(work, "packages")
	if err := os.WriteFile(constraints, pins(p.lock), 0o644); err != nil {
		return err
	}
	err := in.pip(ctx, filepath.Join(work, "tmp"), 0, userCure(p.source), "--prefer-binary", "--target", extra, "-r",
		p.source, "-c", constraints)
	if err != nil {
		return err
	}
	if err := in.cloneSet(ctx, p.main, packages); err != nil {
		return err
	}
	out, err := pythonCommand(ctx, nil, in.python, "-I", "-c", mergeScript, extra, packages).CombinedOutput()
	if err != nil {
		return fmt.Errorf("adding the packages of %s: %w: %s", p.source, err, strings.TrimSpace(string(out)))
	}
	return in.keep(ctx, packages, p.set)
}

// installOwn makes the set that has the user's own packages only.
func (in *installer) installOwn(ctx context.Context, p plan, work string) error {
	packages := filepath.Join(work, "packages")
	err := in.pip(ctx, filepath.Join(work, "tmp"), 0, ownCure, "--prefer-binary", "--target", packages, "-r", p.source)
	if err != nil {
		return err
	}
	return in.keep(ctx, packages, p.set)
}

// withoutUser leaves a working set behind when the user's own packages could
// not be installed for the reason why, and returns an error that says so.
func (in *installer) withoutUser(ctx context.Context, p plan, work string, why error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	left := "the packages that were there before still work"
	switch {
	case p.main == "" && in.current() == "":
		left = "the set " + in.kind.name + " is not there"
	case !strings.HasPrefix(in.current(), p.main):
		left = "the main packages work"
		main := p
		main.user, main.set = nil, p.main
		if err := in.finish(ctx, main, work); err != nil {
			return errors.Join(why, err)
		}
	}
	if known, ok := errors.AsType[*Error](why); ok {
		return &Error{Problem: fmt.Sprintf("the packages of %s could not be installed, %s: %s", p.source, left,
			known.Problem), Cure: known.Cure, Err: known.Err}
	}
	return fmt.Errorf("the packages of %s could not be installed, %s: %w", p.source, left, why)
}
