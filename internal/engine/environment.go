package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// ImageRules are the images that programs can have, and the rules that assign them to
// programs whose request names none. A rule may name HostImage.
type ImageRules struct {
	Store   Images            // nil: there are none
	Keys    map[string]string // by public id of a key
	Origins map[Origin]string // by protocol
	Default string            // of all others; empty: HostImage
}

// maxListed is how many images an error lists.
const maxListed = 20

// ImagesOf returns the images that a caller's programs can have, sorted by name.
func (s *Service) ImagesOf(caller Caller) ([]Image, error) {
	if s.cfg.Images.Store == nil {
		return nil, nil
	}
	list, err := s.cfg.Images.Store.List()
	if err != nil {
		return nil, failure("list images", "", err)
	}
	return slices.DeleteFunc(list, func(i Image) bool { return !caller.mayHave(i.Name) }), nil
}

// mayHave reports whether programs of the caller can have an image, or run without one.
func (c Caller) mayHave(name string) bool {
	return c.Images == "" || slices.Contains(list(c.Images), name)
}

// MayHaveHost reports whether programs of the caller can run without an image.
func (c Caller) MayHaveHost() bool { return c.mayHave(HostImage) }

// DefaultImage returns the image of a caller's programs whose requests name none, and
// neither a set of packages; HostImage if they have none.
func (s *Service) DefaultImage(caller Caller, origin Origin) string {
	rules := &s.cfg.Images
	if own := list(caller.Images); len(own) > 0 {
		return own[0]
	}
	if name := rules.Keys[caller.Key]; name != "" {
		return name
	}
	if caller.Packages != "" || s.cfg.Packages.Keys[caller.Key] != "" {
		return HostImage // what a key has precedes what all have
	}
	for _, name := range []string{rules.Origins[origin], rules.Default} {
		if name != "" {
			return name
		}
	}
	return HostImage
}

// ChooseImage returns the image of a program, or nil if it has none. name and packages are
// those of its request, and may be empty.
func (s *Service) ChooseImage(caller Caller, origin Origin, name, packages string) (*Image, error) {
	asked := name != ""
	switch {
	case origin == OriginPreview: // it reads a file with programs of the host
		return nil, nil
	case asked && name != HostImage && packages != "":
		return nil, Invalid("image", "%.40q has packages of its own: it cannot be combined with python_packages", name)
	case asked:
	case packages != "":
		name = HostImage
	default:
		name = s.DefaultImage(caller, origin)
	}
	if !caller.mayHave(name) {
		if !asked {
			return nil, Invalid("python_packages", "cannot be chosen: programs of this key run in images, which have "+
				"packages of their own; %s", s.listImages(caller))
		}
		return nil, s.missingImage(caller, name, true)
	}
	if name == HostImage {
		return nil, nil
	}
	if s.cfg.Images.Store == nil {
		return nil, s.missingImage(caller, name, asked)
	}
	image, found, err := s.cfg.Images.Store.Find(name)
	if err != nil {
		return nil, failure("find image", name, err)
	}
	if !found {
		return nil, s.missingImage(caller, name, asked)
	}
	return &image, nil
}

// missingImage returns the error for an image that is not there, or not for this caller.
func (s *Service) missingImage(caller Caller, name string, asked bool) error {
	if asked {
		return &Error{Op: "check", Kind: ErrInvalid, ID: "image",
			Err:  fmt.Errorf("%.40q is not known; %s", name, s.listImages(caller)),
			Hint: "Name one of these, or have an operator add it with `airlock images add NAME REFERENCE`."}
	}
	return &Error{Op: "check", Kind: ErrUnavailable, Err: fmt.Errorf("the image %.40q is not here", name),
		Hint: fmt.Sprintf("The settings or the key give this program the image %.40q, which is not here; %s. Name another "+
			"image, or have an operator add it with `airlock images add %[1]s REFERENCE`.", name, s.listImages(caller))}
}

// listImages returns the images of a caller as the end of a sentence.
func (s *Service) listImages(caller Caller) string {
	images, err := s.ImagesOf(caller)
	var there []string
	if caller.MayHaveHost() {
		there = append(there, HostImage)
	}
	for i := range images {
		there = append(there, fmt.Sprintf("%s (%s)", images[i].Name, images[i].Has()))
	}
	more := len(there) - maxListed
	if more > 0 {
		there = append(there[:maxListed], fmt.Sprintf("and %d more", more))
	}
	switch {
	case err != nil:
		return "the images cannot be listed"
	case len(images) == 0 && len(there) > 0:
		return "there are no images, only " + HostImage
	case len(there) == 0:
		return "there is none of this key's"
	}
	return "there are " + strings.Join(there, ", ")
}

// Has names the languages of the image with their versions: "Python 3.13.1 and Bash 5.2".
func (i *Image) Has() string {
	var has []string
	for _, l := range i.Languages {
		title := l.Name
		if known, ok := language.Find(l.Name); ok {
			title = known.Title
		}
		has = append(has, strings.TrimSpace(title+" "+l.Version))
	}
	switch n := len(has); n {
	case 0:
		return "no language"
	case 1:
		return has[0]
	default:
		return strings.Join(has[:n-1], ", ") + " and " + has[n-1]
	}
}

// chooseEnvironment replaces what a request says of images and packages by what it gets: an
// image, or "" and a set. It returns the image, and the language as the image has it.
func (s *Service) chooseEnvironment(
	caller Caller, req *RunRequest, lang language.Language,
) (*Image, language.Language, error) {
	image, err := s.ChooseImage(caller, req.Profile.Origin, req.Image, req.Packages)
	if err != nil {
		return nil, lang, err
	}
	if image == nil {
		req.Image = ""
		return nil, lang, s.choosePackages(caller, req)
	}
	if live := req.Profile.Live; live != nil && live.Image != image.ID {
		return nil, lang, &Error{Op: opRun, Kind: ErrConflict, ID: "image",
			Err:  fmt.Errorf("%q has been updated since this session began", image.Name),
			Hint: "Begin a new session, which gets the new image; the files of this one stay where they are."}
	}
	if lang, err = image.For(lang); err != nil {
		return nil, lang, err
	}
	req.Image, req.Packages = image.Name, ""
	return image, lang, nil
}

// For returns a language as the image has it, or ErrNoLanguage.
func (i *Image) For(lang language.Language) (language.Language, error) {
	has, ok := i.Language(lang.Name)
	if !ok {
		return lang, &Error{Op: opRun, Kind: ErrNoLanguage, ID: "image",
			Err:  fmt.Errorf("the image %s has no %s", i.Name, lang.Title),
			Hint: fmt.Sprintf("The image %s has %s: name one of these languages, or another image.", i.Name, i.Has())}
	}
	return lang.At(has.Path), nil
}

// checkImages rejects a list of images of a key that cannot be had.
func (s *Service) checkImages(names []string) error {
	for i, name := range names {
		if name == "" || strings.Contains(name, ",") {
			return Invalid("images", "has a name that is empty or has a comma")
		}
		if slices.Contains(names[:i], name) {
			return Invalid("images", "has %.40q twice", name)
		}
		if _, err := s.ChooseImage(Caller{}, OriginNative, name, ""); err != nil {
			if e, ok := errors.AsType[*Error](err); ok && e.ID == "image" {
				e.ID = "images"
			}
			return err
		}
	}
	return nil
}
