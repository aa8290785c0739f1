-- An owner called NAME/user/HASH is a user whom the holder of a key of NAME names. What it
-- keeps counts for NAME, too: its account, whose row has the sums. A user's row is locked
-- before that of its account.
ALTER TABLE usage ADD COLUMN account TEXT COLLATE "C"
    GENERATED ALWAYS AS (substring(owner from '^([^/]+)/user/[0-9a-f]{32}$')) STORED;
ALTER TABLE usage ADD COLUMN users BIGINT NOT NULL DEFAULT 0; -- of an account, that keep something

-- What the users of a key may keep together: how many, and how many times as much as one owner.
ALTER TABLE keys ADD COLUMN users BIGINT NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN shares BIGINT NOT NULL DEFAULT 0;
-- The protocols that a key opens, with commas between them; empty: all.
ALTER TABLE keys ADD COLUMN protocols TEXT NOT NULL DEFAULT '';

DELETE FROM usage WHERE account IS NOT NULL AND files = 0 AND sessions = 0 AND results = 0;

INSERT INTO usage (owner, files, bytes, sessions, results, users)
    SELECT account, sum(files), sum(bytes), sum(sessions), sum(results), count(*) FROM usage
    WHERE account IS NOT NULL GROUP BY account
    ON CONFLICT (owner) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes,
        sessions = usage.sessions + excluded.sessions, results = usage.results + excluded.results, users = excluded.users;

-- Moves what a user keeps to its account. A user that keeps nothing has no row: there is no
-- end of names.
CREATE FUNCTION account_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE usage SET users = users - 1 WHERE owner = old.account;
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO usage (owner, files, bytes, sessions, results, users)
        VALUES (new.account, new.files, new.bytes, new.sessions, new.results, 1)
        ON CONFLICT (owner) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes,
            sessions = usage.sessions + excluded.sessions, results = usage.results + excluded.results,
            users = usage.users + 1;
        RETURN NULL;
    END IF;
    UPDATE usage SET files = files + new.files - old.files, bytes = bytes + new.bytes - old.bytes,
        sessions = sessions + new.sessions - old.sessions, results = results + new.results - old.results
        WHERE owner = new.account;
    DELETE FROM usage WHERE owner = new.owner AND files = 0 AND sessions = 0 AND results = 0;
    RETURN NULL;
END $$;

CREATE TRIGGER users_account AFTER INSERT OR UPDATE ON usage FOR EACH ROW
    WHEN (new.account IS NOT NULL) EXECUTE FUNCTION account_user();
CREATE TRIGGER user_removed AFTER DELETE ON usage FOR EACH ROW
    WHEN (old.account IS NOT NULL) EXECUTE FUNCTION account_user();

CREATE OR REPLACE FUNCTION account() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    item  RECORD;
    sign  BIGINT := 1;
    count BIGINT[] := ARRAY[0, 0, 0, 0]; -- files, bytes, sessions, results
BEGIN
    IF TG_OP = 'DELETE' THEN
        item := old;
        sign := -1;
    ELSE
        item := new;
    END IF;
    IF TG_TABLE_NAME = 'files' THEN
        count[1] := sign;
        count[2] := sign * item.size;
    ELSIF TG_TABLE_NAME = 'sessions' THEN
        count[3] := sign;
    ELSE
        count[4] := sign * item.counted;
    END IF;
    INSERT INTO usage (owner, files, bytes, sessions, results)
    VALUES (item.owner, count[1], count[2], count[3], count[4])
    ON CONFLICT (owner) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes,
        sessions = usage.sessions + excluded.sessions, results = usage.results + excluded.results;
    RETURN NULL;
END $$;
