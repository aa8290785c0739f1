-- A snapshot is the files of a session at one moment, and how to make sessions of them. Its
-- files have no rows in files: no list has them, and they last as long as the snapshot.
CREATE TABLE snapshots (
    id         BYTEA  NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT   COLLATE "C" NOT NULL,
    origin     TEXT   NOT NULL,
    name       TEXT   COLLATE "C" NOT NULL,
    session    BYTEA  NOT NULL CHECK (length(session) = 16), -- of which it was made, and which it outlives
    kind       TEXT   NOT NULL CHECK (kind IN ('files', 'held')),
    live       TEXT   NOT NULL,
    files      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    ttl_us     BIGINT NOT NULL
);

CREATE INDEX snapshots_owner  ON snapshots (owner, created_us, id);
CREATE INDEX snapshots_expiry ON snapshots (expires_us);

CREATE TABLE snapshot_files (
    snapshot  BYTEA  NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
    path      TEXT   COLLATE "C" NOT NULL,
    name      TEXT   NOT NULL,
    size      BIGINT NOT NULL,
    mime      TEXT   NOT NULL,
    sha256    BYTEA  NOT NULL CHECK (length(sha256) = 32),
    role      TEXT   NOT NULL CHECK (role IN ('input', 'output')),
    read_only BIGINT NOT NULL CHECK (read_only IN (0, 1)),
    PRIMARY KEY (snapshot, path)
);

CREATE INDEX snapshot_files_content ON snapshot_files (sha256);

-- Its files count like others of its owner.
CREATE FUNCTION account_snapshot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE usage SET files = files - old.files, bytes = bytes - old.bytes WHERE owner = old.owner;
    ELSE
        INSERT INTO usage (owner, files, bytes) VALUES (new.owner, new.files, new.bytes)
        ON CONFLICT (owner) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER snapshot_account AFTER INSERT OR DELETE ON snapshots FOR EACH ROW EXECUTE FUNCTION account_snapshot();
