-- An owner called NAME/user/HASH is a user whom the holder of a key of NAME names. What it
-- keeps counts for NAME, too: its account, whose row has the sums.
ALTER TABLE usage ADD COLUMN account TEXT GENERATED ALWAYS AS (
    iif(instr(owner, '/') = length(owner) - 37 AND substr(owner, -38, 6) = '/user/'
        AND substr(owner, -32) NOT GLOB '*[^0-9a-f]*', substr(owner, 1, length(owner) - 38), NULL)
) VIRTUAL;
ALTER TABLE usage ADD COLUMN users INTEGER NOT NULL DEFAULT 0; -- of an account, that keep something

-- What the users of a key may keep together: how many, and how many times as much as one owner.
ALTER TABLE keys ADD COLUMN users INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN shares INTEGER NOT NULL DEFAULT 0;
-- The protocols that a key opens, with commas between them; empty: all.
ALTER TABLE keys ADD COLUMN protocols TEXT NOT NULL DEFAULT '';

DELETE FROM usage WHERE account IS NOT NULL AND files = 0 AND sessions = 0 AND results = 0;

INSERT INTO usage (owner, files, bytes, sessions, results, users)
    SELECT account, sum(files), sum(bytes), sum(sessions), sum(results), count(*) FROM usage
    WHERE account IS NOT NULL GROUP BY account
    ON CONFLICT (owner) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes,
        sessions = sessions + excluded.sessions, results = results + excluded.results, users = excluded.users;

CREATE TRIGGER user_added AFTER INSERT ON usage WHEN new.account IS NOT NULL BEGIN
    INSERT INTO usage (owner, files, bytes, sessions, results, users)
    VALUES (new.account, new.files, new.bytes, new.sessions, new.results, 1)
    ON CONFLICT (owner) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes,
        sessions = sessions + excluded.sessions, results = results + excluded.results, users = users + 1;
END;

-- A user that keeps nothing has no row: there is no end of names.
CREATE TRIGGER user_changed AFTER UPDATE ON usage WHEN new.account IS NOT NULL BEGIN
    UPDATE usage SET files = files + new.files - old.files, bytes = bytes + new.bytes - old.bytes,
        sessions = sessions + new.sessions - old.sessions, results = results + new.results - old.results
        WHERE owner = new.account;
    DELETE FROM usage WHERE owner = new.owner AND files = 0 AND sessions = 0 AND results = 0;
END;

CREATE TRIGGER user_removed AFTER DELETE ON usage WHEN old.account IS NOT NULL BEGIN
    UPDATE usage SET users = users - 1 WHERE owner = old.account;
END;
