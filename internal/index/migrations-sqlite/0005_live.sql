-- What the interpreter of a live session is started with; empty: the session has
-- none. To everything else a live session is one of kind 'files'.
ALTER TABLE sessions ADD COLUMN live TEXT NOT NULL DEFAULT '';
