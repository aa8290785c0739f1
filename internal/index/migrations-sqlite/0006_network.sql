-- What programs with a network grant contacted: one line for each connection.
CREATE TABLE contacts (
    run       BLOB NOT NULL,
    owner     TEXT NOT NULL,
    at_us     INTEGER NOT NULL,
    host      TEXT NOT NULL,
    port      INTEGER NOT NULL,
    address   TEXT NOT NULL,
    sent      INTEGER NOT NULL,
    received  INTEGER NOT NULL,
    took_us   INTEGER NOT NULL,
    verdict   TEXT NOT NULL,
    reason    TEXT NOT NULL,
    more      INTEGER NOT NULL
) STRICT;
CREATE INDEX contacts_run ON contacts (run);
CREATE INDEX contacts_owner ON contacts (owner, at_us);
CREATE INDEX contacts_at ON contacts (at_us);
-- What the programs of a key may contact.
ALTER TABLE keys ADD COLUMN network TEXT NOT NULL DEFAULT '';
