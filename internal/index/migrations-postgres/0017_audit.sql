-- What was done to keys, nodes, grants, shares and sign-ins. A row is not changed, and not deleted before it is a month
-- old, whatever program writes to this database.
CREATE TABLE audit (
    rowid   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_us   BIGINT NOT NULL,
    owner   TEXT   NOT NULL, -- who; empty: not known
    key     TEXT   NOT NULL, -- empty: without one
    origin  TEXT   NOT NULL, -- kind of the address from which it was asked for
    action  TEXT   NOT NULL,
    object  TEXT   NOT NULL,
    outcome TEXT   NOT NULL,
    detail  TEXT   NOT NULL,
    more    BIGINT NOT NULL  -- further ones like it, that have no rows
);

CREATE INDEX audit_at ON audit (at_us);

CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'the audit log is not changed';
    END IF;
    IF old.at_us > (extract(epoch FROM clock_timestamp()) - 2592000) * 1000000 THEN
        RAISE EXCEPTION 'the audit log of the last month is not deleted';
    END IF;
    RETURN old;
END $$;

CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
