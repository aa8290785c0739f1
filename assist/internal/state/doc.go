// Package state stores the data that several Airlock processes share in one
// SQLite database, state.db in the data directory: the journal of workspaces,
// with the contents that undo needs, the outbox, projects, conversations, and
// the ledger of remote objects.
//
// Many processes have it open at once: each command of the CLI and a service.
// The log is written ahead (WAL), and an acknowledged write survives a loss of
// power (synchronous=FULL). A writer waits for another writer for some seconds;
// no method holds the database while it waits for anything else.
//
// state.go opens the database; each other file is one of the stores in it.
// The schema grows by the numbered files under migrations/. A released file
// is never edited.
package state
