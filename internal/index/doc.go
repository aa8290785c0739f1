// Package index remembers sessions, files, runs and keys in one SQLite
// database.
//
// One process holds the database (db.go takes the lock), through one
// connection that writes and a few that read. Every method of engine.Index is
// one transaction, and what it has acknowledged survives a power cut: the log
// is written ahead (WAL) and fsynced at each commit (synchronous=FULL).
//
// Every query about an object names its owner, and what belongs to another,
// what has expired and what never was give one and the same answer. A file or
// session is gone from the moment of its expiry, although its row stays until
// the janitor removes it.
//
// The schema grows by the numbered files under migrations/. One that was
// released is never edited.
package index
