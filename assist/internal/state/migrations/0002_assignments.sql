-- What is known of an assignment of a project, its posts included. lane is the
-- JSON of assignment.Lane; waiting is 1 while a post is to be sent.
CREATE TABLE lanes (
  api        TEXT NOT NULL,
  project    TEXT NOT NULL,
  assignment TEXT NOT NULL,
  waiting    INTEGER NOT NULL,
  lane       TEXT NOT NULL,
  PRIMARY KEY (api, project, assignment)
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_waiting ON lanes (waiting) WHERE waiting = 1;

-- Which folder belongs to which project, for whom.
CREATE TABLE links (
  owner   TEXT NOT NULL,
  project TEXT NOT NULL,
  root    TEXT NOT NULL,
  api     TEXT NOT NULL,       -- empty: none
  created INTEGER NOT NULL,    -- microseconds since 1970
  PRIMARY KEY (owner, project)
) STRICT, WITHOUT ROWID;

-- A reply that was handed in, under the id of its proposal. handled is the
-- JSON of conversation.Handled.
CREATE TABLE replies (
  id      TEXT PRIMARY KEY,
  owner   TEXT NOT NULL,
  created INTEGER NOT NULL,
  handled TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX replies_of_owner ON replies (owner, created);
