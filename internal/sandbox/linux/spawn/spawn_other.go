//go:build !amd64

package spawn

// Code returns nothing: a zygote makes sandboxes in Python, and their pid
// 1 stays the Python process that it was forked as.
func Code() []byte { return nil }

// InitProgram returns nothing: see Code.
func InitProgram() []byte { return nil }

// CommandProgram returns nothing: no process waits for a command.
func CommandProgram() []byte { return nil }
