-- The tables of SQLite's migrations 1 to 7. Ids are 16 bytes, digests 32. Instants
-- (_us) are microseconds since 1970 in UTC, durations (_us) microseconds. Flags are
-- 0 or 1, as in SQLite. Texts sort by their bytes, in every locale.

CREATE TABLE files (
    id         BYTEA  NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT   COLLATE "C" NOT NULL,
    origin     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    path       TEXT   COLLATE "C" NOT NULL,
    size       BIGINT NOT NULL,
    mime       TEXT   NOT NULL,
    sha256     BYTEA  NOT NULL CHECK (length(sha256) = 32),
    run        BYTEA           CHECK (length(run) = 16), -- outlives the run's own row, so no reference
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    ttl_us     BIGINT NOT NULL
);

CREATE INDEX files_owner   ON files (owner, created_us, id);
CREATE INDEX files_expiry  ON files (expires_us);
CREATE INDEX files_content ON files (sha256);
CREATE INDEX files_run     ON files (run) WHERE run IS NOT NULL;

CREATE TABLE sessions (
    id         BYTEA  NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT   COLLATE "C" NOT NULL,
    origin     TEXT   NOT NULL,
    kind       TEXT   NOT NULL CHECK (kind IN ('files', 'held')),
    implicit   BIGINT NOT NULL CHECK (implicit IN (0, 1)),
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    ttl_us     BIGINT NOT NULL,
    scope      TEXT   NOT NULL DEFAULT '',
    live       TEXT   NOT NULL DEFAULT ''
);

CREATE INDEX sessions_owner  ON sessions (owner, created_us, id) WHERE implicit = 0;
CREATE INDEX sessions_expiry ON sessions (expires_us);
CREATE INDEX sessions_held   ON sessions (id) WHERE kind = 'held';

CREATE TABLE session_files (
    session   BYTEA  NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    path      TEXT   COLLATE "C" NOT NULL,
    file      BYTEA  NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    role      TEXT   NOT NULL CHECK (role IN ('input', 'output')),
    read_only BIGINT NOT NULL CHECK (read_only IN (0, 1)),
    PRIMARY KEY (session, path)
);

CREATE INDEX session_files_file ON session_files (file);

CREATE TABLE runs (
    id          BYTEA  NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner       TEXT   COLLATE "C" NOT NULL,
    origin      TEXT   NOT NULL,
    session     BYTEA           CHECK (length(session) = 16), -- outlives the session's own row, so no reference
    language    TEXT   NOT NULL,
    status      TEXT   NOT NULL,
    exit_code   BIGINT,
    signal      TEXT   NOT NULL DEFAULT '',
    truncated   BIGINT NOT NULL DEFAULT 0 CHECK (truncated IN (0, 1)),
    duration_us BIGINT NOT NULL DEFAULT 0,
    cpu_us      BIGINT NOT NULL DEFAULT 0,
    memory_peak BIGINT NOT NULL DEFAULT 0,
    inputs      TEXT,            -- JSON: [{"id", "path", "changed", "deleted"}]
    dropped     TEXT,            -- JSON: [{"path", "reason"}]
    message     TEXT   NOT NULL DEFAULT '',
    created_us  BIGINT NOT NULL,
    started_us  BIGINT,
    finished_us BIGINT,
    request_key         TEXT,    -- the caller's idempotency key
    request_fingerprint BYTEA CHECK (length(request_fingerprint) = 32),
    doc         BIGINT           -- in run_text; 0: nobody looks for it, NULL: it is not in yet
);

CREATE INDEX runs_owner    ON runs (owner, created_us, id);
CREATE INDEX runs_session  ON runs (session, created_us, id) WHERE session IS NOT NULL;
CREATE INDEX runs_open     ON runs (id) WHERE status IN ('queued', 'running');
CREATE INDEX runs_finished ON runs (finished_us) WHERE finished_us IS NOT NULL;
CREATE INDEX runs_doc      ON runs (doc) WHERE doc > 0;
CREATE INDEX runs_without_doc ON runs (finished_us) WHERE doc IS NULL AND finished_us IS NOT NULL;
CREATE UNIQUE INDEX runs_request ON runs (owner, request_key) WHERE request_key IS NOT NULL;

