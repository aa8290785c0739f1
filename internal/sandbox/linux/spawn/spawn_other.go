//go:build !amd64

package spawn

// Code returns nil: a zygote creates sandboxes in Python, and their pid 1 remains a
// Python process.
func Code() []byte { return nil }

// InitProgram returns nil: see Code.
func InitProgram() []byte { return nil }

// CommandProgram returns nil: no process waits for a command.
func CommandProgram() []byte { return nil }
