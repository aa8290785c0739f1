package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Wall is what separates a program from its host.
type Wall string

// The walls. Empty is none that is known, and weaker than each.
const (
	WallShared Wall = "shared" // programs share the host's kernel
	WallGVisor Wall = "gvisor" // each program has a kernel of its own
)

// walls are all, the weakest first.
var walls = []Wall{WallShared, WallGVisor}

// ErrNoWall is the cause of the ErrInvalid of a request for a wall that this machine cannot make.
var ErrNoWall = errors.New("this machine cannot make the wall")

// noWall is an ErrNoWall in words.
type noWall string

func (n noWall) Error() string { return string(n) }

// Unwrap returns ErrNoWall.
func (n noWall) Unwrap() error { return ErrNoWall }

// NoWall returns the error of a request for a wall that this machine cannot make. text says which one, and why.
func NoWall(text, hint string) error {
	return &Error{Op: "check", Kind: ErrInvalid, ID: "wall", Err: noWall(text), Hint: hint}
}

// Stronger returns the stronger one of two walls.
func (w Wall) Stronger(other Wall) Wall {
	if slices.Index(walls, other) > slices.Index(walls, w) {
		return other
	}
	return w
}

// KeepsMemory reports whether live sessions behind the wall can be stored with their memory.
func (w Wall) KeepsMemory() bool { return w == WallGVisor }

// weakerThan reports whether another wall is stronger.
func (w Wall) weakerThan(other Wall) bool { return w.Stronger(other) != w }

// checkWall rejects the name of a wall that does not exist; empty is none.
func checkWall(name Wall) error {
	if name == "" || slices.Contains(walls, name) {
		return nil
	}
	names := make([]string, len(walls))
	for i, w := range walls {
		names[i] = string(w)
	}
	return Invalid("wall", "%.40q is not known; there are %s", name, strings.Join(names, " and "))
}

// ChooseWall returns the wall of what a caller asks for: the strongest of the service's, that of the caller's key
// and the one that the request names, which may be empty. A request for a weaker one is rejected.
func (s *Service) ChooseWall(caller Caller, asked Wall) (Wall, error) {
	if err := checkWall(asked); err != nil {
		return "", err
	}
	floor, whose := s.cfg.Wall, "all programs of this service"
	if floor.weakerThan(caller.Wall) {
		floor, whose = caller.Wall, "all programs of this key"
	}
	if asked != "" && asked.weakerThan(floor) {
		return "", weakWall(asked, floor, whose)
	}
	return asked.Stronger(floor), nil
}

// weakWall returns the error of a request for less than it gets.
func weakWall(asked, floor Wall, whose string) error {
	return &Error{Op: "check", Kind: ErrInvalid, ID: "wall",
		Err:  fmt.Errorf("%q is weaker than %s, which %s have at least", asked, floor, whose),
		Hint: fmt.Sprintf("Leave it out, or ask for %s: a request can only raise the wall.", floor)}
}

// wallIn returns the wall of a run in a session, if that of its request is floor. A workspace that stays has one
// wall, which all of its programs have.
func (s *Session) wallIn(floor, asked Wall) (Wall, error) {
	switch {
	case asked != "" && asked.weakerThan(s.Wall):
		return "", weakWall(asked, s.Wall, "all programs of this session")
	case s.Kind != SessionFiles && s.Wall != "" && s.Wall.weakerThan(floor):
		return "", &Error{Op: "check", Kind: ErrInvalid, ID: "wall",
			Err:  fmt.Errorf("of this session is %s, and this program is to have %s", s.Wall, floor),
			Hint: "Begin a new session, or copy this one: the copy has its files, and the wall of the key that makes it."}
	}
	return floor.Stronger(s.Wall), nil
}

// CheckWallOf returns an error if programs of a caller are to have a stronger wall than a session has that is kept in
// memory.
func (s *Service) CheckWallOf(caller Caller, session Session) error {
	floor, err := s.ChooseWall(caller, "")
	if err == nil {
		_, err = session.wallIn(floor, "")
	}
	return err
}

// AccountWall returns the strongest wall of the keys of an owner, for what acts in its name without one of them.
func (s *Service) AccountWall(owner Owner) Wall { return s.accounts.wall(owner.Account()) }
