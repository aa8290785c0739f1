package engine

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// A Hint is what a program that failed for something it missed is told: what the error means here, and what can be
// done. Every surface shows the same line after the output, so it names the options of `airlock run` and the fields of
// the API, as facts. Models read it.
type Hint struct {
	Text    string // of one line; empty: there is nothing to say
	Package string // that is missing and that a registry may have, as pip or npm calls it; empty: something else is
}

// hintPrefix begins the line of a hint in an output.
const hintPrefix = "airlock: "

// Line returns the hint as a line of output, or "".
func (h Hint) Line() string {
	if h.Text == "" {
		return ""
	}
	return hintPrefix + h.Text
}

// Hint returns the hint for the last part of the output of something that failed in a run that has
// not ended, such as a cell of a live interpreter.
func (s *Service) Hint(ctx context.Context, owner Owner, run ID, output string) Hint {
	j := s.job(owner, run)
	if j == nil {
		return Hint{}
	}
	return s.hint(ctx, j, findSymptom(output))
}

// MissingFile returns the path of the file whose absence made a program fail, from its output, or "".
func MissingFile(output string) string {
	if s := findSymptom(output); s.kind == missingFile {
		return s.name
	}
	return ""
}

// failed reports whether a program ended as one does that has printed why.
func (o *Outcome) failed() bool {
	return !o.TimedOut && !o.OOM && !o.Cancelled && (o.ExitCode == nil || *o.ExitCode != 0) && o.Signal != "SIGKILL"
}

// addHint adds the hint for a program that has ended to its output, whose end is tail, and returns its text.
func (s *Service) addHint(ctx context.Context, j *job, o *Outcome, tail string) string {
	var symptom symptom
	switch {
	case o.Refused:
		symptom.kind = noThreads
	case o.Cancelled:
	case o.TimedOut:
		symptom.kind = overTime
	case o.OOM:
		symptom.kind = overMemory
	case o.Signal == "SIGXFSZ":
		symptom.kind = largeFile
	case o.failed():
		symptom = findSymptom(tail)
	}
	found := s.hint(ctx, j, symptom)
	if line := found.Line(); line != "" {
		stream, inLine := messageStream(&j.request.Profile), tail != "" && !strings.HasSuffix(tail, "\n")
		j.log.addNote(stream, line+"\n", inLine)
		if tap := j.request.Profile.Output.Tap; tap != nil {
			if inLine {
				line = "\n" + line
			}
			tap(stream, []byte(line+"\n"))
		}
	}
	return found.Text
}

// messageStream returns the stream that has a program's messages of errors.
func messageStream(p *Profile) Stream {
	if p.Output.Merge {
		return Stdout
	}
	return Stderr
}

