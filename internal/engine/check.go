package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/language"
)

// The bounds of one request, whatever the limits of its run.
const (
	maxArguments      = 64 << 10    // bytes of args together
	maxInline         = 128<<10 - 1 // the kernel's bound for one argument
	maxStdin          = 10 * mebibyte
	maxFileRefs       = 256
	maxIdempotencyKey = 255
)

// The fields that errors name.
const (
	fieldSession = "session"
	fieldFiles   = "files"
)

// The working directories that a run can have.
const (
	rootWorkspace = "/workspace"
	rootMntData   = "/mnt/data"
)

// check refuses a request that can never succeed and fills in its defaults.
// It looks nothing up.
func (s *Service) check(req *RunRequest) (language.Language, error) {
	lang, ok := language.Find(req.Language)
	if !ok {
		var names []string
		for _, l := range language.All() {
			names = append(names, l.Name)
		}
		return lang, Invalid("language", "%.40q is not known; there are %s", req.Language, strings.Join(names, ", "))
	}
	req.Profile.Program.Inline = req.Profile.Program.Inline && lang.Inline != nil
	for _, err := range []error{
		s.checkCode(req),
		checkArguments(req.Args),
		checkProfile(&req.Profile, lang),
		checkKey(req.IdempotencyKey),
	} {
		if err != nil {
			return lang, err
		}
	}
	if len(req.Files) > maxFileRefs {
		return lang, Invalid(fieldFiles, "are %d, at most %d are allowed", len(req.Files), maxFileRefs)
	}
	if req.Profile.Files.TTL < 0 {
		return lang, Invalid("file_ttl", "must not be negative")
	}
	req.Profile.Files.TTL = cmp.Or(req.Profile.Files.TTL, s.cfg.FileTTL)
	output := req.Profile.Limits.Output
	if req.Profile.Output.Whole {
		req.Profile.Limits.Output = OutputLimit{}
	}
	limits, err := s.limits(req.Profile.Limits)
	if req.Profile.Output.Whole {
		limits.Output = output
	}
	req.Profile.Limits = limits
	return lang, err
}

func (s *Service) checkCode(req *RunRequest) error {
	switch {
	case len(req.Code) > s.cfg.MaxCode:
		return tooLarge("code", len(req.Code), s.cfg.MaxCode)
	case !utf8.ValidString(req.Code):
		return Invalid("code", "is not valid UTF-8")
	case len(req.Stdin) > s.maxStdin(req):
		return tooLarge("stdin", len(req.Stdin), s.maxStdin(req))
	case !req.Profile.Program.Inline:
		return nil
	case len(req.Code) > maxInline:
		return tooLarge("code", len(req.Code), maxInline)
	case strings.ContainsRune(req.Code, 0):
		return Invalid("code", "must not contain NUL")
	}
	return nil
}

// maxStdin returns the maximum length of a program's input. The input of an edge's driver
// contains the source, whose length escaping can double.
func (s *Service) maxStdin(req *RunRequest) int {
	if req.Profile.Program.InStdin {
		return maxStdin + 2*s.cfg.MaxCode
	}
	return maxStdin
}

func tooLarge(field string, size, most int) error {
	return &Error{
		Op: "check", Kind: ErrTooLarge, ID: field,
		Err: fmt.Errorf("has %d bytes, at most %d are allowed", size, most),
	}
}

func checkArguments(args []string) error {
	size := 0
	for i, arg := range args {
		if err := argument(fmt.Sprintf("args[%d]", i), arg); err != nil {
			return err
		}
		size += len(arg) + 1
	}
	if size > maxArguments {
		return tooLarge("args", size, maxArguments)
	}
	return nil
}

func argument(field, s string) error {
	if strings.ContainsRune(s, 0) {
		return Invalid(field, "must not contain NUL")
	}
	if !utf8.ValidString(s) {
		return Invalid(field, "is not valid UTF-8")
	}
	return nil
}

func checkProfile(p *Profile, lang language.Language) error {
	p.Origin = cmp.Or(p.Origin, OriginNative)
	switch p.Program.Root {
	case "":
		p.Program.Root = rootWorkspace
	case rootWorkspace, rootMntData:
	default:
		return Invalid("root", "must be %s or %s", rootWorkspace, rootMntData)
	}
	p.Program.Entry = cmp.Or(p.Program.Entry, lang.Entry)
	entry, err := CleanPath(p.Program.Entry)
	if err != nil {
		return Invalid("entry", "%w", err)
	}
	p.Program.Entry = entry
	p.Program.Home = cmp.Or(p.Program.Home, p.Program.Root)
	if !strings.HasPrefix(p.Program.Home, "/") || len(p.Program.Home) > maxPath {
		return Invalid("home", "must be an absolute path")
	}
	return argument("home", p.Program.Home)
}

func checkKey(key string) error {
	if len(key) > maxIdempotencyKey {
		return Invalid("idempotency key", "is longer than %d bytes", maxIdempotencyKey)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		return Invalid("idempotency key", "must be printable text")
	}
	return nil
}

// fingerprint returns a digest that differs for different requests with one idempotency
// key. It covers the whole request but the handler of its calls (Profile.MarshalJSON).
func fingerprint(req RunRequest) (Digest, error) {
	req.IdempotencyKey = ""
	text, err := json.Marshal(req)
	if err != nil {
		return Digest{}, &Error{Op: "check", Kind: ErrInvalid, Err: err}
	}
	return sha256.Sum256(text), nil
}

// targets is a set of paths that fit into one workspace: no duplicates, and no
// path that is a directory of another path.
type targets struct {
	files map[string]bool
	dirs  map[string]bool
}

func newTargets() *targets { return &targets{files: map[string]bool{}, dirs: map[string]bool{}} }

// add adds a clean path, and reports whether it conflicts with no other.
func (t *targets) add(path string) bool {
	if t.files[path] || t.dirs[path] {
		return false
	}
	for dir := range parents(path) {
		if t.files[dir] {
			return false
		}
	}
	for dir := range parents(path) {
		t.dirs[dir] = true
	}
	t.files[path] = true
	return true
}
