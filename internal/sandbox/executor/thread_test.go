package executor

import (
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A function that changes its thread never changes the first one, however busy the others are.
func TestInThread(t *testing.T) {
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			if err := InThread(func() error {
				if unix.Gettid() == unix.Getpid() {
					return errors.New("it runs on the first thread")
				}
				<-time.After(time.Millisecond)
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