// hint returns the hint for a symptom.
func (s *Service) hint(ctx context.Context, j *job, found symptom) Hint {
	limits, text, wanted := &j.request.Profile.Limits, "", ""
	switch found.kind {
	case missingModule:
		text, wanted = s.moduleHint(ctx, j, found.name)
	case missingNodePackage:
		wanted = found.name
		text = fmt.Sprintf("the Node package %s is not in this environment. ", found.name) +
			s.installHint(j, "npm install "+found.name, "", ifItExists)
	case missingRPackage:
		text = fmt.Sprintf("the R package %s is not in this environment. %sthe operator can install it.", found.name,
			ifItExists)
	case missingFile:
		text = s.fileHint(ctx, j, found.name)
	case noPip:
		text, wanted = s.pipHint(j, found.name)
	case noNetwork:
		text = s.networkHint(j)
	case noThreads:
		text = fmt.Sprintf("the program wanted more than %d processes and threads, which is as many as it may have. "+
			"Start fewer (n_jobs, max_workers), or have the operator raise AIRLOCK_DEFAULT_PROCESSES.", limits.Processes)
	case noMemory, overMemory:
		if found.kind == overMemory && limits.Memory >= s.cfg.Maxima.Memory {
			break // the message of the run has said it
		}
		text = fmt.Sprintf("the program and its files may use %s of memory. Load less at once", byteCount(limits.Memory))
		if most := s.cfg.Maxima.Memory; limits.Memory < most {
			text += fmt.Sprintf(", or ask for up to %s (`--memory`, field limits.memory_bytes)", byteCount(most))
		}
		text += "."
	case noSpace:
		text = fmt.Sprintf("the program's folder is full: it holds at most %s and %d files, and /tmp %s. Write less, "+
			"or delete files", byteCount(limits.Workspace), limits.Inodes, byteCount(TmpBytes)) + s.moreRoom(j)
	case largeFile:
		text = fmt.Sprintf("no file may have more than %s", byteCount(max(limits.Workspace, TmpBytes)))
		if len(j.volumes) > 0 {
			text += ", or in a volume than its owner may still keep (owner_disk)"
		}
		text += ". Write less, or several files" + s.moreRoom(j)
	case overTime:
		// Other protocols have times of their own, which the field does not raise.
		own := j.request.Profile.Origin == OriginNative || j.request.Profile.Origin == OriginMCP
		if most := s.cfg.Maxima.Timeout; own && limits.Timeout < most {
			text = fmt.Sprintf("the program may take %v. Do less at once, or ask for up to %v (`--timeout`, field timeout_ms).",
				DurationText(limits.Timeout), DurationText(most))
		}
	}
	return Hint{strings.TrimSpace(text), wanted}
}

// moreRoom ends a hint with what gives a program more room than its folder has.
func (s *Service) moreRoom(j *job) (text string) {
	if origin := j.request.Profile.Origin; origin != OriginNative && origin != OriginLive {
		return "." // other protocols have no such fields
	}
	if most := s.cfg.Maxima.Workspace; j.request.Profile.Limits.Workspace < most {
		text = fmt.Sprintf(", or ask for up to %s (field limits.workspace_bytes)", byteCount(most))
	}
	if (s.cfg.Volumes != nil || operator(j.caller)) && len(j.volumes) == 0 {
		text += ", or write to a volume of the service, which holds more (`--volume NAME`, field volumes)"
	}
	return text + "."
}

// moduleHint returns the hint for a missing module of Python, and the package that would bring it.
func (s *Service) moduleHint(ctx context.Context, j *job, module string) (text, wanted string) {
	own := s.ownFiles(ctx, j)
	if !isInstallable(module) || isOwnModule(module, own) {
		return "", ""
	}
	if name := moduleOf(module); name != "" && s.finds(j, name) {
		return fmt.Sprintf("the package %s is here, and its module is called %s.", module, name), ""
	}
	if s.finds(j, module) {
		return "", "" // the program has changed where it looks
	}
	wanted = distributionOf(module)
	if wheel := wheelOf(module, own); wheel != "" {
		return fmt.Sprintf("%s is among the program's files, and was not unpacked. Before the import: "+
			"`import shutil, sys; shutil.unpack_archive(%q, \"/tmp/%s\", \"zip\"); sys.path.insert(0, \"/tmp/%s\")`.",
			wheel, wheel, module, module), wanted
	}
	subject := fmt.Sprintf("%s is not in this environment.", wanted)
	if wanted != module {
		subject = fmt.Sprintf("%s (package %s) is not in this environment.", module, wanted)
	}
	return s.packageHint(j, module, wanted, subject), wanted
}

// pipHint returns the hint for a package that pip could not install, and its name: what is said of its module, too.
func (s *Service) pipHint(j *job, wanted string) (text, missing string) {
	if wanted == anyPackage {
		if s.registryHint(j, "", "") != "" {
			text = "`pip install` works with network access to packages (`--allow-net packages`, field network)."
		}
		return text, ""
	}
	module := cmp.Or(moduleOf(wanted), strings.ReplaceAll(wanted, "-", "_"))
	if s.finds(j, module) {
		return fmt.Sprintf("the package %s is here already, and its module is called %s.", wanted, module), ""
	}
	return s.packageHint(j, module, wanted, wanted+" is not in this environment."), wanted
}

