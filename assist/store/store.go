// Package store keeps in a directory what the libraries of the assistant must not lose: transactions of
// workspaces with the contents that undo needs, reports that are not sent yet, the ledger of remote
// objects and which files were uploaded. It is one SQLite database, which many processes use at once.
//
// Programs that need none of that durable use workspace.Dir, assignment.Memory and provider.Memory.
package store

import (
	"context"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Store is the state in a directory. Its methods may be called from many goroutines.
type Store struct{ db *state.DB }

// Open opens the state in a directory, makes both if they are missing, and brings an older state up to
// date. The directory must be on a local disk and outside of every workspace. The caller closes it.
func Open(ctx context.Context, dir string) (*Store, error) {
	db, err := state.Open(ctx, dir, state.Options{})
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Close closes the state. What it has returned fails from then on.
func (s *Store) Close() error { return s.db.Close() }

// Workspaces stores transactions: see workspace.Options.
func (s *Store) Workspaces() workspace.Store { return s.db.Journal() }

// Reports stores what is to be sent to projects: see assignment.NewOutbox and assignment.NewSender.
func (s *Store) Reports() assignment.Store { return s.db.Outbox() }

// Ledger stores the remote objects that are to be deleted: see provider.OpenLedger.
func (s *Store) Ledger() provider.LedgerStore { return s.db.Ledger() }

// Uploads stores which files a provider has: see provider.Uploader.
func (s *Store) Uploads() provider.UploadStore { return s.db.Uploads() }
