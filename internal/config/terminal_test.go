package config

import "testing"

// How pictures are drawn is told by the variables of terminals, unless they are those around a multiplexer.
func TestPictures(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"TERM": "xterm-256color"}, PicturesAuto},
		{map[string]string{"TERM": "xterm-kitty"}, PicturesKitty},
		{map[string]string{"TERM": "xterm-ghostty"}, PicturesKitty},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, PicturesITerm2},
		{map[string]string{"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, PicturesITerm2},
		{map[string]string{"TERM": "tmux-256color", "LC_TERMINAL": "iTerm2"}, PicturesAuto},
		{map[string]string{"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, PicturesAuto},
		{map[string]string{"TERM": "xterm-kitty", "AIRLOCK_PICTURES": "off"}, PicturesOff},
		{map[string]string{"TERM": "xterm", "AIRLOCK_PICTURES": "sixel"}, PicturesSixel},
	} {
		c, err := Load(world(t, test.env, ""))
		if err != nil || c.Pictures != test.want {
			t.Errorf("%v: %q, %v; want %q", test.env, c.Pictures, err, test.want)
		}
	}
}
