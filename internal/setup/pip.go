package setup

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// pip runs "pip install" and reports its progress. total is the number of packages, 0 if
// it is not known. cure is the remedy for requirements that pip refuses.
func (in *installer) pip(ctx context.Context, temporary string, total int, cure string, args ...string) error {
	argv := append([]string{in.python, "-m", "pip", "install", "--no-compile", "--no-warn-script-location",
		"--progress-bar", "off"}, args...)
	cmd := pythonCommand(ctx, []string{"TMPDIR=" + temporary}, argv...)
	cmd.ExtraFiles = []*os.File{in.held}
	var stderr, said tail // conflicts are explained on stdout
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("pip: %w", err)
	}
	count, current := 0, ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if name, ok := strings.CutPrefix(lines.Text(), "Collecting "); ok {
			current, _, _ = strings.Cut(name, " ")
			count++
			in.progress.Update(count, total, current)
		} else if strings.HasPrefix(lines.Text(), "Installing collected packages") {
			in.progress.Update(count, total, "unpacking")
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return pipError(in.data, current, cure, stderr.String()+"\n"+said.String())
	}
	return nil
}

// Messages of pip, versions 22 to 26.
var (
	pipFull    = regexp.MustCompile(`No space left on device|Errno 28|Disk quota exceeded`)
	pipHash    = regexp.MustCompile(`DO NOT MATCH THE HASHES`)
	pipTrust   = regexp.MustCompile(`CERTIFICATE_VERIFY_FAILED|certificate verify failed`)
	pipOffline = regexp.MustCompile(
		`connection broken by|Failed to establish a new connection|Max retries exceeded|Temporary failure in name resolution|Read timed out|ReadTimeoutError|ConnectionResetError|IncompleteRead|Connection aborted`)
	pipConflict = regexp.MustCompile(`ERROR: (Cannot install .+)`)
	pipMissing  = regexp.MustCompile(`No matching distribution found for (.+)`)
	pipProblem  = regexp.MustCompile(`ERROR: (.+)`)
)

// pipError explains the failure that pip's output reports. at is the package that
// pip was working on.
func pipError(data, at, cure, said string) error {
	if missing := pipMissing.FindStringSubmatch(said); missing != nil {
		at = strings.TrimSpace(missing[1])
		at, _, _ = strings.Cut(at, " (from")
	}
	at = cmp.Or(at, "the first package")
	if pipFull.MatchString(said) {
		return diskFull(data)
	}
	for _, known := range []struct {
		pattern       *regexp.Regexp
		problem, cure string
	}{
		{pipHash, at + " came with other bytes than the ones that were locked",
			"do not install it; if you use a mirror of the package index, it serves altered or rebuilt files"},
		{pipTrust, "the package index showed a certificate that this machine does not trust, at " + at,
			"behind a proxy that has certificates of its own, name the file of its authority in PIP_CERT, then run setup again"},
		{pipOffline, "the network or the package index failed at " + at,
			"check the connection (behind a proxy set HTTPS_PROXY), then run setup again: it continues"},
		{pipMissing, "the package index has no " + at + " that fits this machine and its Python", cure},
	} {
		if known.pattern.MatchString(said) {
			return &Error{Problem: known.problem, Cure: known.cure}
		}
	}
	if conflict := explainConflict(said); conflict != "" {
		return &Error{Problem: conflict, Cure: cure}
	}
	why := "pip failed"
	for _, pattern := range []*regexp.Regexp{pipConflict, pipProblem} {
		if found := pattern.FindStringSubmatch(said); found != nil {
			why = strings.Join(strings.Fields(found[1]), " ")
			break
		}
	}
	return &Error{Problem: "pip could not go on at " + at, Cure: cure, Err: errors.New(why)}
}

// Lines of pip about requirements that conflict.
var (
	pipCauses     = regexp.MustCompile(`(?m)^The conflict is caused by:\n((?:[ \t]+\S.*\n?)+)`)
	pipConstraint = regexp.MustCompile(`^The user requested \(constraint\) (.+)$`)
	pipRequested  = regexp.MustCompile(`^The user requested (.+)$`)
	pipDepends    = regexp.MustCompile(`^(\S+) (\S+) depends on (.+)$`)
)

// explainConflict returns which packages of the set, which are pip's constraints, and of
// the user conflict, or "" if pip reports no conflict.
func explainConflict(said string) string {
	found := pipCauses.FindStringSubmatch(strings.ReplaceAll(said, "\r\n", "\n"))
	if found == nil {
		return ""
	}
	var ours, theirs []string
	add := func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for line := range strings.Lines(found[1]) {
		line = strings.TrimSpace(line)
		if m := pipConstraint.FindStringSubmatch(line); m != nil {
			add(&ours, m[1])
		} else if m := pipRequested.FindStringSubmatch(line); m != nil {
			add(&theirs, m[1])
		} else if m := pipDepends.FindStringSubmatch(line); m != nil {
			add(&theirs, m[1]+" "+m[2]+", which needs "+m[3])
		}
	}
	switch {
	case len(ours) == 0 && len(theirs) > 1:
		return "what is asked for cannot be had together: " + strings.Join(theirs, "; ")
	case len(ours) == 0 || len(theirs) == 0:
		return ""
	}
	return "yours: " + strings.Join(theirs, "; ") + "; this set has: " + strings.Join(ours, ", ")
}
