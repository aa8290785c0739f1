-- A volume is a folder that outlives sessions. The folder is called like the id.
CREATE TABLE volumes (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    bytes      INTEGER NOT NULL, -- on the disk, when it was last measured
    files      INTEGER NOT NULL, -- files and folders, when it was last measured
    written    INTEGER NOT NULL CHECK (written IN (0, 1)), -- a program changed it then
    created_us INTEGER NOT NULL,
    UNIQUE (owner, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX volumes_written ON volumes (id) WHERE written = 1;

-- It counts as one file of its owner.
CREATE TRIGGER volume_added AFTER INSERT ON volumes BEGIN
    INSERT INTO usage (owner, files, bytes) VALUES (new.owner, 1, new.bytes)
    ON CONFLICT (owner) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER volume_measured AFTER UPDATE OF bytes ON volumes BEGIN
    UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE owner = new.owner;
END;

CREATE TRIGGER volume_removed AFTER DELETE ON volumes BEGIN
    UPDATE usage SET files = files - 1, bytes = bytes - old.bytes WHERE owner = old.owner;
END;
