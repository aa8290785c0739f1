package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts let Ctrl-C end the turn of a chat and not the chat.
type interrupts struct {
	mu   sync.Mutex
	stop context.CancelFunc // of the turn; nil: there is none, or it was asked to end
}

// interruptible returns the context of a chat: at a terminal a first Ctrl-C during
// a turn ends the turn. Everything else ends the chat, and after that a signal
// ends the process.
func (a *app) interruptible(ctx context.Context) (context.Context, *interrupts, func()) {
	if !a.interactive() {
		return ctx, nil, func() {}
	}
	asked := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		asked = append(asked, syscall.SIGHUP)
	}
	i := &interrupts{}
	chat, end := context.WithCancel(context.WithoutCancel(ctx)) // the first signal ends the other one
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, asked...)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGINT || !i.interrupt() {
					end()
					return
				}
			case <-done:
				return
			}
		}
	}()
	return chat, i, func() { close(done); <-gone; end() }
}

// interrupt ends the turn, and reports whether there was one to end.
func (i *interrupts) interrupt() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stop == nil {
		return false
	}
	i.stop()
	i.stop = nil
	return true
}

// turn returns the context of a turn, and what is to be called at its end.
func (i *interrupts) turn(ctx context.Context) (context.Context, func()) {
	if i == nil {
		return ctx, func() {}
	}
	during, stop := context.WithCancel(ctx)
	i.mu.Lock()
	i.stop = stop
	i.mu.Unlock()
	return during, func() {
		i.mu.Lock()
		i.stop = nil
		i.mu.Unlock()
		stop()
	}
}
