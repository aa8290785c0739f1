package config

import (
	"path/filepath"
	"strings"
)

// The ways to draw pictures on a terminal.
const (
	PicturesAuto   = "auto"
	PicturesKitty  = "kitty"
	PicturesITerm2 = "iterm2"
	PicturesSixel  = "sixel"
	PicturesOff    = "off"
)

// picturesOf returns how the terminal of an environment draws pictures, or PicturesAuto. Within a
// multiplexer the variables are those of the terminal around it.
func picturesOf(in Input) string {
	of := func(name string) string {
		value, _ := in.Lookup(name)
		return value
	}
	terminal, program := of("TERM"), of("TERM_PROGRAM")
	switch {
	case of("TMUX") != "", strings.HasPrefix(terminal, "screen"), strings.HasPrefix(terminal, "tmux"):
		return PicturesAuto
	case of("KITTY_WINDOW_ID") != "", strings.Contains(terminal, "kitty"), strings.Contains(terminal, "ghostty"),
		program == "ghostty":
		return PicturesKitty
	case program == "iTerm.app", program == "WezTerm", program == "mintty", of("LC_TERMINAL") == "iTerm2":
		return PicturesITerm2
	}
	return PicturesAuto
}

// stateOf returns the directory for what commands remember, or "".
func stateOf(in Input) string {
	if dir, ok := in.Lookup("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "airlock")
	}
	if in.Home == "" {
		return ""
	}
	return filepath.Join(in.Home, ".local", "state", "airlock")
}