-- Output is kept apart from the runs, so that lists do not read past it. The
-- text is stored once; chunks says in which pieces it came: a varint each, the
-- length in bytes times two, plus one for stderr.
CREATE TABLE run_logs (
    rowid   BIGINT GENERATED ALWAYS AS IDENTITY, -- in order of the ends
    run     BYTEA  NOT NULL PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    stdout  BYTEA  NOT NULL,
    stderr  BYTEA  NOT NULL,
    chunks  BYTEA  NOT NULL,
    owner   TEXT   COLLATE "C" NOT NULL DEFAULT '',
    counted BIGINT NOT NULL DEFAULT 0, -- bytes, of an output that counts
    source  TEXT             -- what was run, as JSON; NULL: it is not kept
);

-- The oldest large outputs of an owner are found without reading the others.
CREATE INDEX run_logs_counted ON run_logs (owner, rowid) WHERE counted > 0;

-- The words of runs. A run is put in after its end, by IndexRuns.
CREATE TABLE run_text (
    rowid BIGINT   NOT NULL PRIMARY KEY,
    words TSVECTOR NOT NULL
);

CREATE INDEX run_text_words ON run_text USING gin (words);

CREATE FUNCTION forget_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM run_text WHERE rowid = old.doc;
    RETURN NULL;
END $$;

CREATE TRIGGER run_text_removed AFTER DELETE ON runs FOR EACH ROW WHEN (old.doc > 0) EXECUTE FUNCTION forget_words();

CREATE TABLE keys (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    owner      TEXT   COLLATE "C" NOT NULL,
    admin      BIGINT NOT NULL CHECK (admin IN (0, 1)),
    hash       BYTEA  NOT NULL CHECK (length(hash) = 32),
    created_us BIGINT NOT NULL,
    revoked_us BIGINT,
    packages   TEXT   NOT NULL DEFAULT '',
    network    TEXT   NOT NULL DEFAULT ''
);

-- What programs with a network grant contacted: one line for each connection.
CREATE TABLE contacts (
    rowid    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run      BYTEA  NOT NULL,
    owner    TEXT   COLLATE "C" NOT NULL,
    at_us    BIGINT NOT NULL,
    host     TEXT   NOT NULL,
    port     BIGINT NOT NULL,
    address  TEXT   NOT NULL,
    sent     BIGINT NOT NULL,
    received BIGINT NOT NULL,
    took_us  BIGINT NOT NULL,
    verdict  TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    more     BIGINT NOT NULL
);

CREATE INDEX contacts_run   ON contacts (run);
CREATE INDEX contacts_owner ON contacts (owner, at_us);
CREATE INDEX contacts_at    ON contacts (at_us);

-- What each owner keeps, so that a quota costs one look-up. Triggers keep the
-- account, in the transaction of whatever adds or removes. The row of an owner is
-- locked by it until the transaction ends, so that two replicas cannot both take
-- the last of a quota.
CREATE TABLE usage (
    owner    TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    files    BIGINT NOT NULL DEFAULT 0,
    bytes    BIGINT NOT NULL DEFAULT 0, -- of the files
    sessions BIGINT NOT NULL DEFAULT 0, -- without the implicit ones
    results  BIGINT NOT NULL DEFAULT 0  -- bytes of large outputs of runs
);

CREATE FUNCTION account() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    item  RECORD;
    sign  BIGINT := 1;
    delta usage;
BEGIN
    IF TG_OP = 'DELETE' THEN
        item := old;
        sign := -1;
    ELSE
        item := new;
    END IF;
    delta := (item.owner, 0, 0, 0, 0);
    IF TG_TABLE_NAME = 'files' THEN
        delta.files := sign;
        delta.bytes := sign * item.size;
    ELSIF TG_TABLE_NAME = 'sessions' THEN
        delta.sessions := sign;
    ELSE
        delta.results := sign * item.counted;
    END IF;
    INSERT INTO usage VALUES (delta.owner, delta.files, delta.bytes, delta.sessions, delta.results)
    ON CONFLICT (owner) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes,
        sessions = usage.sessions + excluded.sessions, results = usage.results + excluded.results;
    RETURN NULL;
END $$;

CREATE TRIGGER files_account AFTER INSERT OR DELETE ON files FOR EACH ROW EXECUTE FUNCTION account();
CREATE TRIGGER session_added AFTER INSERT ON sessions FOR EACH ROW WHEN (new.implicit = 0) EXECUTE FUNCTION account();
CREATE TRIGGER session_removed AFTER DELETE ON sessions FOR EACH ROW WHEN (old.implicit = 0) EXECUTE FUNCTION account();
CREATE TRIGGER output_added AFTER INSERT ON run_logs FOR EACH ROW WHEN (new.counted > 0) EXECUTE FUNCTION account();
CREATE TRIGGER output_removed AFTER DELETE ON run_logs FOR EACH ROW WHEN (old.counted > 0) EXECUTE FUNCTION account();
