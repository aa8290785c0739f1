package cli

import "testing"

// Each command stands under a heading of the help.
func TestCommandGroups(t *testing.T) {
	for _, c := range Command().Commands() {
		if c.GroupID == "" && !c.Hidden {
			t.Errorf("%s stands under no heading: see commandGroups", c.Name())
		}
	}
}
