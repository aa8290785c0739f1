-- A conversation with a model. conversation is the JSON of
-- conversation.Conversation without its turns.
CREATE TABLE conversations (
  id           TEXT PRIMARY KEY,
  owner        TEXT NOT NULL,
  updated      INTEGER NOT NULL,  -- microseconds since 1970
  conversation TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_of_owner ON conversations (owner, updated, id);

-- A turn of it. turn is the JSON of conversation.Turn; exchange is what the
-- provider wants to be told again, the JSON of a list of provider.Turn.
CREATE TABLE turns (
  conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  number       INTEGER NOT NULL,
  turn         TEXT NOT NULL,
  exchange     TEXT NOT NULL,
  PRIMARY KEY (conversation, number)
) STRICT, WITHOUT ROWID;
