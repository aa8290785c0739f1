// Package index records sessions, files, runs and keys in a database: SQLite in the
// data directory (Open), or PostgreSQL, which other replicas may share (OpenPostgres).
//
// The statements are the same for both. One process holds a SQLite database
// (sqlite.go takes the lock), through one connection that writes and a few that
// read. Every method of engine.Index is one transaction, and an acknowledged
// write survives a power cut: with SQLite the log is written ahead (WAL)
// and fsynced at each commit (synchronous=FULL), PostgreSQL decides by its own
// settings.
//
// Every query about an object names its owner. Objects of another owner, expired
// objects and objects that never existed give the same answer. A file or session
// is not found from the moment of its expiry, although its row stays until the
// janitor removes it.
//
// The schema grows by the numbered files under migrations-sqlite/ and
// migrations-postgres/. A released file is never edited.
package index
