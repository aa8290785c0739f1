-- What was done to keys, nodes, grants, shares and sign-ins. A row is not changed, and not deleted before it is a month
-- old, whatever program writes to this database.
CREATE TABLE audit (
    at_us   INTEGER NOT NULL,
    owner   TEXT    NOT NULL, -- who; empty: not known
    key     TEXT    NOT NULL, -- empty: without one
    origin  TEXT    NOT NULL, -- kind of the address from which it was asked for
    action  TEXT    NOT NULL,
    object  TEXT    NOT NULL,
    outcome TEXT    NOT NULL,
    detail  TEXT    NOT NULL,
    more    INTEGER NOT NULL  -- further ones like it, that have no rows
) STRICT;

CREATE INDEX audit_at ON audit (at_us);

CREATE TRIGGER audit_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT RAISE(ABORT, 'the audit log is not changed');
END;

CREATE TRIGGER audit_not_deleted BEFORE DELETE ON audit
    WHEN old.at_us > (CAST(strftime('%s', 'now') AS INTEGER) - 2592000) * 1000000 BEGIN
    SELECT RAISE(ABORT, 'the audit log of the last month is not deleted');
END;
