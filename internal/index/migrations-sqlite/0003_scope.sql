-- What the edge that made a session remembers of its caller.
ALTER TABLE sessions ADD COLUMN scope TEXT NOT NULL DEFAULT '';
