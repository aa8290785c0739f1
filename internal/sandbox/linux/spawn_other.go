//go:build !amd64

package linux

// spawnCode returns nothing: a zygote makes sandboxes in Python, and their pid
// 1 stays the Python process that it was forked as.
func spawnCode() []byte { return nil }

func initProgram() []byte { return nil }

// commandProgram returns nothing: no process waits for a command.
func commandProgram() []byte { return nil }
