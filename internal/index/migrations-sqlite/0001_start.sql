-- Ids are 16 bytes, digests 32. Instants (_us) are microseconds since 1970 in
-- UTC, durations (_us) microseconds.

CREATE TABLE files (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    mime       TEXT    NOT NULL,
    sha256     BLOB    NOT NULL CHECK (length(sha256) = 32),
    run        BLOB             CHECK (length(run) = 16), -- outlives the run's own row, so no reference
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    ttl_us     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX files_owner   ON files (owner, created_us, id);
CREATE INDEX files_expiry  ON files (expires_us);
CREATE INDEX files_content ON files (sha256);
CREATE INDEX files_run     ON files (run) WHERE run IS NOT NULL;

CREATE TABLE sessions (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('files', 'held')),
    implicit   INTEGER NOT NULL CHECK (implicit IN (0, 1)),
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    ttl_us     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_owner  ON sessions (owner, created_us, id) WHERE implicit = 0;
CREATE INDEX sessions_expiry ON sessions (expires_us);
CREATE INDEX sessions_held   ON sessions (id) WHERE kind = 'held';

CREATE TABLE session_files (
    session   BLOB    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    path      TEXT    NOT NULL,
    file      BLOB    NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    role      TEXT    NOT NULL CHECK (role IN ('input', 'output')),
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_files_file ON session_files (file);

CREATE TABLE runs (
    id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner       TEXT    NOT NULL,
    origin      TEXT    NOT NULL,
    session     BLOB             CHECK (length(session) = 16), -- outlives the session's own row, so no reference
    language    TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    exit_code   INTEGER,
    signal      TEXT    NOT NULL DEFAULT '',
    truncated   INTEGER NOT NULL DEFAULT 0 CHECK (truncated IN (0, 1)),
    duration_us INTEGER NOT NULL DEFAULT 0,
    cpu_us      INTEGER NOT NULL DEFAULT 0,
    memory_peak INTEGER NOT NULL DEFAULT 0,
    inputs      TEXT,             -- JSON: [{"id", "path", "changed", "deleted"}]
    dropped     TEXT,             -- JSON: [{"path", "reason"}]
    message     TEXT    NOT NULL DEFAULT '',
    created_us  INTEGER NOT NULL,
    started_us  INTEGER,
    finished_us INTEGER,
    request_key         TEXT,     -- the caller's idempotency key
    request_fingerprint BLOB CHECK (length(request_fingerprint) = 32)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_owner    ON runs (owner, created_us, id);
CREATE INDEX runs_session  ON runs (session, created_us, id) WHERE session IS NOT NULL;
CREATE INDEX runs_open     ON runs (id) WHERE status IN ('queued', 'running');
CREATE INDEX runs_finished ON runs (finished_us) WHERE finished_us IS NOT NULL;
CREATE UNIQUE INDEX runs_request ON runs (owner, request_key) WHERE request_key IS NOT NULL;

-- Output is kept apart from the runs, so that lists do not read past it. The
-- text is stored once; chunks says in which pieces it came: a varint each, the
-- length in bytes times two, plus one for stderr.
CREATE TABLE run_logs (
    run    BLOB NOT NULL PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    stdout BLOB NOT NULL,
    stderr BLOB NOT NULL,
    chunks BLOB NOT NULL
) STRICT;

CREATE TABLE keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    admin      INTEGER NOT NULL CHECK (admin IN (0, 1)),
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    created_us INTEGER NOT NULL,
    revoked_us INTEGER
) STRICT, WITHOUT ROWID;
