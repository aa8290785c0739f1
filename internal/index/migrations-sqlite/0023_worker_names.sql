-- What operators say about workers by name: pending, approved or revoked.
CREATE TABLE worker_names (
    name  TEXT    NOT NULL PRIMARY KEY,
    state TEXT    NOT NULL,
    at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
