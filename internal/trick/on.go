//go:build !ablation

package trick

// On reports whether a trick is used.
func On(string) bool { return true }

// Environment returns what tells another process of the service which tricks are not used.
func Environment() []string { return nil }
