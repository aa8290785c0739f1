package command

import (
	"context"
	"io"
	"sync"
)

// InBackground runs functions until stop is called, which cancels their context and waits for them.
func InBackground(ctx context.Context, run ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, f := range run {
		group.Go(func() { f(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// Using calls do with what was opened, and closes it.
func Using[T io.Closer](opened T, err error, do func(T) error) error {
	if err != nil {
		return err
	}
	err = do(opened)
	if closed := opened.Close(); err == nil {
		err = closed
	}
	return err
}