// anyPackage is what guest/pip.py calls packages that it was not given by name.
const anyPackage = "packages"

// setUpOwn is how the operator of a service installs what no set has.
const setUpOwn = "install it with `airlock setup --python-requirements FILE`"

// packageHint returns who can get the package of a module that a program misses, after a subject.
func (s *Service) packageHint(j *job, module, wanted, subject string) string {
	if others := s.environmentsWith(j, module); len(others) > 0 {
		return subject + " It is in " + strings.Join(others[:min(len(others), namedFiles)], ", and in ") + "."
	}
	var offers []string
	if s.cfg.Packages.With != nil {
		offers = s.cfg.Packages.With(wanted)
	}
	condition := ifItExists
	if distributions[module] == wanted || len(offers) > 0 {
		condition = ""
	}
	offers = slices.DeleteFunc(offers, func(set string) bool { return slices.Contains(s.cfg.Packages.Installed, set) })
	pip := "pip install " + wanted
	switch {
	case j.image != nil:
		return subject + " " + s.installHint(j, pip, "add it to the image "+ShownName(j.image.Name), condition)
	case len(offers) == 0:
		return subject + " " + s.installHint(j, pip, setUpOwn, condition)
	}
	setUp := "`airlock setup`" // a machine without packages gets the set current
	if offers[0] != language.CurrentPackages || len(s.cfg.Packages.Installed) > 0 {
		setUp = fmt.Sprintf("`airlock setup --packages %s`", offers[0])
	}
	if operator(j.caller) {
		setUp += " installs it; a running service has it once it is started again. "
	} else {
		setUp = "The operator can install it with " + setUp + " and start the service again. "
	}
	return subject + " " + setUp + s.registryHint(j, pip, "")
}

// finds reports whether the environment of a program has a module of Python.
func (s *Service) finds(j *job, module string) bool {
	if j.image != nil {
		return slices.Contains(j.image.Modules, module)
	}
	set := j.request.Packages
	if set == "" && len(s.cfg.Packages.Installed) > 0 {
		set = s.cfg.Packages.Installed[0]
	}
	return set != "" && s.hasModule(set, module)
}

// hasModule reports whether a set of Python packages has a module.
func (s *Service) hasModule(set, module string) bool {
	return s.cfg.Packages.Has != nil && s.cfg.Packages.Has(set, module)
}

// environmentsWith returns the environments that have a module of Python which the program's own
// has not, as far as its caller can have them, and how to ask for them.
func (s *Service) environmentsWith(j *job, module string) (found []string) {
	if j.caller.MayHaveHost() {
		for _, name := range s.cfg.Packages.Installed {
			if s.hasModule(name, module) {
				found = append(found, fmt.Sprintf("the package set %s (`--packages %s`, field python_packages)", name, name))
			}
		}
	}
	images, err := s.ImagesOf(j.caller)
	if err != nil {
		return found // a hint is no reason for an error
	}
	for i := range images {
		name := images[i].Name
		if _, python := images[i].Language("python"); python && slices.Contains(images[i].Modules, module) && isPlain(name) {
			found = append(found, fmt.Sprintf("the image %s (`--image %s`, field image)", name, name))
		}
	}
	return found
}

// ifItExists begins what is said of a package that a program has named and that nobody here knows.
const ifItExists = "If a package of that name exists, "

// installHint returns who can get a package, after a condition that may be empty.
func (s *Service) installHint(j *job, command, operator, condition string) string {
	if text := s.registryHint(j, command, condition); text != "" {
		return text
	}
	allow := ""
	if s.cfg.Network.Egress != nil {
		allow = fmt.Sprintf("allow `%s` (network_allow: packages)", command)
	}
	options := slices.DeleteFunc([]string{operator, allow}, func(text string) bool { return text == "" })
	if len(options) == 0 {
		return ""
	}
	who := "The operator can "
	if condition != "" {
		who = condition + "the operator can "
	}
	return who + strings.Join(options, ", or ") + "."
}

