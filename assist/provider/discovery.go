package provider

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// discovery collects the artifacts of a turn, each once.
type discovery struct {
	provider string
	all      []*Artifact
}

// add adds an artifact, or merges it into one of the same file.
func (f *discovery) add(a Artifact) {
	a.Ref.Provider = cmp.Or(a.Ref.Provider, f.provider)
	if known := f.find(a.Ref); known != nil && a.Ref.Scope != ScopeInline {
		known.learn(a)
		return
	}
	f.all = append(f.all, &a)
}

// find returns the artifact of a file, or nil.
func (f *discovery) find(r FileRef) *Artifact {
	for _, k := range f.all {
		if k.Ref.Scope == r.Scope && k.Ref.Session == r.Session && fileKey(k.Ref) == fileKey(r) {
			return k
		}
	}
	return nil
}

func (a *Artifact) learn(b Artifact) {
	for _, e := range b.FoundBy {
		a.FoundBy = addEvidence(a.FoundBy, e)
	}
	if IsGenerated(CleanName(a.Name)) && b.Name != "" {
		a.Name = b.Name
	}
	a.Ref.Path = cmp.Or(a.Ref.Path, b.Ref.Path)
	a.MIME = cmp.Or(a.MIME, b.MIME)
	if a.Size < 0 || a.Size == 0 && b.Size > 0 {
		a.Size = b.Size
	}
	a.SHA256 = cmp.Or(a.SHA256, b.SHA256)
	a.StepID = cmp.Or(a.StepID, b.StepID)
	if a.Created.IsZero() {
		a.Created = b.Created
	}
}

// sessions returns all sessions that the reply names.
func (f *discovery) sessions(r *RunResult) (ids []string) {
	add := func(id string) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, s := range r.Sessions {
		add(s.ID)
	}
	for _, a := range f.all {
		add(a.Ref.Session)
	}
	return ids
}

// frames takes the files out of the output of the steps and leaves a short line in
// place of each. Some providers return all output of failed code as stderr.
func (f *discovery) frames(steps []Step) (failed []Failure) {
	for i := range steps {
		s := &steps[i]
		for _, output := range []*string{&s.Stdout, &s.Stderr} {
			var bad []Failure
			*output, bad = f.framed(*output, s.ID)
			failed = append(failed, bad...)
		}
	}
	return failed
}

// framed takes the files out of a text.
func (f *discovery) framed(text, step string) (rest string, failed []Failure) {
	files, rest := Unframe(text, MaxFrame)
	for _, file := range files {
		a := Artifact{Ref: FileRef{Provider: f.provider, Scope: ScopeInline, Inline: file.Data}, Name: file.Name,
			Size: int64(len(file.Data)), FoundBy: []Evidence{ByStdout}, StepID: step}
		if file.Err != nil {
			a.Size = -1
			failed = append(failed, Failure{a, file.Err})
			continue
		}
		f.add(a)
	}
	return rest, failed
}

// newest keeps the last file of each path of a session. Times may be whole seconds: of
// two equal ones the file that was found later is kept.
func (f *discovery) newest() {
	place := map[[2]string]int{}
	var kept []*Artifact
	for _, a := range f.all {
		key := [2]string{a.Ref.Session, a.Ref.Path}
		i, ok := place[key]
		if a.Ref.Path == "" || !ok {
			place[key] = len(kept)
			kept = append(kept, a)
			continue
		}
		if !a.Created.Before(kept[i].Created) {
			kept[i] = a
		}
	}
	f.all = kept
}

// Links of an answer name files: "sandbox:/mnt/data/x" at OpenAI, a path in the folder
// for outputs elsewhere.
var (
	// linked matches a link of Markdown. Its address may have spaces and parentheses,
	// or angle brackets around it.
	linked = regexp.MustCompile(`\]\(\s*(?:<([^<>\n]*)>|((?:[^()\n]|\([^()\n]*\))*))\)`)
	// bare matches an address outside of a link.
	bare = regexp.MustCompile(`sandbox:((?:[^\s()\[\]<>"'` + "`" + `]|\([^\s()]*\))+)`)
	// title matches the title after the address of a link.
	title = regexp.MustCompile(`\s+("[^"]*"|'[^']*')\s*$`)
)

// folders begin the addresses of links that promise a file.
var folders = []string{"sandbox:", "file:///mnt/data/", "/mnt/data/", "$OUTPUT_DIR/", "/files/output/"}

// fileLinks returns the addresses in a text.
func fileLinks(text string) (all []string) {
	for _, m := range linked.FindAllStringSubmatch(text, -1) {
		address := strings.TrimSpace(title.ReplaceAllString(m[1]+m[2], ""))
		for _, folder := range folders {
			if rest, ok := strings.CutPrefix(address, folder); ok {
				all = append(all, rest)
				break
			}
		}
	}
	for _, m := range bare.FindAllStringSubmatch(linked.ReplaceAllString(text, "]()"), -1) {
		all = append(all, strings.TrimRight(m[1], ".,;:!*_"))
	}
	return all
}

// spellings returns the names that an address may mean: with and without escapes, with
// and without query and fragment.
func spellings(address string) (names []string) {
	for _, s := range []string{address, strings.SplitN(address, "?", 2)[0], strings.SplitN(address, "#", 2)[0]} {
		plain, err := url.PathUnescape(s)
		if err != nil {
			plain = s
		}
		for _, name := range []string{CleanName(plain), CleanName(s)} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// links returns the names in links of the answer that are neither a found file nor an
// input.
func (f *discovery) links(text string, inputs []FileInfo) (missing []string) {
	for _, address := range fileLinks(text) {
		names := spellings(address)
		known := func(name string) bool {
			// Without a link the address ends at a space or a quote, the name may go on.
			is := func(n string) bool {
				return n == name || strings.HasPrefix(n, name) && strings.Contains(text, "/"+n)
			}
			return f.linked(is) || slices.ContainsFunc(inputs, func(i FileInfo) bool {
				return is(CleanName(i.Name)) || is(base(i.Ref.Path))
			})
		}
		if len(names) == 0 || slices.ContainsFunc(names, known) {
			continue
		}
		plain := spellings(strings.SplitN(address, "?", 2)[0])
		if name := append(plain, names[0])[0]; !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// linked marks the files whose name is accepted as found by a link, and reports whether there are any.
func (f *discovery) linked(is func(name string) bool) (found bool) {
	for _, a := range f.all {
		if is(CleanName(a.Name)) || is(base(a.Ref.Path)) || a.Ref.Path != "" && is(StagedName(a.Ref.Path)) {
			a.FoundBy = addEvidence(a.FoundBy, ByLinkText)
			found = true
		}
	}
	return found
}
