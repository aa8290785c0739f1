-- The nodes that share a database, and what of it is in the memory of which.
CREATE TABLE nodes (
    epoch     BIGINT  NOT NULL PRIMARY KEY, -- of one life of a node; no other one ever has it
    name      TEXT    NOT NULL,
    role      TEXT    NOT NULL,
    address   TEXT    NOT NULL,             -- URL under which its peers reach it
    version   TEXT    NOT NULL,
    slots     BIGINT  NOT NULL,
    memory    BIGINT  NOT NULL,
    languages TEXT    NOT NULL,             -- names, with blanks between them
    packages  TEXT    NOT NULL,             -- the same
    running   BIGINT  NOT NULL DEFAULT 0,
    queued    BIGINT  NOT NULL DEFAULT 0,
    held      BIGINT  NOT NULL DEFAULT 0,
    used      BIGINT  NOT NULL DEFAULT 0,   -- of memory
    draining  BIGINT  NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)), -- it takes nothing new
    drain     BIGINT  NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),    -- it was asked to
    dead      BIGINT  NOT NULL DEFAULT 0 CHECK (dead IN (0, 1)),     -- its peers have given it up, for good
    since_us  BIGINT  NOT NULL,
    beat_us   BIGINT  NOT NULL
);

-- What all nodes agree on, by name.
CREATE TABLE cluster (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

ALTER TABLE runs ADD COLUMN node BIGINT NOT NULL DEFAULT 0;         -- that has it, until it is final
ALTER TABLE sessions ADD COLUMN holder BIGINT NOT NULL DEFAULT 0;   -- the node that leads what is held for it
ALTER TABLE sessions ADD COLUMN worker BIGINT NOT NULL DEFAULT 0;   -- the node that has its workspace
ALTER TABLE sessions ADD COLUMN generation BIGINT NOT NULL DEFAULT 0; -- counts the places
