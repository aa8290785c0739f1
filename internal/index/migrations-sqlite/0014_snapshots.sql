-- A snapshot is the files of a session at one moment, and how to make sessions of them. Its
-- files have no rows in files: no list has them, and they last as long as the snapshot.
CREATE TABLE snapshots (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    session    BLOB    NOT NULL CHECK (length(session) = 16), -- of which it was made, and which it outlives
    kind       TEXT    NOT NULL CHECK (kind IN ('files', 'held')),
    live       TEXT    NOT NULL,
    files      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    ttl_us     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX snapshots_owner  ON snapshots (owner, created_us, id);
CREATE INDEX snapshots_expiry ON snapshots (expires_us);

CREATE TABLE snapshot_files (
    snapshot  BLOB    NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
    path      TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    size      INTEGER NOT NULL,
    mime      TEXT    NOT NULL,
    sha256    BLOB    NOT NULL CHECK (length(sha256) = 32),
    role      TEXT    NOT NULL CHECK (role IN ('input', 'output')),
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    PRIMARY KEY (snapshot, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX snapshot_files_content ON snapshot_files (sha256);

-- Its files count like others of its owner.
CREATE TRIGGER snapshot_added AFTER INSERT ON snapshots BEGIN
    INSERT INTO usage (owner, files, bytes) VALUES (new.owner, new.files, new.bytes)
    ON CONFLICT (owner) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER snapshot_removed AFTER DELETE ON snapshots BEGIN
    UPDATE usage SET files = files - old.files, bytes = bytes - old.bytes WHERE owner = old.owner;
END;
