-- The nodes that share a database, and what of it is in the memory of which. A SQLite
-- database has one node, which is not in the table: what belongs to 0 is its own.
CREATE TABLE nodes (
    epoch     INTEGER NOT NULL PRIMARY KEY, -- of one life of a node; no other one ever has it
    name      TEXT    NOT NULL,
    role      TEXT    NOT NULL,
    address   TEXT    NOT NULL,             -- URL under which its peers reach it
    version   TEXT    NOT NULL,
    slots     INTEGER NOT NULL,
    memory    INTEGER NOT NULL,
    languages TEXT    NOT NULL,             -- names, with blanks between them
    packages  TEXT    NOT NULL,             -- the same
    running   INTEGER NOT NULL DEFAULT 0,
    queued    INTEGER NOT NULL DEFAULT 0,
    held      INTEGER NOT NULL DEFAULT 0,
    used      INTEGER NOT NULL DEFAULT 0,   -- of memory
    draining  INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)), -- it takes nothing new
    drain     INTEGER NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),    -- it was asked to
    dead      INTEGER NOT NULL DEFAULT 0 CHECK (dead IN (0, 1)),     -- its peers have given it up, for good
    since_us  INTEGER NOT NULL,
    beat_us   INTEGER NOT NULL
) STRICT;

-- What all nodes agree on, by name.
CREATE TABLE cluster (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE runs ADD COLUMN node INTEGER NOT NULL DEFAULT 0;         -- that has it, until it is final
ALTER TABLE sessions ADD COLUMN holder INTEGER NOT NULL DEFAULT 0;   -- the node that leads what is held for it
ALTER TABLE sessions ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;   -- the node that has its workspace
ALTER TABLE sessions ADD COLUMN generation INTEGER NOT NULL DEFAULT 0; -- counts the places
