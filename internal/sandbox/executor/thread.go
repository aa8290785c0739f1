package executor

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// InThread calls a function in a thread that ends with the call: one that has entered another namespace or control
// group must not be reused. The first thread of a process never ends: it would stay what the function has made of it,
// and with it the process, for whose first thread the kernel takes it in many places. So the function never runs there.
func InThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, but for the first thread
		if unix.Gettid() != unix.Getpid() {
			done <- do()
			return
		}
		err := InThread(do) // in another one: this one is not free
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}
