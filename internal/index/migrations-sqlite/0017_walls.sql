-- The wall that programs of a key have at least, and that of a session, of a snapshot's session and of a run; empty: not
-- said, or not known.
ALTER TABLE keys ADD COLUMN wall TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN wall TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshots ADD COLUMN wall TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN wall TEXT NOT NULL DEFAULT '';
