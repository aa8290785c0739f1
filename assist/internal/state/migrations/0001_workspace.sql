-- A transaction of a workspace. record is the JSON of workspace.Record; the
-- other columns repeat what queries need.
CREATE TABLE transactions (
  id        TEXT PRIMARY KEY,
  workspace TEXT NOT NULL,
  state     TEXT NOT NULL,
  created   INTEGER NOT NULL,  -- microseconds since 1970
  updated   INTEGER NOT NULL,
  record    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX transactions_of_workspace ON transactions (workspace, created);
CREATE INDEX transactions_at_work ON transactions (workspace) WHERE state IN ('staging', 'committing', 'published');

-- A content that undo or an approval needs. Where data is NULL it is a file
-- under contents/.
CREATE TABLE contents (
  hash   BLOB PRIMARY KEY,     -- SHA-256 of the content
  stored INTEGER NOT NULL,     -- bytes that it takes
  packed INTEGER NOT NULL,     -- 1: data is zstd
  data   BLOB
) STRICT;

CREATE INDEX contents_size ON contents (stored);

CREATE TABLE transaction_contents (
  txn  TEXT NOT NULL REFERENCES transactions (id) ON DELETE CASCADE,
  hash BLOB NOT NULL REFERENCES contents (hash),
  PRIMARY KEY (txn, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX contents_needed ON transaction_contents (hash);
