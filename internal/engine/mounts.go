package engine

import (
	"fmt"
	"slices"
	"strings"
)

// MountRules are the folders of the host that programs can see, and who may ask for them: by their names, or
// as NAME:ro for read-only.
type MountRules struct {
	Names []string            // sorted; none: there are none
	All   []string            // those that every caller may ask for
	Keys  map[string][]string // those that a key may ask for besides
}

// MountName splits what a request says of a mount: NAME, with which the program may write if that of the
// settings may be written to, or NAME:ro.
func MountName(asked string) (name string, readOnly bool) { return strings.CutSuffix(asked, ":ro") }

// MaxMounts bounds the mounts of one program.
const MaxMounts = 16

// MountsOf returns what a caller may ask for, sorted, where NAME is NAME:ro too. Admins may ask for all.
func (s *Service) MountsOf(caller Caller) []string {
	rules := &s.cfg.Mounts
	if caller.Admin {
		return rules.Names
	}
	may := slices.Concat(rules.All, rules.Keys[caller.Key], list(caller.Mounts))
	var found []string
	for _, name := range rules.Names {
		for _, asked := range []string{name, name + ":ro"} {
			if slices.Contains(may, asked) {
				found = append(found, asked)
				break
			}
		}
	}
	return found
}

// ChooseMounts returns the mounts of a program: those of the request, or if it names none, which is nil, of the key.
// It returns an error if the caller may not have one of them.
func (s *Service) ChooseMounts(caller Caller, asked []string) ([]string, error) {
	if asked == nil {
		asked = list(caller.Mounts)
	}
	return asked, s.CheckMounts(caller, asked)
}

// CheckMounts returns an error if a caller may not have one of these mounts.
func (s *Service) CheckMounts(caller Caller, names []string) error {
	if len(names) > MaxMounts {
		return Invalid("mounts", "must be at most %d", MaxMounts)
	}
	may := s.MountsOf(caller)
	for i, asked := range names {
		name, _ := MountName(asked)
		switch {
		case slices.ContainsFunc(names[:i], func(other string) bool { return strings.TrimSuffix(other, ":ro") == name }):
			return Invalid("mounts", "names %.40q twice", name)
		case !slices.Contains(may, name) && !slices.Contains(may, asked):
			known := "there is none for this caller"
			if len(may) > 0 {
				known = "there are " + strings.Join(may, ", ")
			}
			return &Error{Op: "check", Kind: ErrInvalid, ID: "mounts", Err: fmt.Errorf("%.40q is not known; %s", asked, known),
				Hint: "Whoever runs this service names folders in the setting mounts, and in mount_access who may ask for them."}
		}
	}
	return nil
}
