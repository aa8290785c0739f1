-- A volume is a folder that outlives sessions. The folder is called like the id.
CREATE TABLE volumes (
    id         BYTEA  NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      TEXT   COLLATE "C" NOT NULL,
    name       TEXT   COLLATE "C" NOT NULL,
    bytes      BIGINT NOT NULL, -- on the disk, when it was last measured
    files      BIGINT NOT NULL, -- files and folders, when it was last measured
    written    BIGINT NOT NULL CHECK (written IN (0, 1)), -- a program changed it then
    created_us BIGINT NOT NULL,
    UNIQUE (owner, name)
);

CREATE INDEX volumes_written ON volumes (id) WHERE written = 1;

-- It counts as one file of its owner.
CREATE FUNCTION account_volume() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE usage SET files = files - 1, bytes = bytes - old.bytes WHERE owner = old.owner;
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE owner = new.owner;
    ELSE
        INSERT INTO usage (owner, files, bytes) VALUES (new.owner, 1, new.bytes)
        ON CONFLICT (owner) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER volume_account AFTER INSERT OR UPDATE OF bytes OR DELETE ON volumes
    FOR EACH ROW EXECUTE FUNCTION account_volume();
