-- What each owner keeps, so that a quota costs one look-up. Triggers keep the
-- account, in the transaction of whatever adds or removes.

CREATE TABLE usage (
    owner    TEXT    NOT NULL PRIMARY KEY,
    files    INTEGER NOT NULL DEFAULT 0,
    bytes    INTEGER NOT NULL DEFAULT 0, -- of the files
    sessions INTEGER NOT NULL DEFAULT 0, -- without the implicit ones
    results  INTEGER NOT NULL DEFAULT 0  -- bytes of large outputs of runs
) STRICT, WITHOUT ROWID;

-- Output that counts has its size here; what is small costs no accounting.
ALTER TABLE run_logs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE run_logs ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;

UPDATE run_logs SET owner = (SELECT r.owner FROM runs r WHERE r.id = run_logs.run),
    counted = iif(length(stdout) + length(stderr) >= 16384, length(stdout) + length(stderr), 0);

INSERT INTO usage (owner, files, bytes) SELECT owner, count(*), sum(size) FROM files GROUP BY owner;
INSERT INTO usage (owner, sessions) SELECT owner, count(*) FROM sessions WHERE implicit = 0 GROUP BY owner
    ON CONFLICT (owner) DO UPDATE SET sessions = excluded.sessions;
INSERT INTO usage (owner, results) SELECT owner, sum(counted) FROM run_logs WHERE counted > 0 GROUP BY owner
    ON CONFLICT (owner) DO UPDATE SET results = excluded.results;

CREATE TRIGGER file_added AFTER INSERT ON files BEGIN
    INSERT INTO usage (owner, files, bytes) VALUES (new.owner, 1, new.size)
    ON CONFLICT (owner) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER file_removed AFTER DELETE ON files BEGIN
    UPDATE usage SET files = files - 1, bytes = bytes - old.size WHERE owner = old.owner;
END;

CREATE TRIGGER session_added AFTER INSERT ON sessions WHEN new.implicit = 0 BEGIN
    INSERT INTO usage (owner, sessions) VALUES (new.owner, 1)
    ON CONFLICT (owner) DO UPDATE SET sessions = sessions + 1;
END;

CREATE TRIGGER session_removed AFTER DELETE ON sessions WHEN old.implicit = 0 BEGIN
    UPDATE usage SET sessions = sessions - 1 WHERE owner = old.owner;
END;

CREATE TRIGGER output_added AFTER INSERT ON run_logs WHEN new.counted > 0 BEGIN
    INSERT INTO usage (owner, results) VALUES (new.owner, new.counted)
    ON CONFLICT (owner) DO UPDATE SET results = results + excluded.results;
END;

CREATE TRIGGER output_removed AFTER DELETE ON run_logs WHEN old.counted > 0 BEGIN
    UPDATE usage SET results = results - old.counted WHERE owner = old.owner;
END;

-- The oldest large outputs of an owner are found without reading the others.
CREATE INDEX run_logs_counted ON run_logs (owner) WHERE counted > 0;
