//go:build ablation

package trick

import (
	"os"
	"slices"
	"strings"
)

const variable = "AIRLOCK_WITHOUT"

var without = strings.Split(os.Getenv(variable), ",")

// On reports whether a trick is used.
func On(name string) bool { return !slices.Contains(without, name) }

// Environment returns what tells another process of the service which tricks are not used.
func Environment() []string { return []string{variable + "=" + os.Getenv(variable)} }
