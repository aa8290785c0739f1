package provider

import (
	"context"
	"iter"
)

// NoSessions is the SessionStore of a provider without sessions.
type NoSessions struct{ Provider string }

func (n NoSessions) refused() error {
	return &Error{Kind: Invalid, Provider: n.Provider, Op: "session", Message: "this provider has no sessions"}
}

// Create implements SessionStore.
func (n NoSessions) Create(context.Context, SessionSpec) (Session, error) {
	return Session{}, n.refused()
}

// Get implements SessionStore.
func (n NoSessions) Get(context.Context, string) (Session, error) { return Session{}, n.refused() }

// List implements SessionStore: there are none.
func (n NoSessions) List(context.Context, Filter) iter.Seq2[Session, error] {
	return func(func(Session, error) bool) {}
}

// Touch implements SessionStore.
func (n NoSessions) Touch(context.Context, string) error { return n.refused() }

// Files implements SessionStore.
func (n NoSessions) Files(context.Context, string) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) { yield(FileInfo{}, n.refused()) }
}

// Add implements SessionStore.
func (n NoSessions) Add(context.Context, string, FileInfo) (FileInfo, error) {
	return FileInfo{}, n.refused()
}

// Delete implements SessionStore. There is nothing to delete.
func (n NoSessions) Delete(context.Context, string) error { return nil }