// registryHint returns how a program's caller can get a package from a registry, or "".
func (s *Service) registryHint(j *job, command, condition string) string {
	switch {
	case s.cfg.Network.Egress == nil:
	case j.grant != nil && j.grant.reachesPackages():
		return fmt.Sprintf("%s`%s` gets it: this program may contact the package registries.", condition, command)
	case s.mayAskFor(j.caller, NetworkRule{Set: PackagesSet}):
		return fmt.Sprintf("%s`%s` gets it with network access to packages (`--allow-net packages`, field network).",
			condition, command)
	}
	return ""
}

// reachesPackages reports whether a program with the grant can install packages.
func (g *Grant) reachesPackages() bool {
	reaches := func(host string) bool {
		return slices.ContainsFunc(g.Allow, func(r NetworkRule) bool { return r.MatchHost(host, portHTTPS) })
	}
	return g.packages || reaches("pypi.org") && reaches("files.pythonhosted.org")
}

// mayAskFor reports whether a caller may request a rule of the network.
func (s *Service) mayAskFor(caller Caller, rule NetworkRule) bool {
	if operator(caller) {
		return true
	}
	allowed, err := s.allowance(caller)
	return err == nil && coveredBy(allowed, &rule)
}

// networkHint returns the hint for a program that could not reach a host.
func (s *Service) networkHint(j *job) string {
	if j.grant != nil {
		return fmt.Sprintf("this program may contact %s only, through the proxy of HTTPS_PROXY.", joinRules(j.grant.Allow))
	}
	if s.cfg.Network.Egress == nil {
		return "programs have no network here."
	}
	const ask = "this program has no network. `--allow-net HOST` (field network) lets it contact a host"
	if operator(j.caller) {
		return ask + "."
	}
	if allowed, err := s.allowance(j.caller); err == nil && len(allowed) > 0 {
		return ask + "; allowed are " + joinRules(allowed) + "."
	}
	return "programs have no network here. The operator can allow hosts with network_allow, or for one key with " +
		"`airlock keys create --network`."
}

// ownFiles returns the paths of the files that a program was given, and of those in its session.
func (s *Service) ownFiles(ctx context.Context, j *job) (paths []string) {
	for _, ref := range j.request.Files {
		paths = append(paths, ref.Path)
	}
	if j.session.Implicit && j.request.Session.IsZero() {
		return paths
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_, places, err := s.index.SessionFiles(ctx, j.owner, j.session.ID)
	if err != nil {
		return paths // a hint is no reason for an error
	}
	for _, place := range places {
		if place.Path != j.request.Profile.Files.Private && !slices.Contains(paths, place.Path) {
			paths = append(paths, place.Path)
		}
	}
	return paths
}

// fileHint returns the hint for a file that a program did not find.
func (s *Service) fileHint(ctx context.Context, j *job, name string) string {
	wanted := path.Clean(name)
	for _, folder := range []string{"/workspace/", "/mnt/data/"} {
		wanted = strings.TrimPrefix(wanted, folder)
	}
	paths := slices.DeleteFunc(s.ownFiles(ctx, j), func(p string) bool { return strings.HasPrefix(p, ".") })
	if slices.Contains(paths, wanted) {
		return "" // it was there
	}
	for _, p := range paths {
		if strings.EqualFold(path.Base(p), path.Base(wanted)) {
			return fmt.Sprintf("there is no %s, but there is %s: open that.", name, ShownName(p))
		}
	}
	switch {
	case strings.Contains(wanted, "/"): // of a folder that the program should have made, or of the system
		return ""
	case len(paths) == 0:
		return fmt.Sprintf("%s was not sent with the program, which has no files (`-f FILE`, field files).", wanted)
	}
	shown := make([]string, min(len(paths), namedFiles))
	for i := range shown {
		shown[i] = ShownName(path.Base(paths[i]))
	}
	return fmt.Sprintf("%s was not sent with the program. Its files are %s", wanted, strings.Join(shown, ", ")) +
		andMore(len(paths)-len(shown))
}
