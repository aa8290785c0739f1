package provider

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// finds gathers artifacts, each once.
type finds struct {
	provider string
	all      []*Artifact
}

// add takes an artifact, or adds to one that is known what this one tells of it.
func (f *finds) add(a Artifact) *Artifact {
	if a.Ref.Provider == "" {
		a.Ref.Provider = f.provider
	}
	if a.Ref.Scope != ScopeInline {
		for _, k := range f.all {
			if k.Ref.Scope == a.Ref.Scope && k.Ref.Session == a.Ref.Session && fileKey(k.Ref) == fileKey(a.Ref) {
				k.learn(a)
				return k
			}
		}
	}
	f.all = append(f.all, &a)
	return &a
}

func (a *Artifact) learn(b Artifact) {
	for _, e := range b.FoundBy {
		a.FoundBy = addEvidence(a.FoundBy, e)
	}
	if IsGenerated(CleanName(a.Name)) && b.Name != "" {
		a.Name = b.Name
	}
	if a.Ref.Path == "" {
		a.Ref.Path = b.Ref.Path
	}
	if a.MIME == "" {
		a.MIME = b.MIME
	}
	if a.Size < 0 || a.Size == 0 && b.Size > 0 {
		a.Size = b.Size
	}
	if a.SHA256 == "" {
		a.SHA256 = b.SHA256
	}
	if a.StepID == "" {
		a.StepID = b.StepID
	}
	if a.Created.IsZero() {
		a.Created = b.Created
	}
}

// sessions are all that the reply names: a turn may use more than one.
func (f *finds) sessions(r *RunResult) (ids []string) {
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

// frames takes the files out of the output of the steps, which keep a short line
// in the place of each.
func (f *finds) frames(steps []Step) (failed []Failure) {
	for i := range steps {
		files, rest := Unframe(steps[i].Stdout, MaxFrame)
		steps[i].Stdout = rest
		for _, file := range files {
			a := Artifact{Ref: FileRef{Provider: f.provider, Scope: ScopeInline, Inline: file.Data}, Name: file.Name,
				Size: int64(len(file.Data)), FoundBy: []Evidence{ByStdout}, StepID: steps[i].ID}
			if file.Err != nil {
				a.Size = -1
				failed = append(failed, Failure{a, file.Err})
				continue
			}
			f.add(a)
		}
	}
	return failed
}

// newest keeps one of each path of a session: the one that was made last.
func (f *finds) newest() {
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
		if a.Created.After(kept[i].Created) {
			kept[i] = a
		}
	}
	f.all = kept
}

// promise matches what models write as the address of a file. It leads nowhere;
// it is a name.
var promise = regexp.MustCompile(`sandbox:/?/?((?:[^\s()\[\]<>"'` + "`" + `]|\([^\s()]*\))+)`)

// links goes through the links of the answer and returns those that no file
// stands behind. A link to an input promises nothing.
func (f *finds) links(text string, inputs []FileInfo) (missing []string) {
	for _, m := range promise.FindAllStringSubmatch(text, -1) {
		target := strings.TrimRight(m[1], ".,;:!")
		if plain, err := url.PathUnescape(target); err == nil {
			target = plain
		}
		name := CleanName(target)
		if name == "" || f.linked(name) || slices.Contains(missing, name) {
			continue
		}
		if slices.ContainsFunc(inputs, func(i FileInfo) bool { return CleanName(i.Name) == name || base(i.Ref.Path) == name }) {
			continue
		}
		missing = append(missing, name)
	}
	return missing
}

func (f *finds) linked(name string) (found bool) {
	for _, a := range f.all {
		if CleanName(a.Name) == name || base(a.Ref.Path) == name || StagedName(a.Ref.Path) == name && a.Ref.Path != "" {
			a.FoundBy = addEvidence(a.FoundBy, ByLinkText)
			found = true
		}
	}
	return found
}
