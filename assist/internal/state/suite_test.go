package state_test

import (
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/assignmenttest"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func TestProviderStores(t *testing.T) {
	providertest.TestStore(t, func(t *testing.T) (provider.LedgerStore, provider.UploadStore) {
		db := openState(t, t.TempDir())
		return db.Ledger(), db.Uploads()
	})
}

func TestAssignmentStore(t *testing.T) {
	assignmenttest.TestStore(t, func(t *testing.T) assignment.Store { return openState(t, t.TempDir()).Outbox() })
}
