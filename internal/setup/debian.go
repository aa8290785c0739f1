package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// debianPackages installs the missing packages that the languages and sets need, then
// those for comfort: without these, and without the rights to install them, setup goes on.
func (in *installer) debianPackages(ctx context.Context, languages []language.Language, sets []kind) error {
	in.progress.Step("Debian packages")
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		if err := in.commandsExist(languages); err != nil {
			return err
		}
		if len(in.extras) > 0 {
			in.progress.Warn("not a Debian system: install what Debian calls " + strings.Join(in.extras, " "))
		}
		in.progress.Done("not a Debian system; the languages' commands are there")
		return nil
	}
	needed, err := in.missing(ctx, in.needed(ctx, languages, sets))
	if err != nil {
		return err
	}
	comfort, err := in.missing(ctx, comfortPackages(sets))
	if err != nil {
		return err
	}
	if len(needed)+len(comfort) == 0 {
		in.progress.Done("all present")
		return nil
	}
	if err := in.install(ctx, needed); err != nil {
		return err
	}
	if err := in.install(ctx, comfort); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		in.progress.Warn("programs run without these: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		comfort = nil
	}
	if done := slices.Concat(needed, comfort); len(done) > 0 {
		in.progress.Done("installed " + strings.Join(done, ", "))
	}
	return nil
}

// install installs packages with apt-get.
func (in *installer) install(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	apt, err := in.aptGet(ctx, packages)
	if err != nil {
		return err
	}
	// The lists of a new machine or container are empty or old.
	for _, args := range [][]string{{"update", "-q"}, append(
		[]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)} {
		if err := in.runApt(ctx, append(slices.Clone(apt), args...), packages); err != nil {
			return err
		}
	}
	return nil
}

// comfortPackages returns the packages that programs with these sets run without.
func comfortPackages(sets []kind) []string {
	if len(sets) == 0 {
		return nil
	}
	return append(slices.Clone(fontPackages), localePackage)
}

// DebianPackages returns the Debian packages that programs in these languages and with
// these sets of Python packages need and the extras, without those that only setup needs.
func DebianPackages(languages, sets, extras []string) ([]string, error) {
	chosen, err := choose(languages)
	if err != nil {
		return nil, err
	}
	wanted, err := extraPackages(extras)
	if err != nil {
		return nil, err
	}
	wanted = slices.Concat(wanted, fontPackages, []string{localePackage})
	for _, l := range chosen {
		wanted = append(wanted, l.Packages...)
	}
	if len(sets) > 0 {
		found, err := chooseKinds("", sets)
		if err != nil {
			return nil, err
		}
		for _, k := range found {
			wanted = append(wanted, k.debian...)
		}
	}
	slices.Sort(wanted)
	return slices.Compact(wanted), nil
}

// needed returns the packages that the languages, sets and extras need. A pip that was not
// installed by apt counts.
func (in *installer) needed(ctx context.Context, languages []language.Language, sets []kind) []string {
	wanted := slices.Clone(in.extras)
	for _, l := range languages {
		wanted = append(wanted, l.Packages...)
	}
	for _, k := range sets {
		wanted = append(wanted, k.debian...)
		if _, err := exec.LookPath(npmCommand[0]); k.node && err != nil {
			wanted = append(wanted, npmCommand[0])
		}
		if len(k.source) > 0 && exec.CommandContext(ctx, in.table, "-c", "import setuptools, wheel").Run() != nil {
			wanted = append(wanted, "python3-setuptools", "python3-wheel")
		}
	}
	if len(sets) > 0 && exec.CommandContext(ctx, in.table, "-m", "pip", "--version").Run() != nil {
		wanted = append(wanted, "python3-pip")
	}
	return wanted
}

// missing returns those of the wanted packages that are not installed.
func (in *installer) missing(ctx context.Context, wanted []string) ([]string, error) {
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if len(wanted) == 0 {
		return nil, nil
	}
	// It exits with 1 if it does not know a package, and lists the others.
	query := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${db:Status-Status} ${Package}\n"},
		wanted...)...)
	out, err := query.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return nil, fmt.Errorf("dpkg-query: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	installed := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "installed "); ok {
			installed[name] = true
		}
	}
	return slices.DeleteFunc(wanted, func(name string) bool { return installed[name] }), nil
}

// aptGet returns the beginning of a command line that installs packages.
func (in *installer) aptGet(ctx context.Context, missing []string) ([]string, error) {
	become, err := in.asRoot(ctx)
	if err != nil {
		return nil, &Error{
			Problem: "these Debian packages are missing: " + strings.Join(missing, " "),
			Cure:    "run this as root, then setup again: apt-get install " + strings.Join(missing, " "),
		}
	}
	return append(become, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-o",
		"DPkg::Lock::Timeout=120"), nil
}

// asRoot returns the beginning of a command line that runs as root.
func (in *installer) asRoot(ctx context.Context) ([]string, error) {
	if in.uid == 0 {
		return nil, nil
	}
	sudo := []string{"sudo", "-n"}
	return sudo, exec.CommandContext(ctx, sudo[0], append(sudo[1:], "true")...).Run()
}

// aptCounts is the line in which apt-get says how many packages it is going to set up.
var aptCounts = regexp.MustCompile(`^(\d+) upgraded, (\d+) newly installed`)

func (in *installer) runApt(ctx context.Context, argv, missing []string) error {
	cmd := command(ctx, argv...)
	var tail tail
	cmd.Stderr = &tail
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("apt-get: %w", err)
	}
	done, total := 0, 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if found := aptCounts.FindStringSubmatch(lines.Text()); found != nil {
			upgraded, _ := strconv.Atoi(found[1])
			installed, _ := strconv.Atoi(found[2])
			total = upgraded + installed
		}
		if name, ok := strings.CutPrefix(lines.Text(), "Setting up "); ok {
			done++
			in.progress.Update(done, total, name)
		}
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Error{
			Problem: "apt-get could not install " + strings.Join(missing, " "),
			Cure: "see that this works, then run setup again: apt-get update && apt-get install " +
				strings.Join(missing, " "),
			Err: errors.New(tail.last()),
		}
	}
	return nil
}

// commandsExist checks the languages on hosts without dpkg.
func (in *installer) commandsExist(languages []language.Language) error {
	for _, l := range languages {
		if _, err := exec.LookPath(l.Version[0]); err != nil {
			return &Error{Problem: l.Title + " is missing: there is no " + l.Version[0],
				Cure: "install it, then run setup again"}
		}
	}
	return nil
}
